"""Runs of the parity laboratory as a person meets them: the command, its folder, interrupts, resuming, mistakes."""

from __future__ import annotations

import io
import json
import shlex
import signal
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from halfmask.cli.live_curve import describe, picture, sparkline
from halfmask.cli.main import main
from halfmask.cli.parity import FLAGS
from halfmask.errors import DataError, UsageError
from halfmask.parity import run as runs
from halfmask.parity.recipe import MODELS, ParityRecipe, recipe_for
from halfmask.parity.run import Run, train
from halfmask.parity.summary import Curve, run_record
from halfmask.training.loop import NonFiniteLossError

TINY = ParityRecipe(n=8, k=3, train=40, held_out=20, width=16, steps=8, evaluate_every=4)
LINE = "parity train --n 8 --k 3 --train 40 --held-out 20 --width 16 --evaluate-every 4"


def test_a_run_is_kept_whole(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []
    run = train(TINY, tmp_path / "run", report=seen.append)
    assert run.lines() == seen
    assert [line["step"] for line in seen] == list(range(1, 9))
    assert set(seen[0]) == {"step", "loss", "signal share", "signal loss", "noise loss"}
    assert set(seen[3]) - set(seen[0]) == {"train accuracy", "held-out accuracy"}
    assert "n: 8" in (run.folder / "recipe.yaml").read_text(encoding="utf-8")
    assert "torch" in json.loads((run.folder / "run.json").read_text(encoding="utf-8"))


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    unbroken = train(TINY, tmp_path / "unbroken").lines()
    train(replace(TINY, steps=4), tmp_path / "broken")
    assert train(TINY, tmp_path / "broken", resume=True).lines() == unbroken
    assert train(TINY, tmp_path / "broken", resume=True).lines() == unbroken  # nothing is left to do


def test_a_kill_between_measures_and_checkpoint_costs_nothing(tmp_path: Path) -> None:
    unbroken = train(TINY, tmp_path / "unbroken").lines()
    run = train(replace(TINY, steps=4), tmp_path / "broken")
    with run.measures.open("a", encoding="utf-8") as stream:  # lines of steps that no checkpoint holds
        stream.write(json.dumps({**unbroken[4], "loss": -1.0}) + '\n{"step": 6, "lo')
    assert train(TINY, run.folder, resume=True).lines() == unbroken


def test_a_solved_run_stays_solved(tmp_path: Path) -> None:
    easy = replace(TINY, n=4, k=1, train=8, held_out=8, mask="0.3", width=64, lr=1e-2, steps=2000, until=0.9)
    first = train(easy, tmp_path / "run").lines()
    assert first[-1]["held-out accuracy"] >= 0.9 and len(first) < 2000
    assert train(easy, tmp_path / "run", resume=True).lines() == first
    more = train(replace(easy, until=None, steps=len(first) + 3), tmp_path / "run", resume=True).lines()
    assert len(more) == len(first) + 3


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(replace(TINY, steps=2), tmp_path)
    with pytest.raises(UsageError, match=r"a run needs a folder of its own.*--resume"):
        train(TINY, tmp_path)
    with pytest.raises(UsageError, match=r"another recipe, got mask 0-1, there 0-0\.2"):
        train(replace(TINY, mask="0-1"), tmp_path, resume=True)
    Run(tmp_path).checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="must be a checkpoint of this run"):
        train(TINY, tmp_path, resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="must be a folder for a run"):
        train(TINY, tmp_path / "file")


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SAVE_EVERY_S", 0.0)  # a checkpoint after every step
    recipe = replace(TINY, model="gpt", width=8, heads=2, lr=1e30, steps=50)
    with pytest.raises(NonFiniteLossError, match="the loss must stay finite"):
        train(recipe, tmp_path)
    state = torch.load(Run(tmp_path).checkpoint, weights_only=True)
    assert state["done"] == len(Run(tmp_path).lines()) < 50


