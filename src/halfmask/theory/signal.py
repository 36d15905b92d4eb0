"""Signal and noise: what a mask leaves identifiable, and how often a law of the ratio makes it so.

A mask is *signal* when it hides exactly one position of the extended secret set S' (Definition "Signal and Noise
Regimes"): the hidden bit is the product of the visible ones. With two or more hidden the bit is under-determined, with
none the mask is non-informative; both are noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import scipy  # scipy.special is imported when it is first used, as in laws.py
from numpy.typing import ArrayLike, NDArray

from halfmask.errors import UsageError
from halfmask.laws import FloatArray, MaskLaw

# P_S at the best point as k → ∞ (Appendix, proof of Corollary "Signal-Optimal Masking Rate")
SIGNAL_LIMIT = 1 / math.e


class Regime(IntEnum):
    NON_INFORMATIVE = 0  # no secret position hidden
    SIGNAL = 1  # exactly one: identifiable
    UNDER_DETERMINED = 2  # two or more


def classify(hidden: ArrayLike, secret: ArrayLike) -> NDArray[np.int8]:
    """The regime of every mask in a batch.

    `hidden` is boolean, any shape ending in n'; `secret` holds the positions of S', the parity bit's among them.
    """
    hidden_BT = np.asarray(hidden, dtype=bool)
    num_positions = hidden_BT.shape[-1] if hidden_BT.ndim else 0
    positions = np.unique(secret)
    whole = positions.dtype.kind in "iu"  # a boolean array would pass for positions 0 and 1
    if not whole or positions.size == 0 or positions[0] < 0 or positions[-1] >= num_positions:
        raise UsageError(
            f"secret positions must be one or more of 0 … {num_positions - 1}",
            got=positions.tolist(),
            fix="count positions from 0, the parity bit last",
        )
    num_hidden = hidden_BT[..., positions].sum(axis=-1)
    return np.asarray(np.minimum(num_hidden, Regime.UNDER_DETERMINED), dtype=np.int8)


@dataclass(frozen=True)
class RegimeShares:
    """How often a law visits each regime."""

    signal: float  # P_S
    under_determined: float
    non_informative: float

    @property
    def noise(self) -> float:  # P_N = 1 - P_S
        return self.under_determined + self.non_informative


def signal_share(law: MaskLaw, k: int) -> float:
    """P_S = (k+1) E[t (1-t)^k] (Theorem "Effective Loss Decomposition")."""
    check_k(k)
    return min(1.0, (k + 1) * law.moment(1, k))


def noise_share(law: MaskLaw, k: int) -> float:
    """P_N = 1 - P_S."""
    return 1.0 - signal_share(law, k)


def regime_shares(law: MaskLaw, k: int) -> RegimeShares:
    """The shares of all three regimes: P(none of the k+1 hidden) = E[(1-t)^(k+1)], P_S, and the rest."""
    signal, none = signal_share(law, k), law.moment(0, k + 1)
    return RegimeShares(signal, max(0.0, 1.0 - signal - none), none)


def window_signal_share(t0: ArrayLike, t1: ArrayLike, k: ArrayLike) -> FloatArray:
    """P_S of U[t0, t1] for arrays of windows and of k, in closed form; t0 = t1 is the point.

    With x = 1 - t0, y = 1 - t1 and V = E[(1-t)^k], integration by parts gives
    E[t (1-t)^k] = ((1 + (k+1) t0) V - y^(k+1)) / (k+2): P_S to about 1e-15, not relative to it, at every width and k.
    """
    visible = window_visible_share(t0, t1, k)
    t0, t1, k = (np.asarray(each, dtype=np.float64) for each in (t0, t1, k))
    all_visible_at_t1 = np.exp(scipy.special.xlog1py(k + 1, -t1))
    share = (k + 1) / (k + 2) * ((1 + (k + 1) * t0) * visible - all_visible_at_t1)
    return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)


def window_visible_share(t0: ArrayLike, t1: ArrayLike, k: ArrayLike) -> FloatArray:
    """ρ = E[(1-t)^k] of U[t0, t1] for arrays: (x^(k+1) - y^(k+1)) / ((k+1)(x-y)) with x = 1 - t0 and y = 1 - t1.

    As x^k (1 - (y/x)^(k+1)) / ((k+1) (1 - y/x)), by expm1 and log1p, no narrow window cancels.
    """
    t0, t1, k = (np.asarray(each, dtype=np.float64) for each in (t0, t1, k))
    if not np.all((t0 >= 0) & (t0 <= t1) & (t1 <= 1)):
        raise UsageError(
            "windows must satisfy 0 <= t0 <= t1 <= 1", got=_first_bad(t0, t1), fix="swap or clip the ends"
        )
    check_k(k)
    width = np.where(t1 > t0, (t1 - t0) / np.where(t0 < 1, 1 - t0, 1.0), 0.0)  # 1 - y/x
    lost = -np.expm1(scipy.special.xlog1py(k + 1, -width))  # 1 - (y/x)^(k+1)
    ratio = np.where(width > 0, lost / np.where(width > 0, (k + 1) * width, 1.0), 1.0)
    return np.asarray(np.exp(scipy.special.xlog1py(k, -t0)) * ratio, dtype=np.float64)


def _first_bad(t0: FloatArray, t1: FloatArray) -> str:
    lo, hi = np.broadcast_arrays(t0, t1)
    bad = np.flatnonzero(~((lo >= 0) & (lo <= hi) & (hi <= 1)))[0]
    return f"{lo.flat[bad]:g}-{hi.flat[bad]:g}"


def check_k(k: ArrayLike) -> None:
    k = np.asarray(k, dtype=np.float64)
    fine = (k >= 0) & (k < np.inf) & (k == np.floor(k))
    if not np.all(fine):
        raise UsageError(
            "k, the number of secret input bits, must be whole and must be 0 or more",
            got=f"{k[~fine].flat[0]:g}",
            fix="give for example --k 6",
        )


def check_ratio(name: str, ratio: ArrayLike) -> None:
    ratio = np.asarray(ratio, dtype=np.float64)
    fine = (ratio >= 0) & (ratio <= 1)
    if not np.all(fine):
        raise UsageError(f"{name} must lie in [0, 1]", got=f"{ratio[~fine].flat[0]:g}", fix="give a ratio such as 0.2")


def check_parity(n: int, k: int) -> None:
    """An (n, k) task needs k of n input bits to be secret, and at least one that is not: 1 <= k < n."""
    if not 1 <= k < n:
        raise UsageError(
            "an (n, k)-parity needs 1 <= k < n",
            got=f"n = {n}, k = {k}",
            fix="give for example --n 20 --k 6",
        )
