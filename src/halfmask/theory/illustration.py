"""The paper's illustration of identifiability: one mask of each regime, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfmask.records import Record
from halfmask.theory.signal import Regime, check_parity, classify

VERDICTS = {
    Regime.SIGNAL: "identifiable: one secret bit hidden, the visible ones fix it",
    Regime.UNDER_DETERMINED: "under-determined: two or more secret bits hidden",
    Regime.NON_INFORMATIVE: "non-informative: no secret bit hidden",
}


@dataclass(frozen=True)
class Picture:
    n: int
    k: int
    seed: int
    secret: tuple[int, ...]  # S', the parity bit's position last
    bits: list[list[int]]  # 0 and 1
    hidden: list[list[bool]]
    verdicts: list[str]

    def record(self) -> Record:
        rows = [
            {"regime": verdict.split(":")[0], "bits": bits, "hidden": hidden}
            for verdict, bits, hidden in zip(self.verdicts, self.bits, self.hidden, strict=True)
        ]
        settings = {"n": self.n, "k": self.k, "seed": self.seed, "secret": self.secret}
        return Record("parity show", "Identifiability of masks", settings, rows)


def illustrate(n: int, k: int, seed: int) -> Picture:
    """One sequence and mask of each regime for a random secret set."""
    check_parity(n, k)
    random = np.random.default_rng(seed)
    inputs = np.sort(random.choice(n, size=k, replace=False))
    secret = (*map(int, inputs), n)
    bits, hidden, verdicts = [], [], []
    for regime, verdict in VERDICTS.items():
        x = random.integers(0, 2, n)
        bits.append([*map(int, x), int(x[inputs].sum() % 2)])
        mask = _mask_of(regime, n, secret, random)
        assert classify(mask, secret) == regime
        hidden.append(mask.tolist())
        verdicts.append(verdict)
    return Picture(n, k, seed, secret, bits, hidden, verdicts)


def _mask_of(regime: Regime, n: int, secret: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """A mask of the regime: some secret positions, and other positions by coins (at least one where it must)."""
    num_secret = int(random.integers(2, len(secret) + 1)) if regime == Regime.UNDER_DETERMINED else int(regime)
    others = np.setdiff1d(np.arange(n + 1), secret)
    mask = np.zeros(n + 1, dtype=bool)
    mask[random.choice(secret, size=num_secret, replace=False)] = True
    mask[others] = random.random(len(others)) < 0.3
    if not mask.any():
        mask[random.choice(others)] = True
    return mask
