"""One function for each kind of record: the record in, a figure out. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from halfmask.errors import UsageError
from halfmask.records import Record
from halfmask.reports import evaluation
from halfmask.reports.style import COLOURS, DASHES, HATCHES, MARKERS, log_ticks, new_figure, save, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(record: Record, path: Path) -> None:
    """Draw a record to a file, in the form its name asks for."""
    if record.name not in FIGURES:
        raise UsageError("this record has no figure", got=record.name, fix=f"one of {', '.join(FIGURES)} has")
    save(lambda: FIGURES[record.name](record), path)


def signal_figure(record: Record) -> Figure:
    """P_S of a point against the ratio, and the shares of the three regimes under every law."""
    figure, (curves, bars) = new_figure(2)
    for i, (k, curve) in enumerate(record.extra["curves"].items()):
        curves.plot(record.extra["ratio"], curve, label=f"k = {k}", **series(i))
    limit = record.extra["limit"]
    curves.axhline(limit, color="#888888", linewidth=0.8)
    curves.annotate("1/e", (1.0, limit), ha="right", va="bottom", fontsize=8, color="#555555")
    curves.set(title="Which single ratio shows most signal?", xlabel="mask ratio t", ylabel="$P_S$", ylim=(0, None))
    curves.legend(fontsize=8)

    labels = [f"{row['law']}, k = {row['k']}" for row in record.rows]
    left = [0.0] * len(labels)
    for i, (regime, label) in enumerate(REGIMES.items()):
        shares = [row[regime] for row in record.rows]
        bars.barh(labels, shares, left=left, label=label, **HATCHES[i])
        left = [start + share for start, share in zip(left, shares, strict=True)]
    bars.invert_yaxis()
    bars.set(title="How often is a mask signal?", xlabel="share of masks", xlim=(0, 1))
    bars.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure


REGIMES = {"P_S": "signal", "under-determined": "under-determined", "non-informative": "non-informative"}


def optimum_figure(record: Record) -> Figure:
    """The two scores against the upper end of U[t0, t1]."""
    figure, panels = new_figure(2)
    titles = {"signal": "Which t₁ shows most signal?", "samples": "Which t₁ needs fewest samples?"}
    for axes, goal in zip(panels, ("signal", "samples"), strict=True):
        axes.plot(record.extra["t1"], record.extra[goal], **series(0))
        best = record.extra[f"best {goal}"]
        axes.axvline(best, **series(1))
        axes.annotate(f"{best:.4f}", (best, 0), xytext=(4, 4), textcoords="offset points", fontsize=8)
        axes.set(title=titles[goal], xlabel=f"t₁ of U[{record.settings['t0']:g}, t₁]", ylim=(0, None))
    panels[0].set_ylabel("$P_S$")
    panels[1].set_ylabel(r"$E[t]\,E[(1-t)^k]^2$")
    return figure


def identify_figure(record: Record) -> Figure:
    """Success of the procedure against N, beside the bounds."""
    figure, (axes,) = new_figure()
    for i, law in enumerate(dict.fromkeys(row["law"] for row in record.rows)):
        rows = [row for row in record.rows if row["law"] == law]
        sizes = [row["N"] for row in rows]
        axes.plot(sizes, [row["success"] for row in rows], marker=MARKERS[i % len(MARKERS)], label=law, **series(i))
        low, high = [row["low"] for row in rows], [row["high"] for row in rows]
        axes.fill_between(sizes, low, high, color=series(i)["color"], alpha=0.15, lw=0)
        if record.extra["bounds"][law] is not None:
            axes.axvline(record.extra["bounds"][law], lw=1.0, **series(i))
    axes.set_xscale("log")
    axes.set(
        title="How many samples identify the secret set? (vertical: the bound)",
        xlabel="N, samples",
        ylabel="share of data sets identified",
        ylim=(-0.03, 1.03),
    )
    axes.legend(title="law", fontsize=8)
    return figure


def loss_figure(record: Record) -> Figure:
    """How the theorem's gap falls with the number of samples."""
    figure, (axes,) = new_figure()
    sizes = [row["N"] for row in record.rows]
    axes.loglog(sizes, [row["gap spread"] for row in record.rows], marker="o", label="measured", **series(0))
    falling = [record.rows[0]["gap spread"] * (sizes[0] / size) ** 0.5 for size in sizes]
    axes.loglog(sizes, falling, label="falling as 1/√N", **series(1))
    axes.set(
        title="Training loss minus effective loss: constant only in expectation",
        xlabel="N, samples",
        ylabel="spread over parameters",
    )
    log_ticks(axes.xaxis, sizes)
    axes.legend(fontsize=8)
    return figure


