"""The full-interval bound on the negative log-likelihood per token, with its error and the loss at every ratio.

For a row of T tokens, with l uniform on 1 … T and l of its tokens hidden at random,

    -log p(x) / T  ≤  E_l E_hidden [ mean over hidden tokens of -log p(x_j | x̃) ]

which equals ∫ 1/t E[Σ_hidden …]/T dt with independent coins, and has far less variance: no 1/t. It is estimated from a
few draws of every row (`draws.py`). From the loss of a draw we take what could be foretold without the model, and add
what that is on average, which is known exactly (a control variate):

    ŷ(l, hidden) = b₀ + b₁ s + b₂ s² + (b₃ + b₄ s) c    with s = √(l/T), c the hidden tokens' mean unigram surprisal

    estimate of a row = mean over l, hidden of ŷ + mean over draws of weight · (loss − ŷ)

b is fitted on the draws of all other rows, so that the estimate is unbiased whatever the fit. The draws are functions
of the seed and of a row's number alone: two models meet the same noise, and the law of training does not enter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from halfmask.evaluation.draws import Draws, Losses
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Noisy

RIDGE = 1e-2  # of the fit, towards ŷ = c: what a single row is measured with


@dataclass(frozen=True)
class Mean:
    """A mean over the tokens of rows, from G independent estimates of each row."""

    value: float
    standard_error: float  # were other rows of the same kind measured
    noise_error: float  # were the same rows measured with another seed; NaN where there is one estimate of each

    @classmethod
    def of(cls, estimate_RG: FloatArray, length_R: FloatArray) -> Mean:
        num_rows, num_groups = estimate_RG.shape
        share_R = length_R / length_R.sum()
        row_R = estimate_RG.mean(axis=1)
        value = float(share_R @ row_R)
        spread = float(share_R**2 @ (row_R - value) ** 2) * num_rows / (num_rows - 1) if num_rows > 1 else np.nan
        noise = float(share_R**2 @ estimate_RG.var(axis=1, ddof=1)) / num_groups if num_groups > 1 else np.nan
        return cls(value, float(np.sqrt(spread)), float(np.sqrt(noise)))


@dataclass(frozen=True)
class Curve:
    """The loss of hidden tokens by ratio. Letters: B equal bins of [0, 1]."""

    ratio_B: FloatArray  # their middles
    loss_B: FloatArray  # nats; NaN where no draw fell
    error_B: FloatArray  # over rows

    @classmethod
    def of(cls, total_RB: FloatArray, weight_RB: FloatArray) -> Curve:
        num_rows, num_bins = total_RB.shape
        weight_B = weight_RB.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            loss_B = total_RB.sum(axis=0) / weight_B
            spread_B = ((total_RB - loss_B * weight_RB) ** 2).sum(axis=0) * num_rows / (num_rows - 1)
            return cls((np.arange(num_bins) + 0.5) / num_bins, loss_B, np.sqrt(spread_B) / weight_B)


@dataclass(frozen=True)
class Bound:
    """What the draws of some rows say of a model. Letters: R rows, G groups of draws, B bins of the ratio."""

    estimate_RG: FloatArray  # nats per token
    length_R: FloatArray
    total_RB: FloatArray  # of the loss in each bin, and what it is to be divided by
    weight_RB: FloatArray
    num_draws: int

    @classmethod
    def of(cls, draws: Draws, found_RK2: FloatArray, num_bins: int = 8) -> Bound:
        loss_RK, surprisal_RK = found_RK2[..., 0], found_RK2[..., 1]
        length_R = draws.length_R.astype(np.float64)
        expected_R, residual_RK, slope_RK = _control(draws, loss_RK, surprisal_RK)
        groups = np.array_split(residual_RK, draws.num_groups, axis=1)
        estimate_RG = np.stack([expected_R + group.mean(axis=1) for group in groups], axis=1)
        # In a bin, tokens that are harder than their row's only add noise.
        level_RK = loss_RK - slope_RK * (surprisal_RK - draws.surprisal_R[:, None])
        weight_RK = draws.weight_RK * length_R[:, None]
        bin_RK = ((draws.count_RK - 0.5) / length_R[:, None] * num_bins).astype(np.int64)
        in_bin_RKB = bin_RK[..., None] == np.arange(num_bins)
        return cls(
            estimate_RG=estimate_RG,
            length_R=length_R,
            total_RB=np.einsum("rk,rkb->rb", weight_RK * level_RK, in_bin_RKB),
            weight_RB=np.einsum("rk,rkb->rb", weight_RK, in_bin_RKB),
            num_draws=draws.num_draws,
        )

    @property
    def mean(self) -> Mean:
        return Mean.of(self.estimate_RG, self.length_R)

    @property
    def curve(self) -> Curve:
        return Curve.of(self.total_RB, self.weight_RB)

    def minus(self, other: Bound) -> Bound:
        """The paired difference of two models on the same draws."""
        assert np.array_equal(self.weight_RB, other.weight_RB), "the draws differ"
        return Bound(
            self.estimate_RG - other.estimate_RG,
            self.length_R,
            self.total_RB - other.total_RB,
            self.weight_RB,
            self.num_draws,
        )


def _control(draws: Draws, loss_RK: FloatArray, surprisal_RK: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each row the mean of ŷ, for each draw weight · (loss − ŷ), and how ŷ rises with the surprisal."""
    s_RK = np.sqrt(draws.count_RK / draws.length_R[:, None])
    feature_RKP = np.stack([np.ones_like(s_RK), s_RK, s_RK**2, surprisal_RK, surprisal_RK * s_RK], axis=-1)
    prior_P = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    weighted_RKP = draws.weight_RK[..., None] * feature_RKP  # what is to be small is the weighted residual
    square_RPP = np.einsum("rkp,rkq->rpq", weighted_RKP, weighted_RKP)
    product_RP = np.einsum("rkp,rk->rp", weighted_RKP, draws.weight_RK * (loss_RK - feature_RKP @ prior_P))
    others_RPP = square_RPP.sum(axis=0) - square_RPP + RIDGE * np.eye(len(prior_P))
    others_RP = product_RP.sum(axis=0) - product_RP
    b_RP = prior_P + np.linalg.solve(others_RPP, others_RP[..., None])[..., 0]
    residual_RK = draws.weight_RK * (loss_RK - np.einsum("rkp,rp->rk", feature_RKP, b_RP))
    expected_R = np.einsum("rp,rp->r", _mean_features(draws), b_RP)
    return expected_R, residual_RK, b_RP[:, 3:4] + b_RP[:, 4:5] * s_RK


def _mean_features(draws: Draws) -> FloatArray:
    """The features' means over all counts and sets: those of s by the row's length, that of c its mean surprisal."""
    lengths, kind_R = np.unique(draws.length_R, return_inverse=True)
    roots = [np.sqrt(np.arange(1, length + 1) / length) for length in lengths]
    s_R = np.array([root.mean() for root in roots])[kind_R]
    s2_R = np.array([(root**2).mean() for root in roots])[kind_R]
    c_R = draws.surprisal_R
    return np.stack([np.ones_like(s_R), s_R, s2_R, c_R, c_R * s_R], axis=1)


def model_losses(
    loss: torch.nn.Module,
    device: torch.device,
    autocast: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> Losses:
    """Through the module that training wraps, `MaskedLoss`."""
    from halfmask.objective import on_device

    def losses(noisy: Noisy) -> FloatArray:
        with torch.no_grad(), autocast():
            _, nll_N = loss(on_device(noisy, device), 1.0)
        return np.asarray(nll_N.double().cpu().numpy())

    return losses
