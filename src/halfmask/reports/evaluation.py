"""Figures of what evaluation found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfmask.records import Record
from halfmask.reports.style import MARKERS, new_figure, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def ratios_figure(record: Record) -> Figure:
    """The loss of hidden tokens against the ratio, a curve for each model, with bands of two standard errors."""
    figure, (axes,) = new_figure()
    _curves(axes, record)
    axes.set(
        title="What did the model learn at each ratio?", xlabel="mask ratio t", ylabel="loss of hidden tokens, nats"
    )
    return figure


def compare_figure(record: Record) -> Figure:
    """The difference to the first model against the ratio."""
    figure, (axes,) = new_figure()
    axes.axhline(0, color="#888888", linewidth=0.8)
    _curves(axes, record)
    axes.set(
        title=f"Loss less that of {record.extra['baseline']}: below 0 is better",
        xlabel="mask ratio t",
        ylabel="difference of the loss, nats",
    )
    return figure


def _curves(axes: Axes, record: Record) -> None:
    extra = record.extra
    for i, name in enumerate(extra["names"]):
        law = extra["laws"][i]
        label = name if law is None else f"{name}, law {law}"
        _band(axes, extra["ratio"], extra["loss"][i], extra["error"][i], label=label, i=i)
    axes.set_xlim(0, 1)
    axes.legend(fontsize=8)


def _band(axes: Axes, ratio: list[float], value: list[float], error: list[float], *, label: str, i: int) -> None:
    """Points with a band of two standard errors; a bin without draws is left out."""
    there = [each for each in zip(ratio, value, error, strict=True) if None not in each and each[1] == each[1]]
    xs, ys, es = zip(*there, strict=True) if there else ((), (), ())
    axes.plot(xs, ys, marker=MARKERS[i % len(MARKERS)], label=label, **series(i))
    low, high = [y - 2 * e for y, e in zip(ys, es, strict=True)], [y + 2 * e for y, e in zip(ys, es, strict=True)]
    axes.fill_between(xs, low, high, color=series(i)["color"], alpha=0.15, lw=0)


def signal_figure(record: Record) -> Figure:
    """The gradient's signal-to-noise by ratio beside Signal(t), and the loss there."""
    extra = record.extra
    figure, (left, right) = new_figure(2)
    _band(left, extra["ratio"], extra["snr"], extra["error"], label="gradient signal-to-noise", i=0)
    top = max(extra["snr"]) / max(extra["curve"])
    left.plot(extra["curve ratio"], [top * each for each in extra["curve"]], label="Signal(t), scaled", **series(1))
    left.axvline(extra["t*"], color=series(1)["color"], linewidth=0.8)
    left.annotate(f"t* = {extra['t*']:.3f}", (extra["t*"], 0), xytext=(5, 4), textcoords="offset points", fontsize=8)
    left.set(
        title="Which ratios still teach this model?", xlabel="mask ratio t", ylabel="|E g|² / E|g − E g|² of a row"
    )
    left.set(xlim=(0, 1), ylim=(min(0.0, *extra["snr"]), None))
    left.legend(fontsize=8)
    _band(right, extra["ratio"], extra["loss"], extra["loss error"], label="loss", i=0)
    right.set(title="What is left to learn there?", xlabel="mask ratio t", ylabel="loss of hidden tokens, nats")
    right.set_xlim(0, 1)
    return figure
