"""Signal(t) of a corpus seen as a mixture of n-gram dependencies (Appendix "Why Does the Optimum Fall Near t ≈ 0.5?").

An n-gram of order i is a dependency with k = i - 1 inputs, so hiding each token with probability t shows its signal
with probability proportional to t (1-t)^(i-1). Weighting the orders by what the corpus holds of them,

    Signal(t) ∝ Σ_i w_i t (1-t)^(i-1)

and its maximum t* is the predicted mask ratio. Two choices that the paper names or implies are arguments here:
`power=2` for a signal quadratic in P_S (Theorem "Energy Landscape"), `factor=True` for the (k+1) = i of P_S itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from halfmask.errors import UsageError
from halfmask.laws import FloatArray
from halfmask.theory.signal import check_ratio

Weights = Mapping[int, float]  # order i of an n-gram → its weight


class Form(TypedDict):
    """How Signal(t) is written."""

    power: int
    factor: bool


# The paper's form first, then what its remark and its theorems would make of it.
FORMS: dict[str, Form] = {
    "linear": {"power": 1, "factor": False},
    "linear, with the factor k+1": {"power": 1, "factor": True},
    "quadratic": {"power": 2, "factor": False},
    "quadratic, with the factor (k+1)²": {"power": 2, "factor": True},
}


def signal_curve(t: ArrayLike, weights: Weights, *, power: int = 1, factor: bool = False) -> FloatArray:
    """Signal(t) = Σ w_i (c_i t (1-t)^(i-1))^power, with c_i = i where `factor`, else 1."""
    check_weights(weights)
    check_ratio("the mask ratio", t)
    t = np.asarray(t, dtype=np.float64)
    total = np.zeros_like(t)
    for order, weight in weights.items():
        term = t * (1 - t) ** (order - 1) * (order if factor else 1)
        total += weight * term**power
    return total


def optimal_ratio(weights: Weights, *, power: int = 1, factor: bool = False) -> float:
    """t* = argmax Signal(t). A mixture of far-apart orders may have two humps: the grid finds the higher one."""
    check_weights(weights)
    return highest(lambda t: signal_curve(t, weights, power=power, factor=factor), 0.0, 1.0)


def signal_window(
    weights: Weights, *, share: float = 0.95, power: int = 1, factor: bool = False
) -> tuple[float, float]:
    """The interval around t* in which Signal(t) stays at or above `share` of its maximum."""
    if not 0 < share < 1:
        raise UsageError("the share of the maximum must lie in (0, 1)", got=share, fix="give for example 0.95")
    best = optimal_ratio(weights, power=power, factor=factor)
    floor = share * float(signal_curve(best, weights, power=power, factor=factor))

    def above(t: ArrayLike) -> FloatArray:
        return signal_curve(t, weights, power=power, factor=factor) - floor

    return _crossing(above, best, 0.0), _crossing(above, best, 1.0)


def check_weights(weights: Weights) -> None:
    """Orders are whole numbers from 1; weights are finite, non-negative and not all zero."""
    orders_fine = all(float(order).is_integer() and order >= 1 for order in weights)
    if not orders_fine or not all(w >= 0 for w in weights.values()) or not 0 < sum(weights.values()) < math.inf:
        raise UsageError(
            "order weights must be non-negative, finite and not all zero, for orders from 1",
            got=", ".join(f"{order}:{weight:g}" for order, weight in weights.items()) or "none",
            fix="give for example 2:0.74,3:0.21,4:0.05",
        )


def highest(f: Callable[[FloatArray], FloatArray], lo: float, hi: float, *, num: int = 2001) -> float:
    """Where a curve on [lo, hi] is highest, to about 1e-8 of the ratio (a maximum is flat): the ends included.

    A grid finds the right hump, a bounded search within its cell the top. Half of the grid is even; the other half
    closes in on `lo`, by a fixed factor, because a dependency of order i has its hump at 1/i.
    """
    from scipy.optimize import minimize_scalar

    if hi <= lo:
        return lo
    towards_lo = lo + (hi - lo) * np.geomspace(1e-9, 1, num // 2)
    grid = np.clip(np.union1d(np.linspace(lo, hi, num - num // 2), towards_lo), lo, hi)
    best = int(np.argmax(f(grid)))
    cell = float(grid[max(0, best - 1)]), float(grid[min(len(grid) - 1, best + 1)])
    found = float(
        minimize_scalar(
            lambda t: -float(f(np.array([t]))[0]),
            bounds=cell,
            method="bounded",
            options={"xatol": 1e-10 * (cell[1] - cell[0])},
        ).x
    )
    # The search never tries the ends of its cell, and stops wherever a curve is flat.
    candidates = np.array([grid[best], found])
    return float(candidates[np.argmax(f(candidates))])


def _crossing(above: Callable[[ArrayLike], FloatArray], inside: float, end: float) -> float:
    """Where a function that is positive at `inside` first turns negative on the way to `end`, else `end`."""
    from scipy.optimize import brentq

    # Steps that grow with the distance: beside a narrow hump at a small ratio, even ones would step over the dip.
    steps = inside + (end - inside) * np.concatenate([[0.0], np.geomspace(1e-9, 1, 512)])
    below = np.flatnonzero(above(steps) < 0)
    if below.size == 0:
        return end
    first = int(below[0])
    return float(brentq(above, steps[first - 1], steps[first], xtol=1e-13))
