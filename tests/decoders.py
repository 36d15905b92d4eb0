"""Denoisers for the tests of decoding: one that knows the answer by enumeration, and small trained ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from halfmask.masking.corrupt import Batch, Masking
from halfmask.masking.schedules import parse_schedule
from halfmask.models.transformer import Transformer, TransformerConfig
from halfmask.noise import Noise
from halfmask.objective import masked_loss, on_device

Ids = NDArray[np.int64]


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


def random_model(length: int = 64, vocab_size: int = 40, **changes: Any) -> Transformer:
    """Untrained, with weights large enough for its predictions to depend on all they see."""
    sizes = {"width": 32, "layers": 2, "heads": 4, **changes}
    model = Transformer(TransformerConfig(vocab_size=vocab_size, mask_id=vocab_size - 1, max_length=length, **sizes))
    model.initialise(0)
    return _louder(model)


def _louder(model: Transformer) -> Transformer:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return model.eval()


PLUS = SEPARATOR = 10
LAB_MASK = 11


def additions(random: np.random.Generator, num: int) -> Ids:
    """a + b = c of digits: a 10 b 10 c c."""
    a, b = random.integers(0, 10, (2, num))
    sign = np.full(num, PLUS)
    return np.stack([a, sign, b, sign, (a + b) // 10, (a + b) % 10], axis=1)


def sortings(random: np.random.Generator, num: int) -> Ids:
    """Four digits, a separator, and the four in order."""
    digits = random.integers(0, 8, (num, 4))
    return np.concatenate([digits, np.full((num, 1), SEPARATOR), np.sort(digits, axis=1)], axis=1)


SECRET = (1, 4)


def parities(random: np.random.Generator, num: int) -> Ids:
    """Six bits and the parity of two of them."""
    bits = random.integers(0, 2, (num, 6))
    return np.concatenate([bits, bits[:, SECRET].sum(axis=1, keepdims=True) % 2], axis=1)


def trained_on(task: Callable[[np.random.Generator, int], Ids], *, steps: int, layers: int, law: str) -> Transformer:
    """A few seconds of training; the same weights each time."""
    rows = 64
    tokens = task(np.random.default_rng(0), steps * rows)
    config = TransformerConfig(
        vocab_size=12, mask_id=LAB_MASK, width=48, layers=layers, heads=2, max_length=16,
        positions="learned", activation="gelu",
    )  # fmt: skip
    model = Transformer(config)
    model.initialise(0)
    _louder(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.2)
    masking = Masking(parse_schedule(law), weight="flat")
    for step, some in enumerate(np.split(tokens, steps)):
        batch = Batch(step, np.arange(rows), rows, some, np.ones(some.shape, dtype=bool))
        hidden = on_device(masking.noisy(batch, Noise(0), LAB_MASK), torch.device("cpu"))
        masked_loss(model, hidden, float(len(hidden.position_N)), "plain").loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval()
