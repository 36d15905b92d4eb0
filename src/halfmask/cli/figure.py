"""`halfmask figure RECORD FILE`: a figure from a record that `--json` printed, without computing anything again."""

from __future__ import annotations

import argparse
from pathlib import Path

from halfmask.cli.command import Command


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", help="a file that --json printed")
    parser.add_argument("file", metavar="FILE", help="the .svg, .png or .pdf file to draw")


def run(arguments: argparse.Namespace) -> None:
    from halfmask.records import Record
    from halfmask.reports.figures import draw

    draw(Record.load(Path(arguments.record)), Path(arguments.file))
    print(f"wrote {arguments.file}")


COMMANDS = [
    Command(
        "figure",
        "draw a saved record again",
        configure,
        run,
        ("halfmask theory mixture --json > mixture.json && halfmask figure mixture.json mixture.svg",),
    )
]
