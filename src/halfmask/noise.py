"""Random numbers that are functions of where they are used: (seed, stream, step, row, column) → [0, 1).

Nothing is drawn in an order, so no state has to be saved. A resumed run sees the noise it would have seen, a process
that holds some rows of a batch sees the noise of these rows, and neither the number of processes nor that of
accumulation steps changes anything.

The numbers are those of SplitMix64 (Steele, Lea and Flood, 2014): a counter that moves by the golden ratio, through a
mixer whose output bits each depend on all input bits. A row's key is mixed from its four coordinates; its columns are
the stream that starts at the key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
STREAMS = ("ratios", "order", "hiding", "rows", "sampling")  # a number drawn for one purpose is never used for another


@dataclass(frozen=True)
class Noise:
    seed: int

    def uniform(self, stream: str, step: int, rows: ArrayLike, num_columns: int) -> FloatArray:
        """Numbers in [0, 1) with 53 bits, a row for each of `rows` (their numbers in the global batch of the step)."""
        words = self.words(stream, step, rows, num_columns) >> np.uint64(11)
        return words.astype(np.float64) * 2.0**-53

    def words(self, stream: str, step: int, rows: ArrayLike, num_columns: int) -> Words:
        """64-bit words, as above."""
        column_T = np.arange(1, num_columns + 1, dtype=np.uint64) * _GOLDEN
        return _mix(self.keys(stream, step, rows)[:, None] + column_T)

    def keys(self, stream: str, step: int, rows: ArrayLike) -> Words:
        """Where the stream of each row starts."""
        key = _mix(np.array([self.seed % 2**64], dtype=np.uint64) + _GOLDEN)
        key = _mix(key ^ _word(STREAMS.index(stream)))
        key = _mix(key ^ _word(step))
        return _mix(key ^ np.asarray(rows, dtype=np.uint64))

    def number(self, stream: str, step: int) -> float:
        """One number for the whole step."""
        return float(self.uniform(stream, step, [0], 1)[0, 0])


def _word(value: int) -> Words:
    # Times the golden ratio: small coordinates must differ in high bits before they meet the key.
    return np.array([value % 2**64], dtype=np.uint64) * _GOLDEN


def _mix(word: Words) -> Words:
    """SplitMix64's finaliser, a bijection of 64-bit words."""
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return np.asarray(word ^ (word >> np.uint64(31)))


def permuted(index: ArrayLike, num: int, key: int) -> NDArray[np.int64]:
    """Where a permutation of 0 … num - 1, chosen by the key, sends each index; no table is kept.

    Swap-or-not (Hoang, Morris and Rogaway, 2012): a round pairs every index i with pivot - i, and a coin of the pair
    says whether the two change places. It works on any `num`, and few elements are shuffled as evenly as many.
    """
    result = np.array(index, dtype=np.uint64, ndmin=1)  # scalars would complain where words wrap around
    assert (result < num).all(), "an index lies outside the permutation"
    num_rounds = 2 * num.bit_length() + 12
    pivots, coins = Noise(key).words("rows", 0, [0, 1], num_rounds)
    for pivot, coin in zip(pivots % np.uint64(num), coins, strict=True):
        partner = np.where(result <= pivot, pivot - result, pivot + np.uint64(num) - result)
        swap = _mix(np.maximum(result, partner) + coin) & np.uint64(1) == 1
        result = np.where(swap, partner, result)
    return result.astype(np.int64).reshape(np.shape(index))
