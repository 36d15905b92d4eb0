"""Plain supervision against windows, on the nanoGPT-like transformer (Section "Experiments on k-parity").

Each run stops when it is solved, so a condition's cost is its own steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfmask.experiments.experiment import Done, Experiment, Finding, Progress, Recipe, Verdict
from halfmask.experiments.parity_setup import GPT, SEEDS
from halfmask.experiments.parity_units import by, median, parity_unit, race_extra, race_rows, run_parity
from halfmask.parity.masks import PLAIN
from halfmask.parity.recipe import recipe_for
from halfmask.records import Record

# By k: the windows near the signal-optimal one, those on either side, and the rest. For k = 6 they are the paper's;
# for others the ends are moved by the ratio of the optimal ends, 0.246 : 0.416 : 0.538 for k = 6, 3, 2.
NEAR = {6: ("0-0.2", "0-0.246", "0-0.3"), 3: ("0-0.34", "0-0.416", "0-0.51"), 2: ("0-0.538",)}
SIDES = {6: ("0-0.1", "0-0.4"), 3: ("0-0.17", "0-0.68"), 2: ("0-0.2",)}
OTHERS = {6: ("0-1", "0.142857"), 3: ("0-1", "0.25"), 2: ("0-1",)}
CHANCE = 0.6  # a held-out accuracy up to this is called chance
TOGETHER = 1.25  # held-out steps over training steps up to this is called no delay


def units(scale: str) -> list[Recipe]:
    sizes = GPT[scale]
    k = sizes["k"]
    return [
        parity_unit(recipe_for("gpt", mask=mask, seed=seed, until=0.99, **sizes))
        for seed in range(SEEDS[scale])  # seeds outside: a run that is stopped has seen every condition
        for mask in (PLAIN, *NEAR[k], *SIDES[k], *OTHERS[k])
    ]


def run_unit(recipe: Recipe, data: Path | None, progress: Progress) -> dict[str, Any]:
    return run_parity(recipe, progress)


def record(scale: str, done: list[Done]) -> Record:
    runs = by(done, lambda recipe: recipe["mask"])
    sizes = GPT[scale]
    return Record(
        name="paper parity-windows",
        title=f"({sizes['n']}, {sizes['k']})-parity, nanoGPT-like: steps to 99 % by mask law",
        settings=sizes,
        rows=race_rows(runs, "masks"),
        extra=race_extra(runs),
        notes=[f"Near the signal-optimal window: {', '.join(NEAR[sizes['k']])}."],
    )


def check(scale: str, done: list[Done]) -> list[Finding]:
    runs, k = by(done, lambda recipe: recipe["mask"]), GPT[scale]["k"]
    return [
        memorises(runs[PLAIN], [each for mask in NEAR[k] for each in runs[mask]], decided=scale != "smoke"),
        generalises([each for mask, many in runs.items() if mask != PLAIN for each in many], decided=scale != "smoke"),
        fastest(
            {mask: median([each.result["solved"] for each in runs[mask]]) for mask in (*NEAR[k], *SIDES[k])},
            NEAR[k],
            SEEDS[scale],
            decided=scale != "smoke",
        ),
    ]


def memorises(plain: list[Done], masked: list[Done], *, decided: bool) -> Finding:
    """Plain supervision has fitted, and is at chance when masked diffusion has solved the task."""
    fitted = [each.result["fitted"] for each in plain]
    solved_at = median([each.result["solved"] for each in masked])
    until = float("inf") if solved_at is None else solved_at
    then = [held_out_at(each, until) for each in plain]
    ours = (
        f"fitted at {_step(median(fitted))}; held out {max(then):.1%} at most when masked runs are solved "
        f"({_step(solved_at)})"
    )
    verdict = Verdict.HOLDS if max(then) <= CHANCE else Verdict.FAILS
    if not decided or solved_at is None or None in fitted:
        verdict = Verdict.UNDECIDED
    return Finding("parity-memorises", ours, len(plain), verdict)


def held_out_at(run: Done, step: float) -> float:
    """The last held-out accuracy up to a step."""
    curve = run.result["curve"]
    return float(
        [a for at, a in zip(curve["step"], curve["held out"], strict=True) if at <= step or at == curve["step"][0]][-1]
    )


def generalises(masked: list[Done], *, decided: bool) -> Finding:
    solved = [each.result for each in masked if each.result["solved"] is not None]
    ratios = [each["solved"] / (each["fitted"] or each["solved"]) for each in solved]
    ratio = median(ratios) if ratios else None
    ours = f"{len(solved)} of {len(masked)} masked runs solved"
    if ratio is None:
        return Finding("parity-generalises", ours, len(masked), Verdict.UNDECIDED)
    ours += f"; held-out steps over training steps: median {ratio:.2f}, worst {max(ratios):.2f}"
    verdict = (Verdict.HOLDS if ratio <= TOGETHER else Verdict.FAILS) if decided else Verdict.UNDECIDED
    return Finding("parity-generalises", ours, len(masked), verdict)


def fastest(medians: dict[str, float | None], near: tuple[str, ...], num_seeds: int, *, decided: bool) -> Finding:
    """Holds where every near window is faster than those on the sides; does not where a side is faster than all."""
    steps = {mask: float("inf") if found is None else found for mask, found in medians.items()}
    sides = [found for mask, found in steps.items() if mask not in near]
    inside = [steps[mask] for mask in near]
    verdict = Verdict.UNDECIDED
    if decided and max(inside) < min(sides):
        verdict = Verdict.HOLDS
    elif decided and min(sides) < min(inside):
        verdict = Verdict.FAILS
    ours = "median steps " + ", ".join(f"{mask}: {_step(found)}" for mask, found in medians.items())
    return Finding("parity-fastest", ours, num_seeds, verdict)


def _step(step: float | None) -> str:
    return "never" if step is None else f"step {step:,.0f}"


EXPERIMENT = Experiment(
    name="parity-windows",
    claims=("parity-memorises", "parity-generalises", "parity-fastest"),
    scales={
        "smoke": "(6, 2), 60 steps; seconds",
        "small": "(10, 3), five seeds; minutes",
        "paper": "(20, 6), three seeds; an evening on two CPU cores",
    },
    units=units,
    run_unit=run_unit,
    record=record,
    check=check,
)
