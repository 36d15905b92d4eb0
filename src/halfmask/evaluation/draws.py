"""Which tokens of a row each draw hides, and what the draw weighs: functions of the seed and of the row's number.

A draw hides l of a row's T maskable tokens. The bound asks for the mean over l = 1 … T and over all sets of l tokens
(`bound.py`), and a mean over few tokens is a noisy one: its variance falls as 1/l. So small counts are drawn more
often, in proportion to 1/√l, which is the best allocation there:

    l = ⌊u² T⌋ + 1 with u uniform on [0, 1)        P(l) = √(l/T) − √((l−1)/T)        weight 1 / (T P(l))

The draws of a row come in two groups of their own noise, whose difference says how large the noise is. Within a group
u is stratified, and the sets lie side by side on a random order of the row's tokens, smallest first: each is a random
set of its size, and sets that count much share no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import UsageError
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch, Noisy, hide, random_ranks
from halfmask.noise import Noise

EVALUATION_SEED = 20_26
FEWEST_IN_GROUPS = 4  # draws; fewer are one group

Ids = NDArray[np.int64]
Losses = Callable[[Noisy], FloatArray]  # nats of each hidden token


@dataclass(frozen=True)
class Draws:
    """Letters: R rows, K draws of each, G groups of draws, T positions. Two models meet the same draws."""

    rows: Batch  # a row's number chooses its noise
    num_draws: int
    seed: int = EVALUATION_SEED

    def __post_init__(self) -> None:
        if self.num_draws < 1:
            raise UsageError("a row needs 1 draw or more", got=self.num_draws, fix="give for example --draws 8")

    @property
    def num_groups(self) -> int:
        return 2 if self.num_draws % 2 == 0 and self.num_draws >= FEWEST_IN_GROUPS else 1

    @cached_property
    def length_R(self) -> Ids:
        return np.asarray(self.rows.maskable_BT.sum(axis=1))

    @cached_property
    def count_RK(self) -> Ids:
        """How many tokens each draw hides."""
        size, rows = self.num_draws // self.num_groups, self.rows.rows_B
        parts = [Noise(self.seed).uniform("ratios", group, rows, size) for group in range(self.num_groups)]
        u_RK = np.concatenate([(np.arange(size) + part) / size for part in parts], axis=1)
        return np.floor(u_RK**2 * self.length_R[:, None]).astype(np.int64) + 1

    @cached_property
    def weight_RK(self) -> FloatArray:
        length_R1 = self.length_R[:, None]
        probability_RK = np.sqrt(self.count_RK / length_R1) - np.sqrt((self.count_RK - 1) / length_R1)
        return np.asarray(1 / (length_R1 * probability_RK))

    @cached_property
    def surprisal_RT(self) -> FloatArray:
        """-log of a token's share of all tokens here: known for every token, hidden or not, before any model is."""
        tokens = self.rows.tokens_BT[self.rows.maskable_BT]
        _, kind, count = np.unique(tokens, return_inverse=True, return_counts=True)
        found_RT = np.zeros(self.rows.tokens_BT.shape)
        found_RT[self.rows.maskable_BT] = np.log(len(tokens)) - np.log(count)[kind]
        return found_RT

    @property
    def surprisal_R(self) -> FloatArray:
        return np.asarray(self.surprisal_RT.sum(axis=1) / self.length_R)

    def sets(self, index: Ids) -> Iterator[NDArray[np.bool_]]:
        """The tokens that the first, second, … draw of these rows hides."""
        rows, length_R1 = self.rows.select(index).trimmed(), self.length_R[index, None]
        for group in range(self.num_groups):
            uniform_RT = Noise(self.seed).uniform("hiding", group, rows.rows_B, rows.tokens_BT.shape[1])
            rank_RT = random_ranks(uniform_RT, rows.maskable_BT)
            start_R1 = np.zeros_like(length_R1)
            for count_R in np.array_split(self.count_RK[index], self.num_groups, axis=1)[group].T:
                yield ((rank_RT - start_R1) % length_R1 < count_R[:, None]) & rows.maskable_BT
                start_R1 = start_R1 + count_R[:, None]

    def found(self, losses: Losses, index: Ids, mask_id: int) -> FloatArray:
        """(R, K, 2) for some rows: the mean loss of the hidden tokens, and the mean surprisal of the same tokens."""
        rows, num_rows = self.rows.select(index).trimmed(), len(index)
        surprisal_RT = self.surprisal_RT[index, : rows.tokens_BT.shape[1]]
        found = np.empty((num_rows, self.num_draws, 2))
        for draw, hidden_RT in enumerate(self.sets(index)):
            num_R = self.count_RK[index, draw]
            nll_N = losses(hide(rows, hidden_RT, num_R / self.length_R[index], np.ones(num_rows), mask_id))
            row_N = np.nonzero(hidden_RT)[0]
            found[:, draw, 0] = np.bincount(row_N, weights=nll_N, minlength=num_rows) / num_R
            found[:, draw, 1] = (surprisal_RT * hidden_RT).sum(axis=1) / num_R
        return found
