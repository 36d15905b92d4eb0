"""`halfmask eval` as a person meets it: what it prints, what it draws, and one line for every mistake."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from halfmask.cli.main import main
from halfmask.records import Record
from halfmask.reports.figures import draw
from runs import tiny_data, tiny_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one data set, and one of another tokenizer."""
    folder = tmp_path_factory.mktemp("eval")
    data = tiny_data(folder)
    tiny_run(folder / "first", data)
    tiny_run(folder / "second", data, steps=30)
    tiny_run(folder / "other", tiny_data(folder / "bpe", "bpe:300"))
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def record(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*line.split(), "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(found, dict)
    return found


def test_the_bound_is_the_one_that_training_logged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One implementation: the same rows, draws and seed give the same number."""
    logged = json.loads((folder / "second" / "metrics.jsonl").read_text().splitlines()[-1])
    row = record("eval bound second --rows 64 --draws 8", capsys)["rows"][0]
    assert math.isclose(row["nats per token"], logged["bound"], rel_tol=1e-5)
    assert math.isclose(row["±"], logged["bound error"], rel_tol=1e-3)
    assert math.isclose(row["bits per token"], row["nats per token"] / math.log(2))
    assert math.isclose(row["perplexity"], math.exp(row["nats per token"]))
    split = json.loads((folder / "tokens" / "manifest.json").read_text())["splits"]["validation"]
    assert math.isclose(row["bits per byte"], row["bits per token"] * split["tokens"] / split["bytes"])


def test_models_with_different_tokens_compare_by_the_byte(capsys: pytest.CaptureFixture[str]) -> None:
    found = record("eval bound first other --text text.txt --documents line --per document --rows 9", capsys)
    assert [row["model"] for row in found["rows"]] == ["first", "other"]
    assert len(found["extra"]["loss"]) == 2
    assert found["rows"][0]["bits per byte"] > found["rows"][1]["bits per byte"]  # fewer tokens, each as unknown


def test_noise_is_fixed_by_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (record(f"eval bound first --rows 4 --seed {seed}", capsys)["rows"][0] for seed in (1, 1, 2))
    assert first == again and first != other


def test_comparing_says_who_is_better_and_what_would_decide(capsys: pytest.CaptureFixture[str]) -> None:
    found = record("eval compare first second second/checkpoints/step-00000030 --rows 16", capsys)
    better, same = found["rows"]
    assert better["nats per token"] < 0 and better["better"] == "second"
    assert better["rows that decide"] <= 16 and better["draws that decide"] <= 8
    assert same["nats per token"] == better["nats per token"]
    bounds = [record(f"eval bound {name} --rows 16", capsys)["rows"][0] for name in ("first", "second")]
    assert math.isclose(
        better["nats per token"], bounds[1]["nats per token"] - bounds[0]["nats per token"], abs_tol=1e-6
    )
    assert better["±"] < math.hypot(bounds[0]["±"], bounds[1]["±"])
    (row,) = record("eval compare first first --rows 4", capsys)["rows"]
    assert row["better"] == "not decided" and row["rows that decide"] is None


def test_needed_rows_follow_the_interval() -> None:
    from halfmask.evaluation.tables import _needed

    assert _needed(100, error=0.1, difference=0.196) == 100
    assert _needed(100, error=0.1, difference=-0.098) == 400
    assert _needed(100, error=float("nan"), difference=0.1) is None


def test_the_last_row_of_the_ratios_is_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    found = record("eval ratios first second --rows 8 --bins 4 --plot ratios.svg", capsys)
    assert [row["ratio"] for row in found["rows"]] == ["0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "0-1"]
    assert found["rows"][-1]["first"] == record("eval bound first --rows 8", capsys)["rows"][0]["nats per token"]


def test_three_routes_agree(capsys: pytest.CaptureFixture[str]) -> None:
    found = record("eval exact second --rows 2 --length 6 --orders 64 --draws 512", capsys)
    for row in found["rows"]:
        assert abs(row["chain rule"] - row["every set"]) < 4 * row["±"]
        assert abs(row["draws"] - row["every set"]) < 0.05


def test_likelihoods_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [{"prompt": "mask", "options": [" to", " the"], "gold": at % 2} for at in range(3)]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    found = record("eval likelihood second --file questions.jsonl --draws 16", capsys)
    assert len(found["rows"]) == 6 and sum(row["best"] for row in found["rows"]) == 3
    assert found["rows"][0]["± noise"] == 0 and found["rows"][0]["tokens"] == 3  # 7 sets are all tried
    right = sum(row["best"] and row["right"] for row in found["rows"])
    assert f"{right} of 3 questions right" in found["notes"][-1]


def test_the_signal_stands_beside_that_of_a_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["window", "text.txt", "--tokens", "bytes", "--brief", "--out", "profile.json"]) == 0
    capsys.readouterr()
    found = record("eval signal second --rows 16 --bins 3 --profile profile.json --plot signal.svg", capsys)
    assert max(row["Signal(t)"] for row in found["rows"]) == 1
    assert "profile.json" in found["notes"][1]
    assert (folder / "signal.svg").stat().st_size > 1000


@pytest.mark.parametrize("word", ["bound", "ratios", "compare", "signal"])
def test_figures_are_drawn_again_from_the_record(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "first second" if word in ("ratios", "compare") else "first"
    line = f"eval {word} {names} --rows 16 --bins 12 --plot {tmp_path / 'one.svg'}"  # some bins stay empty
    (tmp_path / "record.json").write_text(json.dumps(record(line, capsys)))
    draw(Record.load(tmp_path / "record.json"), tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_an_empty_bin_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = record("eval ratios first --rows 1 --draws 1 --bins 4", capsys)
    assert sum(row["first"] is None for row in found["rows"]) == 3


@pytest.mark.parametrize(
    "line, said",
    [
        ("eval bound nowhere/run", "got nothing there"),
        ("eval bound tokens", "a folder without a model"),
        ("eval bound first --data nothing", "nothing must be a folder of tokens"),
        ("eval bound first --split test", "holds the splits train, validation, got test"),
        ("eval bound first --data tokens --text text.txt", "got --data and --text"),
        ("eval bound first --text missing.txt", "missing.txt"),
        ("eval bound first --data bpe/tokens", "got those of another tokenizer"),
        ("eval bound first --draws 0", "1 draw or more"),
        ("eval bound first --bins 0", "1 bin or more"),
        ("eval bound first --length 99", "1 to 16 tokens, got 99"),
        ("eval bound first --rows -1", "1 row or more"),
        ("eval bound first --plot x.gif", "a .svg, .png or .pdf file"),
        ("eval bound", "needs MODEL"),
        ("eval compare first", "two models or more"),
        ("eval compare first other", "got those of another tokenizer"),
        ("eval exact first --length 15", "at most 14 tokens, got 15"),
        ("eval exact first --orders 1", "two orders or more"),
        ("eval exact first --per document", "every set is tried on windows"),
        ("eval likelihood first", "got neither"),
        ("eval likelihood first --file missing.jsonl", "could not be read"),
        ("eval likelihood first --option a --draws 0", "1 draw or more"),
        ("eval signal first --rows 8", "16 small batches or more"),
        ("eval signal first --profile missing.json", "missing.json"),
        ("eval tasks first", "needs --tasks"),
        ("eval tasks first --tasks arc_easy --local nowhere", "in a folder, got nowhere"),
        ("eval bond first", "did you mean bound?"),
    ],
)
def test_a_mistake_gets_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert said in err and err.startswith("halfmask: ") and err.count("\n") == 1
    assert not out
