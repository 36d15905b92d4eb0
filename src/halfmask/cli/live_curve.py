"""The live display of a run of the parity laboratory: loss and accuracies as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfmask.cli.output import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from halfmask.parity.recipe import ParityRecipe
    from halfmask.parity.summary import Curve

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 48  # columns of a curve


@contextmanager
def live_curve(recipe: ParityRecipe, *, lines: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields what takes a step's measures: moving curves on a terminal, else lines for evaluations if asked."""
    from halfmask.parity.summary import Curve

    curve, screen = Curve(), console(stderr=True)
    if not sys.stderr.isatty():

        def print_line(measures: dict[str, Any]) -> None:
            if curve.add(measures) and lines:
                screen.print(describe(curve.rows[-1]), highlight=False)

        yield print_line
        return

    from rich.live import Live

    with Live(console=screen, refresh_per_second=4, transient=True) as live:

        def draw(measures: dict[str, Any]) -> None:
            if curve.add(measures) or measures["step"] % 10 == 0:
                live.update(picture(recipe, curve, measures))

        yield draw


def describe(row: dict[str, Any]) -> str:
    return (
        f"step {row['step']}  loss {row['loss']:.4f}  training {row['train accuracy']:.1%}  "
        f"held out {row['held-out accuracy']:.1%}"
    )


def picture(recipe: ParityRecipe, curve: Curve, measures: dict[str, Any]) -> RenderableType:
    from rich.table import Table

    step, share = int(measures["step"]), recipe.masks.signal_share(int(measures["step"]) - 1, recipe.k)
    table = Table.grid(padding=(0, 2))
    table.add_row("step", f"{step:,} of {recipe.steps:,}", f"masks {recipe.mask}: {share:.1%} signal by the theory")
    table.add_row("", "", f"{measures['signal share']:.1%} in this step")
    for name, form in (
        ("loss", "{:.4f}"),
        ("signal loss", "{:.4f}"),
        ("noise loss", "{:.4f}"),
        ("train accuracy", "{:.1%}"),
        ("held-out accuracy", "{:.1%}"),
        ("energy share", "{:.1%}"),
        ("energy gradient", "{:.3g}"),
    ):
        found = [row[name] for row in curve.rows if name in row]
        if found:
            table.add_row(name, form.format(found[-1]), sparkline(found, (0.5, 1.0) if "accuracy" in name else None))
    return table


def sparkline(numbers: list[float], ends: tuple[float, float] | None = None) -> str:
    """The last numbers as blocks, between the ends or between the smallest and the largest."""
    shown = numbers[-WIDTH:]
    lo, hi = ends or (min(shown), max(shown))
    heights = [(min(max(number, lo), hi) - lo) / (hi - lo) if hi > lo else 0.5 for number in shown]
    return "".join(BLOCKS[1 + round(height * (len(BLOCKS) - 2))] for height in heights)
