"""One bidirectional transformer: nanoGPT-like or LLaDA-like by its configuration.

    tokens ── embedding (+ learned positions) ──▶ Block × layers ──▶ norm ──▶ states ── output layer ──▶ logits

    nanoGPT-like    LayerNorm, GELU, learned positions, tied output
    LLaDA-like      RMSNorm, SwiGLU, rotary positions, untied output

There is no causal mask anywhere, and no dropout: a step is a function of its recipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from halfmask.errors import UsageError, nearest
from halfmask.models.denoiser import Memory

LONGEST_WRITTEN_OUT = 512  # on the CPU, in low precision; see `attend` and benchmarks/attention.py


@dataclass(frozen=True)
class TransformerConfig:
    """Letters: V vocabulary, D width, H heads, F width of the feed-forward layer, T positions."""

    vocab_size: int
    mask_id: int
    width: int
    layers: int
    heads: int
    kv_heads: int | None = None  # fewer than heads: grouped-query attention
    feed_forward: int | None = None  # its inner width; None: 4 D, or for SwiGLU the multiple of 64 nearest to 8/3 D
    max_length: int = 1024
    norm: Literal["rms", "layer"] = "rms"
    activation: Literal["swiglu", "gelu"] = "swiglu"
    positions: Literal["rotary", "learned"] = "rotary"
    rotary_base: float = 10_000.0
    norm_eps: float = 1e-5
    tied: bool = False  # the output layer is the embedding
    bias: bool = False

    def __post_init__(self) -> None:
        kv_heads = self.kv_heads or self.heads
        rules = {
            "width must be a multiple of heads": self.width % self.heads == 0,
            "width / heads must be even for rotary positions": self.positions != "rotary"
            or (self.width // max(1, self.heads)) % 2 == 0,
            "heads must be a multiple of kv_heads": self.heads % kv_heads == 0,
            "mask_id must be below vocab_size": 0 <= self.mask_id < self.vocab_size,
            "sizes must be 1 or more": min(self.width, self.layers, self.heads, self.max_length) >= 1,
        }
        for rule, holds in rules.items():
            if not holds:
                raise UsageError(f"in a transformer {rule}", got=self, fix="change the model's sizes")

    @property
    def inner(self) -> int:
        if self.feed_forward is not None:
            return self.feed_forward
        return 4 * self.width if self.activation == "gelu" else max(64, round(self.width * 8 / 3 / 64) * 64)


class Attention(nn.Module):
    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads, self.kv_heads = config.heads, config.kv_heads or config.heads
        self.head_width = config.width // config.heads
        self.query_key_value = nn.Linear(
            config.width, (self.heads + 2 * self.kv_heads) * self.head_width, bias=config.bias
        )
        self.out = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(
        self,
        x_BTD: Tensor,
        rotary: tuple[Tensor, Tensor] | None,
        attend_B1TT: Tensor | None,
        memory: Memory | None = None,
    ) -> Tensor:
        B, T, _ = x_BTD.shape
        mixed = self.query_key_value(x_BTD).view(B, T, -1, self.head_width).transpose(1, 2)
        q_BHTd, k_BHTd, v_BHTd = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if rotary is not None:
            q_BHTd, k_BHTd = _rotate(q_BHTd, rotary), _rotate(k_BHTd, rotary)
        if memory is not None:
            k_BHTd, v_BHTd = memory.merge(self.layer, k_BHTd, v_BHTd)
        y_BHTd = attend(q_BHTd, k_BHTd, v_BHTd, attend_B1TT)
        out: Tensor = self.out(y_BHTd.transpose(1, 2).reshape(B, T, -1))
        return out


class FeedForward(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.up = nn.Linear(config.width, (2 if self.gated else 1) * config.inner, bias=config.bias)
        self.down = nn.Linear(config.inner, config.width, bias=config.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        up_BTF = self.up(x_BTD)
        if self.gated:
            gate_BTF, value_BTF = up_BTF.chunk(2, dim=-1)
            down: Tensor = self.down(F.silu(gate_BTF) * value_BTF)
        else:
            down = self.down(F.gelu(up_BTF))
        return down


class Block(nn.Module):
    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = _norm(config)
        self.attention = Attention(config, layer)
        self.feed_forward_norm = _norm(config)
        self.feed_forward = FeedForward(config)

    def forward(
        self,
        x_BTD: Tensor,
        rotary: tuple[Tensor, Tensor] | None,
        attend_B1TT: Tensor | None,
        memory: Memory | None = None,
    ) -> Tensor:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), rotary, attend_B1TT, memory)
        out: Tensor = x_BTD + self.feed_forward(self.feed_forward_norm(x_BTD))
        return out


class Transformer(nn.Module):
    """A `Denoiser` that can recall."""

    recalls = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.mask_id, self.vocab_size = config.mask_id, config.vocab_size
        self.checkpointing = False  # recompute each block in the backward pass: less memory, a third more work
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Embedding(config.max_length, config.width) if config.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = _norm(config)
        self.output = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tied:
            self.output.weight = self.embedding.weight

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        return None

    @torch.no_grad()
    def initialise(self, seed: int, assign: Callable[[Tensor, Tensor], object] = Tensor.copy_) -> None:
        """Weights as a function of the seed: normal with deviation 0.02, smaller where a block adds to its input.

        Numbers come from the CPU on every device, one weight at a time; `assign` may keep a shard of each.
        """
        random = torch.Generator().manual_seed(seed)
        small = 0.02 / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            adds = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
            if parameter.ndim == 1:
                weight = torch.full(parameter.shape, 0.0 if name.endswith("bias") else 1.0)
            else:
                weight = torch.empty(parameter.shape).normal_(std=small if adds else 0.02, generator=random)
            assign(parameter, weight)

    def hidden(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        T, longest = tokens_BT.shape[1], self.config.max_length
        if longest < T:
            raise UsageError(f"this model takes rows of at most {longest} tokens", got=T, fix="cut them")
        at = None if memory is None else memory.position_BQ
        x_BTD = self.embedding(tokens_BT)
        if self.position is not None:
            x_BTD = x_BTD + (self.position.weight[:T] if at is None else self.position.weight[at])
        rotary = None if self.position is not None else self._rotary(T, x_BTD, at)
        attend_B1TT = None if attend_BTT is None else attend_BTT[:, None]
        for block in self.blocks:
            if self.checkpointing and self.training:
                x_BTD = checkpoint(block, x_BTD, rotary, attend_B1TT, use_reentrant=False)
            else:
                x_BTD = block(x_BTD, rotary, attend_B1TT, memory)
        states: Tensor = self.norm(x_BTD)
        return states

    def forward(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        return self.hidden(tokens_BT, attend_BTT)

    def _rotary(self, T: int, like: Tensor, position_BQ: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cosines and sines in float32, since a low precision would blur far positions: (T, d), or (B, 1, Q, d)."""
        half = self.config.width // self.config.heads // 2
        exponent = torch.arange(half, device=like.device, dtype=torch.float32) / half
        position = torch.arange(T, device=like.device) if position_BQ is None else position_BQ[:, None]
        angle_Td = position[..., None] * self.config.rotary_base**-exponent
        angle_Td = torch.cat([angle_Td, angle_Td], dim=-1)
        return angle_Td.cos(), angle_Td.sin()


