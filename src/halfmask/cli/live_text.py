"""A text that appears on the terminal as it is uncovered, coloured by how sure the model was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from halfmask.cli.output import console
from halfmask.decoding.texts import Stop, pieces

if TYPE_CHECKING:
    from rich.text import Text

    from halfmask.data.vocabulary import Vocabulary
    from halfmask.decoding.row import Row

COVERED = "░"
STYLES = ((0.9, "green"), (0.6, "yellow"), (0.0, "red underline"))  # from this confidence on; not by colour alone


@contextmanager
def live_text(stop: Stop, *, written: bool = False) -> Iterator[Callable[[Row], None]]:
    """Yields what to call after each step of the row; `written` leaves the text before its open end out."""
    from rich.live import Live

    def show(row: Row) -> None:
        text = painted(stop.vocabulary, row, row.canvas.open_from if written else 0)
        live.update(text[: len(stop.cut(text.plain))], refresh=True)

    with Live(console=console(), auto_refresh=False) as live:
        yield show


def painted(vocabulary: Vocabulary, row: Row, start: int = 0) -> Text:
    """The row from a position on, up to the end of its text."""
    from rich.text import Text

    text = Text()
    places = range(start, min(row.ends_at, len(row.tokens_T)))
    for hidden, group in groupby(places, key=lambda at: bool(row.hidden_T[at])):
        run = list(group)
        if hidden:
            text.append(COVERED * len(run), style="dim")
            continue
        for at, piece in zip(run, pieces(vocabulary, row.tokens_T[run]), strict=True):
            text.append(piece, style=_style(row.confidence_T[at]) if row.canvas.hidden_T[at] else "")
    return text


def _style(confidence: float) -> str:
    return next(style for least, style in STYLES if confidence >= least)
