"""A unit that trains: from its recipe to a curve and the steps that it took, resumable in the middle.

While it runs, its checkpoints are in the folder that HALFMASK_CACHE names (else ~/.cache/halfmask); when it is done
they go, and what is left is one line of the experiment's record.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Progress, Recipe
from halfmask.parity.recipe import ParityRecipe
from halfmask.parity.run import train
from halfmask.parity.summary import AVERAGED, SOLVED, Curve
from halfmask.records import Row

POINTS = 60  # of a curve that is recorded


def parity_unit(recipe: ParityRecipe) -> Recipe:
    return asdict(recipe)


def cache_folder() -> Path:
    named = os.environ.get("HALFMASK_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "halfmask"


def run_parity(unit: Recipe, progress: Progress) -> dict[str, Any]:
    recipe = ParityRecipe(**unit)
    key = hashlib.sha256(json.dumps(unit, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder() / "parity" / key
    stage = f"({recipe.n}, {recipe.k}) {recipe.model}, {recipe.mask}, seed {recipe.seed}"

    def report(measures: dict[str, float]) -> None:
        if measures["step"] % 10 == 0:
            progress(stage, int(measures["step"]), recipe.steps)

    run = train(recipe, folder, resume=True, report=report)
    result = {**summary(Curve.of(run.lines())), "movement": run.movement(recipe)}
    shutil.rmtree(folder)
    return result


def summary(curve: Curve) -> dict[str, Any]:
    """The steps that a run took, and its curve at some of the evaluations."""
    rows = curve.rows
    kept = rows[:: -(-len(rows) // POINTS)]
    if kept[-1] is not rows[-1]:
        kept = [*kept, rows[-1]]
    return {
        "steps": int(rows[-1]["step"]),
        "solved": curve.steps_to(SOLVED),
        "fitted": curve.steps_to(SOLVED, "train accuracy"),
        "best held out": max(row["held-out accuracy"] for row in rows),
        "curve": {
            "step": [int(row["step"]) for row in kept],
            "training": [round(row["train accuracy"], 4) for row in kept],
            "held out": [round(row["held-out accuracy"], 4) for row in kept],
            **{name: [round(row[name], 4) for row in kept] for name in AVERAGED},
        },
    }


def median(numbers: Iterable[float | None]) -> float | None:
    """With None for what never came: larger than every number."""
    found = statistics.median(float("inf") if number is None else number for number in numbers)
    return None if found == float("inf") else found


def spread(numbers: Sequence[float | None]) -> str:
    """The least and the greatest."""
    reached = [number for number in numbers if number is not None]
    if not reached:
        return "none"
    highest = f"{max(reached):,.0f}" if len(reached) == len(numbers) else f"never ({len(numbers) - len(reached)})"
    return f"{min(reached):,.0f} – {highest}"


Runs = dict[str, list[Done]]  # condition → its runs, one for each seed


def by(done: Sequence[Done], name: Callable[[Recipe], str]) -> Runs:
    runs: Runs = {}
    for each in done:
        runs.setdefault(name(each.recipe), []).append(each)
    return runs


def race_rows(runs: Runs, what: str) -> list[Row]:
    """How fast each condition is: steps to 99 % on the training and on the held-out set."""
    rows: list[Row] = []
    for name, each in runs.items():
        results = [one.result for one in each]
        rows.append(
            {
                what: name,
                "runs": len(results),
                "solved": sum(result["solved"] is not None for result in results),
                "median steps to 99 % held out": median([result["solved"] for result in results]),
                "from – to": spread([result["solved"] for result in results]),
                "median steps to 99 % training": median([result["fitted"] for result in results]),
                "best held out": median([result["best held out"] for result in results]),
                "longest run": max(result["steps"] for result in results),
            }
        )
    return rows


def race_extra(runs: Runs) -> dict[str, Any]:
    """What the figure of a race needs: every run's curve and steps."""
    return {
        "runs": {
            name: [
                {"curve": one.result["curve"], "solved": one.result["solved"], "steps": one.result["steps"]}
                for one in each
            ]
            for name, each in runs.items()
        }
    }
