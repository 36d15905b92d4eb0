"""A small model to measure on: the one that --model names, or one trained here on the built-in text (minutes)."""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from pathlib import Path

from halfmask.corpus.sources import Reading
from halfmask.data.prepare import prepare
from halfmask.models.load import Loaded, open_model
from halfmask.recipe import read_recipe
from halfmask.training.loop import train
from halfmask.training.recipe import TrainRecipe


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="RUN", help="a trained run (default: one is trained here)")
    parser.add_argument("--steps", type=int, default=300, help="of the training here")


def small_model(arguments: argparse.Namespace) -> Loaded:
    """The 1m preset with 4,096 tokens of its own, on the documentation inside Python; its data lies until we end."""
    if arguments.model:
        return open_model(arguments.model, device="cpu")
    folder = Path(tempfile.mkdtemp(prefix="halfmask-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = folder / "data"
    prepare(["builtin"], str(data), tokens="bpe:4096", reading=Reading(), validation=0.05, test=0.0)
    overrides = [f"data.folder={data}", f"steps={arguments.steps}", "step.rows=64", "optimizer.lr=2e-3"]
    recipe, _ = read_recipe(TrainRecipe, None, overrides)
    train(recipe, folder / "run", device="cpu")
    return open_model(folder / "run", device="cpu")
