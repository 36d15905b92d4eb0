"""Beyond the paper: steps to solve (n, k)-parity against the upper end of U[0, t1], for several k.

The theory gives two optimal ends for each k: of the signal, and of the number of samples. Which t1 is fastest?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe
from halfmask.experiments.parity_units import by, median, parity_unit, race_extra, run_parity, spread
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record, Row
from halfmask.theory.optimum import best_upper_end, one_dependency, sample_optimal

SHARES = (0.4, 0.7, 1.0, 1.4, 2.0)  # of the signal-optimal end
KS = {"smoke": (2,), "small": (2, 3, 4), "paper": (2, 3, 4, 5, 6, 7, 8)}
SEEDS = {"smoke": 1, "small": 3, "paper": 3}
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"n": 6, "train": 32, "held_out": 32, "width": 32, "steps": 60, "lr": 1e-2, "evaluate_every": 20},
    # Nearly all inputs are trained on: what differs is the masks, not what a data set of this size leaves open.
    "small": {"n": 10, "train": 768, "held_out": 256, "width": 512, "steps": 4000, "lr": 3e-3, "evaluate_every": 25},
    "paper": {"n": 12, "train": 3072, "held_out": 1024, "width": 1024, "steps": 10_000, "lr": 3e-3,
              "evaluate_every": 50},
}  # fmt: skip


def units(scale: str) -> list[Recipe]:
    return [
        parity_unit(recipe_for("mlp", k=k, mask=f"0-{end}", seed=seed, until=0.99, **SIZES[scale]))
        for k in KS[scale]
        for seed in range(SEEDS[scale])
        for end in ends(k)
    ]


def ends(k: int) -> list[float]:
    best = best_upper_end(0.0, one_dependency(k))
    return sorted({round(min(share * best, 1.0), 3) for share in SHARES})


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    return run_parity(recipe, progress)


def record(scale: str, done: list[Done]) -> Record:
    rows: list[Row] = []
    tables: dict[str, list[Row]] = {}
    for k, of_k in by(done, lambda recipe: str(recipe["k"])).items():
        masks = by(of_k, lambda recipe: recipe["mask"])
        steps = {mask: median([each.result["solved"] for each in runs]) for mask, runs in masks.items()}
        reached = {mask: found for mask, found in steps.items() if found is not None}
        fastest = min(reached, key=lambda mask: reached[mask]) if reached else None
        rows.append(
            {
                "k": int(k),
                "predicted t1, signal": best_upper_end(0.0, one_dependency(int(k))),
                "predicted t1, samples": sample_optimal(int(k)).hi,
                "fastest t1": None if fastest is None else float(fastest.removeprefix("0-")),
                "its median steps": None if fastest is None else reached[fastest],
                "runs": len(of_k),
            }
        )
        tables[f"k = {k}"] = [
            {
                "t1": float(mask.removeprefix("0-")),
                "median steps to 99 %": steps[mask],
                "from – to": spread([each.result["solved"] for each in runs]),
                "best held out": median([each.result["best held out"] for each in runs]),
            }
            for mask, runs in masks.items()
        ]
    return Record(
        name="paper parity-scaling",
        title=f"Which t1 of U[0, t1] solves ({SIZES[scale]['n']}, k)-parity in the fewest steps?",
        settings=SIZES[scale],
        rows=rows,
        tables=tables,
        extra=race_extra(by(done, lambda recipe: f"k = {recipe['k']}, {recipe['mask']}")),
        notes=["Two-layer network, squared loss. t1: 0.4, 0.7, 1, 1.4 and 2 times the signal-optimal end."],
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    return []  # the paper says nothing of it


EXPERIMENT = Experiment(
    name="parity-scaling",
    claims=(),
    scales={
        "smoke": "(6, 2); seconds",
        "small": "(10, k) for k = 2 to 4, three seeds; minutes",
        "paper": "(12, k) for k = 2 to 8, three seeds; hours",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