def test_an_interrupt_loses_nothing(tmp_path: Path) -> None:
    """Stopped at some step, wherever that falls, and resumed: the measures of an unbroken run."""
    words = [*LINE.split(), "--steps", "1200", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "halfmask", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("step 4")  # it is at work
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "go on with --resume" in err and "Traceback" not in err
    run = Run(tmp_path / "run")
    stopped = len(run.lines())
    assert 4 <= stopped < 1200
    recipe = replace(TINY, init=0.33, steps=stopped + 5)
    resumed = train(recipe, run.folder, resume=True).lines()
    assert resumed == train(recipe, tmp_path / "unbroken").lines()


@pytest.mark.parametrize(
    "line, said",
    [
        ("--n 3 --k 5", "1 <= k < n, got n = 3, k = 5"),
        ("--n 8 --train 300", "share the 2^8 = 256 inputs, got 300 + 2,000"),
        ("--mask 0.5-1.2", "0 <= lo < hi <= 1"),
        ("--model mpl", "did you mean mlp?"),
        ("--heads 2", "heads is for the model gpt"),
        (
            "--loss cross-entrpy",
            "loss must be squared or cross-entropy, got cross-entrpy: did you mean cross-entropy?",
        ),
        ("--model gpt --width 30 --heads 4", "width must be a multiple of heads"),
        ("--resume", "--resume needs the folder of a run"),
        ("--until-solved 2", "until is outside its range, got 2.0"),
        ("--plot x.gif", "a .svg, .png or .pdf file"),
        ("--precision half", "precision must be bf16 or fp32"),
    ],
)
def test_a_mistake_gets_one_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["parity", "train", *shlex.split(line)]) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and not out
    assert not list(tmp_path.iterdir())


def test_the_command_prints_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*LINE.split(), "--steps", "8"]) == 0
    out, err = capsys.readouterr()
    assert [line.partition("  ")[0] for line in err.splitlines()] == ["step 4", "step 8"]
    assert "99% held-out accuracy not reached." in out
    assert main([*LINE.split(), "--steps", "8", "--json"]) == 0
    out, err = capsys.readouterr()
    assert not err
    record = json.loads(out)
    assert [row["step"] for row in record["rows"]] == [4, 8]
    assert record["settings"]["width"] == 16
    assert not list(tmp_path.iterdir())


def test_every_field_of_the_recipe_has_a_flag_that_tells_its_default() -> None:
    names = {flag.removeprefix("--").replace("-", "_"): what for flag, (_, what) in FLAGS.items()}
    assert set(names) | {"model", "until"} == {field.name for field in fields(ParityRecipe)}
    mlp = asdict(recipe_for("mlp"))
    for name, what in names.items():
        said = what.partition("(default: ")[2].removesuffix(")")
        if mlp[name] is not None:
            assert said.partition(";")[0] == _said(mlp[name])
        for model, changes in MODELS.items():
            if model != "mlp" and name in changes and changes[name] != mlp[name]:
                assert f"{model} {_said(changes[name])}" in said
    with pytest.raises(UsageError, match=r"did you mean gpt\?"):
        recipe_for("gtp")


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_curve_is_means_between_evaluations(tmp_path: Path) -> None:
    lines = train(TINY, tmp_path).lines()
    curve = Curve.of(lines)
    assert [row["step"] for row in curve.rows] == [4, 8]
    assert curve.rows[1]["loss"] == pytest.approx(sum(line["loss"] for line in lines[4:]) / 4)
    assert curve.steps_to(0.0) == 4 and curve.steps_to(1.1) is None
    record = run_record(TINY, curve)
    assert record.rows[0]["P_S"] == pytest.approx(4 * (1 / 0.2) * _integral(0.2, 3))
    assert [row["held out"] for row in record.rows] == [row["held-out accuracy"] for row in curve.rows]
    assert not record.tables
    small = replace(TINY, n=5, train=20, held_out=5)
    (energies,) = run_record(small, Curve.of(train(small, tmp_path / "small").lines())).tables.values()
    assert [row["step"] for row in energies] == [4, 8] and energies[0]["|∇E|"] > 0


def _integral(t1: float, k: int) -> float:
    """∫ t (1-t)^k over [0, t1], by parts."""
    return (1 - (1 - t1) ** (k + 1) * (1 + (k + 1) * t1)) / ((k + 1) * (k + 2))


def test_the_live_display_shows_the_measures() -> None:
    curve = Curve()
    measures = {"step": 1, "loss": 2.5, "signal share": 0.3, "signal loss": 1.0, "noise loss": 0.5}
    curve.add({**measures, "train accuracy": 0.75, "held-out accuracy": 0.5})
    screen = Console(width=100, file=io.StringIO())
    with screen.capture() as captured:
        screen.print(picture(TINY, curve, measures))
    said = captured.get()
    assert "1 of 8" in said and "2.5000" in said and "75.0%" in said and "30.0% in this step" in said
    assert describe(curve.rows[0]) == "step 1  loss 2.5000  training 75.0%  held out 50.0%"
    assert sparkline([0.5, 0.75, 1.0], (0.5, 1.0)) == "▁▅█"
    assert len(sparkline([1.0] * 500)) == 48
