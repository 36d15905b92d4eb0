"""What a model must offer: states for all positions, and apart from them an output layer for those that need it.

    states_BTD = denoiser.hidden(tokens_BT, attend_BTT)
    logits_NV  = states_ND @ denoiser.output_weight.T + denoiser.output_bias      (`objective.py`, `head`)

The output layer is most of the work of a small model with a large vocabulary, and only hidden positions need it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


class Denoiser(Protocol):
    """A `torch.nn.Module` with these."""

    mask_id: int
    vocab_size: int

    def hidden(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        """States (B, T, D) that the output layer reads; `attend_BTT` is True where position may look at position."""
        ...

    @property
    def output_weight(self) -> Tensor:  # (V, D)
        ...

    @property
    def output_bias(self) -> Tensor | None:  # (V,)
        ...


class Memory(Protocol):
    """Keys and values that earlier passes over the same rows left, so that a pass may compute some positions alone."""

    position_BQ: Tensor | None  # where the tokens of this pass stand in their rows; None: they are the whole rows

    def merge(self, layer: int, keys_BHQd: Tensor, values_BHQd: Tensor) -> tuple[Tensor, Tensor]:
        """Keep those of this pass; return those of all positions (B, H, T, d)."""
        ...


@runtime_checkable
class Recalling(Denoiser, Protocol):
    """A denoiser that can take the keys and values of positions it does not compute from a memory."""

    recalls: bool

    def hidden(self, tokens_BQ: Tensor, attend_BQT: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        """States (B, Q, D) of the tokens given, which look at whole rows."""
        ...


def head(denoiser: Denoiser, states_ND: Tensor) -> Tensor:
    """Logits of some states."""
    return torch.nn.functional.linear(states_ND, denoiser.output_weight, denoiser.output_bias)


def attend_within(documents_BT: Tensor) -> Tensor:
    """Who may look at whom when rows pack several documents: those of one document."""
    return documents_BT[:, :, None] == documents_BT[:, None, :]
