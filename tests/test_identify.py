"""The bound on samples by hand, and the procedure against exact enumeration and a slow simulation of its own."""

from __future__ import annotations

import itertools
import math
import random as python_random
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from halfmask.laws import Beta, MaskLaw, Point, TruncatedNormal, Window
from halfmask.theory.identify import SuccessRate, masked_risk, samples_needed, simulate, visible_share
from halfmask.theory.optimum import one_dependency, sample_optimal, score
from reference import Mask, all_masks, drawn_masks, mask_chance, refused
from strategies import LAWS, laws
from test_laws import integral

NAN = float("nan")
each_law = pytest.mark.parametrize("law", LAWS, ids=str)


# The gap and the bound


@each_law
def test_gaps_are_their_integrals(law: MaskLaw) -> None:
    mean = integral(law, 1, 0)
    for k in (0, 1, 6, 20):
        assert visible_share(law, k) == pytest.approx(integral(law, 0, k), rel=1e-7, abs=1e-11)
        by_hand = integral(law, 1, k) / mean if mean > 0 else 0.0
        assert visible_share(law, k, biased=True) == pytest.approx(by_hand, rel=1e-6, abs=1e-10)


def test_the_bound_by_hand() -> None:
    bound = 4 * math.log(4 * 20 / 0.05)
    assert samples_needed(20, 6, Point(0.2)) == pytest.approx(bound / (0.2 * 0.8**12), rel=1e-12)
    assert samples_needed(20, 6, Window(0, 1)) == pytest.approx(bound / (0.5 / 49), rel=1e-12)
    assert samples_needed(20, 6, Window(0, 1), biased=True) == pytest.approx(bound / (0.5 / 28**2), rel=1e-12)
    assert samples_needed(9, 2, Beta(2, 2), delta=0.5) == pytest.approx(4 * math.log(72) / (0.5 * 0.3**2), rel=1e-12)
    for law in (Point(0), Point(1)):  # nothing hidden; nothing visible
        assert samples_needed(20, 6, law) == math.inf
    assert samples_needed(np.int64(20), np.int64(6), Point(0.2)) == samples_needed(20, 6, Point(0.2))


@each_law
def test_the_bound_is_the_goal_of_the_optimum(law: MaskLaw) -> None:
    gain = score(law, one_dependency(3), "samples")
    if gain > 0:
        assert samples_needed(9, 3, law, delta=0.1) == pytest.approx(4 * math.log(360) / gain, rel=1e-12)
    else:
        assert samples_needed(9, 3, law, delta=0.1) == math.inf


@settings(deadline=None, max_examples=100)
@given(laws, st.integers(0, 40))
def test_rows_that_hide_a_position_show_a_smaller_gap(law: MaskLaw, k: int) -> None:
    """Chebyshev's sum inequality; a point alone shows the whole gap for k > 0."""
    plain, seen = visible_share(law, k), visible_share(law, k, biased=True)
    assert 0 <= seen <= plain * (1 + 1e-9) + 1e-12
    if isinstance(law, Point) and law.ratio > 0:
        assert seen == pytest.approx(plain, rel=1e-12)
    if plain > 0 and k < 39:
        assert samples_needed(40, k + 1, law, biased=True) >= samples_needed(40, k + 1, law) * (1 - 1e-9)


def test_how_much_smaller() -> None:
    """The numbers of docs/decisions/0002."""
    assert visible_share(Window(0, 1), 6) == pytest.approx(1 / 7, rel=1e-12)
    assert visible_share(Window(0, 1), 6, biased=True) == pytest.approx(1 / 28, rel=1e-12)
    best = sample_optimal(6)
    assert visible_share(best, 6, biased=True) / visible_share(best, 6) == pytest.approx(0.80, abs=5e-3)


@pytest.mark.parametrize("law", [Window(0, 1), Window(0.1, 0.4), Point(0.3), Beta(2, 5), TruncatedNormal(0.3, 0.1)])
def test_the_gap_is_what_drawn_rows_show(law: MaskLaw) -> None:
    num, k = 200_000, 3
    t, hidden = drawn_masks(law, num, k + 1, seed=3)
    others_visible = ~hidden[:, 1:].any(axis=1)
    for rows, biased in [(np.ones(num, dtype=bool), False), (hidden[:, 0], True)]:
        share = visible_share(law, k, biased=biased)
        error = math.sqrt(share * (1 - share) / rows.sum())
        assert abs(others_visible[rows].mean() - share) <= 4.5 * error
    assert hidden.mean() == pytest.approx(law.mean, abs=4.5 * math.sqrt(0.25 / num))
    assert t.mean() == pytest.approx(law.mean, abs=4.5 * math.sqrt(0.25 / num))


