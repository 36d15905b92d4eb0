"""The paper's three models of the parity task. Each gives a number for every hidden token: its sign is the bit.

    TwoLayer     f(z̃) = v^T ReLU(W z̃), one number for all hidden tokens of a row    Section "Structure Reduction"
    OneLayer     v^T ReLU(W X softmax(X^T A X)), or with uniform attention    Definition "One-Layer Transformer"
    NanoGpt      the engine's transformer, nanoGPT-like; the number is logit(1) - logit(-1)

Under squared loss the number estimates the bit, under cross-entropy it is the logit of 1. OneLayer with uniform
attention and W is TwoLayer with W/n'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn

from halfmask.models.transformer import Attention, Block, Transformer, TransformerConfig
from halfmask.parity.task import HIDDEN

NUM_IDS = 3
EMBEDDING = 0.1  # standard deviation of the transformer's embeddings at the start
SHARP = 4.0  # how much larger the matrix before GELU starts


class ParityModel(Protocol):
    """A `torch.nn.Module` with these."""

    one_output: bool  # all hidden tokens of a row get the same number

    def outputs(self, tokens_BT: Tensor, position_N: Tensor) -> Tensor:
        """A number (N,) in float32 for each position of the flattened B × T."""
        ...


class TwoLayer(nn.Module):
    """Letters: E = 3n' inputs, D width."""

    one_output = True

    def __init__(self, length: int, width: int, *, seed: int, scale: float = 1.0) -> None:
        super().__init__()
        v_D, W_DE = _two_layer_weights(length, width, seed, scale)
        self.v_D, self.W_DE = nn.Parameter(v_D), nn.Parameter(W_DE)

    def outputs(self, tokens_BT: Tensor, position_N: Tensor) -> Tensor:
        f_B = self.row_outputs(embedding_sum(tokens_BT))
        return f_B[position_N // tokens_BT.shape[1]]

    def row_outputs(self, z_BE: Tensor) -> Tensor:
        f_B: Tensor = _ReluNetwork.apply(z_BE, self.W_DE, self.v_D)  # type: ignore[no-untyped-call]
        return f_B


def _two_layer_weights(length: int, width: int, seed: int, scale: float) -> tuple[Tensor, Tensor]:
    """v and W with independent normal entries; z̃ has n' ones, so the features are of order `scale`."""
    random = torch.Generator().manual_seed(seed)
    W_DE = torch.randn(width, NUM_IDS * length, generator=random) * (scale / math.sqrt(length))
    return torch.randn(width, generator=random) / math.sqrt(width), W_DE


def embedding_sum(tokens_BT: Tensor) -> Tensor:
    """z̃ = Σ_j e_{n'b+j}: the ids' one-hot blocks side by side, ones and zeros as booleans."""
    return torch.cat([tokens_BT == token for token in range(NUM_IDS)], dim=1)


class _ReluNetwork(torch.autograd.Function):
    """v^T ReLU(W z), with a backward pass that works in the memory of the forward one.

    The gradient needs the features, then only which of them are positive: ReLU'(h) is the sign of ReLU(h), taken in
    place. A step at the paper's size is bound by memory, so each pass that is saved counts (benchmarks/parity.py).
    """

    @staticmethod
    def forward(ctx: Any, z_BE: Tensor, W_DE: Tensor, v_D: Tensor) -> Tensor:
        device = z_BE.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else W_DE.dtype
        with torch.autocast(device, enabled=False):
            z_BE, weight_ED, readout_D = z_BE.to(dtype), W_DE.to(dtype).T.contiguous(), v_D.to(dtype)
            h_BD = (z_BE @ weight_ED).relu_()
            ctx.save_for_backward(z_BE, h_BD, v_D)
            return (h_BD @ readout_D).to(W_DE.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        z_BE, h_BD, v_D = ctx.saved_tensors
        (g_B,) = upstream
        with torch.autocast(g_B.device.type, enabled=False):
            scaled_B = g_B.to(h_BD.dtype)
            dv_D = (scaled_B @ h_BD).to(v_D.dtype)
            positive_BD = h_BD.sign_()  # only one backward pass is possible
            dW_ED = (z_BE * scaled_B[:, None]).T @ positive_BD
            return None, (dW_ED.T.to(v_D.dtype) * v_D[:, None]), dv_D


class OneLayer(nn.Module):
    """The paper's one-layer transformer over one-hot embeddings. Letters as in TwoLayer."""

    one_output = False

    def __init__(self, length: int, width: int, *, seed: int, scale: float = 1.0, uniform: bool = False) -> None:
        super().__init__()
        v_D, W_DE = _two_layer_weights(length, width, seed, scale)
        # A softmax averages over n' positions where z̃ is a sum.
        self.v_D, self.W_DE = nn.Parameter(v_D), nn.Parameter(W_DE * length)
        self.A_EE = None if uniform else nn.Parameter(torch.zeros(NUM_IDS * length, NUM_IDS * length))

    def outputs(self, tokens_BT: Tensor, position_N: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        index_BT = own_ids(tokens_BT)
        row_N = position_N // T
        if self.A_EE is None:
            share_NT = torch.full((len(position_N), T), 1 / T, device=tokens_BT.device, dtype=self.W_DE.dtype)
        else:  # column j of X^T A X: one-hot columns pick entries of A
            own_N = index_BT.reshape(-1)[position_N]
            share_NT = self.A_EE[index_BT[row_N], own_N[:, None]].softmax(dim=1)
        attended_NE = torch.zeros(len(position_N), NUM_IDS * T, dtype=share_NT.dtype, device=tokens_BT.device)
        attended_NE = attended_NE.scatter(1, index_BT[row_N], share_NT)
        f_N = F.relu(attended_NE @ self.W_DE.T) @ self.v_D
        return f_N.to(self.W_DE.dtype)


class NanoGpt(nn.Module):
    """The engine's transformer, nanoGPT-like, with what a short row of two values allows.

    Every position has ids of its own, as in the paper's Definition "Token Embeddings": e_{n'b+j} times a learnt table.

    One block alone: its attention sees 3n' different tokens whatever the rows are, so queries, keys, values and scores
    are tables, and only hidden tokens look anything up. Several: attention is written as two small matrix products,
    since the fused kernel's backward pass in bfloat16 takes ten times as long on a CPU for 21 positions; after the
    last attention only hidden tokens go on.
    """

    one_output = False

    def __init__(self, length: int, *, width: int, layers: int, heads: int, seed: int, gain: float = 1.6) -> None:
        super().__init__()
        config = TransformerConfig(
            vocab_size=NUM_IDS * length,
            mask_id=HIDDEN,  # of the first position; `outputs` does not read it
            max_length=length,
            width=width,
            layers=layers,
            heads=heads,
            norm="layer",
            activation="gelu",
            positions="learned",
            tied=False,
        )
        self.transformer = Transformer(config)
        self._initialise(seed, gain)

    @torch.no_grad()
    def _initialise(self, seed: int, gain: float) -> None:
        """Matrices of gain / √inputs, so that attention starts sharp, and four times that before GELU.

        nanoGPT's own 0.02 starts with uniform attention and with a GELU that is nearly straight: the products of many
        bits are then invisible to the first gradients, and the plateau is far longer (numbers in LOG.md).
        """
        model = self.transformer
        model.initialise(seed)
        for parameter in (model.embedding.weight, self._positions):
            parameter.mul_(EMBEDDING / 0.02)
        for block in cast("Iterable[Block]", model.blocks):
            attention, forward = block.attention, block.feed_forward
            for layer in (attention.query_key_value, attention.out, forward.up, forward.down):
                size = SHARP * gain if layer is forward.up else gain
                layer.weight.mul_(size / (layer.weight.std() * math.sqrt(layer.in_features)))

    def outputs(self, tokens_BT: Tensor, position_N: Tensor) -> Tensor:
        model, T = self.transformer, tokens_BT.shape[1]
        blocks = list(cast("Iterable[Block]", model.blocks))
        index_BT = own_ids(tokens_BT)
        if len(blocks) == 1:
            x_ND, mixed_ND = self._looked_up(blocks[0], index_BT, position_N)
        else:
            x_MD = (model.embedding(index_BT) + self._positions[:T]).flatten(0, 1)
            for block in blocks[:-1]:
                x_MD = _after_attention(block, x_MD, _attend(block.attention, block.attention_norm(x_MD), T))
            mixed_MD = _attend(blocks[-1].attention, blocks[-1].attention_norm(x_MD), T)
            x_ND, mixed_ND = x_MD[position_N], mixed_MD[position_N]
        states_ND = model.norm(_after_attention(blocks[-1], x_ND, mixed_ND))
        own_N = position_N % T
        towards_TD = model.output_weight[T : 2 * T] - model.output_weight[2 * T :]  # from -1 to 1, at every position
        f_N: Tensor = (states_ND.float() * towards_TD[own_N]).sum(dim=1)
        return f_N

    @property
    def _positions(self) -> Tensor:
        assert self.transformer.position is not None
        return self.transformer.position.weight

    def _looked_up(self, block: Block, index_BT: Tensor, position_N: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of the hidden tokens, and what attention mixes for them. Letters: V = 3n' different tokens."""
        model, T = self.transformer, index_BT.shape[1]
        attention, heads = block.attention, block.attention.heads
        x_VD = model.embedding.weight + self._positions.repeat(NUM_IDS, 1)
        mixed_VD = attention.query_key_value(block.attention_norm(x_VD))
        q_HVd, k_HVd, v_HVd = mixed_VD.view(len(x_VD), 3 * heads, -1).transpose(0, 1).split(heads)
        score_HTV = (q_HVd[:, :T] @ k_HVd.transpose(1, 2)).float() * attention.head_width**-0.5  # of hidden tokens
        absent_BV = torch.full((len(index_BT), len(x_VD)), float("-inf"), device=index_BT.device)
        absent_BV.scatter_(1, index_BT, 0.0)
        row_N, own_N = position_N // T, position_N % T
        score_HNV = score_HTV[:, own_N] + absent_BV[row_N]
        mixed_HNd = score_HNV.softmax(dim=-1).to(v_HVd.dtype) @ v_HVd
        return x_VD[own_N], mixed_HNd.transpose(0, 1).flatten(1)


def own_ids(tokens_BT: Tensor) -> Tensor:
    """n'b + j: the id b of a token at position j, apart from those of other positions."""
    T = tokens_BT.shape[1]
    return tokens_BT * T + torch.arange(T, device=tokens_BT.device)


def _after_attention(block: Block, x_MD: Tensor, mixed_MD: Tensor) -> Tensor:
    x_MD = x_MD + block.attention.out(mixed_MD)
    out_MD: Tensor = x_MD + block.feed_forward(block.feed_forward_norm(x_MD))
    return out_MD


def _attend(attention: Attention, x_MD: Tensor, T: int) -> Tensor:
    """What `Attention` does before its output layer, on flattened rows."""
    q_BHTd, k_BHTd, v_BHTd = (
        attention.query_key_value(x_MD).view(-1, T, 3 * attention.heads, attention.head_width).transpose(1, 2)
    ).split(attention.heads, dim=1)
    score_BHTT = (q_BHTd @ k_BHTd.transpose(-1, -2)).float() * attention.head_width**-0.5
    mixed_BHTd = score_BHTT.softmax(dim=-1).to(v_BHTd.dtype) @ v_BHTd
    mixed_MD: Tensor = mixed_BHTd.transpose(1, 2).reshape(len(x_MD), -1)
    return mixed_MD
