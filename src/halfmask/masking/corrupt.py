"""Clean rows and ratios in, rows with hidden tokens out.

    Batch ──▶ Masking.noisy: ratios_of ──▶ weights_of ──▶ corrupt ──▶ Noisy

Everything is a function of `Noise` and of the rows' numbers in the global batch of the step: a process that holds some
of the rows gets exactly what one process would have given them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import UsageError, nearest
from halfmask.laws import FloatArray, MaskLaw
from halfmask.masking.schedules import Schedule
from halfmask.noise import Noise

Ids = NDArray[np.int64]
Draws = Literal["stratified", "independent"]
Hiding = Literal["coins", "exact"]
WeightName = Literal["1/t", "elbo", "flat"]
PADDING = -1  # the document of positions that hold no text


@dataclass(frozen=True)
class Batch:
    """Some rows of the global batch of one step. Letters: B rows, T positions, N hidden tokens."""

    step: int
    rows_B: Ids  # their numbers in the global batch
    num_rows: int  # of the global batch
    tokens_BT: Ids
    maskable_BT: NDArray[np.bool_]  # a prompt or padding may not be hidden
    documents_BT: NDArray[np.int32] | None = None  # attention stays inside a document; None: it does not

    def select(self, index: NDArray[np.int64]) -> Batch:
        """Some of the rows, in the given order; each keeps its number."""
        documents_BT = None if self.documents_BT is None else self.documents_BT[index]
        return replace(
            self,
            rows_B=self.rows_B[index],
            tokens_BT=self.tokens_BT[index],
            maskable_BT=self.maskable_BT[index],
            documents_BT=documents_BT,
        )

    def trimmed(self) -> Batch:
        """Without the columns at the end that are padding in every row."""
        if self.documents_BT is None or not np.any(self.documents_BT == PADDING):
            return self
        width = int(np.flatnonzero(np.any(self.documents_BT != PADDING, axis=0))[-1]) + 1
        return replace(
            self,
            tokens_BT=self.tokens_BT[:, :width],
            maskable_BT=self.maskable_BT[:, :width],
            documents_BT=None if np.all(self.documents_BT[:, :width] == 0) else self.documents_BT[:, :width],
        )


@dataclass(frozen=True)
class Noisy:
    """A batch with tokens hidden."""

    tokens_BT: Ids  # the mask id where hidden
    hidden_BT: NDArray[np.bool_]
    ratio_B: FloatArray
    weight_B: FloatArray  # of the loss of a row's hidden tokens
    position_N: Ids  # of the hidden tokens, in the flattened B × T
    target_N: Ids  # what they were
    num_maskable: int
    documents_BT: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Masking:
    """How every step hides: the law, what hidden tokens weigh, how ratios are drawn and positions chosen."""

    schedule: Schedule
    weight: WeightName = "1/t"
    draws: Draws = "stratified"
    hiding: Hiding = "coins"

    def __post_init__(self) -> None:
        for what, given, allowed in (
            ("weight", self.weight, get_args(WeightName)),
            ("way to draw ratios", self.draws, get_args(Draws)),
            ("way to hide", self.hiding, get_args(Hiding)),
        ):
            if given not in allowed:
                raise UsageError(f"a {what} must be {' or '.join(allowed)}", got=given, fix=nearest(given, allowed))
        check_weight(self.weight, self.schedule.at(0))

    def noisy(self, batch: Batch, noise: Noise, mask_id: int) -> Noisy:
        law = self.schedule.at(batch.step)
        ratio_B = ratios_of(law, noise, batch, self.draws)
        weight_B = weights_of(self.weight, law, ratio_B)
        return corrupt(batch, ratio_B, noise, mask_id=mask_id, weight_B=weight_B, hiding=self.hiding)


def ratios_of(law: MaskLaw, noise: Noise, batch: Batch, draws: Draws = "stratified") -> FloatArray:
    """The ratios of the batch's rows.

    Stratified: one ratio from each of `num_rows` equal strata of the law, all moved by one number of the step. Rows
    take strata by a stride near the golden section, so that consecutive rows, hence every process and every
    accumulation step, get ratios from all over the law. Independent: a number of its own for every row.
    """
    if draws == "independent":
        return law.from_uniform(noise.uniform("ratios", batch.step, batch.rows_B, 1)[:, 0])
    start = int(noise.number("order", batch.step) * batch.num_rows)
    stratum_B = (start + batch.rows_B * _stride(batch.num_rows)) % batch.num_rows
    return law.from_uniform((stratum_B + noise.number("ratios", batch.step)) / batch.num_rows)


@lru_cache
def _stride(num_rows: int) -> int:
    """The number nearest to 0.618 num_rows that shares no divisor with it, so that rows and strata pair off."""
    wanted = num_rows * (math.sqrt(5) - 1) / 2
    return min((s for s in range(1, num_rows + 1) if math.gcd(s, num_rows) == 1), key=lambda s: abs(s - wanted))


def corrupt(
    batch: Batch, ratio_B: FloatArray, noise: Noise, *, mask_id: int, weight_B: FloatArray, hiding: Hiding = "coins"
) -> Noisy:
    """Hide each maskable token with its row's ratio.

    Coins: independently (the paper's Definition "Stochastic Masking"). Exact: a row hides ratio × its maskable tokens
    of them, at random; a fraction is rounded up as often as it is large, so that every token is still hidden with
    probability ratio.
    """
    uniform_BT = noise.uniform("hiding", batch.step, batch.rows_B, batch.tokens_BT.shape[1] + 1)
    spare_B, uniform_BT = uniform_BT[:, 0], uniform_BT[:, 1:]
    if hiding == "coins":
        hidden_BT = (uniform_BT < ratio_B[:, None]) & batch.maskable_BT
    else:
        num_B = np.floor(ratio_B * batch.maskable_BT.sum(axis=1) + spare_B)
        hidden_BT = hide_exactly(num_B, uniform_BT, batch.maskable_BT)
    return hide(batch, hidden_BT, ratio_B, weight_B, mask_id)


def hide_exactly(num_B: NDArray[Any], uniform_BT: FloatArray, maskable_BT: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of each row, the given number of maskable positions: those with the smallest random numbers."""
    return np.asarray((random_ranks(uniform_BT, maskable_BT) < num_B[:, None]) & maskable_BT)


def random_ranks(uniform_BT: FloatArray, maskable_BT: NDArray[np.bool_]) -> Ids:
    """The place of each position in a random order of its row, maskable ones first."""
    order_BT = np.argsort(np.where(maskable_BT, uniform_BT, 2.0), axis=1)
    rank_BT = np.empty_like(order_BT)
    np.put_along_axis(rank_BT, order_BT, np.arange(order_BT.shape[1])[None, :], axis=1)
    return rank_BT


def hide(batch: Batch, hidden_BT: NDArray[np.bool_], ratio_B: FloatArray, weight_B: FloatArray, mask_id: int) -> Noisy:
    position_N = np.flatnonzero(hidden_BT)
    return Noisy(
        tokens_BT=np.where(hidden_BT, mask_id, batch.tokens_BT),
        hidden_BT=hidden_BT,
        ratio_B=ratio_B,
        weight_B=weight_B,
        position_N=position_N,
        target_N=batch.tokens_BT.reshape(-1)[position_N],
        num_maskable=int(batch.maskable_BT.sum()),
        documents_BT=batch.documents_BT,
    )


def weights_of(name: WeightName, law: MaskLaw, ratio_B: FloatArray) -> FloatArray:
    """What the loss of a row's hidden tokens is multiplied with.

    1/t     the paper's training loss
    elbo    1/t over the law's density: the expectation is ∫ 1/t E[loss | t] dt over the law's support, whatever the
            law; over [0, 1] that is the negative log-likelihood bound
    flat    1 over the mean ratio: hidden tokens count alike, and the scale is that of one token

    A ratio of 0 hides nothing, so its weight is 0.
    """
    if name == "flat":
        return np.full_like(ratio_B, 1 / law.mean if law.mean > 0 else 0.0)
    below = ratio_B if name == "1/t" else ratio_B * law.density(ratio_B)
    fine = (below > 0) & np.isfinite(below)
    return np.where(fine, 1 / np.where(fine, below, 1.0), 0.0)


def check_weight(name: WeightName, law: MaskLaw) -> None:
    if name == "elbo" and law.atoms:
        raise UsageError(
            "the weight elbo needs a law with a density everywhere", got=str(law), fix="choose 1/t, or a window"
        )
