"""Attention of short rows in bfloat16 on the CPU, forward and backward: written out against torch's own.

`models.transformer.attend` takes the faster one: this says at which length of the rows that changes.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor

from bench import Result, best_time, main
from halfmask.models.transformer import LONGEST_WRITTEN_OUT, attend

SHAPES = ((32, 128, 4, 32), (32, 150, 8, 64), (8, LONGEST_WRITTEN_OUT, 8, 64))  # rows, length, heads, width of a head


def measure(arguments: argparse.Namespace) -> list[Result]:
    results = []
    for rows, length, heads, width in SHAPES:
        random = torch.Generator().manual_seed(0)
        x = torch.randn(rows, 3 * heads, length, width, generator=random).bfloat16().requires_grad_()

        def ours(x: Tensor = x, heads: int = heads) -> Tensor:
            return attend(*x.split(heads, dim=1), None)

        def theirs(x: Tensor = x, heads: int = heads) -> Tensor:
            return F.scaled_dot_product_attention(*x.split(heads, dim=1))

        assert torch.allclose(ours(), theirs(), atol=0.02), "the two differ"
        fast, slow = (best_time(lambda way=way: way().sum().backward(), 6) for way in (ours, theirs))  # type: ignore[misc]
        shape = f"{rows} rows of {length}, {heads} heads of {width}"
        results.append(Result(shape, f"{fast * 1e3:.1f} ms", f"{slow * 1e3:.1f} ms", slow / fast, 1.0))
    return results


if __name__ == "__main__":
    main(measure, __doc__)
