"""The best law of the ratio, under the paper's two goals, for one dependency or a mixture of orders.

    signal    maximise P_S (Corollary "Signal-Optimal Masking Rate"): the point 1/(k+1), or the best of a family
    samples   minimise the lower bound on N (Corollary "Sample Complexity-Optimal Masking Rate"): maximise
              J = E[t] · E[(1-t)^k]²

For a mixture of orders both goals are averaged with the weights: Σ w_i P_S(k = i-1), and Σ w_i J(k = i-1). One
dependency of k inputs is the mixture {k+1: 1}.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from halfmask.errors import UsageError
from halfmask.laws import Beta, FloatArray, MaskLaw, Point, Window
from halfmask.theory.mixture import Weights, check_weights, highest, optimal_ratio
from halfmask.theory.signal import check_k, check_ratio, signal_share, window_signal_share, window_visible_share

Goal = Literal["signal", "samples"]


def one_dependency(k: int) -> dict[int, float]:
    """The mixture that holds nothing but dependencies of k inputs."""
    check_k(k)
    return {k + 1: 1.0}


def score(law: MaskLaw, weights: Weights, goal: Goal = "signal") -> float:
    """What a law achieves: Σ w_i P_S for the signal, Σ w_i E[t] E[(1-t)^k]² for the samples."""
    check_weights(weights)
    if goal == "signal":
        return sum(w * signal_share(law, order - 1) for order, w in weights.items())
    return sum(w * law.moment(1) * law.moment(0, order - 1) ** 2 for order, w in weights.items())


def signal_optimal(weights: Weights) -> Point:
    """The point that maximises Σ w_i P_S; 1/(k+1) for one dependency."""
    if len(weights) == 1:
        check_weights(weights)
        return Point(1 / next(iter(weights)))
    return Point(optimal_ratio(weights, factor=True))


def best_upper_end(t0: float, weights: Weights, goal: Goal = "signal") -> float:
    """The t1 for which U[t0, t1] is best when t0 is given; t1 = t0 means that the point t0 is best."""
    check_weights(weights)
    check_ratio("t0", t0)
    return highest(lambda t1: _window_scores(t0, t1, weights, goal), t0, 1.0)


def best_window(width: float, weights: Weights, goal: Goal = "signal") -> Window:
    """The best window of a given width."""
    check_weights(weights)
    check_ratio("the width of a window", width)
    if width <= 0:
        raise UsageError("the width of a window must be positive", got=width, fix="give for example 0.1")
    t0 = highest(lambda lo: _window_scores(lo, np.minimum(lo + width, 1.0), weights, goal), 0.0, 1.0 - width)
    return Window(t0, min(1.0, t0 + width))


def sample_optimal(k: int) -> Window:
    """The uniform law with the smallest bound on N.

    k = 1: every window with mean 1/3 is optimal, so the widest, U[0, 2/3], is returned. k > 1: t0 = 0 and t1 = 1 - y
    with (2k+1) y^(k+1) - (2k+2) y^k + 1 = 0, the root in (0, 1) that is not y = 1.
    """
    check_k(k)
    if k == 0:
        raise UsageError("the sample-optimal law needs k >= 1", got=k, fix="with k = 0 nothing depends on anything")
    if k == 1:
        return Window(0.0, 2 / 3)
    from scipy.optimize import brentq

    def polynomial(y: float) -> float:
        return float((2 * k + 1) * y ** (k + 1) - (2 * k + 2) * y**k + 1)

    # The polynomial is 1 at y = 0, falls to its least value at y = 2k/(2k+1), and rises to 0 at y = 1.
    return Window(0.0, 1.0 - float(brentq(polynomial, 0.0, 2 * k / (2 * k + 1), xtol=1e-15)))


def best_beta(weights: Weights, concentration: float, goal: Goal = "signal") -> Beta:
    """The best Beta(a, b) with a + b = concentration.

    Without that constraint the family has no best member: for the signal the Betas sharpen towards the point, and for
    the samples they fall apart into "all or nothing" (see `docs/decisions/0002-bound-under-spread-laws.md`).
    """
    if not 0 < concentration <= 1e9:
        raise UsageError(
            "the concentration a + b of a Beta law must be at most 1e9 and must be positive",
            got=concentration,
            fix="give for example 10",
        )
    check_weights(weights)

    def scores(means: FloatArray) -> FloatArray:
        return np.array([score(_beta(float(mean), concentration), weights, goal) for mean in means])

    return _beta(highest(scores, 0.0, 1.0, num=401), concentration)


def _beta(mean: float, concentration: float) -> Beta:
    mean = min(max(mean, 1e-9), 1 - 1e-9)
    return Beta(mean * concentration, (1 - mean) * concentration)


def _window_scores(t0: ArrayLike, t1: ArrayLike, weights: Weights, goal: Goal) -> FloatArray:
    """The score of many windows at once, in closed form."""
    t0, t1 = np.asarray(t0, dtype=np.float64), np.asarray(t1, dtype=np.float64)
    total = np.zeros(np.broadcast_shapes(t0.shape, t1.shape))
    for order, weight in weights.items():
        if goal == "signal":
            total += weight * window_signal_share(t0, t1, order - 1)
        else:
            total += weight * (t0 + t1) / 2 * window_visible_share(t0, t1, order - 1) ** 2
    return total
