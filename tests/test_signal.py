"""Regimes of a mask, and how often a law visits them: closed forms against quadrature, enumeration and sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from halfmask.laws import Beta, MaskLaw, Point, Window
from halfmask.theory.signal import (
    SIGNAL_LIMIT,
    Regime,
    check_parity,
    check_ratio,
    classify,
    noise_share,
    regime_shares,
    signal_share,
    window_signal_share,
    window_visible_share,
)
from reference import all_masks, drawn_masks, mask_chance, refused, regime_of
from strategies import LAWS, laws, ratios
from test_laws import integral

each_law = pytest.mark.parametrize("law", LAWS, ids=str)
NAN = float("nan")


# Regimes


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    """Masks of any batch shape, and secret positions (one may be named twice)."""
    num_positions = draw(st.integers(1, 9))
    shape = (*draw(st.lists(st.integers(0, 3), max_size=3)), num_positions)
    secret = draw(st.lists(st.integers(0, num_positions - 1), min_size=1, max_size=num_positions))
    return draw(hnp.arrays(np.bool_, shape)), secret


@given(batches())
def test_regimes_are_those_of_a_slow_reading(batch: tuple[np.ndarray, list[int]]) -> None:
    hidden, secret = batch
    found = classify(hidden, secret)
    assert found.shape == hidden.shape[:-1] and found.dtype == np.int8
    for at in np.ndindex(found.shape):
        assert found[at] == regime_of(tuple(hidden[at]), tuple(secret))


@given(batches(), st.randoms(use_true_random=False))
def test_regimes_do_not_depend_on_the_names_of_positions(batch: tuple[np.ndarray, list[int]], shuffler) -> None:
    hidden, secret = batch
    new_name = list(range(hidden.shape[-1]))
    shuffler.shuffle(new_name)
    moved = np.empty_like(hidden)
    for old, new in enumerate(new_name):
        moved[..., new] = hidden[..., old]
    assert np.array_equal(classify(moved, [new_name[position] for position in secret]), classify(hidden, secret))


def test_regimes_of_the_illustration() -> None:
    """The paper's figure: (4, 2), S' = {0, 2, 4}; and what may stand for a mask or a set."""
    masks = [[0, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    wanted = [Regime.SIGNAL, Regime.UNDER_DETERMINED, Regime.NON_INFORMATIVE]
    for secret in [(0, 2, 4), [4, 2, 0, 0], np.array([0, 2, 4], dtype=np.uint8), range(0, 5, 2)]:
        assert classify(masks, secret).tolist() == wanted
    assert classify(masks[0], (0, 2, 4)) == Regime.SIGNAL  # one mask: a scalar


@pytest.mark.parametrize(
    "secret", [[], [-1], [5], [0, 99], [0.5, 2], [NAN], [True, False, True, False, True], np.zeros(0, np.int64)]
)
def test_secret_positions_must_be_positions(secret: object) -> None:
    with refused("secret positions must be one or more of 0 … 4"):
        classify(np.zeros((3, 5), dtype=bool), secret)
    with refused("secret positions"):
        classify(True, [0])


# The three shares


@each_law
def test_signal_share_is_its_integral(law: MaskLaw) -> None:
    for k in (0, 1, 3, 6, 20):
        assert signal_share(law, k) == pytest.approx((k + 1) * integral(law, 1, k), rel=1e-7, abs=1e-11), k
        assert noise_share(law, k) == pytest.approx(1 - (k + 1) * integral(law, 1, k), rel=1e-7, abs=1e-11), k


@each_law
def test_shares_are_sums_over_all_masks(law: MaskLaw) -> None:
    """Every mask of k + 1 secret positions and of two more, with its probability."""
    for k in range(5):
        for others in (0, 2):
            found = dict.fromkeys(Regime, 0.0)
            for mask in all_masks(k + 1 + others):
                found[regime_of(mask, tuple(range(k + 1)))] += mask_chance(law, sum(mask), len(mask))
            shares = regime_shares(law, k)
            assert shares.signal == signal_share(law, k)
            assert shares.signal == pytest.approx(found[Regime.SIGNAL], rel=1e-6, abs=1e-8)
            assert shares.under_determined == pytest.approx(found[Regime.UNDER_DETERMINED], rel=1e-6, abs=1e-8)
            assert shares.non_informative == pytest.approx(found[Regime.NON_INFORMATIVE], rel=1e-6, abs=1e-8)
            assert shares.noise == pytest.approx(1 - found[Regime.SIGNAL], rel=1e-6, abs=1e-8)


@each_law
def test_shares_are_those_of_drawn_masks(law: MaskLaw) -> None:
    num, k = 100_000, 3
    _, hidden = drawn_masks(law, num, k + 3, seed=1)
    regime = classify(hidden, range(1, k + 2))
    shares = regime_shares(law, k)
    for which, share in [
        (Regime.SIGNAL, shares.signal),
        (Regime.UNDER_DETERMINED, shares.under_determined),
        (Regime.NON_INFORMATIVE, shares.non_informative),
    ]:
        error = math.sqrt(share * (1 - share) / num)
        assert abs(np.mean(regime == which) - share) <= 4.5 * error + 5 / num, which


@settings(deadline=None, max_examples=60)
@given(laws, st.integers(0, 30) | st.sampled_from([1_000, 100_000]))
def test_shares_are_shares(law: MaskLaw, k: int) -> None:
    shares = regime_shares(law, k)
    for share in (shares.signal, shares.under_determined, shares.non_informative, shares.noise):
        assert 0 <= share <= 1 + 1e-12
    assert signal_share(law, k) <= 1 and signal_share(law, k) + noise_share(law, k) == 1
    assert shares.signal + shares.under_determined + shares.non_informative == pytest.approx(1, abs=1e-9)
    assert shares.signal <= (k / (k + 1)) ** k + 1e-9  # that of the point 1/(k+1): no law does better


@pytest.mark.parametrize("k", [0, 1, 6, 1_000])
def test_shares_known_by_heart(k: int) -> None:
    assert signal_share(Window(0, 1), k) == pytest.approx(1 / (k + 2), rel=1e-11)
    assert regime_shares(Window(0, 1), k).non_informative == pytest.approx(1 / (k + 2), rel=1e-11)
    assert signal_share(Beta(2, 2), k) == pytest.approx(12 * (k + 1) / ((k + 2) * (k + 3) * (k + 4)), rel=1e-11)
    assert signal_share(Point(0), k) == 0
    assert signal_share(Point(1), k) == (1 if k == 0 else 0)  # hiding everything is signal for k = 0 alone
    assert regime_shares(Point(0), k).non_informative == 1
    for numpy_int in (np.int32, np.int64, np.uint64):
        assert signal_share(Window(0.1, 0.4), numpy_int(k)) == signal_share(Window(0.1, 0.4), k)


# Many windows at once


def exact_shares(t0: float, t1: float, k: int) -> tuple[float, float]:
    """P_S and E[(1-t)^k] of U[t0, t1] with 150 digits: ∫ t (1-t)^k dt = -(1-t)^(k+1) (1 + (k+1) t) / ((k+1) (k+2))."""
    with localcontext() as context:
        context.prec = 150
        lo, hi = Decimal(t0), Decimal(t1)
        if lo == hi:
            return float((k + 1) * lo * (1 - lo) ** k) if k else float(lo), float((1 - lo) ** k) if k else 1.0
        x, y = (1 - lo) ** (k + 1), (1 - hi) ** (k + 1)
        signal = (x * (1 + (k + 1) * lo) - y * (1 + (k + 1) * hi)) / ((k + 2) * (hi - lo))
        return float(signal), float((x - y) / ((k + 1) * (hi - lo)))


@st.composite
def ends_of_windows(draw: st.DrawFn) -> tuple[float, float]:
    """Points, windows of one unit in the last place, and wider ones, at ratios large and small."""
    t0 = draw(ratios.map(lambda t: t if t > 1e-30 else 0.0) | st.floats(-12, 0).map(lambda e: 10.0**e))
    wide = draw(st.floats(-15, 0).map(lambda e: min(1.0, t0 + 10.0**e)))
    return t0, draw(st.sampled_from([t0, min(1.0, float(np.nextafter(max(t0, 1e-30), 1))), wide, 1.0]))


many_k = st.integers(0, 60) | st.sampled_from([999, 30_000, 1_000_000])


@settings(max_examples=300, deadline=None)
@given(ends_of_windows(), many_k)
def test_windows_in_closed_form_are_exact(ends: tuple[float, float], k: int) -> None:
    signal, visible = exact_shares(*ends, k)
    assert float(window_signal_share(*ends, k)) == pytest.approx(signal, abs=4e-15)
    assert float(window_visible_share(*ends, k)) == pytest.approx(visible, rel=1e-10, abs=1e-15)


@settings(max_examples=100, deadline=None)
@given(ends_of_windows(), st.integers(0, 60) | st.sampled_from([999, 30_000]))
def test_windows_in_closed_form_are_the_law(ends: tuple[float, float], k: int) -> None:
    t0, t1 = ends
    law = Window(t0, t1) if t0 < t1 else Point(t0)
    # Point.moment rounds 1 - t before it raises it: k · 1e-16.
    assert float(window_signal_share(*law.support, k)) == pytest.approx(signal_share(law, k), abs=1e-11)
    assert float(window_visible_share(*law.support, k)) == pytest.approx(law.moment(0, k), abs=1e-11)


@pytest.mark.parametrize("of_windows", [window_signal_share, window_visible_share])
def test_arrays_of_windows_broadcast(of_windows: Callable[..., np.ndarray]) -> None:
    t0 = np.array([0.0, 0.2, 0.4])[:, None]
    t1 = np.array([0.4, 0.40000000000000013, 0.8, 1.0])
    k = np.array([0, 1, 6, 99, 30_000])[:, None, None]
    found = of_windows(t0, t1, k)
    assert found.shape == (5, 3, 4)
    for at in np.ndindex(found.shape):
        assert found[at] == of_windows(t0[at[1], 0], t1[at[2]], k[at[0], 0, 0])
    assert np.array_equal(of_windows(t0, t1, k.astype(np.int16)), found)
    assert of_windows(np.array([]), np.array([]), 3).shape == (0,)
    assert of_windows(0.2, 0.3, np.array([], dtype=int)).shape == (0,)


def test_windows_at_their_edges() -> None:
    t = np.array([0.0, 1e-300, 0.3, 1 - 2**-53, 1.0])
    for k in (0, 1, 7):
        assert window_signal_share(t, t, k) == pytest.approx((k + 1) * t * (1 - t) ** k, abs=1e-15)
        assert window_visible_share(t, t, k) == pytest.approx((1 - t) ** k, abs=1e-15)
    assert window_visible_share(0, 5e-324, 6) == 1
    assert window_signal_share(0, 5e-324, 6) == pytest.approx(0, abs=1e-15)
    assert window_signal_share(0.1, 1, 0) == pytest.approx(0.55, rel=1e-14)  # k = 0: the mean ratio
    assert window_signal_share(0, 1, np.arange(9)) == pytest.approx(1 / (np.arange(9) + 2), abs=1e-15)
    assert window_signal_share(0, 1, 10**9) == pytest.approx(1e-9, abs=1e-15)


# Limits


def test_the_best_share_falls_to_one_over_e() -> None:
    ks = np.unique(np.geomspace(1, 1e6, 200).astype(int))
    best = np.array([signal_share(Point(1 / (k + 1)), int(k)) for k in ks])
    assert np.all(np.diff(best) < 0)
    assert np.all(best > SIGNAL_LIMIT)
    assert best * math.e - 1 == pytest.approx(1 / (2 * ks), rel=0.6)  # (1 - 1/(k+1))^k e = 1 + 1/2k + O(1/k²)
    assert best[-1] == pytest.approx(math.exp(-1), abs=1e-6)
    assert best == pytest.approx(window_signal_share(1 / (ks + 1), 1 / (ks + 1), ks), rel=1e-9)


@pytest.mark.parametrize("k", [1, 2, 6, 40])
def test_shares_move_one_way(k: int) -> None:
    centre, width = 1 / (k + 1), np.linspace(0, 1 / (k + 1), 50)
    around_the_best = window_signal_share(centre - width, centre + width, k)
    assert around_the_best[0] == pytest.approx(signal_share(Point(centre), k), rel=1e-14)
    assert np.all(np.diff(around_the_best) < 0)  # the wider around the best point, the less signal
    t = np.linspace(0, 1, 400)
    assert np.all(np.diff(window_visible_share(0, t, k)) < 0)
    assert np.all(np.diff(window_visible_share(t, 1, k)) < 0)
    points = window_signal_share(t, t, k)
    assert np.all(np.diff(points[t <= centre]) > 0) and np.all(np.diff(points[t >= centre]) < 0)
    assert points[0] == points[-1] == 0
    small = np.geomspace(1e-8, 1e-5, 10)
    assert window_signal_share(0, small, k) == pytest.approx((k + 1) * small / 2, rel=1e-3)


# Mistakes


@pytest.mark.parametrize("k", [-1, 0.5, NAN, float("inf")])
def test_k_must_be_a_whole_number_from_0(k: float) -> None:
    for share in (signal_share, noise_share, regime_shares):
        with refused(f"must be 0 or more, got {k:g}"):
            share(Window(0, 1), k)
    for of_windows in (window_signal_share, window_visible_share):
        for given_k in (k, [3, k]):
            with refused(f"must be 0 or more, got {k:g}"):
                of_windows(0.1, 0.2, given_k)


@pytest.mark.parametrize(
    "t0, t1, shown",
    [
        (0.6, 0.3, "0.6-0.3"),
        (-0.1, 0.5, "-0.1-0.5"),
        (0.5, 1.1, "0.5-1.1"),
        (NAN, 0.5, "nan-0.5"),
        (0.5, NAN, "0.5-nan"),
        ([0.1, 0.2, 0.9], 0.5, "0.9-0.5"),
        ([[0.1], [0.2]], [0.15, 0.3], "0.2-0.15"),
    ],
)
def test_windows_must_be_windows(t0: object, t1: object, shown: str) -> None:
    for of_windows in (window_signal_share, window_visible_share):
        with refused(f"0 <= t0 <= t1 <= 1, got {shown}"):
            of_windows(t0, t1, 6)


@pytest.mark.parametrize("n, k", [(4, 0), (4, 4), (4, 5), (4, -1), (0, 0), (-1, -2), (NAN, 2), (4, NAN)])
def test_a_task_needs_secret_bits_and_others(n: int, k: int) -> None:
    with refused("1 <= k < n"):
        check_parity(n, k)


def test_tasks_and_ratios_that_are_fine() -> None:
    check_parity(2, 1)
    check_parity(np.int64(20), np.int64(19))
    check_ratio("the ratio", [0, 0.5, 1])
    for bad in (-0.1, 1.1, NAN, [0.5, 2]):
        with refused("the ratio must lie in [0, 1]"):
            check_ratio("the ratio", bad)
