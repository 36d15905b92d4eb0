"""A run that is kept: its folder, and training into it.

recipe.yaml       the resolved recipe
run.json          versions, command
measures.jsonl    one line for every step; lines after the checkpoint go when the run is resumed
checkpoint.pt     model, optimiser and the number of steps they have taken; replaced whole
"""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from halfmask.errors import DataError, UsageError
from halfmask.parity.lab import Lab, Measures, make_model, steps_of
from halfmask.parity.recipe import ParityRecipe
from halfmask.provenance import made_by
from halfmask.recipe import dump_recipe, read_recipe
from halfmask.records import atomic_write, plain
from halfmask.training.loop import NonFiniteLossError, asked_to_stop

SAVE_EVERY_S = 30.0  # between checkpoints: what a kill can cost
FREE_TO_CHANGE = {"steps", "until"}  # how far a run goes changes no step of it


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def measures(self) -> Path:
        return self.folder / "measures.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    def start(self, recipe: ParityRecipe, *, resume: bool) -> None:
        """Make the folder, or check that what is there is this run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{self.folder} must be a folder for a run", got=error.strerror or error, fix="choose another --out"
            ) from error
        path = self.folder / "recipe.yaml"
        if path.exists():
            self._check_same(recipe, path, resume=resume)
        with atomic_write(path) as stream:
            stream.write(dump_recipe(recipe))
        with atomic_write(self.folder / "run.json") as stream:
            json.dump(made_by(), stream, indent=1)

    def _check_same(self, recipe: ParityRecipe, path: Path, *, resume: bool) -> None:
        if not resume:
            raise UsageError(
                "a run needs a folder of its own",
                got=self.folder,
                fix="add --resume to go on, or choose another --out",
            )
        before, _ = read_recipe(ParityRecipe, path)
        names = [field.name for field in fields(recipe) if field.name not in FREE_TO_CHANGE]
        for name in names:
            new, old = getattr(recipe, name), getattr(before, name)
            if new != old:
                raise UsageError(
                    f"{self.folder} holds a run of another recipe",
                    got=f"{name} {new}, there {old}",
                    fix="resume with the recipe it holds, or choose another --out",
                )

    def load(self, lab: Lab) -> None:
        """Go on from the checkpoint, where there is one, and drop the lines after it."""
        if self.checkpoint.exists():
            try:
                lab.load(torch.load(self.checkpoint, weights_only=True))
            except (OSError, RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
                raise DataError(
                    f"{self.checkpoint} must be a checkpoint of this run",
                    got=str(error).partition("\n")[0] or type(error).__name__,
                    fix="remove the folder and start again",
                ) from error
        kept = [line for line in self.lines() if line["step"] <= lab.done]
        with atomic_write(self.measures) as stream:
            stream.writelines(json.dumps(line) + "\n" for line in kept)

    def save(self, lab: Lab, waiting: list[Measures]) -> None:
        """The measures of the steps since the last checkpoint, then the checkpoint."""
        with self.measures.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(plain(line)) + "\n" for line in waiting)
        with atomic_write(self.checkpoint, "wb") as stream:
            torch.save(lab.state(), stream)
        waiting.clear()

    def movement(self, recipe: ParityRecipe) -> float:
        """How far the weight matrices are from where they started, as a share of their norm there."""
        start = make_model(recipe).state_dict()
        now = torch.load(self.checkpoint, weights_only=True)["model"]
        names = [name for name, tensor in start.items() if tensor.ndim >= 2]
        moved = sum(float((now[name] - start[name]).square().sum()) for name in names)
        return math.sqrt(moved / sum(float(start[name].square().sum()) for name in names))

    def lines(self) -> list[dict[str, Any]]:
        if not self.measures.exists():
            return []
        found = []
        for line in self.measures.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # half a line: the process was killed while it wrote
                break
        return found


def train(
    recipe: ParityRecipe,
    folder: Path,
    *,
    resume: bool = False,
    report: Callable[[Measures], None] = lambda measures: None,
) -> Run:
    """Run a recipe to its end. An interrupt saves before it leaves."""
    run, lab, waiting = Run(folder), Lab(recipe), []
    run.start(recipe, resume=resume)
    run.load(lab)
    saved_at = time.monotonic()
    with asked_to_stop() as stop:
        for measures in steps_of(lab):
            if not math.isfinite(measures["loss"]):
                raise NonFiniteLossError(
                    f"the loss must stay finite, but step {lab.done} left the numbers",
                    got=measures["loss"],
                    fix="choose a smaller --lr, or --clip 1",
                )
            waiting.append(measures)
            report(measures)
            if stop.asked or time.monotonic() - saved_at >= SAVE_EVERY_S:
                run.save(lab, waiting)
                saved_at = time.monotonic()
            if stop.asked:
                raise KeyboardInterrupt
    run.save(lab, waiting)
    return run
