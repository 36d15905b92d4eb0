"""What a step hides: rows of the training set in, rows with hidden tokens out.

    plain             the parity bit alone: plain supervision, and the mask of every evaluation
    0-0.2, beta(2,2)  any law, or a curriculum of laws (`masking/schedules.py`): masked diffusion
    signal of 0-0.2   the same given that the mask is signal: what remains when P_N → 0

Everything is a function of (seed, step, row). Each word of 64 random bits hides two tokens, which halves the time that
noise takes; a chance is then rounded to 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import UsageError
from halfmask.laws import FloatArray, Histogram, MaskLaw, Point
from halfmask.masking.corrupt import Batch, ratios_of
from halfmask.masking.schedules import Schedule, parse_schedule
from halfmask.noise import Noise
from halfmask.parity.task import HIDDEN, Ids, ParityTask, values
from halfmask.theory.signal import signal_share

PLAIN, SIGNAL_OF = "plain", "signal of "
BINS = 4096  # of a law given that the mask is signal


@dataclass(frozen=True)
class HiddenRows:
    """Letters: B rows, T positions, N hidden tokens."""

    tokens_BT: Ids
    position_N: Ids  # of the hidden tokens, in the flattened B × T
    value_N: NDArray[np.int64]  # what they were: 1 or -1
    weight_B: FloatArray  # 1/2t (eq. "original loss"); 0 where nothing is hidden
    num_secret_B: NDArray[np.int64]  # hidden positions of S': signal is 1
    known_N: NDArray[np.bool_]  # the one hidden token of a signal row that follows from what is visible

    @property
    def row_N(self) -> Ids:
        return np.asarray(self.position_N // self.tokens_BT.shape[1])


@dataclass(frozen=True)
class Masks:
    """How every step hides."""

    schedule: Schedule | None  # None: plain supervision
    signal_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Masks:
        if text.strip() == PLAIN:
            return cls(None)
        signal_only = text.startswith(SIGNAL_OF)
        return cls(parse_schedule(text.removeprefix(SIGNAL_OF)), signal_only)

    def law(self, step: int) -> MaskLaw | None:
        return None if self.schedule is None else self.schedule.at(step)

    def signal_share(self, step: int, k: int) -> float:
        """P_S: how often a row is signal, by the theory."""
        law = self.law(step)
        return 1.0 if law is None or self.signal_only else signal_share(law, k)

    def hide(self, clean_BT: Ids, task: ParityTask, noise: Noise, step: int) -> HiddenRows:
        law = self.law(step)
        if law is None:
            return hide_parity(clean_BT, task)
        if self.signal_only:
            law = given_signal(law, task.k)
        rows_B = np.arange(len(clean_BT))
        batch = Batch(step, rows_B, len(clean_BT), clean_BT, np.ones(clean_BT.shape, dtype=bool))
        ratio_B = ratios_of(law, noise, batch)
        hidden_BT = coins(noise, step, ratio_B, task.length)
        if self.signal_only:
            one_B = noise.words("sampling", step, rows_B, 1)[:, 0] % np.uint64(task.k + 1)
            hidden_BT[:, task.secret] = one_B[:, None] == np.arange(task.k + 1)
        return hidden_rows(clean_BT, hidden_BT, ratio_B, task)


def coins(noise: Noise, step: int, ratio_B: FloatArray, length: int) -> NDArray[np.bool_]:
    """True with the chance of its row (Definition "Stochastic Masking")."""
    words_BW = noise.words("hiding", step, np.arange(len(ratio_B)), -(-length // 2))
    threshold_B = np.ceil(ratio_B * 2.0**32)  # a 32-bit number lies below it with that chance
    hidden_BT = words_BW.view(np.uint32)[:, :length] <= np.maximum(threshold_B - 1, 0).astype(np.uint32)[:, None]
    hidden_BT[ratio_B == 0] = False
    return np.asarray(hidden_BT)


def hidden_rows(clean_BT: Ids, hidden_BT: NDArray[np.bool_], ratio_B: FloatArray, task: ParityTask) -> HiddenRows:
    position_N = np.flatnonzero(hidden_BT)
    secret_BS = hidden_BT[:, task.secret]
    num_secret_B = secret_BS.sum(axis=1)
    is_secret_T = np.isin(np.arange(task.length), task.secret)
    row_N, column_N = np.divmod(position_N, task.length)
    return HiddenRows(
        tokens_BT=np.where(hidden_BT, HIDDEN, clean_BT),
        position_N=position_N,
        value_N=values(clean_BT.reshape(-1)[position_N]),
        weight_B=np.where(ratio_B > 0, 0.5 / np.where(ratio_B > 0, ratio_B, 1.0), 0.0),
        num_secret_B=num_secret_B,
        known_N=is_secret_T[column_N] & (num_secret_B[row_N] == 1),
    )


def hide_parity(clean_BT: Ids, task: ParityTask) -> HiddenRows:
    """The evaluation mask (Section "Evaluation"), which is plain supervision's too; its loss weighs 1/2, as t = 1."""
    hidden_BT = np.zeros(clean_BT.shape, dtype=bool)
    hidden_BT[:, -1] = True
    return hidden_rows(clean_BT, hidden_BT, np.ones(len(clean_BT)), task)


def given_signal(law: MaskLaw, k: int) -> MaskLaw:
    """The law of the ratio given that the mask is signal: its density times t (1-t)^k, on a fine grid."""
    if isinstance(law, Point) and 0 < law.ratio < 1:
        return law
    middle = (np.arange(BINS) + 0.5) / BINS
    heights = law.density(middle) * middle * (1 - middle) ** k
    if law.atoms or not heights.sum() > 0:
        raise UsageError(
            "signal masks need a point inside (0, 1) or a law with a density", got=str(law), fix="give a window"
        )
    return Histogram(tuple(heights.tolist()))
