"""Write docs/commands.md: the help of every command. `make docs` runs it, and a test says when it is out of date."""

from __future__ import annotations

import os
from pathlib import Path

from halfmask.cli.command import Command, Parser, build_parser
from halfmask.cli.main import OVERVIEW, VERBS, commands_of

PAGE = Path(__file__).parent / "commands.md"
COLUMNS = "100"


def page() -> str:
    os.environ["COLUMNS"] = COLUMNS  # argparse wraps its help to the terminal
    parts = ["# Commands", "Written from `--help` by `make docs`; not edited by hand.", _block(OVERVIEW)]
    for verb in VERBS:
        for command in commands_of(verb):
            parts += [f"## halfmask {command.words}", _block(help_of(verb, command))]
    return "\n\n".join(parts) + "\n"


def help_of(verb: str, command: Command) -> str:
    commands = commands_of(verb)
    parser = build_parser(f"halfmask {verb}", commands)
    if len(commands) > 1 or " " in command.words:
        parser = _child(parser, command.words.split()[-1])
    return parser.format_help()


def _child(parser: Parser, word: str) -> Parser:
    for action in parser._actions:
        if action.choices and word in action.choices:
            return dict(action.choices)[word]  # type: ignore[call-overload,no-any-return]
    raise AssertionError(f"{parser.prog} has no {word}")


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
