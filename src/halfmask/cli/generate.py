"""`halfmask generate MODEL PROMPT…`: continue texts with a trained model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from halfmask.cli.command import Command
from halfmask.cli.decoding import add_model, add_results, add_strategy, add_texts, fill

if TYPE_CHECKING:
    from halfmask.decoding.canvas import Canvas
    from halfmask.models.load import Loaded


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_texts(parser, "PROMPT", "what is continued; '' begins with nothing")
    parser.add_argument("--length", type=int, default=64, metavar="N", help="tokens to write, at most")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text")
    parser.add_argument(
        "--no-end", dest="may_end", action="store_false", help="write the whole length, whatever the text says"
    )
    add_strategy(parser)
    add_results(parser)


def run(arguments: argparse.Namespace) -> None:
    from halfmask.decoding.canvas import Canvas

    def continuation(model: Loaded, text: str, row: int) -> Canvas:
        return Canvas.continuation(model.vocabulary.encode([text]), arguments.length, row)

    fill(arguments, "generate", continuation)


COMMANDS = [
    Command(
        "generate",
        "continue texts with a trained model",
        configure,
        run,
        (
            "halfmask prepare builtin --out data --tokens bytes && "
            "echo 'data: {folder: data, length: 96}' > recipe.yaml && "
            "halfmask train recipe.yaml steps=2 step.rows=4 evaluate.rows=4 --out run && "
            "halfmask generate run 'This module' --length 32 --block 16 --rule threshold:0.9 --cache dual --compare",
        ),
    )
]
