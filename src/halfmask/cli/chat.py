"""`halfmask chat MODEL`: talk with a trained model; its answers appear as they are uncovered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from halfmask.cli.command import Command
from halfmask.cli.decoding import add_model, add_strategy, strategy_of
from halfmask.cli.output import console
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from halfmask.decoding.chat import Conversation

HELP = "/new begins again, /quit ends; so does the end of the input"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--length", type=int, default=128, metavar="N", help="tokens of an answer, at most")
    add_strategy(parser, block=32)


def run(arguments: argparse.Namespace) -> None:
    from halfmask.decoding.chat import Conversation
    from halfmask.decoding.decode import Decoder
    from halfmask.models.load import open_model

    strategy = strategy_of(arguments)
    model = open_model(arguments.model, device=arguments.device)
    talk = Conversation(Decoder.of(model), model.vocabulary, strategy, arguments.length)
    console(stderr=True).print(HELP, style="dim", highlight=False)
    for text in _messages():
        if text == "/quit":
            return
        if text == "/new":
            talk.turns.clear()
        elif text.startswith("/"):
            print(f"halfmask chat knows no {text.split()[0]}: {HELP}", file=sys.stderr)
        elif text:
            try:
                _answer(talk, text)
            except UsageError as error:  # of this message alone
                print(f"halfmask: {error}", file=sys.stderr)


def _messages() -> Iterator[str]:
    if sys.stdin.isatty():
        import readline  # noqa: F401 (input() then edits lines and knows the ones before)
    while True:
        try:
            yield input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return


def _answer(talk: Conversation, text: str) -> None:
    if not sys.stdout.isatty():
        print(talk.ask(text), flush=True)
        return
    from halfmask.cli.live_text import live_text

    with live_text(talk.stop, written=True) as show:
        talk.ask(text, show)


COMMANDS = [
    Command(
        "chat",
        "talk with a trained model in the terminal",
        configure,
        run,
        (
            "halfmask prepare builtin --out data --tokens bytes && "
            "echo 'data: {folder: data, length: 96}' > recipe.yaml && "
            "halfmask train recipe.yaml steps=2 step.rows=4 evaluate.rows=4 --out run && "
            "echo 'What is a mask?' | halfmask chat run --length 16",
        ),
    )
]
