"""The (n, k)-parity task: n random bits and the product of k secret ones (Definition "(n, k) Parity Task").

Sequences are rows of n + 1 token ids. A token is its value modulo 3, as in the paper's cyclic embedding index
e_{n'b + j}: 1 for the bit 1, 2 for the bit -1, 0 for a hidden one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import UsageError
from halfmask.noise import Noise, permuted
from halfmask.theory.signal import check_parity

HIDDEN = 0  # the id of a hidden token
MAX_N = 60  # inputs are numbered by 64-bit integers

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class ParityTask:
    """N training sequences and others held out, all different; which ones, and the secret, are functions of the seed.

    Training inputs are drawn without replacement, where the paper draws them independently: of 5,000 among 2^20 about
    12 would be doubles.
    """

    n: int
    k: int
    num_train: int
    num_held_out: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_parity(self.n, self.k)
        if self.n > MAX_N:
            raise UsageError(f"a task has at most {MAX_N} input bits", got=f"n = {self.n}", fix="choose a smaller n")
        if self.num_train < 1 or self.num_held_out < 1:
            raise UsageError(
                "training and held-out set must have 1 sequence or more",
                got=f"{self.num_train} and {self.num_held_out}",
                fix="leave both at their defaults",
            )
        if self.num_train + self.num_held_out > 2**self.n:
            raise UsageError(
                f"training and held-out set share the 2^{self.n} = {2**self.n:,} inputs",
                got=f"{self.num_train:,} + {self.num_held_out:,}",
                fix="take fewer of either, or a larger n",
            )

    @property
    def length(self) -> int:  # n'
        return self.n + 1

    @cached_property
    def secret(self) -> tuple[int, ...]:
        """S': the secret input positions in order, and the parity bit's."""
        order = permuted(np.arange(self.n), self.n, _key(self.seed, 0))
        return (*sorted(int(position) for position in order[: self.k]), self.n)

    @cached_property
    def train_NT(self) -> Ids:
        return self._sequences(np.arange(self.num_train))

    @cached_property
    def held_out_NT(self) -> Ids:
        return self._sequences(self.num_train + np.arange(self.num_held_out))

    def _sequences(self, index: Ids) -> Ids:
        """A permutation of all 2^n inputs, chosen by the seed, sends places to inputs: sets of places are disjoint."""
        inputs = permuted(index, 2**self.n, _key(self.seed, 1))
        bits_Nn = (inputs[:, None] >> np.arange(self.n)) & 1
        parity_N1 = bits_Nn[:, self.secret[:-1]].sum(axis=1, keepdims=True) % 2
        return 1 + np.concatenate([bits_Nn, parity_N1], axis=1)


def values(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids to the paper's values: 1 → 1, 2 → -1, hidden → 0."""
    return np.where(tokens == 2, -1, tokens)


def _key(seed: int, purpose: int) -> int:
    return int(Noise(seed).words("rows", purpose, [0], 1)[0, 0])
