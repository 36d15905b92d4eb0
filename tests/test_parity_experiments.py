"""The parity experiments: each runs at its smallest scale, resumes and is drawn; verdicts on made-up records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halfmask.experiments import parity_grokking, parity_uniform_attention, parity_windows, signal_collapse
from halfmask.experiments.claims import CLAIMS, EXPERIMENTS, experiment
from halfmask.experiments.experiment import Done, Finding, Verdict
from halfmask.experiments.parity_units import median, run_parity, spread, summary
from halfmask.experiments.parity_windows import held_out_at
from halfmask.laws import Window, parse_law
from halfmask.parity import run as runs
from halfmask.parity.masks import Masks
from halfmask.parity.recipe import ParityRecipe
from halfmask.parity.summary import Curve
from halfmask.records import Record
from halfmask.reports.figures import FIGURES, draw
from halfmask.theory.optimum import best_upper_end, one_dependency

OURS = [
    "effective-loss",
    "sample-complexity",
    "signal-collapse",
    "parity-windows",
    "parity-grokking",
    "parity-uniform-attention",
    "parity-scaling",
    "parity-laws",
]
BEYOND = {"parity-scaling", "parity-laws"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALFMASK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", OURS)
def test_the_smallest_scale_runs_and_is_drawn(name: str, tmp_path: Path, cache: Path) -> None:
    chosen, results = experiment(name), tmp_path / "results"
    chosen.run(results, "smoke", None, lambda stage, done, total: None)
    lines = chosen.path(results, "smoke").read_bytes()
    chosen.run(results, "smoke", None, lambda stage, done, total: pytest.fail("nothing is left to run"))
    assert chosen.path(results, "smoke").read_bytes() == lines
    assert len(lines.splitlines()) == len(chosen.units("smoke"))
    assert not list(cache.rglob("*.pt"))  # what a unit kept while it ran is gone
    record = chosen.table(results, "smoke")
    assert record.rows and record.name == f"paper {name}" and record.name in FIGURES
    saved = tmp_path / "record.json"
    saved.write_text(record.to_json(), encoding="utf-8")
    draw(Record.load(saved), tmp_path / "figure.svg")
    findings = chosen.findings(results, "smoke")
    assert {each.claim for each in findings} == set(chosen.claims)
    assert bool(chosen.claims) == (name not in BEYOND)


def test_every_parity_claim_has_its_experiment() -> None:
    for claim in CLAIMS:
        if claim.experiment in OURS:
            assert claim.key in experiment(claim.experiment).claims
    assert set(OURS) <= set(EXPERIMENTS)
    for name in OURS:
        scales = experiment(name).scales
        assert list(scales) == ["smoke", "small", "paper"]
        for scale in scales:
            recipes = [json.dumps(recipe, sort_keys=True) for recipe in experiment(name).units(scale)]
            assert len(set(recipes)) == len(recipes)


def test_the_windows_are_around_the_predicted_one() -> None:
    for k, near in parity_windows.NEAR.items():
        best = best_upper_end(0.0, one_dependency(k))
        tops = [parse_law(mask).support[1] for mask in near]
        assert min(abs(top - best) for top in tops) < 5e-4
        sides = [parse_law(mask).support[1] for mask in parity_windows.SIDES[k]]
        assert min(sides) < min(tops)
        assert parity_grokking.BEST[k] in near
    assert {"0-0.1", "0-0.2", "0-0.246", "0-0.3", "0-0.4", "0-1"} <= {
        recipe["mask"] for recipe in experiment("parity-windows").units("paper")
    }


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_the_laws_have_one_mean(scale: str) -> None:
    from halfmask.experiments.parity_laws import laws

    found = {name: Masks.parse(mask).law(10**9) for name, mask in laws(scale).items()}
    window = found["window"]
    assert isinstance(window, Window)
    for name in ("beta", "point", "widening window", "narrowing window"):
        law = found[name]
        assert law is not None and law.mean == pytest.approx(window.mean, abs=1e-3)
    beta = found["beta"]
    assert beta is not None and beta.variance == pytest.approx(window.variance, rel=2e-2)


# Units


TINY = ParityRecipe(n=8, k=3, train=40, held_out=20, width=16, steps=12, evaluate_every=4)


def test_a_unit_that_is_stopped_goes_on(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    unit = dict(vars(TINY))
    unbroken = run_parity(unit, lambda stage, done, total: None)
    monkeypatch.setattr(runs, "SAVE_EVERY_S", 0.0)

    def stop(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parity(unit, stop)
    (kept,) = (cache / "parity").iterdir()
    assert len((kept / "measures.jsonl").read_text(encoding="utf-8").splitlines()) == 9  # stopped in the tenth
    assert run_parity(unit, lambda stage, done, total: None) == unbroken
    assert not list((cache / "parity").iterdir())
    assert unbroken["steps"] == 12 and unbroken["movement"] > 0


def test_a_long_curve_is_thinned() -> None:
    curve = Curve()
    for step in range(1, 1001):
        measures = {"step": step, "loss": 1.0, "signal share": 0.3, "signal loss": 1.0, "noise loss": 0.5}
        curve.add({**measures, "train accuracy": 1.0, "held-out accuracy": step / 1000})
    found = summary(curve)
    assert found["solved"] == 990 and found["fitted"] == 1 and found["best held out"] == 1.0
    steps = found["curve"]["step"]
    assert len(steps) <= 61 and steps[0] == 1 and steps[-1] == 1000 and steps == sorted(set(steps))
    assert {len(column) for column in found["curve"].values()} == {len(steps)}


def test_medians_of_what_may_never_come() -> None:
    assert median([100, 300, 200]) == 200
    assert median([100, 300, None]) == 300
    assert median([100, None, None]) is None
    assert spread([100, 2000]) == "100 – 2,000"
    assert spread([100, None]) == "100 – never (1)"
    assert spread([None]) == "none"


# Verdicts


def made_up(mask: str, solved: int | None, fitted: int | None, held_out: tuple[float, ...] = (0.5, 0.5, 1.0)) -> Done:
    curve = {"step": [100, 1000, 10_000], "held out": list(held_out), "training": [0.5, 1.0, 1.0]}
    result = {
        "solved": solved, "fitted": fitted, "steps": 10_000, "best held out": max(held_out), "curve": curve,
    }  # fmt: skip
    return Done({"mask": mask, "train": 5000}, result)


def windows(steps: dict[str, int | None], plain_held_out: tuple[float, ...] = (0.5, 0.5, 0.5)) -> dict[str, Finding]:
    done = [made_up("plain", None, 300, plain_held_out) for _ in range(3)]
    done += [made_up(mask, step, step) for mask, step in steps.items() for _ in range(3)]
    return {each.claim: each for each in parity_windows.check("paper", done)}


AS_THE_PAPER = {"0-0.1": 3000, "0-0.2": 1000, "0-0.246": 1000, "0-0.3": 1200, "0-0.4": 4000, "0-1": None}
AS_THE_PAPER["0.142857"] = 900


def test_verdicts_of_the_windows() -> None:
    found = windows(AS_THE_PAPER)
    assert {each.verdict for each in found.values()} == {Verdict.HOLDS}
    assert windows({**AS_THE_PAPER, "0-0.1": 500})["parity-fastest"].verdict == Verdict.FAILS
    assert windows({**AS_THE_PAPER, "0-0.1": 1100})["parity-fastest"].verdict == Verdict.UNDECIDED
    assert windows({**AS_THE_PAPER, "0-0.4": None})["parity-fastest"].verdict == Verdict.HOLDS
    assert windows(AS_THE_PAPER, (0.5, 0.9, 0.9))["parity-memorises"].verdict == Verdict.FAILS
    never = windows(dict.fromkeys(AS_THE_PAPER))
    assert {each.verdict for each in never.values()} == {Verdict.UNDECIDED}
    assert "never" in never["parity-fastest"].ours


def test_held_out_accuracy_at_a_step() -> None:
    run = made_up("plain", None, 300, (0.5, 0.6, 0.7))
    assert [held_out_at(run, step) for step in (1, 100, 999, 1000, 1e9)] == [0.5, 0.5, 0.5, 0.6, 0.7]


@pytest.mark.parametrize(
    "plain, verdict",
    [(9000, Verdict.HOLDS), (500, Verdict.FAILS), (None, Verdict.UNDECIDED)],
)
def test_verdicts_of_grokking(plain: int | None, verdict: Verdict) -> None:
    done = [made_up("plain", plain, 300), made_up("0-0.246", 1000, 1000)]
    (finding,) = parity_grokking.check("paper", done)
    assert finding.verdict == verdict
    assert ("30.0 × the steps to fit, 9.0 × the masked run's" in finding.ours) == (plain == 9000)


def test_verdicts_of_uniform_attention() -> None:
    (good,) = parity_uniform_attention.check("paper", [made_up("0-0.2", 1000, 1000, (0.5, 0.95, 1.0))])
    (late,) = parity_uniform_attention.check("paper", [made_up("0-0.2", 10_000, 1000, (0.5, 0.5, 1.0))])
    (poor,) = parity_uniform_attention.check("paper", [made_up("0-0.2", None, 1000, (0.5, 0.92, 0.92))])
    assert [each.verdict for each in (good, late, poor)] == [Verdict.HOLDS, Verdict.FAILS, Verdict.FAILS]


def test_verdicts_of_the_collapse() -> None:
    def ascent(masks: str, width: int, gradient: float) -> Done:
        recipe = {"kind": "ascent", "masks": masks, "width": width}
        return Done(recipe, {"E / ceiling": [0.9, 1.0], "|∇E|": [gradient, gradient], "movement": 0.1})

    def verdict(signal: float, both: float) -> Verdict:
        (finding,) = signal_collapse.check("small", [ascent("signal", 64, signal), ascent("both", 64, both)])
        return finding.verdict

    assert verdict(1e-12, 0.5) == Verdict.HOLDS
    assert verdict(1e-12, 1e-12) == Verdict.FAILS
    assert verdict(0.5, 0.5) == Verdict.UNDECIDED
