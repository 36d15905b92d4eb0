"""The two-layer network, which is the one-layer transformer with uniform attention (Appendix "Learning Dynamics")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.experiments.parity_setup import MLP, SEEDS
from halfmask.experiments.parity_units import by, median, parity_unit, race_extra, race_rows, run_parity
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record

NEAR_PERFECT = 0.97
TOGETHER = 2.0  # held-out steps over training steps, to 90 %: up to this there is no plateau between the two


def units(scale: str) -> list[Recipe]:
    return [parity_unit(recipe_for("mlp", seed=seed, **MLP[scale])) for seed in range(SEEDS[scale])]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    return run_parity(recipe, progress)


def record(scale: str, done: list[Done]) -> Record:
    runs, sizes = by(done, lambda recipe: f"{recipe['mask']}, N = {recipe['train']:,}"), MLP[scale]
    return Record(
        name="paper parity-uniform-attention",
        title=f"({sizes['n']}, {sizes['k']})-parity with uniform attention, full batch",
        settings=sizes,
        rows=race_rows(runs, "masks"),
        extra=race_extra(runs),
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    best = [each.result["best held out"] for each in done]
    delays = [_delay(each) for each in done]
    delay = median(delays)
    ours = f"best held out {min(best):.1%} – {max(best):.1%}"
    if delay is not None:
        ours += f"; 90 % held out after {delay:.2f} × the steps to 90 % training"
    verdict = Verdict.HOLDS if min(best) >= NEAR_PERFECT and (delay or 9) <= TOGETHER else Verdict.FAILS
    return [Finding("parity-uniform-attention", ours, len(done), verdict if scale != "smoke" else Verdict.UNDECIDED)]


def _delay(run: Done) -> float | None:
    """Steps to 90 % held out over steps to 90 % on the training set."""
    curve, first = run.result["curve"], {}
    for name in ("training", "held out"):
        reached = (step for step, found in zip(curve["step"], curve[name], strict=True) if found >= 0.9)
        first[name] = next(reached, None)
    if first["training"] is None or first["held out"] is None:
        return None
    return float(first["held out"] / first["training"])


EXPERIMENT = Experiment(
    name="parity-uniform-attention",
    claims=("parity-uniform-attention",),
    scales={
        "smoke": "(6, 2), 100 steps; seconds",
        "small": "(12, 3), five seeds; a minute",
        "paper": "(20, 6), N = 5,000, width 2,560, three seeds; ten minutes",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
