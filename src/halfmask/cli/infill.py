"""`halfmask infill MODEL TEXT…`: fill the holes of texts with a trained model."""

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
    add_texts(parser, "TEXT", "with holes: [mask] is one token, [mask:5] are five")
    add_strategy(parser)
    add_results(parser)


def run(arguments: argparse.Namespace) -> None:
    from halfmask.decoding.canvas import Canvas, split_holes

    def with_holes(model: Loaded, text: str, row: int) -> Canvas:
        parts = [part if isinstance(part, int) else model.vocabulary.encode([part]) for part in split_holes(text)]
        return Canvas.with_holes(parts, row)

    fill(arguments, "infill", with_holes)


COMMANDS = [
    Command(
        "infill",
        "fill the holes of texts with a trained model",
        configure,
        run,
        (
            "halfmask prepare builtin --out data --tokens bytes && "
            "echo 'data: {folder: data, length: 96}' > recipe.yaml && "
            "halfmask train recipe.yaml steps=2 step.rows=4 evaluate.rows=4 --out run && "
            "halfmask infill run 'This [mask:6] returns a [mask:4].' --steps 5 --trace steps.jsonl",
        ),
    )
]
