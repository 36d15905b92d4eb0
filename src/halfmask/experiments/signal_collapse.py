"""Feature learning with signal masks alone, against the mixture (Corollary "Feature Learning Collapse …").

Two kinds of units. *ascent*: the theory's own dynamics, exact: the readout stays at its optimum and the hidden weights
climb E(W). *training*: the two-layer network trained as the laboratory trains it, with masks of the law, or with those
of them that are signal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.experiments.parity_units import median, parity_unit, run_parity
from halfmask.laws import parse_law
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record, Row
from halfmask.theory.energy import all_cases, landscape, random_network, signal_only

N, K, LAW = 4, 2, "0-0.5"
WIDTHS = {"smoke": (64,), "small": (32, 64, 128, 256), "paper": (16, 32, 64, 128, 256, 512)}
ASCENT_STEPS = {"smoke": 10, "small": 100, "paper": 300}
STEP_LENGTH = 0.02  # of the hidden weights' norm: a step goes so far along the gradient, or less where that is short
SEEDS = {"smoke": 1, "small": 3, "paper": 5}
FLAT = 1e-6  # a gradient below this, where the mixture's is near 1 at small widths, is rounding
TRAINING = {
    "smoke": {"n": 8, "k": 2, "train": 128, "held_out": 64, "width": 64, "lr": 1e-2, "steps": 400},
    "small": {"n": 10, "k": 3, "train": 400, "held_out": 400, "width": 512, "lr": 3e-3, "steps": 4000},
    "paper": {"n": 14, "k": 4, "train": 4000, "held_out": 2000, "width": 1024, "lr": 2e-3, "steps": 8000},
}


def units(scale: str) -> list[Recipe]:
    seeds = range(SEEDS[scale])
    ascent = [
        {"kind": "ascent", "n": N, "k": K, "law": LAW, "masks": masks, "width": width, "seed": seed,
         "steps": ASCENT_STEPS[scale]}
        for width in WIDTHS[scale] for masks in ("signal", "both") for seed in seeds
    ]  # fmt: skip
    training = [
        {"kind": "training", **parity_unit(recipe_for("mlp", mask=mask, seed=seed, until=0.99, **TRAINING[scale]))}
        for mask in ("signal of 0-0.4", "0-0.4")
        for seed in seeds
    ]
    return [*ascent, *training]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    if recipe["kind"] == "ascent":
        return ascend(recipe, progress)
    return run_parity({key: value for key, value in recipe.items() if key != "kind"}, progress)


def ascend(recipe: Recipe, progress: Progress) -> dict[str, Any]:
    cases = all_cases(recipe["n"], recipe["k"], parse_law(recipe["law"]))
    if recipe["masks"] == "signal":
        cases = signal_only(cases)
    start_DE = random_network(recipe["n"], recipe["width"], np.random.default_rng(recipe["seed"]))[1]
    W_DE = start_DE.copy()
    shares, gradients = [], []
    for step in range(recipe["steps"]):
        found = landscape(W_DE, cases)
        norm = float(np.linalg.norm(found.gradient_DE))
        shares.append(found.energy / found.constant)
        gradients.append(norm)
        W_DE = W_DE + found.gradient_DE * (STEP_LENGTH * np.linalg.norm(W_DE) / max(norm, 1.0))
        progress(f"ascent, {recipe['masks']}, width {recipe['width']}", step + 1, recipe["steps"])
    return {
        "E / ceiling": [shares[0], shares[-1]],
        "|∇E|": [gradients[0], gradients[-1]],
        "movement": float(np.linalg.norm(W_DE - start_DE) / np.linalg.norm(start_DE)),
    }


def record(scale: str, done: list[Done]) -> Record:
    ascent = _ascent(done)
    training: list[Row] = []
    for mask in dict.fromkeys(each.recipe["mask"] for each in done if each.recipe["kind"] == "training"):
        runs = [each.result for each in done if each.recipe.get("mask") == mask]
        training.append(
            {
                "masks": mask,
                "runs": len(runs),
                "solved": sum(run["solved"] is not None for run in runs),
                "median steps to 99 %": median([run["solved"] for run in runs]),
                "held out at the end": median([run["curve"]["held out"][-1] for run in runs]),
                "movement of W": median([run["movement"] for run in runs]),
            }
        )
    return Record(
        name="paper signal-collapse",
        title=f"Ascent of E(W) with the readout at its optimum, ({N}, {K})-parity, law {LAW}",
        settings={"n": N, "k": K, "law": LAW, "step length": STEP_LENGTH, "widths": list(WIDTHS[scale])},
        rows=ascent,
        tables={"Training all weights": training} if training else {},
        notes=[
            "Movement is that of the hidden weights, as a share of their norm at the start.",
            "A network that fits every input of the mixture is flat with noise masks too.",
        ],
    )


def _ascent(done: list[Done]) -> list[Row]:
    chosen = [each for each in done if each.recipe["kind"] == "ascent"]
    kinds = dict.fromkeys((each.recipe["width"], each.recipe["masks"]) for each in chosen)
    rows: list[Row] = []
    for width, masks in kinds:
        results = [e.result for e in chosen if (e.recipe["width"], e.recipe["masks"]) == (width, masks)]
        rows.append(
            {
                "width": width,
                "masks": {"signal": "signal only", "both": "signal and noise"}[masks],
                "E / ceiling, start": float(np.mean([each["E / ceiling"][0] for each in results])),
                "end": float(np.mean([each["E / ceiling"][1] for each in results])),
                "|∇E|, start": float(np.mean([each["|∇E|"][0] for each in results])),
                "movement": float(np.mean([each["movement"] for each in results])),
                "seeds": len(results),
            }
        )
    return rows


def check(scale: str, done: list[Done]) -> list[Finding]:
    """Holds where some width is flat with signal masks alone and not with the mixture."""
    rows = {(row["width"], row["masks"]): row for row in _ascent(done)}
    widths = sorted({width for width, _ in rows})
    flat = {masks: [w for w in widths if rows[w, masks]["|∇E|, start"] < FLAT] for _, masks in rows}
    signal, both = flat["signal only"], flat["signal and noise"]
    apart = [width for width in signal if width not in both]
    training = record(scale, done).tables.get("Training all weights", [])
    trained = "; ".join(f"{row['masks']}: {row['solved']} of {row['runs']} solved" for row in training)
    ours = f"flat with signal masks at widths {_list(signal)}, with the mixture at {_list(both)}; trained, {trained}"
    verdict = Verdict.HOLDS if apart else (Verdict.UNDECIDED if not signal else Verdict.FAILS)
    return [Finding("collapse", ours, SEEDS[scale], verdict)]


def _list(widths: list[int]) -> str:
    return ", ".join(map(str, widths)) or "none"


EXPERIMENT = Experiment(
    name="signal-collapse",
    claims=("collapse",),
    scales={
        "smoke": "one width, ten steps; seconds",
        "small": "four widths, three seeds, (10, 3) trained; minutes",
        "paper": "six widths, five seeds, (14, 4) trained; half an hour",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
