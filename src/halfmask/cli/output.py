"""How results leave the program: a table for people, `--json` for machines, `--plot` for eyes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from halfmask.records import Record, Row


class Advance(Protocol):
    def __call__(self, done: int, total: int, stage: str = ...) -> None: ...


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
        wrote(arguments.plot, arguments)


def wrote(path: str, arguments: argparse.Namespace) -> None:
    """Say so, beside the JSON and not in it."""
    print(f"wrote {path}", file=sys.stderr if arguments.json else sys.stdout)


def print_record(record: Record) -> None:
    from rich.text import Text

    screen = console()
    for title, rows in {record.title: record.rows, **record.tables}.items():
        screen.print(Text(title, style="bold"))  # Text: brackets in a title or a cell are not markup
        screen.print(_table(rows))
    for note in record.notes:
        screen.print(note, highlight=False, markup=False)


def _table(rows: list[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    for column in columns:
        numeric = any(isinstance(row.get(column), (int, float)) for row in rows)
        table.add_column(Text(column), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*[Text(format_cell(row.get(column))) for column in columns])
    return table


def format_cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return _format_number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _format_number(value: float) -> str:
    if value == float("inf"):
        return "∞"
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.3g}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4f}"


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH)


@contextmanager
def progress_bar(what: str) -> Iterator[Advance]:
    """Yields `advance(done, total, stage)`; silent where nobody watches. Reading and copying count bytes."""
    if not sys.stderr.isatty():
        yield lambda done, total, stage=what: None
        return

    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.description in ("reading", "copying"):
                return Text(f"{task.completed / 1e6:.1f} MB, {(task.speed or 0) / 1e6:.1f} MB/s")
            return Text(f"{task.percentage:.0f} %" if task.total else "")

    columns = [TextColumn("{task.description:<32}"), BarColumn(bar_width=None), Rate(), TimeRemainingColumn()]
    with Progress(*columns, console=console(stderr=True), transient=True, expand=True) as progress:
        task = progress.add_task(what, total=None)

        def advance(done: int, total: int, stage: str = what) -> None:
            nonlocal task
            if stage != progress.tasks[0].description:
                progress.remove_task(task)
                task = progress.add_task(stage, total=None)
            progress.update(task, completed=done, total=total or None)

        yield advance
