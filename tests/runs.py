"""Tiny trained models for tests: seconds to make, and no larger than they must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.corpus.sources import Reading
from halfmask.data.prepare import prepare
from halfmask.recipe import read_recipe
from halfmask.training.loop import train
from halfmask.training.recipe import TrainRecipe

TINY = ("model.width=16", "model.layers=1", "model.heads=2", "step.rows=4", "step.precision=fp32", "data.length=16")


def tiny_text(num_lines: int = 60) -> str:
    words = ("mask", "token", "hidden", "ratio", "window", "signal", "visible", "order", "law", "bound")
    lines = (" ".join(words[(i * i + 3 * j * i + j) % len(words)] for j in range(9)) for i in range(num_lines))
    return "\n".join(f"{line} {i}." for i, line in enumerate(lines)) + "\n"


def tiny_data(folder: Path, tokens: str = "bytes", text: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "text.txt"
    source.write_text(text or tiny_text(), encoding="utf-8")
    reading = Reading(documents="line")
    prepare([str(source)], str(folder / "tokens"), tokens=tokens, reading=reading, validation=0.3, test=0.0)
    return folder / "tokens"


def tiny_run(folder: Path, data: Path, *overrides: str, steps: int = 2, **options: Any) -> Path:
    recipe, _ = read_recipe(TrainRecipe, None, [f"data.folder={data}", f"steps={steps}", *TINY, *overrides])
    train(recipe, folder, device="cpu", **options)
    return folder
