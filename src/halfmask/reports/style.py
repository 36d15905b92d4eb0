"""The house style of figures: quiet axes, and series told apart by dash and marker as well as by colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfmask.errors import UsageError
from halfmask.records import atomic_write, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")

# Okabe and Ito's colours, distinct to colour-blind readers, ordered dark to light so that grey prints differ too.
COLOURS = ("#000000", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#E69F00")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.2)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1)),
    (0, (8, 3)),
    (0, (2, 2)),
)
HATCHES: tuple[dict[str, Any], ...] = (  # areas: filled, and told apart without colour
    {"color": "#0072B2"},
    {"facecolor": "#ffffff", "edgecolor": "#777777", "hatch": "///"},
    {"facecolor": "#dddddd", "edgecolor": "#777777"},
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

PANEL = (6.4, 4.0)  # inches

RC: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "halfmask",  # the same record draws the same bytes
    "svg.fonttype": "none",
}


def series(index: int) -> dict[str, Any]:
    """Colour and dash of the index-th series; add `marker=MARKERS[…]` for measured points."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def new_figure(num_panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of panels side by side, without pyplot and its global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = PANEL
    figure = Figure(figsize=(width * (1 if num_panels == 1 else 0.8 * num_panels), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(1, num_panels, panel + 1) for panel in range(num_panels)]


def log_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Label a logarithmic axis with the values that were measured, in plain numbers."""
    axis.set_ticks(list(values), labels=[_short(value) for value in values])
    axis.set_ticks([], minor=True)


def _short(value: float) -> str:
    """54,698 → 54.7k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or value >= size > 1e3:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def check_path(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"a figure is written to a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file",
            got=path,
            fix=f"name it {path.stem or 'figure'}.svg",
        )
    check_writable(path)


def save(make: Callable[[], Figure], path: Path) -> None:
    """Draw in the house style and write the file."""
    import matplotlib

    check_path(path)
    suffix = path.suffix.lower().removeprefix(".")
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[suffix]
    with matplotlib.rc_context(RC), atomic_write(path, "wb") as stream:
        make().savefig(stream, format=suffix, metadata=metadata)
