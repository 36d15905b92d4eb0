"""`halfmask parity …`: the paper's task, in the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, console

if TYPE_CHECKING:
    from rich.text import Text

    from halfmask.theory.illustration import Picture


def configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=4, help="input bits")
    parser.add_argument("--k", type=int, default=2, help="secret input bits")
    parser.add_argument("--seed", type=int, default=0, help="of secret set, bits and masks")
    add_output(parser, plot=False)


def run_show(arguments: argparse.Namespace) -> None:
    from halfmask.theory.illustration import illustrate

    picture = illustrate(arguments.n, arguments.k, arguments.seed)
    if arguments.json:
        print(picture.record().to_json())
        return
    screen = console()
    title = f"({arguments.n}, {arguments.k})-parity: the last bit is the parity of the secret ones; "
    screen.print(title + "[bold blue][] secret[/], [reverse]?[/] hidden\n", highlight=False)
    for i in range(len(picture.verdicts)):
        screen.print(draw_row(picture, i))


def draw_row(picture: Picture, i: int) -> Text:
    """`[1] 0 [?] 1 [0]   identifiable …`: brackets are the secret set, so that it reads without colour too."""
    from rich.text import Text

    line = Text("  ")
    for j, bit in enumerate(picture.bits[i]):
        secret = j in picture.secret
        cell = "?" if picture.hidden[i][j] else str(bit)
        line.append(f"[{cell}]" if secret else f" {cell} ", style=_style(secret, picture.hidden[i][j]))
        line.append(" ")
    mark, colour = ("✓", "green") if picture.verdicts[i].startswith("identifiable") else ("✗", "red")
    return line.append(f"  {mark} {picture.verdicts[i]}", style=colour)


def _style(secret: bool, hidden: bool) -> str:
    return " ".join(filter(None, ("bold blue" if secret else "", "reverse" if hidden else ""))) or "none"


COMMANDS = [
    Command(
        "parity show",
        "draw which masks leave a bit identifiable (the paper's illustration)",
        configure_show,
        run_show,
        ("halfmask parity show --n 4 --k 2", "halfmask parity show --n 12 --k 5 --seed 3 --json"),
    ),
]