def energy_figure(record: Record) -> Figure:
    """Energy as a share of its ceiling, and the size of its gradient, against the width."""
    figure, (left, right) = new_figure(2)
    for i, masks in enumerate(dict.fromkeys(row["masks"] for row in record.rows)):
        rows = [row for row in record.rows if row["masks"] == masks]
        widths = [row["width"] for row in rows]
        left.semilogx(widths, [row["E / ceiling"] for row in rows], marker=MARKERS[i], label=masks, **series(i))
        right.loglog(widths, [row["|∇E|"] for row in rows], marker=MARKERS[i], label=masks, **series(i))
    left.set(title="Where does the energy saturate?", xlabel="width D", ylabel="E / its ceiling", ylim=(0, 1.05))
    right.set(title="Where does the gradient vanish?", xlabel="width D", ylabel="|∇E|")
    for axes in (left, right):
        log_ticks(axes.xaxis, record.settings["widths"])
    left.legend(title="masks", fontsize=8)
    return figure


def mixture_figure(record: Record) -> Figure:
    """Signal(t) in its four forms, each scaled to its maximum, with t* and the window of the first."""
    figure, (axes,) = new_figure()
    for i, row in enumerate(record.rows):
        axes.plot(record.extra["ratio"], record.extra["curves"][i], label=row["form"], **series(i))
        axes.plot([row["t*"]], [1.0], marker=MARKERS[i], color=COLOURS[i], markerfacecolor="white")
    first = record.rows[0]
    axes.axvspan(first["window from"], first["window to"], color="#000000", alpha=0.07, lw=0)
    axes.set(
        title=f"Which ratio shows most signal? t* = {first['t*']:.3f}",
        xlabel="mask ratio t",
        ylabel="Signal(t) / its maximum",
        ylim=(0, 1.05),
    )
    axes.legend(fontsize=8)
    return figure


def window_figure(record: Record) -> Figure:
    """The weight of each order; Signal(t) with t*, its interval and the window; t* against the amount of text."""
    growth = record.extra.get("growth", [])
    figure, (bars, axes, *last) = new_figure(3 if growth else 2)
    orders = [row["order"] for row in record.rows]
    bars.bar(orders, [row["weight"] for row in record.rows], **HATCHES[0])
    for row in record.rows:
        bars.annotate(f"{row['weight']:.4f}", (row["order"], row["weight"]), ha="center", va="bottom", fontsize=8)
    bars.set(title="Which dependencies does the text hold?", xlabel="n-gram order", ylabel="weight", xticks=orders)
    signal, best = record.extra["signal"], record.extra["t*"]
    highest = max(signal)
    axes.plot(record.extra["ratio"], [each / highest for each in signal], **series(0))
    lo, hi = record.extra["window"]
    axes.axvspan(lo, hi, color="#000000", alpha=0.08, lw=0, label=f"window {lo:g}-{hi:g}")
    if record.extra["interval"]:
        axes.axvspan(*record.extra["interval"], color=COLOURS[1], alpha=0.3, lw=0, label="95 % interval")
    axes.axvline(best, label=f"t* = {best:.3f}", **series(1))
    axes.set(title="Which ratio shows most signal?", xlabel="mask ratio t", ylabel="Signal(t) / its maximum")
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8, loc="upper right")
    for panel in last:
        tokens = [row["tokens read"] for row in growth]
        panel.semilogx(tokens, [row["t*"] for row in growth], marker="o", **series(0))
        panel.axhspan(lo, hi, color="#000000", alpha=0.08, lw=0)
        panel.set(title="How does t* move with the amount of text?", xlabel="tokens read", ylabel="t*")
        log_ticks(panel.xaxis, tokens)
    return figure


def optimal_laws_figure(record: Record) -> Figure:
    """The optimal point and upper ends against k."""
    figure, (axes,) = new_figure()
    ks = [row["k"] for row in record.rows]
    columns = {
        "best point, 1/(k+1)": "best point",
        "best t₁ of U[0, t₁] for the signal": "best t1, t0 = 0",
        "best t₁ of U[0, t₁] for the samples": "fewest samples t1",
    }
    for i, (label, column) in enumerate(columns.items()):
        axes.semilogx(ks, [row[column] for row in record.rows], marker=MARKERS[i], label=label, **series(i))
    log_ticks(axes.xaxis, ks)
    axes.set(title="How much to mask for k inputs?", xlabel="k", ylabel="mask ratio", ylim=(0, None))
    axes.legend(fontsize=8)
    return figure


