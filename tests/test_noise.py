"""The noise: against SplitMix64 written slowly, against statistics, and against numbers that must never change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, norm

from halfmask.noise import STREAMS, Noise, permuted

GOLDEN, MASK = 0x9E3779B97F4A7C15, 2**64 - 1
words_64 = st.integers(0, MASK)


def mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def split_mix(state: int) -> Iterator[int]:
    while True:
        state = (state + GOLDEN) & MASK
        yield mixed(state)


def slow_words(seed: int, stream: str, step: int, row: int, num_columns: int) -> list[int]:
    key = next(split_mix(seed & MASK))
    key = mixed(key ^ (STREAMS.index(stream) * GOLDEN & MASK))
    key = mixed(key ^ (step * GOLDEN & MASK))
    return list(islice(split_mix(mixed(key ^ row)), num_columns))


def slow_permuted(index: int, num: int, key: int) -> int:
    num_rounds = 2 * num.bit_length() + 12
    pivots, coins = (slow_words(key, "rows", 0, row, num_rounds) for row in (0, 1))
    for pivot, coin in zip(pivots, coins, strict=True):
        partner = (pivot - index) % num
        if mixed((max(index, partner) + coin) & MASK) & 1:
            index = partner
    return index


def test_the_slow_generator_is_the_published_one() -> None:
    assert list(islice(split_mix(1234567), 5)) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-(2**70), 2**70),
    st.sampled_from(STREAMS),
    st.integers(0, 2**62),
    st.lists(st.integers(0, 2**62), max_size=4),
    st.integers(0, 9),
)
def test_words_are_those_of_the_slow_loop(seed: int, stream: str, step: int, rows: list[int], columns: int) -> None:
    words_BT = Noise(seed).words(stream, step, rows, columns)
    assert words_BT.dtype == np.uint64
    assert words_BT.tolist() == [slow_words(seed, stream, step, row, columns) for row in rows]
    uniform_BT = Noise(seed).uniform(stream, step, rows, columns)
    assert uniform_BT.tolist() == [[(word >> 11) / 2**53 for word in row] for row in words_BT.tolist()]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2**62), st.data(), words_64)
def test_places_are_those_of_the_slow_loop(num: int, data: st.DataObject, key: int) -> None:
    index = data.draw(st.integers(0, num - 1))
    assert permuted(index, num, key) == slow_permuted(index, num, key)


def test_a_row_has_its_noise_wherever_it_is() -> None:
    whole = Noise(5).uniform("hiding", 7, np.arange(64), 33)
    assert np.array_equal(whole[[63, 2, 2]], Noise(5).uniform("hiding", 7, [63, 2, 2], 33))
    assert np.array_equal(whole[:, :10], Noise(5).uniform("hiding", 7, np.arange(64), 10))
    assert Noise(5).number("ratios", 3) == Noise(5).uniform("ratios", 3, [0], 1)[0, 0]


# Statistics, on fixed seeds: each is a test that a good generator fails once in a thousand.


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("stream", STREAMS)
def test_numbers_are_uniform(seed: int, stream: str) -> None:
    noise = Noise(seed)
    for u in (
        noise.uniform(stream, 11, np.arange(200), 200).ravel(),
        noise.uniform(stream, 11, np.arange(40_000), 1).ravel(),  # down the rows
        np.array([noise.number(stream, step) for step in range(4_000)]),  # along the steps
    ):
        assert u.min() >= 0 and u.max() < 1
        assert kstest(u, "uniform").pvalue > 1e-3
        counts = np.bincount((u * 100).astype(int), minlength=100)
        assert chi2.sf(np.sum((counts - len(u) / 100) ** 2) / (len(u) / 100), 99) > 1e-3
        assert abs(u.mean() - 0.5) < 3.3 * math.sqrt(1 / 12 / len(u))
        assert abs(u.var() - 1 / 12) < 3.3 * math.sqrt(1 / 180 / len(u))


def test_every_bit_is_a_fair_coin() -> None:
    words = Noise(3).words("rows", 0, np.arange(400), 100).ravel()
    ones = np.array([np.count_nonzero(words >> np.uint64(bit) & np.uint64(1)) for bit in range(64)])
    z = (ones - len(words) / 2) / math.sqrt(len(words) / 4)
    assert chi2.sf(np.sum(z**2), 64) > 1e-3


def assert_uncorrelated(columns: np.ndarray) -> None:
    """No pair of columns is correlated, nor are their squares, at 1 in 1000 over all pairs."""
    for values in (columns, (columns - 0.5) ** 2):
        pairs = list(combinations(range(values.shape[1]), 2))
        correlation = np.corrcoef(values, rowvar=False)
        bound = norm.isf(0.0005 / len(pairs)) / math.sqrt(len(values))
        assert max(abs(correlation[i, j]) for i, j in pairs) < bound


def test_streams_steps_rows_columns_and_seeds_are_independent() -> None:
    n = 20_000
    assert_uncorrelated(np.stack([Noise(0).uniform(stream, 0, [0], n)[0] for stream in STREAMS], axis=1))
    assert_uncorrelated(np.stack([Noise(0).uniform("hiding", step, [0], n)[0] for step in range(16)], axis=1))
    assert_uncorrelated(np.stack([Noise(seed).uniform("hiding", 0, [0], n)[0] for seed in range(16)], axis=1))
    assert_uncorrelated(Noise(0).uniform("hiding", 0, np.arange(16), n).T)
    assert_uncorrelated(Noise(0).uniform("hiding", 0, np.arange(n), 16))
    both = np.array([[Noise(0).number("ratios", step), Noise(0).number("order", step)] for step in range(3_000)])
    assert_uncorrelated(np.column_stack([both[:-1], both[1:]]))


# Permutations


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 3000), words_64)
def test_permuted_is_a_bijection(num: int, key: int) -> None:
    assert np.array_equal(np.sort(permuted(np.arange(num), num, key)), np.arange(num))


@pytest.mark.parametrize("num", [2**10 - 1, 2**10, 2**10 + 1, 100_003])
def test_permuted_is_a_bijection_near_powers_of_two(num: int) -> None:
    assert np.array_equal(np.sort(permuted(np.arange(num), num, 12)), np.arange(num))


@given(st.lists(st.integers(0, 999), max_size=20), words_64)
def test_some_places_are_those_of_the_whole(index: list[int], key: int) -> None:
    assert permuted(index, 1000, key).tolist() == permuted(np.arange(1000), 1000, key)[index].tolist()


def test_an_index_outside_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        permuted([3], 3, 0)


@pytest.mark.parametrize("num", [2, 3, 4, 5])
def test_few_elements_take_every_order_equally_often(num: int) -> None:
    keys = 600 * math.factorial(num) // (10 if num == 5 else 1)
    counts = Counter(tuple(permuted(np.arange(num), num, key)) for key in range(min(keys, 6000)))
    expected = counts.total() / math.factorial(num)
    assert len(counts) == math.factorial(num)
    assert chi2.sf(sum((count - expected) ** 2 / expected for count in counts.values()), len(counts) - 1) > 1e-3


@pytest.mark.parametrize("num", [10, 16, 64, 100])
def test_many_elements_are_shuffled_evenly(num: int) -> None:
    """Where each goes, how far neighbours are parted, and how many stay: means 1, variance 1, as of any shuffle."""
    keys = 1500
    place_KN = np.stack([permuted(np.arange(num), num, key) for key in range(keys)])
    counts = np.stack([np.bincount(place_KN[:, i], minlength=num) for i in range(num)])
    assert chi2.sf(np.sum((counts - keys / num) ** 2) / (keys / num), (num - 1) ** 2) > 1e-3
    steps = np.bincount(((place_KN[:, 1:] - place_KN[:, :-1]) % num).ravel(), minlength=num)[1:]
    expected = steps.sum() / (num - 1)
    assert chi2.sf(np.sum((steps - expected) ** 2) / expected, num - 2) > 1e-3
    stay_K = np.sum(place_KN == np.arange(num), axis=1)
    assert abs(stay_K.mean() - 1) < 3.3 / math.sqrt(keys)
    assert abs(stay_K.var() - 1) < 0.25


# What must never change: a resumed run would see other noise. The numbers are also those of the slow loops above.


def test_golden_values() -> None:
    assert Noise(0).words("hiding", 3, [0, 5], 2).tolist() == [
        [10287660537750237899, 5599140614947296746],
        [14014436904609639987, 5876684129756726220],
    ]
    assert Noise(2026).uniform("ratios", 10**6, [0], 3)[0].tolist() == [
        0.6960762914112051,
        0.3025196153767925,
        0.6255955938650015,
    ]
    assert permuted(np.arange(10), 10, 7).tolist() == [2, 4, 3, 1, 7, 8, 0, 6, 9, 5]
    assert permuted([0, 10**9], 10**9 + 7, 7).tolist() == [806586630, 431590277]
