"""Which ratios still teach a model: the gradient's signal and noise in each bin of the ratio.

Rows hide a ratio of the bin. Of the gradients g of small batches of them,

    signal = |E g|²      noise = E |g − E g|², times the rows of a small batch: that of one row

Their ratio is the gradient's signal-to-noise of one row; its inverse, the noise scale of McCandlish et al. (2018,
arXiv:1812.06162), is the number of rows at which both are as large. With n gradients of sum S and squares Q = Σ |g|²,
(|S|² − Q) / (n (n − 1)) is an unbiased |E g|². Sums of blocks are kept, for the jackknife: as many copies of the
model's weights as there are blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halfmask.errors import UsageError
from halfmask.evaluation.draws import EVALUATION_SEED
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch, hide, hide_exactly
from halfmask.models.load import Loaded
from halfmask.noise import Noise
from halfmask.objective import masked_loss, on_device

NUM_BLOCKS = 8
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class GradientSignal:
    """Letters: B equal bins of the ratio."""

    ratio_B: FloatArray  # their middles
    signal_B: FloatArray  # |E g|²
    noise_B: FloatArray  # of one row
    snr_B: FloatArray
    error_B: FloatArray  # of the ratio of the two, by the jackknife over blocks
    loss_B: FloatArray  # nats per hidden token
    loss_error_B: FloatArray


def gradient_signal(
    model: Loaded,
    rows: Batch,
    *,
    num_bins: int = 10,
    micro_rows: int = 1,
    seed: int = EVALUATION_SEED,
    progress: Progress = lambda done, total, stage: None,
) -> GradientSignal:
    """The same rows in every bin; `micro_rows` of them in one gradient: 1 is exact per row, more are faster."""
    num_rows = len(rows.rows_B)
    num_micro = num_rows // max(1, micro_rows)
    if micro_rows < 1 or num_micro < 2 * NUM_BLOCKS:
        raise UsageError(
            f"gradients of {2 * NUM_BLOCKS} small batches or more are needed",
            got=f"{num_rows} rows in batches of {micro_rows}",
            fix="measure more rows, or make --micro-rows smaller",
        )
    found = []
    for at in range(num_bins):
        blocks = _Blocks()
        for micro in range(num_micro):
            some = rows.select(np.arange(micro * micro_rows, (micro + 1) * micro_rows))
            gradient, nll = _gradient(model, some, at, num_bins, seed)
            blocks.add(micro * NUM_BLOCKS // num_micro, gradient, nll)
            progress(at * num_micro + micro + 1, num_bins * num_micro, "gradients")
        found.append(blocks.summary(micro_rows))
    columns = np.array(found).T
    return GradientSignal((np.arange(num_bins) + 0.5) / num_bins, *columns)


def _gradient(model: Loaded, rows: Batch, at: int, num_bins: int, seed: int) -> tuple[list[Tensor], float]:
    """Of the mean over rows of the mean loss of their hidden tokens, which is the training loss at that ratio."""
    noise, length_B = Noise(seed), rows.maskable_BT.sum(axis=1)
    t_B = (at + noise.uniform("ratios", at, rows.rows_B, 1)[:, 0]) / num_bins
    num_B = np.minimum(np.floor(t_B * length_B) + 1, length_B)
    hidden_BT = hide_exactly(
        num_B, noise.uniform("hiding", at, rows.rows_B, rows.tokens_BT.shape[1]), rows.maskable_BT
    )
    noisy = hide(rows, hidden_BT, num_B / length_B, 1 / num_B, model.denoiser.mask_id)
    terms = masked_loss(model.denoiser, on_device(noisy, model.device), len(num_B))
    weights = [weight for weight in model.module.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad(terms.loss, weights, allow_unused=True)
    return [gradient.float() for gradient in gradients if gradient is not None], float(terms.loss.detach())


class _Blocks:
    """Sums of the gradients of each block, and what their squares and losses add up to."""

    def __init__(self) -> None:
        self.sums: list[list[Tensor]] = []
        self.square_J, self.num_J, self.nll_J = np.zeros((3, NUM_BLOCKS))
        self.losses: list[float] = []

    def add(self, block: int, gradient: list[Tensor], nll: float) -> None:
        if block == len(self.sums):
            self.sums.append([torch.zeros_like(part) for part in gradient])
        for total, part in zip(self.sums[block], gradient, strict=True):
            total.add_(part)
        self.square_J[block] += sum(float(part.square().sum()) for part in gradient)
        self.num_J[block] += 1
        self.losses.append(nll)

    def summary(self, micro_rows: int) -> tuple[float, ...]:
        gram_JJ = np.array([[_dot(first, second) for second in self.sums] for first in self.sums])
        whole = _signal_noise(gram_JJ.sum(), self.square_J.sum(), self.num_J.sum(), micro_rows)
        left_out = [
            _signal_noise(
                gram_JJ.sum() - 2 * gram_JJ[block].sum() + gram_JJ[block, block],
                self.square_J.sum() - self.square_J[block],
                self.num_J.sum() - self.num_J[block],
                micro_rows,
            )
            for block in range(NUM_BLOCKS)
        ]
        snr_J = np.array([signal / noise for signal, noise in left_out])
        error = np.sqrt((NUM_BLOCKS - 1) / NUM_BLOCKS * ((snr_J - snr_J.mean()) ** 2).sum())
        loss_error = np.std(self.losses, ddof=1) / np.sqrt(len(self.losses))
        return (*whole, whole[0] / whole[1], float(error), float(np.mean(self.losses)), float(loss_error))


def _dot(first: list[Tensor], second: list[Tensor]) -> float:
    return sum(float((a * b).sum()) for a, b in zip(first, second, strict=True))


def _signal_noise(square_of_sum: float, sum_of_squares: float, num: float, micro_rows: int) -> tuple[float, float]:
    signal = (square_of_sum - sum_of_squares) / (num * (num - 1))
    return signal, micro_rows * (sum_of_squares / num - signal)
