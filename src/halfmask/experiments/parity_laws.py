"""Beyond the paper: squared against cross-entropy loss, and other laws of the window's mean ratio.

The laws share E[t] of the signal-optimal window: a Beta of about its spread, the point, and curricula that reach the
window from a narrower and from a wider one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe
from halfmask.experiments.parity_units import by, parity_unit, race_extra, race_rows, run_parity
from halfmask.parity.masks import Masks
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record
from halfmask.theory.optimum import best_upper_end, one_dependency

SEEDS = {"smoke": 1, "small": 5, "paper": 5}
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"n": 6, "k": 2, "train": 32, "held_out": 32, "width": 32, "steps": 60, "lr": 1e-2, "evaluate_every": 20},
    "small": {"n": 10, "k": 3, "train": 768, "held_out": 256, "width": 512, "steps": 4000, "lr": 3e-3,
              "evaluate_every": 25},
    "paper": {"n": 14, "k": 5, "train": 12_000, "held_out": 2000, "width": 1024, "rows": 4096, "steps": 10_000,
              "lr": 3e-3, "evaluate_every": 50},
}  # fmt: skip
MOVES = {"smoke": 30, "small": 400, "paper": 2000}  # steps of a curriculum


def laws(scale: str) -> dict[str, str]:
    end = round(best_upper_end(0.0, one_dependency(SIZES[scale]["k"])), 3)
    mean, moves = end / 2, MOVES[scale]
    both = 3 * (1 - mean) / mean - 1  # a + b for which a Beta of this mean has the variance of U[0, 2 mean]
    return {
        "window": f"0-{end}",
        "beta": f"beta({mean * both:.3f},{(1 - mean) * both:.3f})",
        "point": f"{mean:.4f}",
        "widening window": f"0-{end / 2:.3f} to 0-{end} over {moves}",
        "narrowing window": f"0-{min(1.0, 2 * end):.3f} to 0-{end} over {moves}",
        "uniform": "0-1",
    }


def units(scale: str) -> list[Recipe]:
    return [
        parity_unit(recipe_for("mlp", mask=mask, loss=loss, seed=seed, until=0.99, **SIZES[scale]))
        for seed in range(SEEDS[scale])
        for loss in ("squared", "cross-entropy")
        for mask in laws(scale).values()
    ]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    return run_parity(recipe, progress)


def record(scale: str, done: list[Done]) -> Record:
    names = {mask: name for name, mask in laws(scale).items()}
    runs = by(done, lambda recipe: f"{names[recipe['mask']]}, {recipe['loss']}")
    rows = race_rows(runs, "law, loss")
    for row, (_, (first, *_)) in zip(rows, runs.items(), strict=True):
        row["P_S"] = Masks.parse(first.recipe["mask"]).signal_share(10**9, SIZES[scale]["k"])
    sizes = SIZES[scale]
    return Record(
        name="paper parity-laws",
        title=f"Laws of equal mean ratio and both losses on ({sizes['n']}, {sizes['k']})-parity, two-layer network",
        settings=sizes,
        rows=rows,
        extra=race_extra(runs),
        notes=[f"{name}: {mask}" for name, mask in laws(scale).items()],
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    return []  # the paper says nothing of it


EXPERIMENT = Experiment(
    name="parity-laws",
    claims=(),
    scales={
        "smoke": "(6, 2); seconds",
        "small": "(10, 3), five seeds; minutes",
        "paper": "(14, 5), five seeds; an hour",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
