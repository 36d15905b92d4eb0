"""What a verb is made of, and the parser that reads it. Nothing here imports numpy.

A verb's module names its `COMMANDS`. Each is a function from parsed arguments to an exit status, with the arguments it
takes, a one-line summary, and examples that its help ends with and the tests run.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from halfmask.errors import UsageError, nearest


@dataclass(frozen=True)
class Command:
    words: str  # "theory signal": the verb, and the word that chooses within it
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    examples: tuple[str, ...]


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose complaints are `UsageError`s."""

    def error(self, message: str) -> NoReturn:
        see = f"see {self.prog} --help"
        if match := re.fullmatch(r"unrecognized arguments: (.*)", message):
            given = match[1].split()[0]
            options = {option for action in self._actions for option in action.option_strings}
            fix = nearest(given.split("=")[0], options) if given.startswith("-") else see
            raise UsageError(f"{self.prog} takes no argument {given}", got=match[1], fix=fix)
        if match := re.fullmatch(r"argument (.*?): invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            allowed = [name.strip("' ") for name in match[3].split(",")]
            raise UsageError(
                f"{match[1]} must be one of {', '.join(allowed)}",
                got=match[2],
                fix=nearest(match[2], allowed),
            )
        if match := re.fullmatch(r"argument (.*?): invalid (\w+) value: (.*)", message):
            kind = {"int": "a whole number", "float": "a number"}.get(match[2], f"a {match[2]}")
            raise UsageError(f"{match[1]} takes {kind}", got=match[3], fix=see)
        if match := re.fullmatch(r"the following arguments are required: (.*)", message):
            raise UsageError(f"{self.prog} needs {match[1]}", got="nothing", fix=see)
        raise UsageError(f"{self.prog}: {message}", got="these arguments", fix=see)


def build_parser(prog: str, commands: Sequence[Command]) -> Parser:
    """The parser of one verb: its own arguments, or those of the words that choose within it."""
    if len(commands) == 1 and " " not in commands[0].words:
        return _new_parser(prog, commands[0])
    parser = Parser(prog=prog, description=_what(commands), formatter_class=_Formatter, allow_abbrev=False)
    _add_debug(parser)
    words = parser.add_subparsers(dest="word", metavar="WORD", required=True)
    add_commands(words, prog, commands)
    return parser


def add_commands(words: argparse._SubParsersAction[Parser], prog: str, commands: Sequence[Command]) -> None:
    for command in commands:
        word = command.words.split()[-1]
        child = words.add_parser(
            word,
            prog=f"{prog} {word}",
            help=command.summary,
            description=_sentence(command.summary),
            epilog=_examples(command),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        _fill(child, command)


def _new_parser(prog: str, command: Command) -> Parser:
    parser = Parser(
        prog=prog,
        description=_sentence(command.summary),
        epilog=_examples(command),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    _fill(parser, command)
    return parser


def _fill(parser: argparse.ArgumentParser, command: Command) -> None:
    command.configure(parser)
    _add_debug(parser)
    parser.set_defaults(run=command.run)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )


def _what(commands: Sequence[Command]) -> str:
    verb = commands[0].words.split()[0]
    return f"The words that follow `{verb}`; each has its own --help."


def _sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + "."


def _examples(command: Command) -> str:
    return "examples:\n" + "\n".join(f"  {example}" for example in command.examples)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples, and shows defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default in ([], argparse.SUPPRESS):
            return action.help
        if isinstance(action.default, (list, tuple)):
            return f"{action.help} (default: {' '.join(str(each) for each in action.default)})"
        return super()._get_help_string(action)