# The risk


@cache
def entropies(num_positions: int, secret: Mask) -> dict[Mask, list[float]]:
    """H(x_i | visible bits) for every mask, over all sequences whose secret bits sum to an even number."""
    sequences = [
        bits
        for bits in itertools.product([0, 1], repeat=num_positions)
        if sum(bit for bit, inside in zip(bits, secret, strict=True) if inside) % 2 == 0
    ]
    table = {}
    for mask in all_masks(num_positions):
        groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for bits in sequences:
            seen = tuple(-1 if hidden else bit for bit, hidden in zip(bits, mask, strict=True))
            groups.setdefault(seen, []).append(bits)
        entropy = [0.0] * num_positions
        for group in groups.values():
            for i in range(num_positions):
                ones = sum(bits[i] for bits in group) / len(group)
                bit_entropy = -sum(p * math.log(p) for p in (ones, 1 - ones) if p > 0)
                entropy[i] += bit_entropy * len(group) / len(sequences)
        table[mask] = entropy
    return table


def slow_risk(rows: tuple[Mask, ...], secret: Mask) -> list[float]:
    """The mean of those entropies over the rows that hide a position; NaN where no row does."""
    table, risk = entropies(len(secret), secret), []
    for i in range(len(secret)):
        losses = [table[mask][i] for mask in rows if mask[i]]
        risk.append(sum(losses) / len(losses) if losses else NAN)
    return risk


