"""Training loss minus effective loss (Theorem "Effective Loss Decomposition" and its cross-entropy form).

Over all inputs the difference is to be the same for every network. Over N drawn inputs, which the theorem speaks of
too, it is so in expectation only: how far it then moves is measured beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.laws import parse_law
from halfmask.records import Record
from halfmask.theory.energy import (
    all_cases,
    effective_loss,
    finite_gap,
    network_output,
    random_network,
    training_loss,
)

LAWS = ("0-1", "0-0.2", "0.3", "beta(2,5)")
TASKS = {"smoke": [(4, 2)], "small": [(4, 2), (6, 3)], "paper": [(4, 2), (6, 3), (7, 4)]}
SIZES = {"smoke": [16, 64], "small": [16, 64, 256], "paper": [16, 64, 256, 1024]}
DATASETS = {"smoke": 4, "small": 16, "paper": 32}
CONSTANT = 1e-9  # a spread of the difference below this share of the loss's own spread is rounding


def units(scale: str) -> list[Recipe]:
    return [
        {
            "n": n,
            "k": k,
            "law": law,
            "loss": loss,
            "networks": 32,
            "sizes": SIZES[scale],
            "datasets": DATASETS[scale],
        }
        for n, k in TASKS[scale]
        for loss in ("squared", "cross-entropy")
        for law in LAWS
    ]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    n, k, loss, law = recipe["n"], recipe["k"], recipe["loss"], parse_law(recipe["law"])
    cases = all_cases(n, k, law)
    random = np.random.default_rng(0)
    outputs = [network_output(*random_network(n, 64, random, scale=2.0), cases) for _ in range(recipe["networks"])]
    training = np.array([training_loss(output, cases, loss) for output in outputs])
    effective = np.array([effective_loss(output, cases, loss) for output in outputs])
    stage = f"({n}, {k}), {loss}, {law}"
    gaps = finite_gap(
        n,
        k,
        law,
        recipe["sizes"],
        loss=loss,
        datasets=recipe["datasets"],
        progress=lambda done, total: progress(stage, done, total),
    )
    return {
        "constant": float(np.mean(training - effective)),
        "range": float(np.ptp(training - effective)),
        "range of the loss": float(np.ptp(training)),
        "N": [gap.num_samples for gap in gaps],
        "spread": [gap.spread for gap in gaps],
    }


def record(scale: str, done: list[Done]) -> Record:
    return Record(
        name="paper effective-loss",
        title="Training loss − effective loss: over all inputs, and over N drawn ones",
        settings={"networks": 32, "laws": list(LAWS)},
        rows=[
            {
                "task": f"({each.recipe['n']}, {each.recipe['k']})",
                "loss": each.recipe["loss"],
                "law": each.recipe["law"],
                "difference": each.result["constant"],
                "its range": each.result["range"],
                "range of the loss": each.result["range of the loss"],
                **{f"spread, N = {N}": s for N, s in zip(each.result["N"], each.result["spread"], strict=True)},
            }
            for each in done
        ],
        extra={
            "series": [
                {
                    "label": f"({each.recipe['n']}, {each.recipe['k']}), {each.recipe['loss']}",
                    "N": each.result["N"],
                    "spread": each.result["spread"],
                }
                for each in done
                if each.recipe["law"] == LAWS[0]
            ]
        },
        notes=["Ranges are over networks; spreads too, root mean square over data sets of N drawn inputs."],
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    worst = max(each.result["range"] / each.result["range of the loss"] for each in done)
    last = done[-1].result
    ours = (
        f"over all inputs to within {worst:.0e} of the loss's range; over N drawn inputs only in expectation: "
        f"spread {last['spread'][0]:.3f} at N = {last['N'][0]}, {last['spread'][-1]:.3f} at N = {last['N'][-1]}"
    )
    return [Finding("effective-loss", ours, len(done), Verdict.HOLDS if worst < CONSTANT else Verdict.FAILS)]


EXPERIMENT = Experiment(
    name="effective-loss",
    claims=("effective-loss",),
    scales={
        "smoke": "(4, 2); seconds",
        "small": "(4, 2) and (6, 3); a minute",
        "paper": "up to (7, 4), and data sets of 1,024; minutes",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
