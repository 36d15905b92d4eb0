"""The arguments that name a model, for every verb that uses one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halfmask.models.load import Loaded

MODEL = "the folder of a run, one of its checkpoints, a Hugging Face folder or hub:NAME, or a LoRA adapter"

# A model for the examples, each of which stands by itself.
RUN = (
    "seq 3000 > numbers.txt && halfmask prepare numbers.txt --documents line --tokens bytes --out data && "
    "echo 'data: {folder: data, length: 32}' > recipe.yaml && "
    "halfmask train recipe.yaml steps=2 step.rows=4 --out run && "
)


def add_models(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    parser.add_argument("models", nargs=nargs, metavar="MODEL", help=MODEL)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(default: cuda where there is one)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of the weights (default: as they were saved)")


def open_model_of(name: str, arguments: argparse.Namespace) -> Loaded:
    import torch

    from halfmask.models.load import open_model

    dtype = {None: None, "fp32": torch.float32, "bf16": torch.bfloat16}[arguments.precision]
    return open_model(name, device=arguments.device, dtype=dtype)
