"""The bound on samples (Theorem "Information-Theoretic Identifiability"), tried by the procedure of its proof."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.laws import parse_law
from halfmask.records import Record
from halfmask.theory.identify import SuccessRate, samples_needed, simulate
from halfmask.theory.optimum import sample_optimal

DELTA = 0.05
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the bound
TASKS = {"smoke": [(8, 2)], "small": [(12, 3), (20, 6)], "paper": [(12, 2), (12, 3), (20, 6), (30, 8)]}
TRIALS = {"smoke": 20, "small": 100, "paper": 400}


def units(scale: str) -> list[Recipe]:
    return [
        {"n": n, "k": k, "law": law, "delta": DELTA, "trials": TRIALS[scale]}
        for n, k in TASKS[scale]
        for law in (f"0-{sample_optimal(k).hi:.4f}", f"{1 / (k + 1):.4f}", "0-1")
    ]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    n, k, law = recipe["n"], recipe["k"], parse_law(recipe["law"])
    bound = samples_needed(n, k, law, delta=recipe["delta"])
    rates = simulate(
        n,
        k,
        law,
        [math.ceil(share * bound) for share in SHARES],
        trials=recipe["trials"],
        progress=lambda done, total: progress(f"({n}, {k}), {law}", done, total),
    )
    return {
        "bound": bound,
        "N": [rate.num_samples for rate in rates],
        "successes": [rate.successes for rate in rates],
    }


def record(scale: str, done: list[Done]) -> Record:
    rows = []
    for each in done:
        for size, successes in zip(each.result["N"], each.result["successes"], strict=True):
            rate = SuccessRate(size, each.recipe["trials"], successes)
            low, high = rate.interval
            rows.append(
                {
                    "task": _task(each),
                    "law": each.recipe["law"],
                    "N": size,
                    "N / bound": size / each.result["bound"],
                    "success": rate.share,
                    "low": low,
                    "high": high,
                }
            )
    return Record(
        name="paper sample-complexity",
        title="Share of data sets that identify the secret set, Wilson 95 % interval",
        settings={"delta": DELTA, "trials": TRIALS[scale]},
        rows=rows,
        notes=["The procedure is that of the proof, with the proof's threshold."],
    )


def _task(each: Done) -> str:
    return f"({each.recipe['n']}, {each.recipe['k']})"


def check(scale: str, done: list[Done]) -> list[Finding]:
    """At N = the bound itself, for every law."""
    failed = [each for each in done if each.result["successes"][-1] < (1 - DELTA) * each.recipe["trials"]]
    names = ", ".join(
        f"{_task(each)} {each.recipe['law']} ({each.result['successes'][-1]} of {each.recipe['trials']})"
        for each in failed
    )
    ours = f"{len(done) - len(failed)} of {len(done)} laws succeed at the bound"
    if failed:
        ours += f"; not {names}: rows that hide a bit show a smaller gap than the proof takes"
    verdict = Verdict.FAILS if failed else Verdict.HOLDS
    return [Finding("sample-complexity", ours, done[0].recipe["trials"], verdict)]


EXPERIMENT = Experiment(
    name="sample-complexity",
    claims=("sample-complexity",),
    scales={
        "smoke": "(8, 2), 20 data sets; seconds",
        "small": "(12, 3) and (20, 6), 100 data sets; seconds",
        "paper": "up to (30, 8), 400 data sets; a minute",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
