"""The training loss of hidden tokens (eq. "original loss"), and the effective loss of the same rows.

The effective loss compares each output with the best there is given what is visible: the hidden bit itself where it
follows (signal), 0 elsewhere. A model with one output for a whole row can do no better than their mean,
f* = x'_j / |M| (Theorem "Effective Loss Decomposition"). Its two parts are what the signal rows and the noise rows
add; averaged over masks they are `theory.energy.effective_loss_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor

from halfmask.parity.masks import HiddenRows

LossName = Literal["squared", "cross-entropy"]


@dataclass(frozen=True)
class Rows:
    """`HiddenRows` as tensors, with the weight of each hidden token in the mean over rows."""

    tokens_BT: Tensor
    position_N: Tensor
    row_N: Tensor
    value_N: Tensor
    factor_N: Tensor  # 1/2t over the number of rows
    known_N: Tensor
    signal_N: Tensor  # in a signal row

    @classmethod
    def of(cls, hidden: HiddenRows, dtype: torch.dtype = torch.float32) -> Rows:
        row_N = torch.from_numpy(hidden.row_N)
        signal_B = torch.from_numpy(hidden.num_secret_B == 1)
        factor_B = torch.from_numpy(hidden.weight_B / len(hidden.weight_B)).to(dtype)
        return cls(
            tokens_BT=torch.from_numpy(hidden.tokens_BT),
            position_N=torch.from_numpy(hidden.position_N),
            row_N=row_N,
            value_N=torch.from_numpy(hidden.value_N).to(dtype),
            factor_N=factor_B[row_N],
            known_N=torch.from_numpy(hidden.known_N),
            signal_N=signal_B[row_N],
        )


def training_loss(f_N: Tensor, rows: Rows, name: LossName) -> Tensor:
    """Mean over rows of 1/2t Σ_{hidden j} loss(f, x'_j)."""
    if name == "squared":
        return (rows.factor_N * (f_N - rows.value_N) ** 2).sum()
    return (rows.factor_N * F.softplus(-rows.value_N * f_N)).sum()  # BCE of the bit (x'+1)/2 and the logit f


def effective_parts(f_N: Tensor, rows: Rows, name: LossName, *, one_output: bool) -> tuple[Tensor, Tensor]:
    """The signal and the noise part of the effective loss on these rows."""
    best_N = rows.value_N * rows.known_N
    if one_output:  # the mean over the row's hidden tokens
        num_rows = len(rows.tokens_BT)
        total_B = torch.zeros(num_rows, dtype=best_N.dtype).index_add_(0, rows.row_N, best_N)
        num_B = torch.bincount(rows.row_N, minlength=num_rows)
        best_N = (total_B / num_B.clamp(min=1))[rows.row_N]
    distance_N = (f_N - best_N) ** 2 if name == "squared" else _kl_to_logit((best_N + 1) / 2, f_N)
    term_N = rows.factor_N * distance_N
    return (term_N * rows.signal_N).sum(), (term_N * ~rows.signal_N).sum()


def _kl_to_logit(p_N: Tensor, logit_N: Tensor) -> Tensor:
    """D_KL(p || sigmoid(logit)) = BCE - H(p)."""
    less_entropy_N = torch.xlogy(p_N, p_N) + torch.xlogy(1 - p_N, 1 - p_N)
    return F.softplus(logit_N) - p_N * logit_N + less_entropy_N
