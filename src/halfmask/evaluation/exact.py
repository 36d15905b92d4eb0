"""The bound without sampling, for rows so short that every set of hidden tokens can be tried; and by the chain rule.

    enumerate_bound     Σ over all sets, each with the weight that l uniform on 1 … T gives it
    order_nll           -Σ log p(x_σ(i) | x_σ(1) … x_σ(i-1)) for one order σ of the tokens

The mean of `order_nll` over all orders is T times the bound: a masked diffusion model is an autoregressive model of
every order at once.
"""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from halfmask.errors import UsageError
from halfmask.laws import FloatArray
from halfmask.models.denoiser import Denoiser, head

LONGEST = 14  # tokens: 16,383 sets


def enumerate_bound(denoiser: Denoiser, tokens_T: ArrayLike, batch_rows: int = 1024) -> float:
    """Nats per token, in the precision of the model."""
    row_T = np.asarray(tokens_T, dtype=np.int64)
    hidden_ST = all_sets(len(row_T))
    count_S = hidden_ST.sum(axis=1)
    weight_S = set_weights(count_S, len(row_T))
    total = 0.0
    for start in range(0, len(hidden_ST), batch_rows):
        at = slice(start, start + batch_rows)
        nll_ST = hidden_nll(denoiser, row_T, hidden_ST[at])
        total += float(weight_S[at] @ (nll_ST.sum(axis=1) / count_S[at]))
    return total


def all_sets(length: int) -> NDArray[np.bool_]:
    """Every set of hidden tokens that is not empty."""
    if length > LONGEST:
        raise UsageError(
            f"every set of hidden tokens can be tried for rows of at most {LONGEST} tokens",
            got=length,
            fix="shorten the rows",
        )
    number_S = np.arange(1, 1 << length)
    return np.asarray((number_S[:, None] >> np.arange(length)) & 1, dtype=bool)


def set_weights(count_S: NDArray[np.int64], length: int) -> FloatArray:
    """The probability of each set: its count is one of `length`, it is one of those with that count."""
    return np.array([1 / (length * comb(length, int(count))) for count in count_S])


def order_nll(denoiser: Denoiser, tokens_T: ArrayLike, order: ArrayLike) -> float:
    """Nats of the whole row, each token predicted from those before it in the order."""
    row_T, order_T = np.asarray(tokens_T, dtype=np.int64), np.asarray(order)
    place_T = np.argsort(order_T)
    hidden_TT = place_T[None, :] >= np.arange(len(row_T))[:, None]  # before step i, what comes at i or later
    nll_TT = hidden_nll(denoiser, row_T, hidden_TT)
    return float(nll_TT[np.arange(len(row_T)), order_T].sum())


def hidden_nll(denoiser: Denoiser, row_T: NDArray[np.int64], hidden_ST: NDArray[np.bool_]) -> FloatArray:
    """-log p of each hidden token under each set, and 0 where a token is visible."""
    device = denoiser.output_weight.device
    noisy_ST = torch.as_tensor(np.where(hidden_ST, denoiser.mask_id, row_T), device=device)
    hidden = torch.as_tensor(hidden_ST, device=device)
    target_N: Tensor = torch.as_tensor(row_T, device=device).expand(noisy_ST.shape)[hidden]
    with torch.no_grad():
        log_p_NV = head(denoiser, denoiser.hidden(noisy_ST)[hidden]).log_softmax(dim=-1)
    found = np.zeros(hidden_ST.shape)
    found[hidden_ST] = -log_p_NV.gather(1, target_N[:, None])[:, 0].double().cpu().numpy()
    return found
