"""Signal(t) of a mixture of orders: the paper's numbers, the plain sum, fine grids, and where windows end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfmask.laws import Point
from halfmask.theory.mixture import FORMS, Form, highest, optimal_ratio, signal_curve, signal_window
from halfmask.theory.optimum import score
from reference import refused
from strategies import order_weights, ratios

NAN = float("nan")
PAPER = {2: 0.7427, 3: 0.2063, 4: 0.0401, 5: 0.0084, 6: 0.0024}  # WikiText's, in the paper's appendix
forms = st.sampled_from(list(FORMS.values()))
# Ratios at which humps of every order up to 20,000 show.
GRID = np.union1d(np.linspace(0, 1, 20_001), np.geomspace(1e-7, 1, 20_001))


def plain_sum(t: float, weights: dict[int, float], power: int = 1, factor: bool = False) -> float:
    total = 0.0
    for order, weight in weights.items():
        term = t
        for _ in range(order - 1):
            term *= 1 - t
        if factor:
            term *= order
        total += weight * (term * term if power == 2 else term)
    return total


@pytest.mark.parametrize("form, t", list(zip(FORMS.values(), [0.463, 0.445, 0.481, 0.457], strict=True)))
def test_the_ratio_that_the_paper_predicts(form: Form, t: float) -> None:
    found = optimal_ratio(PAPER, **form)
    assert round(found, 3) == t
    defaults = {"power": 1, "factor": False}
    assert optimal_ratio(PAPER, **{name: given for name, given in form.items() if given != defaults[name]}) == found
    lo, hi = signal_window(PAPER, **form)
    assert lo < found < hi and lo < 0.45 < hi < 0.6  # the paper trains in 0.45-0.55


@given(order_weights(), forms, ratios)
def test_the_curve_is_the_plain_sum(weights: dict[int, float], form: Form, t: float) -> None:
    by_hand = plain_sum(t, weights, **form)
    assert float(signal_curve(t, weights, **form)) == pytest.approx(by_hand, rel=1e-11, abs=1e-300)
    some = np.array([[t, 0.0, 1.0], [0.5, t, 0.25]])
    assert signal_curve(some, weights, **form).shape == (2, 3)
    assert signal_curve(some, weights, **form)[0, 0] == pytest.approx(by_hand, rel=1e-11, abs=1e-300)
    numpy_weights = {np.int64(order): np.float64(weight) for order, weight in weights.items()}
    assert float(signal_curve(t, numpy_weights, **form)) == pytest.approx(by_hand, rel=1e-11, abs=1e-300)


@given(order_weights(), ratios)
def test_with_the_factor_it_is_the_mean_signal_of_a_point(weights: dict[int, float], t: float) -> None:
    """Order i is a dependency of k = i - 1 inputs."""
    by_law = score(Point(t), weights)
    assert float(signal_curve(t, weights, factor=True)) == pytest.approx(by_law, rel=1e-11, abs=1e-300)


@settings(deadline=None, max_examples=60)
@given(order_weights(), forms)
def test_the_optimum_against_a_fine_grid(weights: dict[int, float], form: Form) -> None:
    curve = signal_curve(GRID, weights, **form)
    found = optimal_ratio(weights, **form)
    mine = float(signal_curve(found, weights, **form))
    assert curve.max() * (1 - 1e-12) <= mine <= curve.max() * (1 + 1e-5)
    slope = (signal_curve(found + 1e-5, weights, **form) - signal_curve(found - 1e-5, weights, **form)) / 2e-5
    assert abs(slope) <= 1e-3 * mine / found
    assert 1 / max(weights) - 1e-6 <= found <= 1 / min(weights) + 1e-6  # between the optima of the orders
    scaled = {order: 1000 * weight for order, weight in weights.items()}
    assert optimal_ratio(scaled, **form) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 7, 40, 1_000, 20_000])
def test_one_order_is_best_at_one_over_it(order: int) -> None:
    for form in FORMS.values():
        assert optimal_ratio({order: 0.3}, **form) == pytest.approx(1 / order, rel=1e-6)
        assert optimal_ratio({order: 0.3, order + 9: 0.0}, **form) == pytest.approx(1 / order, rel=1e-6)


def test_the_higher_of_two_humps_is_found() -> None:
    for weight, near in [(0.02, 1 / 40), (0.06, 1 / 2)]:
        weights = {2: weight, 40: 1.0}
        curve = signal_curve(GRID, weights)
        tops = GRID[1:-1][(curve[1:-1] > curve[:-2]) & (curve[1:-1] > curve[2:])]
        assert len(tops) == 2
        assert optimal_ratio(weights) == pytest.approx(near, rel=0.1)


@settings(deadline=None, max_examples=60)
@given(order_weights(), forms, st.floats(0.05, 0.999))
def test_windows_end_where_the_curve_crosses(weights: dict[int, float], form: Form, share: float) -> None:
    lo, hi = signal_window(weights, share=share, **form)
    best = optimal_ratio(weights, **form)
    floor = share * float(signal_curve(best, weights, **form))
    assert 0 < lo < best < hi < 1
    assert signal_curve([lo, hi], weights, **form) == pytest.approx(floor, rel=1e-8)
    inside = GRID[(lo <= GRID) & (hi >= GRID)]
    assert np.all(signal_curve(inside, weights, **form) >= floor * (1 - 1e-8))
    for end, outwards in [(lo, lo - 1e-4 * (best - lo)), (hi, hi + 1e-4 * (hi - best))]:
        assert signal_curve(outwards, weights, **form) < signal_curve(end, weights, **form)
    wider = signal_window(weights, share=share / 2, **form)
    assert wider[0] < lo and hi < wider[1]


def test_a_window_stays_on_its_hump() -> None:
    """Two narrow humps with a dip between them that an even grid on [t*, 1] steps over."""
    weights = {600: 1.0, 18_000: 1.0}
    lo, hi = signal_window(weights, share=0.9, factor=True)
    best = optimal_ratio(weights, factor=True)
    below = GRID[signal_curve(GRID, weights, factor=True) < 0.9 * float(signal_curve(best, weights, factor=True))]
    assert below[below < best].max() <= lo <= below[below < best].max() * 1.01
    assert below[below > best].min() * 0.99 <= hi <= below[below > best].min()
    assert hi < 1 / 6_000


def test_a_window_that_reaches_the_end() -> None:
    lo, hi = signal_window({1: 1.0}, share=0.9)  # Signal(t) = t
    assert (lo, hi) == (pytest.approx(0.9, abs=1e-9), pytest.approx(1, abs=1e-9))


@given(ratios, ratios, st.floats(1e-9, 1))
def test_highest_finds_tops_and_ends(top: float, lo: float, width: float) -> None:
    hi = min(1.0, lo + width)
    found = highest(lambda t: -((t - top) ** 2), lo, hi)
    assert lo <= found <= max(lo, hi)
    assert found == pytest.approx(min(max(top, lo), hi), abs=1e-7)
    assert highest(np.zeros_like, lo, lo) == lo


# Mistakes


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {2: 0.0},
        {2: -1.0, 3: 2.0},
        {2: NAN},
        {2: NAN, 3: 1.0},
        {2: math.inf},
        {0: 1.0},
        {-2: 1.0},
        {1.5: 1.0},
        {NAN: 1.0},
    ],
)
def test_weights_must_be_weights(weights: dict[int, float]) -> None:
    for ask in (
        lambda: signal_curve(0.5, weights),
        lambda: optimal_ratio(weights),
        lambda: signal_window(weights),
    ):
        with refused("must be non-negative, finite and not all zero, for orders from 1"):
            ask()


def test_other_mistakes() -> None:
    for share in (0.0, 1.0, -0.5, 1.5, NAN):
        with refused("share of the maximum must lie in (0, 1)"):
            signal_window(PAPER, share=share)
    for t in (-0.1, 1.1, NAN, [0.5, 2.0]):
        with refused("ratio must lie in [0, 1]"):
            signal_curve(t, PAPER)