@st.composite
def rows_and_secret(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    num_positions = draw(st.integers(2, 5))
    hidden = draw(hnp.arrays(np.bool_, (draw(st.integers(1, 12)), num_positions)))
    secret = draw(hnp.arrays(np.bool_, num_positions).filter(lambda secret: secret.sum() >= 2))
    return hidden, secret


@settings(deadline=None)
@given(rows_and_secret())
def test_the_risk_is_the_mean_entropy(given_rows: tuple[np.ndarray, np.ndarray]) -> None:
    hidden, secret = given_rows
    slow = slow_risk(tuple(tuple(map(bool, row)) for row in hidden), tuple(map(bool, secret)))
    assert masked_risk(hidden, secret) == pytest.approx(slow, abs=1e-12, nan_ok=True)


# The procedure


def found_by_hand(rows: tuple[Mask, ...], secret: Mask, gap: float) -> bool:
    """Whether the proof's threshold, half-way down the gap, tells exactly the secret positions."""
    called_secret = [risk <= (1 - gap / 2) * math.log(2) for risk in slow_risk(rows, secret)]
    return called_secret == list(secret)


@pytest.mark.parametrize("n, k, num_rows", [(2, 1, 4), (3, 2, 3)])
@pytest.mark.parametrize("law, biased", [(Point(0.3), False), (Window(0, 0.8), False), (Window(0, 0.8), True)])
def test_successes_are_as_frequent_as_enumeration_says(
    n: int, k: int, num_rows: int, law: MaskLaw, biased: bool
) -> None:
    """Every data set of so few rows, with its probability."""
    secret = tuple(position >= n - k for position in range(n + 1))
    gap = integral(law, 1, k) / integral(law, 1, 0) if biased else integral(law, 0, k)
    exact = 0.0
    for rows in itertools.combinations_with_replacement(all_masks(n + 1), num_rows):
        if found_by_hand(rows, secret, gap):
            orders = math.factorial(num_rows) / math.prod(math.factorial(rows.count(row)) for row in set(rows))
            exact += orders * math.prod(mask_chance(law, sum(row), n + 1) for row in rows)
    assert exact > 0
    trials = 3_000
    [rate] = simulate(n, k, law, [num_rows], trials=trials, seed=5, biased=biased)
    assert (rate.num_samples, rate.trials) == (num_rows, trials)
    assert abs(rate.share - exact) <= 4.5 * math.sqrt(exact * (1 - exact) / trials)


@pytest.mark.parametrize("law, num_rows", [(Point(0.25), 40), (Window(0.05, 0.5), 60)])
def test_successes_are_those_of_a_slow_simulation(law: MaskLaw, num_rows: int) -> None:
    n, k, trials = 5, 2, 300
    secret = (False, False, False, True, True, True)
    gap = integral(law, 0, k)
    random, successes = python_random.Random(7), 0
    for _ in range(trials):
        ratios = [float(law.from_uniform(random.random())) for _ in range(num_rows)]
        rows = tuple(tuple(random.random() < ratio for _ in secret) for ratio in ratios)
        successes += found_by_hand(rows, secret, gap)
    slow = successes / trials
    assert 0.1 < slow < 0.9  # where a difference would show
    [rate] = simulate(n, k, law, [num_rows], trials=3_000, seed=7)
    error = math.sqrt(slow * (1 - slow) * (1 / trials + 1 / 3_000))
    assert abs(rate.share - slow) <= 4.5 * error


def test_success_rises_with_the_rows_to_what_the_bound_promises() -> None:
    law = Point(0.3)
    bound = samples_needed(10, 2, law, delta=0.05)
    sizes = [2, 10, 20, 40, 80, math.ceil(bound)]
    shares = [rate.share for rate in simulate(10, 2, law, sizes, trials=200)]
    assert shares == sorted(shares)
    assert shares[0] == 0 and 0.05 < shares[2] < 0.95 and shares[-1] >= 0.95


def test_a_law_that_spreads_fails_at_every_size_unless_the_gap_is_the_one_seen() -> None:
    law = Window(0, 1)
    bound = math.ceil(samples_needed(8, 3, law, biased=True))
    assert visible_share(law, 3, biased=True) < visible_share(law, 3) / 2
    assert simulate(8, 3, law, [bound], trials=40)[0].successes == 0
    assert simulate(8, 3, law, [bound], trials=40, biased=True)[0].share >= 0.95
    for hopeless in (Point(0), Point(1)):
        assert simulate(8, 3, hopeless, [500], trials=5)[0].successes == 0


def test_a_simulation_is_a_function_of_its_seed() -> None:
    law, steps = Point(0.25), []
    rates = simulate(
        5, 2, law, [20, 50, 100], trials=300, seed=1, progress=lambda done, total: steps.append((done, total))
    )
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert simulate(5, 2, law, [20, 50, 100], trials=300, seed=1) == rates
    assert simulate(5, 2, law, [50], trials=300, seed=1) == [rates[1]]  # adding a size changes no other
    assert simulate(5, 2, law, [100, 50], trials=300, seed=1) == [rates[2], rates[1]]
    assert simulate(5, 2, law, [20, 50, 100], trials=300, seed=2) != rates


@pytest.mark.parametrize("successes, trials", [(0, 1), (1, 1), (0, 200), (200, 200), (3, 10), (57, 200), (999, 1000)])
def test_intervals_are_wilsons(successes: int, trials: int) -> None:
    rate = SuccessRate(100, trials, successes)
    low, high = rate.interval
    assert rate.share == successes / trials
    assert 0 <= low <= rate.share <= high <= 1
    # Its ends are the p at which the observed share lies 1.96 standard deviations away: (p̂ - p)² = z² p (1-p) / n.
    z2 = 1.959963984540054**2
    roots = np.roots([1 + z2 / trials, -(2 * rate.share + z2 / trials), rate.share**2])
    assert sorted(roots.real) == pytest.approx([low, high], abs=1e-9)
    assert 0.5 * math.erfc(math.sqrt(z2 / 2)) == pytest.approx(0.025, rel=1e-12)


# Mistakes


@pytest.mark.parametrize("n, k", [(6, 0), (6, 6), (6, 7), (6, -1), (NAN, 2), (6, NAN)])
def test_a_task_needs_secret_bits_and_others(n: int, k: int) -> None:
    with refused("1 <= k < n"):
        samples_needed(n, k, Point(0.2))
    with refused("1 <= k < n"):
        simulate(n, k, Point(0.2), [10])


def test_other_mistakes() -> None:
    for delta in (0.0, 1.0, -0.1, 2.0, NAN):
        with refused("delta must lie in (0, 1)"):
            samples_needed(6, 2, Point(0.2), delta=delta)
    for k in (-1, 0.5, NAN):
        for biased in (False, True):
            with refused("must be 0 or more"):
                visible_share(Point(0.2), k, biased=biased)
    for sizes, trials in [([], 10), ([0], 10), ([10, -1], 10), ([10], 0), ([10], -3)]:
        with refused("at least one trial and sizes of at least one row"):
            simulate(6, 2, Point(0.2), sizes, trials=trials)
