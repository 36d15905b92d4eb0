"""The full-interval bound on the negative log-likelihood per token, with its error and the loss at every ratio.

For a row of T tokens, with l uniform on 1 … T and l of its tokens hidden at random,

    -log p(x) / T  ≤  E_l E_hidden [ mean over hidden tokens of -log p(x_j | x̃) ]

which equals ∫ 1/t E[Σ_hidden …]/T dt with independent coins, and has far less variance: no 1/t, and l is stratified.
The ratios and masks are functions of the seed and of a row's number alone: two models meet the same noise, and the law
of training does not enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch, Noisy, hide, hide_exactly
from halfmask.noise import Noise

EVALUATION_SEED = 20_26


@dataclass(frozen=True)
class Bound:
    """Letters: R rows, K strata of the ratio."""

    nats: float  # per token
    standard_error: float  # over rows
    num_rows: int
    ratio_K: FloatArray  # the middle of each stratum
    loss_K: FloatArray  # nats per hidden token there
    error_K: FloatArray

    @classmethod
    def of(cls, loss_RK: FloatArray) -> Bound:
        num_rows, num_strata = loss_RK.shape
        row_R = loss_RK.mean(axis=1)
        scale = np.sqrt(max(1, num_rows - 1))
        return cls(
            nats=float(row_R.mean()),
            standard_error=float(row_R.std() / scale),
            num_rows=num_rows,
            ratio_K=(np.arange(num_strata) + 0.5) / num_strata,
            loss_K=loss_RK.mean(axis=0),
            error_K=loss_RK.std(axis=0) / scale,
        )


Losses = Callable[[Noisy], NDArray[np.float64]]  # nats of each hidden token


def bound_losses(losses: Losses, rows: Batch, *, mask_id: int, num_strata: int) -> FloatArray:
    """The mean loss of hidden tokens for every row (its number chooses its noise) and stratum of the ratio."""
    noise = Noise(EVALUATION_SEED)
    num_rows = len(rows.rows_B)
    length_R = rows.maskable_BT.sum(axis=1)
    found = []
    for stratum in range(num_strata):
        t_R = (stratum + noise.uniform("ratios", stratum, rows.rows_B, 1)[:, 0]) / num_strata
        num_R = np.minimum(np.floor(t_R * length_R) + 1, length_R)  # uniform on 1 … T over all strata
        uniform_RT = noise.uniform("hiding", stratum, rows.rows_B, rows.tokens_BT.shape[1])
        hidden_RT = hide_exactly(num_R, uniform_RT, rows.maskable_BT)
        nll_N = losses(hide(rows, hidden_RT, num_R / length_R, np.ones(num_rows), mask_id))
        row_N = np.nonzero(hidden_RT)[0]
        found.append(np.bincount(row_N, weights=nll_N, minlength=num_rows) / num_R)
    return np.stack(found, axis=1)


def model_losses(loss: torch.nn.Module, device: torch.device, autocast: Callable[[], torch.autocast]) -> Losses:
    """Through the module that training wraps, `MaskedLoss`."""
    from halfmask.objective import on_device

    def losses(noisy: Noisy) -> NDArray[np.float64]:
        with torch.no_grad(), autocast():
            _, nll_N = loss(on_device(noisy, device), 1.0)
        return np.asarray(nll_N.double().cpu().numpy())

    return losses
