"""`halfmask completion SHELL`: a completion script for the whole program."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command, Parser, build_parser
from halfmask.errors import MissingExtraError

SHELLS = ("bash", "zsh", "tcsh")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")


def run(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError("halfmask completion", package="shtab", extra="dev") from error
    print(shtab.complete(_whole_parser(), shell=arguments.shell))
    return 0


def _whole_parser() -> Parser:
    """Every verb in one parser; only completion needs it."""
    from halfmask.cli.main import VERBS, commands_of

    parser = Parser(prog="halfmask")
    verbs = parser.add_subparsers(dest="verb")
    for verb, (_, summary) in VERBS.items():
        child = build_parser(f"halfmask {verb}", commands_of(verb))
        verbs.add_parser(verb, help=summary, parents=[child], add_help=False, conflict_handler="resolve")
    return parser


COMMANDS = [
    Command(
        words="completion",
        summary="print the completion script of a shell, to be sourced or saved",
        configure=configure,
        run=run,
        examples=("halfmask completion bash", "halfmask completion zsh > _halfmask"),
    )
]
