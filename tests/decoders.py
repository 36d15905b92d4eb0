"""Denoisers for the tests of decoding: one that knows the answer by enumeration, and small trained ones."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


class Posterior(nn.Module):
    """The exact posterior of a finite set of rows: P(token at j | what is visible), by going through all of them.

    Its states are logits, and its output layer hands them on. Rows are as likely as `weights` say.
    """

    def __init__(self, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        super().__init__()
        self.rows = torch.as_tensor(np.asarray(rows))
        self.weights = torch.ones(len(self.rows)) if weights is None else torch.as_tensor(weights)
        self.mask_id = int(self.rows.max()) + 1
        self.vocab_size = self.mask_id + 1
        self.output_weight = torch.eye(self.vocab_size, dtype=torch.float64)
        self.output_bias = None

    def hidden(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        length = self.rows.shape[1]
        tokens = tokens_BT[:, :length]
        fits_BR = ((tokens[:, None] == self.rows) | (tokens[:, None] == self.mask_id)).all(dim=2)
        chance_BR = fits_BR * self.weights
        one_hot_RTV = nn.functional.one_hot(self.rows, self.vocab_size).double()
        p_BTV = torch.einsum("br,rtv->btv", chance_BR.double(), one_hot_RTV)
        states = torch.full((*tokens_BT.shape, self.vocab_size), -torch.inf, dtype=torch.float64)
        states[:, :length] = (p_BTV / p_BTV.sum(dim=2, keepdim=True)).log().clamp(min=-1e4)
        states[:, length:] = 0
        return states
