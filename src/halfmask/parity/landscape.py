"""The energy of a network in training, where its training set under every mask can be enumerated."""

from __future__ import annotations

import numpy as np

from halfmask.laws import MaskLaw
from halfmask.parity.models import TwoLayer
from halfmask.parity.task import ParityTask, values
from halfmask.theory.energy import Cases, cases_of, landscape, signal_only
from halfmask.theory.signal import signal_share

MAX_N, MAX_WIDTH = 6, 512  # an evaluation must stay short: 2^6 sequences × 2^7 masks


def energy_of(network: TwoLayer, task: ParityTask, law: MaskLaw, *, signal: bool = False) -> dict[str, float]:
    """E(W) as a share of its ceiling, and the size of its gradient; nothing where n or the width is too large."""
    if task.n > MAX_N or len(network.v_D) > MAX_WIDTH or signal_share(law, task.k) <= 0:
        return {}
    found = landscape(network.W_DE.detach().double().numpy(), training_cases(task, law, signal=signal))
    return {
        "energy share": found.energy / found.constant,
        "energy gradient": float(np.linalg.norm(found.gradient_DE)),
    }


def training_cases(task: ParityTask, law: MaskLaw, *, signal: bool = False) -> Cases:
    """The training set under every mask, or under the signal masks alone."""
    cases = cases_of(values(task.train_NT).astype(np.int8), task.secret, law)
    return signal_only(cases) if signal else cases
