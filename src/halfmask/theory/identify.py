"""How many samples identify the secret set (Theorem "Information-Theoretic Identifiability"), and how.

The procedure of the proof measures, for every position, the mean Bayes loss over the rows that hide it: log 2 for a
position outside S', and log 2 only where another secret position is hidden too for one inside. It calls a position
secret when its mean falls below log 2 by half the gap Δ = ρ log 2, or more.

The proof takes ρ = E[(1-t)^k]. Rows that hide a position are drawn with t-biased ratios, though, so the gap they show
is ρ' = E[t (1-t)^k] / E[t], which is smaller for every law that spreads (Chebyshev's sum inequality) and equal for a
point. `samples_needed` is the paper's bound; `samples_needed(..., biased=True)` is the same bound with ρ'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halfmask.errors import UsageError
from halfmask.laws import FloatArray, MaskLaw
from halfmask.theory.signal import check_k, check_parity


def visible_share(law: MaskLaw, k: int, *, biased: bool = False) -> float:
    """ρ = E[(1-t)^k], or as rows that hide a given position see it, ρ' = E[t (1-t)^k] / E[t]."""
    check_k(k)
    if not biased:
        return law.moment(0, k)
    mean = law.moment(1)
    return law.moment(1, k) / mean if mean > 0 else 0.0


def samples_needed(n: int, k: int, law: MaskLaw, *, delta: float = 0.05, biased: bool = False) -> float:
    """N >= 4 log(4n/δ) / (E[t] ρ²) (eq. "lower bound of N"); infinite where the law shows nothing."""
    check_parity(n, k)
    if not 0 < delta < 1:
        raise UsageError("the failure probability delta must lie in (0, 1)", got=delta, fix="give for example 0.05")
    gain = law.moment(1) * visible_share(law, k, biased=biased) ** 2
    return 4 * math.log(4 * n / delta) / gain if gain > 0 else math.inf


@dataclass(frozen=True)
class SuccessRate:
    """How often the procedure found exactly S', out of `trials` data sets of `num_samples` rows."""

    num_samples: int
    trials: int
    successes: int

    @property
    def share(self) -> float:
        return self.successes / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        z, p, num = 1.959963984540054, self.share, self.trials
        centre = (p + z * z / (2 * num)) / (1 + z * z / num)
        half = z / (1 + z * z / num) * math.sqrt(p * (1 - p) / num + z * z / (4 * num * num))
        return max(0.0, centre - half), min(1.0, centre + half)


def simulate(
    n: int,
    k: int,
    law: MaskLaw,
    num_samples: list[int],
    *,
    trials: int = 200,
    seed: int = 0,
    biased: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[SuccessRate]:
    """Run the procedure on `trials` fresh data sets for every size; S' is the last k + 1 of the n + 1 positions."""
    check_parity(n, k)
    if trials < 1 or not num_samples or min(num_samples) < 1:
        raise UsageError(
            "a simulation needs at least one trial and sizes of at least one row",
            got=f"trials {trials}, sizes {num_samples}",
            fix="give for example --trials 200 --samples 100 1000",
        )
    threshold = (1 - visible_share(law, k, biased=biased) / 2) * math.log(2)
    secret = np.arange(n + 1) >= n - k
    rates = []
    for at, size in enumerate(num_samples):
        # Every size has a stream of its own, so that adding a size changes no other.
        random = np.random.default_rng([seed, n, k, size])
        successes = 0
        for _ in range(trials):
            risk = masked_risk(_draw_masks(law, size, n + 1, random), secret)
            successes += bool(np.array_equal(risk <= threshold, secret))
        rates.append(SuccessRate(size, trials, successes))
        if progress is not None:
            progress(at + 1, len(num_samples))
    return rates


def masked_risk(hidden: np.ndarray, secret: np.ndarray) -> FloatArray:
    """Mean Bayes cross-entropy of every position over the rows that hide it (R̂_i in the proof); NaN if none does."""
    num_secret = hidden[:, secret].sum(axis=1)
    times_hidden = hidden.sum(axis=0)
    # A hidden secret position costs nothing where it is the only one hidden, and log 2 otherwise.
    times_known = np.where(secret, hidden[num_secret == 1].sum(axis=0), 0)
    with np.errstate(invalid="ignore"):
        return np.asarray((times_hidden - times_known) / times_hidden * math.log(2), dtype=np.float64)


def _draw_masks(law: MaskLaw, rows: int, positions: int, random: np.random.Generator) -> np.ndarray:
    ratio_B = law.from_uniform(random.random(rows))
    return random.random((rows, positions)) < ratio_B[:, None]
