"""What fast decoding costs: how much of the text differs from exact decoding, and what the model thinks of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import nn

from halfmask.decoding.canvas import Bools
from halfmask.decoding.row import Completion
from halfmask.evaluation.bound import bound_losses, model_losses
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch
from halfmask.models.denoiser import Denoiser
from halfmask.objective import MaskedLoss


@dataclass(frozen=True)
class Difference:
    """Between two completions of the same canvases."""

    same: float  # share of written tokens
    bound: float  # nats per written token of the first, given the rest
    other_bound: float  # of the second


def difference(
    denoiser: Denoiser, first: Sequence[Completion], second: Sequence[Completion], device: torch.device
) -> Difference:
    same = np.concatenate([_same(*each) for each in zip(first, second, strict=True)])
    bounds = (float(written_bound(denoiser, each, device).mean()) for each in (first, second))
    return Difference(float(same.mean()), *bounds)


def written_bound(
    denoiser: Denoiser, completions: Sequence[Completion], device: torch.device, num_strata: int = 8
) -> FloatArray:
    """The bound of each completion: nats per token of what was written, given the rest, with fixed noise."""
    loss = MaskedLoss(cast("nn.Module", denoiser))
    losses = model_losses(loss, device, lambda: torch.autocast(device.type, enabled=False))
    found = []
    for number, done in enumerate(completions):
        end = _end(done)
        tokens_1T, written_1T = done.tokens_T[None, :end], done.canvas.hidden_T[None, :end]
        rows = Batch(0, np.array([number]), len(completions), tokens_1T, written_1T)
        found.append(bound_losses(losses, rows, mask_id=denoiser.mask_id, num_strata=num_strata).mean())
    return np.array(found)


def _same(first: Completion, second: Completion) -> Bools:
    end = max(_end(first), _end(second))
    same_T: Bools = first.tokens_T[:end] == second.tokens_T[:end]
    return same_T[first.canvas.hidden_T[:end]]


def _end(done: Completion) -> int:
    """The end of the text is written, too."""
    return done.length + (done.finish == "end")
