"""The folder of a run: what made it, and what it measured.

recipe.yaml       the resolved recipe
run.json          versions, command, world
metrics.jsonl     one line each time: {"step": …, "loss": …}; lines after a checkpoint go when it is resumed
checkpoints/      see checkpoint.py
model/            what the model is, its tokenizer, and at the end its weights as safetensors
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfmask import __version__
from halfmask.errors import DataError, UsageError
from halfmask.recipe import dump_recipe, flat_recipe, read_recipe
from halfmask.records import atomic_write, plain
from halfmask.training.recipe import TrainRecipe


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def start(self, recipe: TrainRecipe, world_size: int, *, resume: bool) -> None:
        """Make the folder, or check that what is there is this run."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{self.folder} must be a folder for a run", got=error.strerror or error, fix="choose another --out"
            ) from error
        path = self.folder / "recipe.yaml"
        if path.exists():
            self._check_same(recipe, resume=resume)
        with atomic_write(path) as stream:
            stream.write(dump_recipe(recipe))
        with atomic_write(self.folder / "run.json") as stream:
            json.dump({**made_by(), "processes": world_size, "law": recipe.mask.law}, stream, indent=1)

    def _check_same(self, recipe: TrainRecipe, *, resume: bool) -> None:
        if not resume:
            raise UsageError(
                "a run needs a folder of its own",
                got=self.folder,
                fix="add --resume to go on, or choose another --out",
            )
        before, _ = read_recipe(TrainRecipe, self.folder / "recipe.yaml")
        old, new = dict(flat_recipe(before)), dict(flat_recipe(recipe))
        free = FREE_TO_CHANGE | ({"steps"} if recipe.optimizer.schedule == "constant" else set())
        changed = [key for key in new if new[key] != old[key] and key not in free]
        if changed:
            key = changed[0]
            raise UsageError(
                f"{self.folder} holds a run of another recipe",
                got=f"{key}: {new[key]}, there {old[key]}",
                fix="resume with the recipe it holds, or choose another --out",
            )

    def log(self, line: dict[str, Any]) -> None:
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(plain(line)) + "\n")

    def forget_after(self, step: int) -> None:
        """Drop the lines of steps that a resumed run does again."""
        if not self.metrics.exists():
            return
        kept = [line for line in self.metrics.read_text(encoding="utf-8").splitlines() if _step_of(line) <= step]
        with atomic_write(self.metrics) as stream:
            stream.writelines(f"{line}\n" for line in kept)

    def last_line(self) -> dict[str, Any]:
        return next(reversed(self.lines()), {})

    def lines(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]


# What does not change what is computed: how far, how often something is written, and on how many devices.
FREE_TO_CHANGE = {
    "save_every", "keep", "log_every", "tensorboard", "step.micro_rows", "step.parallel", "step.checkpointing",
    "evaluate.every", "evaluate.rows", "evaluate.ratios",
}  # fmt: skip


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # half a line: the process was killed while it wrote


def made_by() -> dict[str, str]:
    import numpy as np
    import torch

    return {
        "halfmask": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "command": " ".join(["halfmask", *sys.argv[1:]]),
    }
