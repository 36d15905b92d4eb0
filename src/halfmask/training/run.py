"""The folder of a run: what made it, and what it measured.

recipe.yaml       the resolved recipe
run.json          versions, command, world
metrics.jsonl     one line each time: {"step": …, "loss": …}; lines after a checkpoint go when it is resumed
checkpoints/      see checkpoint.py
model/            what the model is, its tokenizer, and at the end its weights as safetensors
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfmask.data.tokens import TokenData
from halfmask.errors import DataError, UsageError
from halfmask.provenance import made_by
from halfmask.recipe import dump_recipe, flat_recipe, read_recipe
from halfmask.records import Record, atomic_write, plain
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

    def start(self, recipe: TrainRecipe, data: TokenData, world_size: int, *, resume: bool) -> None:
        """Make the folder, or check that what is there is this run."""
        meant = {"law": str(recipe.mask.masking().schedule), "tokens": data.splits["train"].digest}
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{self.folder} must be a folder for a run", got=error.strerror or error, fix="choose another --out"
            ) from error
        path = self.folder / "recipe.yaml"
        if path.exists():
            self._check_same(recipe, meant, resume=resume)
        with atomic_write(path) as stream:
            stream.write(dump_recipe(recipe))
        with atomic_write(self.folder / "run.json") as stream:
            json.dump({**meant, "processes": world_size, **made_by()}, stream, indent=1)

    def _check_same(self, recipe: TrainRecipe, meant: dict[str, str], *, resume: bool) -> None:
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
        try:
            there = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            there = meant  # killed before it was written: nothing has been trained
        # What a recipe names can change behind its name: a profile's window, the tokens in a folder.
        old, new = {**old, **{key: there.get(key) for key in meant}}, {**new, **meant}
        changed += [key for key in meant if new[key] != old[key]]
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

    def record(self) -> Record:
        """What the run has measured so far: its last line as a row, and its curves."""
        lines = self.lines()
        bounds = [line for line in lines if "bound" in line]
        row = {key: value for key, value in (lines[-1] if lines else {}).items() if not isinstance(value, list)}
        made_by = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        return Record(
            name="train",
            title=f"{self.folder}: law {made_by['law']}",
            settings=made_by,
            rows=[row],
            extra={
                "steps": [line["step"] for line in lines],
                "losses": [line["loss"] for line in lines],
                "bounds": [[line["step"], line["bound"], line["bound error"]] for line in bounds],
                "loss by ratio": bounds[-1]["loss by ratio"] if bounds else [],
            },
        )

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
