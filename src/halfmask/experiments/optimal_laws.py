"""The optimal laws of both corollaries, each by its closed form and by a search that knows nothing of it."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.laws import Point
from halfmask.records import Record
from halfmask.theory.optimum import best_upper_end, one_dependency, sample_optimal, score, signal_optimal
from halfmask.theory.signal import window_signal_share, window_visible_share

KS = (1, 2, 3, 4, 5, 6, 8, 10, 20)
GRID = 1001  # ends of windows to search over: steps of 0.001
STEP = 1 / (GRID - 1)


def units(scale: str) -> list[Recipe]:
    return [{"k": k} for k in KS]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    """Formula and search side by side: the search scores every window with ends on a grid."""
    k = recipe["k"]
    weights = one_dependency(k)
    ends = np.linspace(0, 1, GRID)
    t0, t1 = np.meshgrid(ends, ends, indexing="ij")
    t0, t1 = t0[t0 <= t1], t1[t0 <= t1]
    signal = window_signal_share(t0, t1, k)
    samples = (t0 + t1) / 2 * window_visible_share(t0, t1, k) ** 2
    by_formula = sample_optimal(k)
    return {
        "signal point": signal_optimal(weights).ratio,
        "signal, searched": [float(t0[signal.argmax()]), float(t1[signal.argmax()])],
        "P_S": score(Point(1 / (k + 1)), weights),
        "signal t1 for t0 = 0": best_upper_end(0.0, weights),
        "samples t1": by_formula.hi,
        "samples, searched": [float(t0[samples.argmax()]), float(t1[samples.argmax()])],
        "samples score": score(by_formula, weights, "samples"),
        "samples score, searched": float(samples.max()),
    }


def record(scale: str, done: list[Done]) -> Record:
    return Record(
        name="paper optimal-laws",
        title="Optimal laws by formula and by search over all windows",
        settings={"grid": GRID},
        rows=[
            {
                "k": each.recipe["k"],
                "best point": each.result["signal point"],
                "searched": _window(each.result["signal, searched"]),
                "P_S": each.result["P_S"],
                "best t1, t0 = 0": each.result["signal t1 for t0 = 0"],
                "fewest samples t1": each.result["samples t1"],
                "searched for samples": _window(each.result["samples, searched"]),
            }
            for each in done
        ],
    )


def _window(ends: list[float]) -> str:
    return f"{ends[0]:.3f}-{ends[1]:.3f}"


def check(scale: str, done: list[Done]) -> list[Finding]:
    result = {each.recipe["k"]: each.result for each in done}
    shares = [each["P_S"] for each in result.values()]
    falls = all(share > later for share, later in pairwise([*shares, 1 / math.e]))
    points = falls and all(
        max(abs(end - 1 / (k + 1)) for end in each["signal, searched"]) <= STEP for k, each in result.items()
    )
    t1 = result[6]["signal t1 for t0 = 0"]
    samples = all(
        each["samples score, searched"] <= each["samples score"] * (1 + 1e-12)
        and (
            k == 1
            or max(abs(a - b) for a, b in zip(each["samples, searched"], (0, each["samples t1"]), strict=True)) <= STEP
        )
        for k, each in result.items()
    )
    mean = sum(result[1]["samples, searched"]) / 2
    return [
        _finding(
            "signal-point",
            points,
            f"the search finds it for {len(result)} values of k; P_S {result[20]['P_S']:.4f} at k = 20",
        ),
        _finding("signal-window", round(t1, 3) == 0.246, f"{t1:.4f}"),
        _finding(
            "sample-window",
            samples and abs(mean - 1 / 3) <= STEP,
            f"t1 = {result[6]['samples t1']:.4f} at k = 6; mean {mean:.3f} at k = 1",
        ),
    ]


def _finding(claim: str, holds: bool, ours: str) -> Finding:
    return Finding(claim, ours, 1, Verdict.HOLDS if holds else Verdict.FAILS)


EXPERIMENT = Experiment(
    name="optimal-laws",
    claims=("signal-point", "signal-window", "sample-window"),
    scales={"paper": "nine values of k; a second"},
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
