"""How results leave the program: a table for people, `--json` for machines, `--plot` for eyes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from halfmask.records import Record

PIPE_WIDTH = 160  # columns when nobody's terminal says how wide it is


def add_output(parser: argparse.ArgumentParser, *, plot: bool = True) -> None:
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")
    if plot:
        parser.add_argument("--plot", metavar="FILE", help="also draw it, to a .svg, .png or .pdf file")


def check_plot(arguments: argparse.Namespace) -> None:
    """Refuse a path that cannot be drawn to before the work starts."""
    if arguments.plot:
        from halfmask.reports.style import check_path

        check_path(Path(arguments.plot))


def show(record: Record, arguments: argparse.Namespace) -> None:
    """Print a record the way the arguments ask, and draw it if they do."""
    if arguments.json:
        print(record.to_json())
    else:
        print_record(record)
    if getattr(arguments, "plot", None):
        from halfmask.reports.figures import draw

        draw(record, Path(arguments.plot))
        print(f"wrote {arguments.plot}", file=sys.stderr if arguments.json else sys.stdout)


def print_record(record: Record) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    columns = list(dict.fromkeys(key for row in record.rows for key in row))
    for column in columns:
        numeric = any(isinstance(row.get(column), (int, float)) for row in record.rows)
        table.add_column(Text(column), justify="right" if numeric else "left")
    for row in record.rows:
        table.add_row(*[Text(format_cell(row.get(column))) for column in columns])
    screen = console()
    screen.print(Text(record.title, style="bold"))  # Text: brackets in a title or a cell are not markup
    screen.print(table)
    for note in record.notes:
        screen.print(note, highlight=False, markup=False)


def format_cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if value == float("inf"):
        return "∞"
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.3g}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4f}"


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH)


def progress_bar(arguments: argparse.Namespace, what: str) -> Any:
    """A context manager that yields `advance(done, total)`; silent where nobody watches."""
    from contextlib import contextmanager

    @contextmanager
    def bar() -> Any:
        from rich.progress import Progress

        with Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task(what)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    return bar()