def train_figure(record: Record) -> Figure:
    """Loss and held-out bound against steps, and the loss at every ratio at the end."""
    extra = record.extra
    has_bound = bool(extra["bounds"])
    figure, axes = new_figure(2 if has_bound else 1)
    axes[0].plot(extra["steps"], extra["losses"], label="training loss under its law", **series(0))
    if has_bound:
        step, bound, error = zip(*extra["bounds"], strict=True)
        axes[0].errorbar(step, bound, error, marker=MARKERS[1], label="held-out bound", **series(1))
        num = len(extra["loss by ratio"])
        ratio = [(stratum + 0.5) / num for stratum in range(num)]
        axes[1].plot(ratio, extra["loss by ratio"], marker=MARKERS[0], **series(0))
        axes[1].set(title="What does it know at each ratio?", xlabel="mask ratio t", ylabel="nats per hidden token")
    axes[0].set(title="Does it still learn?", xlabel="step", ylabel="nats per token")
    axes[0].legend(fontsize=8)
    return figure


def parity_train_figure(record: Record) -> Figure:
    """Accuracies and losses of one run against its steps."""
    figure, (left, right) = new_figure(2)
    curve = record.extra["curve"]
    steps = [row["step"] for row in curve]
    for i, (label, name) in enumerate({"training": "train accuracy", "held out": "held-out accuracy"}.items()):
        left.plot(steps, [row[name] for row in curve], label=label, **series(i))
    left.axhline(0.5, color="#888888", linewidth=0.8)
    left.set(title="When does it generalise?", xlabel="step", ylabel="accuracy", ylim=(0.45, 1.02))
    left.legend(fontsize=8)
    for i, (label, name) in enumerate({"signal rows": "signal loss", "noise rows": "noise loss"}.items()):
        right.plot(steps, [row[name] for row in curve], label=label, **series(i))
    right.set(title="Which rows does the effective loss come from?", xlabel="step", ylabel="effective loss")
    right.set_ylim(0, None)
    right.legend(fontsize=8)
    return figure


