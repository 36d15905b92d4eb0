"""How fast a run is: tokens a second, and the operations really done as a share of the machine's peak."""

from __future__ import annotations

import time

import torch

from halfmask.models.transformer import TransformerConfig


def step_operations(config: TransformerConfig, num_rows: int, length: int, num_hidden: float) -> float:
    """Multiplications and additions in matrix products of one forward and backward pass, as they are really done.

    Twice a product's size forward and four times backward; the output layer on hidden tokens alone.
    """
    head_width = config.width // config.heads
    kv_width = head_width * (config.kv_heads or config.heads)
    up = (2 if config.activation == "swiglu" else 1) * config.inner
    per_token = config.width * (config.width + 2 * kv_width) + config.width**2
    per_token += config.width * up + config.inner * config.width
    attention = 2 * length * config.width  # scores and mixing
    tokens = num_rows * length
    return 6.0 * (tokens * config.layers * (per_token + attention) + num_hidden * config.width * config.vocab_size)


def matrix_peak(device: torch.device, dtype: torch.dtype, seconds: float = 0.3) -> float:
    """Operations a second of a large matrix product, the best of a few."""
    size = 8192 if device.type == "cuda" else 2048
    a = torch.randn(size, size, device=device).to(dtype)
    best, started_at = 0.0, time.perf_counter()
    torch.mm(a, a)  # warm
    while best == 0.0 or time.perf_counter() - started_at < seconds:
        _wait(device)
        before = time.perf_counter()
        torch.mm(a, a)
        _wait(device)
        best = max(best, 2.0 * size**3 / (time.perf_counter() - before))
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
