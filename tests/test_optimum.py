"""The best laws: the paper's numbers, brute-force grids, and no law of a family that beats the one found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from halfmask.laws import Beta, MaskLaw, Mixture, Point, Window
from halfmask.theory import tables
from halfmask.theory.optimum import (
    Goal,
    best_beta,
    best_upper_end,
    best_window,
    one_dependency,
    sample_optimal,
    score,
    signal_optimal,
)
from reference import refused
from strategies import LAWS, laws, order_weights, ratios
from test_laws import integral

GOALS: list[Goal] = ["signal", "samples"]
each_goal = pytest.mark.parametrize("goal", GOALS)
NAN = float("nan")
X, W = np.polynomial.legendre.leggauss(64)  # exact for the powers here, up to 41
MIXTURES = [{2: 1.0}, {3: 1.0}, {7: 1.0}, {21: 1.0}, {2: 0.7427, 3: 0.2063, 4: 0.0401, 5: 0.0084, 6: 0.0024}]
MIXTURES += [{2: 1.0, 40: 3.0}, {3: 0.2, 8: 0.5, 30: 0.3}]
each_mixture = pytest.mark.parametrize("weights", MIXTURES, ids=str)


def combine(goal: Goal, weights: dict[int, float], mean, visible, signal) -> np.ndarray:
    """Σ w_i P_S or Σ w_i E[t] E[(1-t)^k]² from functions of k = i - 1 that give the parts."""
    if goal == "signal":
        return sum(w * (order * signal(order - 1)) for order, w in weights.items())
    return sum(w * mean * visible(order - 1) ** 2 for order, w in weights.items())


def scores_of_windows(t0, t1, weights: dict[int, float], goal: Goal) -> np.ndarray:
    """By quadrature; t0 = t1 is the point."""
    t0, t1 = np.broadcast_arrays(t0, t1)
    t = t0[..., None] + (t1 - t0)[..., None] * (X + 1) / 2
    return combine(
        goal,
        weights,
        (t0 + t1) / 2,
        lambda k: (1 - t) ** k @ W / 2,
        lambda k: (t * (1 - t) ** k) @ W / 2,
    )


def scores_of_betas(mean: np.ndarray, concentration: float, weights: dict[int, float], goal: Goal) -> np.ndarray:
    """By E[(1-t)^k] = Π (b+j)/(a+b+j) over j < k, and one factor more for t."""
    b = (1 - mean) * concentration

    def visible(k: int, above: int = 0) -> np.ndarray:
        return np.prod([(b + j) / (concentration + above + j) for j in range(k)], axis=0) * np.ones_like(b)

    return combine(goal, weights, mean, visible, lambda k: mean * visible(k, above=1))


# The score


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_scores_are_their_integrals(law: MaskLaw) -> None:
    weights = {1: 0.5, 2: 2.0, 7: 3.0}
    mean = integral(law, 1, 0)
    by_hand = {
        goal: combine(goal, weights, mean, lambda k: integral(law, 0, k), lambda k: integral(law, 1, k))
        for goal in GOALS
    }
    for goal in GOALS:
        assert score(law, weights, goal) == pytest.approx(by_hand[goal], rel=1e-6, abs=1e-10)
        parts = [w * score(law, one_dependency(order - 1), goal) for order, w in weights.items()]
        assert score(law, weights, goal) == pytest.approx(sum(parts), rel=1e-12)


# The paper's numbers


def test_the_best_point_is_one_over_k_plus_one() -> None:
    for k in range(51):
        assert signal_optimal(one_dependency(k)) == Point(1 / (k + 1))
        found_by_search = signal_optimal({k + 1: 0.3, 99: 0.0}).ratio
        assert found_by_search == pytest.approx(1 / (k + 1), rel=2e-7)
    assert score(Point(1 / 7), one_dependency(6)) == pytest.approx(0.3966, abs=5e-5)
    assert score(Point(1 / 7), one_dependency(6)) == pytest.approx((6 / 7) ** 6, rel=1e-12)


def test_the_best_window_from_zero_for_six_inputs() -> None:
    t1 = best_upper_end(0, one_dependency(6))
    assert t1 == pytest.approx(0.2459, abs=5e-5)
    assert score(Window(0, t1), one_dependency(6)) == pytest.approx(0.3165, abs=5e-5)
    # At the best t1, its own signal is the mean signal of the window: 7 t1 (1-t1)^6 = P_S.
    assert 7 * t1 * (1 - t1) ** 6 == pytest.approx(score(Window(0, t1), one_dependency(6)), abs=1e-7)


@pytest.mark.parametrize("k, t1", [(2, 0.4417), (3, 0.3281), (6, 0.1844), (10, 0.1163)])
def test_sample_optimal_ends_of_the_paper(k: int, t1: float) -> None:
    assert sample_optimal(k).lo == 0
    assert sample_optimal(k).hi == pytest.approx(t1, abs=5e-5)


@pytest.mark.parametrize("k", [2, 3, 5, 6, 10, 33, 1_000, 1_000_000])
def test_the_root_of_the_polynomial_is_the_best_end(k: int) -> None:
    law = sample_optimal(k)
    y = 1 - law.hi
    assert 0 < y < 2 * k / (2 * k + 1)  # not the root y = 1
    terms = [(2 * k + 1) * y ** (k + 1), -(2 * k + 2) * y**k, 1]
    assert abs(sum(terms)) <= 1e-9 * max(map(abs, terms))
    assert best_upper_end(0, one_dependency(k), "samples") == pytest.approx(law.hi, rel=1e-6)
    assert sample_optimal(np.int64(k)).hi == pytest.approx(law.hi, rel=1e-8)


def test_the_sample_optimal_end_for_many_inputs() -> None:
    """(1 - y^(k+1))² / (1-y) tends to k (1 - e^-s)² / s with s = k t1, which is best where e^s = 1 + 2s."""
    s = brentq(lambda s: math.exp(s) - 1 - 2 * s, 1, 2)
    for k in (1_000, 100_000, 10_000_000):
        assert sample_optimal(k).hi * k == pytest.approx(s, rel=2 / k + 1e-7)


@pytest.mark.parametrize("k", [2, 3, 6, 10])
def test_no_window_of_a_grid_needs_fewer_samples(k: int) -> None:
    ends = np.linspace(0, 1, 151)
    t0, t1 = (grid[np.triu_indices(151)] for grid in np.meshgrid(ends, ends, indexing="ij"))
    found = scores_of_windows(t0, t1, one_dependency(k), "samples")
    best = score(sample_optimal(k), one_dependency(k), "samples")
    assert found.max() <= best
    top = int(np.argmax(found))
    assert t0[top] == 0 and t1[top] == pytest.approx(sample_optimal(k).hi, abs=1 / 150)


@given(ratios, ratios)
def test_for_one_input_every_window_of_mean_one_third_is_best(t: float, spread: float) -> None:
    half = spread / 3
    law = Window(1 / 3 - half, 1 / 3 + half) if half > 1e-9 else Point(1 / 3)
    assert score(law, one_dependency(1), "samples") == pytest.approx(4 / 27, rel=1e-9)
    assert score(Point(t), one_dependency(1), "samples") <= 4 / 27 + 1e-15
    assert sample_optimal(1) == Window(0, 2 / 3)


# Brute force


@each_goal
@each_mixture
@pytest.mark.parametrize("t0", [0.0, 0.03, 0.3, 0.97])
def test_best_upper_end_against_a_grid(weights: dict[int, float], goal: Goal, t0: float) -> None:
    grid = np.linspace(t0, 1, 1501)
    found, by_grid = best_upper_end(t0, weights, goal), scores_of_windows(t0, grid, weights, goal)
    mine = float(scores_of_windows(t0, found, weights, goal))
    assert t0 <= found <= 1
    assert mine >= by_grid.max() * (1 - 1e-12)
    assert mine <= by_grid.max() * (1 + 1e-3)
    assert abs(found - grid[np.argmax(by_grid)]) <= grid[1] - grid[0]


@each_goal
@each_mixture
@pytest.mark.parametrize("width", [0.001, 0.1, 0.5, 1.0])
def test_best_window_against_a_grid(weights: dict[int, float], goal: Goal, width: float) -> None:
    grid = np.linspace(0, 1 - width, 1501)
    law, by_grid = best_window(width, weights, goal), scores_of_windows(grid, grid + width, weights, goal)
    mine = float(scores_of_windows(law.lo, law.hi, weights, goal))
    assert law.hi - law.lo == pytest.approx(width, rel=1e-12)
    assert mine >= by_grid.max() * (1 - 1e-11)
    assert abs(law.lo - grid[np.argmax(by_grid)]) <= grid[1]


@each_goal
@each_mixture
@pytest.mark.parametrize("concentration", [0.5, 10.0, 1e5])
def test_best_beta_against_a_grid(weights: dict[int, float], goal: Goal, concentration: float) -> None:
    means = np.linspace(0, 1, 1501)
    law, by_grid = best_beta(weights, concentration, goal), scores_of_betas(means, concentration, weights, goal)
    mine = float(scores_of_betas(np.array(law.a / concentration), concentration, weights, goal))
    assert law.a + law.b == pytest.approx(concentration, rel=1e-12)
    assert mine >= by_grid.max() * (1 - 1e-9)
    assert mine == pytest.approx(score(law, weights, goal), rel=1e-9)
    assert abs(law.mean - means[np.argmax(by_grid)]) <= means[1]


# Nothing of the family beats the best


@settings(deadline=None, max_examples=60)
@given(order_weights(), laws)
def test_no_law_has_more_signal_than_the_best_point(weights: dict[int, float], law: MaskLaw) -> None:
    best = score(signal_optimal(weights), weights)
    assert score(law, weights) <= best * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(order_weights(), st.sampled_from(GOALS), ratios, ratios)
def test_no_window_beats_the_best_one(weights: dict[int, float], goal: Goal, t0: float, share: float) -> None:
    best = scores_of_windows(t0, best_upper_end(t0, weights, goal), weights, goal)
    rival = scores_of_windows(t0, t0 + (1 - t0) * share, weights, goal)
    assert rival <= best * (1 + 1e-9) + 1e-300
    width = max(1e-6, share)
    law = best_window(width, weights, goal)
    rival = scores_of_windows((1 - width) * t0, (1 - width) * t0 + width, weights, goal)
    assert rival <= scores_of_windows(law.lo, law.hi, weights, goal) * (1 + 1e-9)


@settings(deadline=None, max_examples=15)
@given(order_weights(), st.sampled_from(GOALS), st.floats(-1, 4).map(lambda e: 10.0**e), st.floats(1e-3, 1 - 1e-3))
def test_no_beta_beats_the_best_one(weights: dict[int, float], goal: Goal, concentration: float, mean: float) -> None:
    best = score(best_beta(weights, concentration, goal), weights, goal)
    rival = Beta(mean * concentration, (1 - mean) * concentration)
    assert score(rival, weights, goal) <= best * (1 + 1e-9)


@given(st.integers(2, 60), ratios, ratios)
def test_no_window_needs_fewer_samples_than_the_sample_optimal(k: int, one: float, other: float) -> None:
    rival = scores_of_windows(min(one, other), max(one, other), one_dependency(k), "samples")
    assert rival <= score(sample_optimal(k), one_dependency(k), "samples") * (1 + 1e-9)


def test_families_that_hold_another_do_no_worse() -> None:
    """Narrower windows and sharper Betas come closer to the point; all or nothing needs fewest samples on paper."""
    for weights in MIXTURES:
        point = score(signal_optimal(weights), weights)
        windows = [score(best_window(width, weights), weights) for width in (0.5, 0.1, 0.01, 1e-4)]
        betas = [score(best_beta(weights, c), weights) for c in (1, 10, 1000, 1e6)]
        for climb in (windows, betas):
            assert np.all(np.diff(climb) > 0)
            assert climb[-1] == pytest.approx(point, rel=1e-3) and climb[-1] <= point
    one_third = Mixture(((2, Point(0)), (1, Point(1))))
    for k in (1, 2, 6, 20):
        assert score(one_third, one_dependency(k), "samples") == pytest.approx(4 / 27, rel=1e-12)
        torn_apart = best_beta(one_dependency(k), 1e-6, "samples")
        assert torn_apart.mean == pytest.approx(1 / 3, abs=1e-4)
    assert score(sample_optimal(6), one_dependency(6), "samples") == pytest.approx(0.032, abs=5e-4)


# Edges and mistakes


def test_nothing_to_choose() -> None:
    for goal in GOALS:
        assert best_upper_end(1.0, {3: 1.0}, goal) == 1
        assert best_upper_end(0.9, {3: 1.0}, goal) == 0.9  # beyond every optimum: the point t0
        assert best_upper_end(0.0, {1: 1.0}, goal) == pytest.approx(1, abs=1e-9)  # k = 0: hide everything
        assert best_window(1.0, {3: 1.0}, goal) == Window(0, 1)
        assert best_window(0.1, {1: 1.0}, goal).hi == pytest.approx(1, abs=1e-9)
    assert one_dependency(6) == {7: 1.0}
    record = tables.optimum(6, None, t0=1.0, width=0.1, concentration=10.0)  # every window from 1 is the point
    assert {"law": "1"}.items() <= record.rows[1].items()


@pytest.mark.parametrize("weights", [{}, {2: 0.0}, {2: -1.0, 3: 2.0}, {2: NAN}, {2: math.inf}, {0: 1.0}, {1.5: 1.0}])
def test_weights_must_be_weights(weights: dict[int, float]) -> None:
    for ask in (
        lambda: score(Window(0, 1), weights),
        lambda: signal_optimal(weights),
        lambda: best_upper_end(0.1, weights),
        lambda: best_upper_end(1.0, weights),
        lambda: best_window(0.1, weights),
        lambda: best_window(1.0, weights),
        lambda: best_beta(weights, 10),
    ):
        with refused("order weights must be"):
            ask()


@pytest.mark.parametrize("bad", [-0.1, 1.1, NAN, math.inf])
def test_ratios_must_be_ratios(bad: float) -> None:
    with refused(f"t0 must lie in [0, 1], got {bad:g}"):
        best_upper_end(bad, {3: 1.0})
    with refused(f"width of a window must lie in [0, 1], got {bad:g}"):
        best_window(bad, {3: 1.0})


def test_other_mistakes() -> None:
    with refused("must be positive, got 0"):
        best_window(0.0, {3: 1.0})
    for bad in (0.0, -1.0, NAN, math.inf, 2e9):
        with refused("concentration a + b of a Beta law"):
            best_beta({3: 1.0}, bad)
    for bad in (-1, 0.5, NAN):
        with refused("must be 0 or more"):
            one_dependency(bad)
        with refused("must be 0 or more"):
            sample_optimal(bad)
    with refused("needs k >= 1"):
        sample_optimal(0)