def race_figure(record: Record) -> Figure:
    """Accuracy of each condition's median run against its steps, and the steps to 99 % of every run."""
    figure, (left, right) = new_figure(2)
    names = list(record.extra["runs"])
    for i, (name, runs) in enumerate(record.extra["runs"].items()):
        look = {**series(i), "linestyle": DASHES[(i + i // len(DASHES)) % len(DASHES)]}  # a second round differs
        in_order = sorted(runs, key=lambda run: (run["solved"] is None, run["solved"] or run["steps"]))
        curve = in_order[(len(runs) - 1) // 2]["curve"]
        left.plot(curve["step"], curve["training"], **{**look, "linewidth": 0.6, "alpha": 0.6})
        left.plot(curve["step"], curve["held out"], label=name, **look)
        for run in runs:
            solved = run["solved"] is not None
            face = look["color"] if solved else "white"
            at = run["solved"] if solved else run["steps"]
            right.plot([at], [i], marker=MARKERS[i % len(MARKERS)], color=look["color"], markerfacecolor=face)
    left.axhline(0.5, color="#888888", linewidth=0.8)
    left.set(title="When does each generalise? (thin: training)", xlabel="step", ylabel="accuracy", ylim=(0.4, 1.03))
    left.legend(fontsize=6, loc="lower right")
    right.set(title="Steps to 99 % held out (white: not reached)", xlabel="step", yticks=range(len(names)))
    right.set_yticklabels(names, fontsize=8)
    right.invert_yaxis()
    steps = [run["steps"] for runs in record.extra["runs"].values() for run in runs]
    if max(steps) > 30 * min(steps):
        for axes in (left, right):
            axes.set_xscale("log")
    else:
        right.set_xlim(0, None)
    return figure


def scaling_figure(record: Record) -> Figure:
    """Measured and predicted best upper ends against k, and the steps against the end."""
    figure, (left, right) = new_figure(2)
    for i, (title, rows) in enumerate(record.tables.items()):
        found = [(row["t1"], row["median steps to 99 %"]) for row in rows if row["median steps to 99 %"] is not None]
        left.plot(*zip(*found, strict=True) if found else ([], []), marker=MARKERS[i % 7], label=title, **series(i))
    left.set(title="How many steps by t₁?", xlabel="t₁ of U[0, t₁]", ylabel="median steps to 99 %", yscale="log")
    left.legend(fontsize=8)
    ks = [row["k"] for row in record.rows]
    for i, (label, name) in enumerate(
        {"best for the signal": "predicted t1, signal", "best for the samples": "predicted t1, samples"}.items()
    ):
        right.plot(ks, [row[name] for row in record.rows], label=label, **series(i))
    measured = [(row["k"], row["fastest t1"]) for row in record.rows if row["fastest t1"] is not None]
    if measured:
        right.plot(*zip(*measured, strict=True), "o", color=COLOURS[3], label="fastest of those tried")
    right.set(title="Is the fastest t₁ the predicted one?", xlabel="k", ylabel="t₁", xticks=ks, ylim=(0, 1.05))
    right.legend(fontsize=8)
    return figure


def effective_loss_figure(record: Record) -> Figure:
    """How far training loss minus effective loss moves on N drawn inputs."""
    figure, (axes,) = new_figure()
    for i, each in enumerate(record.extra["series"]):
        axes.loglog(each["N"], each["spread"], marker=MARKERS[i % 7], label=each["label"], **series(i))
    axes.set(
        title="Training loss minus effective loss: constant only in expectation",
        xlabel="N, samples",
        ylabel="spread over parameters",
    )
    log_ticks(axes.xaxis, record.extra["series"][0]["N"])
    axes.legend(fontsize=8)
    return figure


def sample_complexity_figure(record: Record) -> Figure:
    """Success of the procedure against N as a share of the bound."""
    figure, (axes,) = new_figure()
    for i, (task, law) in enumerate(dict.fromkeys((row["task"], row["law"]) for row in record.rows)):
        rows = [row for row in record.rows if (row["task"], row["law"]) == (task, law)]
        axes.semilogx(
            [row["N / bound"] for row in rows],
            [row["success"] for row in rows],
            marker=MARKERS[i % 7],
            label=f"{task}, {law}",
            **series(i),
        )
    axes.axhline(1 - record.settings["delta"], color="#888888", linewidth=0.8)
    axes.set(title="Is the secret set found?", xlabel="N / the bound", ylabel="share of data sets", ylim=(-0.03, 1.03))
    axes.legend(fontsize=7)
    return figure


def collapse_figure(record: Record) -> Figure:
    """Gradient of the energy, and how far the hidden weights move on its ascent, against the width."""
    figure, (left, right) = new_figure(2)
    for i, masks in enumerate(dict.fromkeys(row["masks"] for row in record.rows)):
        rows = [row for row in record.rows if row["masks"] == masks]
        widths = [row["width"] for row in rows]
        left.loglog(widths, [row["|∇E|, start"] for row in rows], marker=MARKERS[i], label=masks, **series(i))
        right.loglog(widths, [row["movement"] for row in rows], marker=MARKERS[i], label=masks, **series(i))
    left.set(title="Where does the gradient vanish?", xlabel="width D", ylabel="|∇E| at the start")
    right.set(title="How far do features move?", xlabel="width D", ylabel="movement of W / its norm")
    for axes in (left, right):
        log_ticks(axes.xaxis, record.settings["widths"])
    left.legend(title="masks", fontsize=8)
    return figure


FIGURES: dict[str, Callable[[Record], Figure]] = {
    "theory signal": signal_figure,
    "theory optimum": optimum_figure,
    "theory identify": identify_figure,
    "theory loss": loss_figure,
    "theory energy": energy_figure,
    "theory mixture": mixture_figure,
    "parity train": parity_train_figure,
    "window": window_figure,
    "train": train_figure,
    "eval bound": evaluation.ratios_figure,
    "eval ratios": evaluation.ratios_figure,
    "eval compare": evaluation.compare_figure,
    "eval signal": evaluation.signal_figure,
    "paper ngram-optimum": window_figure,
    "paper optimal-laws": optimal_laws_figure,
    "paper effective-loss": effective_loss_figure,
    "paper sample-complexity": sample_complexity_figure,
    "paper signal-collapse": collapse_figure,
    "paper parity-windows": race_figure,
    "paper parity-grokking": race_figure,
    "paper parity-uniform-attention": race_figure,
    "paper parity-laws": race_figure,
    "paper parity-scaling": scaling_figure,
}
