"""What fast decoding costs: how much of the text differs from exact decoding, and what the model thinks of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from halfmask.decoding.canvas import Bools
from halfmask.decoding.row import Completion
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch, hide, hide_exactly
from halfmask.models.denoiser import Denoiser
from halfmask.noise import Noise
from halfmask.objective import masked_loss, on_device

SEED = 20_26


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
    denoiser: Denoiser, completions: Sequence[Completion], device: torch.device, num_draws: int = 8
) -> FloatArray:
    """Of each completion, nats per token of what was written, given the rest: stratified counts, fixed noise."""
    return np.array([_bound(denoiser, each, device, num_draws) for each in completions])


@torch.no_grad()
def _bound(denoiser: Denoiser, done: Completion, device: torch.device, num_draws: int) -> float:
    end, draws_K, noise = _end(done), np.arange(num_draws), Noise(SEED)
    tokens_KT = np.tile(done.tokens_T[:end], (num_draws, 1))
    written_KT = np.tile(done.canvas.hidden_T[:end], (num_draws, 1))
    num_written = int(written_KT[0].sum())
    share_K = (draws_K + noise.uniform("ratios", 0, draws_K, 1)[:, 0]) / num_draws
    num_K = np.floor(share_K * num_written) + 1
    hidden_KT = hide_exactly(num_K, noise.uniform("hiding", 0, draws_K, end), written_KT)
    rows = Batch(0, draws_K, num_draws, tokens_KT, written_KT)
    noisy = hide(rows, hidden_KT, num_K / num_written, np.ones(num_draws), denoiser.mask_id)
    nll_N = masked_loss(denoiser, on_device(noisy, device), 1.0, head="plain").nll_N.double().cpu().numpy()
    draw_N = noisy.position_N // end
    return float((np.bincount(draw_N, weights=nll_N, minlength=num_draws) / num_K).mean())


def _same(first: Completion, second: Completion) -> Bools:
    end = max(_end(first), _end(second))
    same_T: Bools = first.tokens_T[:end] == second.tokens_T[:end]
    return same_T[first.canvas.hidden_T[:end]]


def _end(done: Completion) -> int:
    """The end of the text is written, too."""
    return done.length + (done.finish == "end")
