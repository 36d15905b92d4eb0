"""Plain supervision until it groks, or as long as the run lasts (Appendix "Learning parity by output supervision")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.experiments.parity_setup import GPT
from halfmask.experiments.parity_units import by, median, parity_unit, race_extra, race_rows, run_parity
from halfmask.parity.masks import PLAIN
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record

BEST = {2: "0-0.538", 3: "0-0.416", 6: "0-0.246"}  # the signal-optimal window, by k
SEEDS = {"smoke": 1, "small": 3, "paper": 3}
STEPS = {"smoke": 80, "small": 5000, "paper": 200_000}
EVERY = {"smoke": 20, "small": 25, "paper": 1000}


def units(scale: str) -> list[Recipe]:
    sizes = {**GPT[scale], "evaluate_every": EVERY[scale]}
    recipes = []
    for seed in range(SEEDS[scale]):
        recipes.append(recipe_for("gpt", **{**sizes, "mask": BEST[sizes["k"]], "seed": seed, "until": 0.99}))
        recipes.append(
            recipe_for("gpt", **{**sizes, "mask": PLAIN, "seed": seed, "until": 0.99, "steps": STEPS[scale]})
        )
    return [parity_unit(recipe) for recipe in recipes]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    return run_parity(recipe, progress)


def record(scale: str, done: list[Done]) -> Record:
    runs, sizes = by(done, lambda recipe: recipe["mask"]), GPT[scale]
    return Record(
        name="paper parity-grokking",
        title=f"({sizes['n']}, {sizes['k']})-parity, nanoGPT-like: plain supervision for up to {STEPS[scale]:,} steps",
        settings=sizes,
        rows=race_rows(runs, "masks"),
        extra=race_extra(runs),
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    runs = by(done, lambda recipe: recipe["mask"])
    plain, masked = runs[PLAIN], runs[BEST[GPT[scale]["k"]]]
    grokked = [each.result["solved"] for each in plain]
    fitted, fast = median([each.result["fitted"] for each in plain]), median([e.result["solved"] for e in masked])
    slow = median(grokked)
    num = sum(step is not None for step in grokked)
    ours = f"{num} of {len(plain)} runs generalise within {STEPS[scale]:,} steps"
    if slow is not None and fast is not None and fitted is not None:
        ours += f"; median {slow:,.0f}, {slow / fitted:.1f} × the steps to fit, {slow / fast:.1f} × the masked run's"
    else:
        ours += f"; best held out {max(each.result['best held out'] for each in plain):.1%}"
    # Grokking: it generalises, and long after it has fitted.
    verdict = Verdict.UNDECIDED
    if scale != "smoke" and num == len(plain) and slow is not None and fitted is not None:
        verdict = Verdict.HOLDS if slow >= 2 * fitted else Verdict.FAILS
    return [Finding("parity-grokking", ours, len(plain), verdict)]


EXPERIMENT = Experiment(
    name="parity-grokking",
    claims=("parity-grokking",),
    scales={
        "smoke": "(6, 2), 80 steps; seconds",
        "small": "(10, 3), three seeds, up to 5,000 steps; minutes",
        "paper": "(20, 6), three seeds, up to 200,000 steps; a night on two CPU cores",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