def attend(q_BHTd: Tensor, k_BHTd: Tensor, v_BHTd: Tensor, attend_B1TT: Tensor | None) -> Tensor:
    """torch's own attention, but for short rows in low precision on the CPU, where that is several times slower."""
    grouped = k_BHTd.shape[1] < q_BHTd.shape[1]
    short = k_BHTd.shape[2] <= LONGEST_WRITTEN_OUT
    if q_BHTd.device.type != "cpu" or q_BHTd.dtype == torch.float32 or not short or grouped:
        return F.scaled_dot_product_attention(q_BHTd, k_BHTd, v_BHTd, attn_mask=attend_B1TT, enable_gqa=grouped)
    score_BHTT = (q_BHTd * q_BHTd.shape[-1] ** -0.5) @ k_BHTd.transpose(-1, -2)
    if attend_B1TT is not None:
        score_BHTT = score_BHTT.masked_fill(~attend_B1TT, -torch.inf)
    mixed_BHTd: Tensor = score_BHTT.softmax(dim=-1) @ v_BHTd  # the softmax is computed in float32 and rounded
    return mixed_BHTd


def _norm(config: TransformerConfig) -> nn.Module:
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=config.norm_eps)
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.bias)


def _rotate(x_BHTd: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions in LLaDA's layout: the first half of a head turns with the second."""
    cos_Td, sin_Td = rotary
    first, second = x_BHTd.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x_BHTd * cos_Td + turned * sin_Td).to(x_BHTd.dtype)


# Sizes by name; vocabulary, mask id and length come from the data. What each is for stands beside it.
NANOGPT = {"norm": "layer", "activation": "gelu", "positions": "learned", "tied": True}
PRESETS: dict[str, dict[str, Any]] = {
    "1m": {"width": 128, "layers": 4, "heads": 4},  # the demo: minutes on two cores
    "10m": {"width": 320, "layers": 6, "heads": 5},
    "51m": {"width": 512, "layers": 8, "heads": 8, **NANOGPT},  # the paper's, with GPT-2's vocabulary
    "125m": {"width": 768, "layers": 12, "heads": 12},
    "350m": {"width": 1024, "layers": 24, "heads": 16},
    "1b": {"width": 2048, "layers": 22, "heads": 32, "kv_heads": 4, "feed_forward": 5632},
    "8b": {"width": 4096, "layers": 32, "heads": 32, "feed_forward": 12288, "rotary_base": 500_000.0},  # LLaDA-8B's
}


def preset(name: str, *, vocab_size: int, mask_id: int, max_length: int, **changes: Any) -> TransformerConfig:
    if name not in PRESETS:
        raise UsageError(f"a preset must be one of {', '.join(PRESETS)}", got=name, fix=nearest(name, PRESETS))
    config = TransformerConfig(
        vocab_size=vocab_size, mask_id=mask_id, max_length=max_length, width=64, layers=1, heads=1
    )
    return replace(config, **{**PRESETS[name], **changes})


def num_parameters(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())
