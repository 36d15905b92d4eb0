"""`halfmask window` as a person meets it: what it prints and writes, and one line for every mistake."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from halfmask import NGramProfile, measure_corpus, predict
from halfmask.cli import output
from halfmask.cli.main import main
from halfmask.cli.window import parse_bytes
from reference import refused
from test_profile import DOCUMENTS, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, but for a corpus."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "corpus.jsonl", DOCUMENTS)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["window", *words]) == 0
    return capsys.readouterr().out


def record(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return dict(json.loads(said(capsys, *words, "--json")))


# What it says


def test_a_table_that_a_person_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "corpus.jsonl")
    prediction = predict(measure_corpus("corpus.jsonl"))
    assert out.startswith(f"How much to mask: {prediction}\n")
    for title in ("t* in each form", "t* if one choice were made otherwise", "t* against the amount of text"):
        assert title in out
    assert "60 documents" in out and "not scale-free" in out


def test_json_and_python_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """In three lines: import, measure, predict."""
    found = record(capsys, "corpus.jsonl")
    expected = json.loads(predict(measure_corpus("corpus.jsonl")).record().to_json())
    assert found == expected
    assert found["settings"]["sources"] == ["corpus.jsonl"]
    assert found["extra"]["window"][1] - found["extra"]["window"][0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "options, changed",
    [
        (["--tokens", "bytes"], {"tokens": "bytes"}),
        (["--join"], {"join": True}),
        (["--max-order", "3"], {"max_order": 3}),
        (["--min-count", "9"], {"min_count": 9}),
        (["--limit", "500"], {"limit": 500}),
        (["--brief"], {"sensitivity": False}),
        (["--memory", "0", "--folder", "."], {}),
    ],
)
def test_every_option_of_measuring_is_obeyed(options: list[str], changed: dict[str, Any]) -> None:
    assert main(["window", "corpus.jsonl", "--out", "profile.json", *options]) == 0
    assert NGramProfile.load("profile.json") == measure_corpus("corpus.jsonl", **changed)


def test_every_option_of_reading_is_obeyed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.json").write_text('{"body": "a b c"}\nbroken\n' * 9, encoding="utf-8")
    found = record(capsys, "x.json", "--format", "jsonl", "--column", "body", "--skip-broken", "--documents", "line")
    reading = {"documents": "line", "format": "jsonl", "column": "body", "subset": None, "split": "train"}
    assert found["settings"]["reading"] == {**reading, "skip_broken": True}
    assert any(note.startswith("Skipped as broken: 9 rows; the first: x.json, line 2") for note in found["notes"])


def test_weighting_and_width(capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, "corpus.jsonl", "--weighting", "unexplained", "--width", "0.2")
    prediction = predict(measure_corpus("corpus.jsonl"), weighting="unexplained", width=0.2)
    assert found["extra"]["law"] == str(prediction.window)
    assert found["settings"]["weighting"] == "unexplained"


def test_several_sources_are_one_corpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "1.jsonl", DOCUMENTS[:20])
    (folder / "2.jsonl.gz").write_bytes(gzip.compress(write(folder / "2", DOCUMENTS[20:]).read_bytes()))
    whole = record(capsys, "corpus.jsonl")
    for words in (["1.jsonl", "2.jsonl.gz"], ["[12].jsonl*"]):
        parts = record(capsys, *words)
        assert (parts["rows"], parts["tables"], parts["extra"]) == (whole["rows"], whole["tables"], whole["extra"])


def test_standard_input() -> None:
    command = [sys.executable, "-m", "halfmask", "window", "-", "--format", "jsonl", "--brief"]
    done = subprocess.run(command, input=Path("corpus.jsonl").read_bytes(), capture_output=True, check=False)
    assert done.stdout.decode().startswith(f"How much to mask: {predict(measure_corpus('corpus.jsonl'))}\n")
    assert not done.stderr


# What it writes


def test_a_profile_predicts_again_without_the_corpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = record(capsys, "corpus.jsonl", "--out", "profile.json")
    (folder / "corpus.jsonl").unlink()
    assert record(capsys, "--profile", "profile.json") == first
    assert main(["window", "--profile", "profile.json", "--out", "copy.json", "--json"]) == 0
    assert (folder / "copy.json").read_bytes() == (folder / "profile.json").read_bytes()
    assert "wrote copy.json\n" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--brief"], ["--weighting", "distinct"], ["--tokens", "bytes"]])
def test_a_saved_record_draws_the_same_figure(options: list[str], folder: Path, capsys: Any) -> None:
    out = said(capsys, "corpus.jsonl", "--json", "--plot", "first.svg", *options)
    (folder / "record.json").write_text(out, encoding="utf-8")
    assert main(["figure", "record.json", "second.svg"]) == 0
    first = (folder / "first.svg").read_text(encoding="utf-8")
    assert first == (folder / "second.svg").read_text(encoding="utf-8")
    assert ("amount of text" in first) == ("--brief" not in options)
    assert ("interval" in first) == ("distinct" not in options)


def test_where_nobody_watches_there_is_no_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["window", "corpus.jsonl"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "stage, done, total, shown",
    [
        ("reading", 3_000_000, 12_000_000, ["reading", "3.0 MB, ", "MB/s"]),
        ("reading", 3_000_000, 0, ["3.0 MB, "]),  # of standard input nobody knows the size
        ("counting, order 1 of 8", 1, 2, ["counting, order 1 of 8", "50 %"]),
    ],
)
def test_the_progress_bar(
    stage: str, done: int, total: int, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with output.progress_bar("starting") as advance:
        advance(done, total, stage)
    assert all(text in screen.getvalue() for text in shown)


@pytest.mark.parametrize(
    "text, size", [("4G", 4 << 30), ("1.5k", 1536), ("100", 100), ("2 MiB", 2 << 20), ("1TB", 1 << 40), ("0", 0)]
)
def test_memory_as_people_write_it(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "4 gigs", "4X"])
def test_memory_that_is_none(text: str) -> None:
    with refused("memory is written as a number of bytes, or with K, M, G or T"):
        parse_bytes(text)


# The paper's numbers


def test_the_weights_of_wikitext(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The paper's, to all four decimals, with no option set."""
    path = data_folder / "wikitext-2" / "wiki.train.tokens.gz"
    if not path.exists():
        pytest.skip(f"WikiText-2 is not here: {path}")
    found = record(capsys, str(path))
    assert [round(row["weight"], 4) for row in found["rows"]] == [0.7427, 0.2063, 0.0401, 0.0084, 0.0024]
    forms = [round(row["t*"], 3) for row in found["tables"]["t* in each form of Signal(t)"]]
    assert forms == [0.463, 0.445, 0.481, 0.457]
    growth = [row["t*"] for row in found["tables"]["t* against the amount of text"]]
    assert growth == sorted(growth, reverse=True)  # more text, more long n-grams, a lower ratio


# Mistakes


@pytest.mark.parametrize(
    "line, told",
    [
        ("", "halfmask window needs sources or a profile, got neither: name a file, a folder or builtin"),
        ("corpus.jsonl --profile x.json", "needs sources or a profile, got both"),
        (
            "--profile x.json --join --min-count 2",
            "has been read and counted already, got --join --min-count",
        ),
        ("--profile x.json", "x.json could not be read, got No such file"),
        ("--profile corpus.jsonl", "corpus.jsonl must hold an n-gram profile, got Extra data"),
        ("none.txt", "got none.txt, which is not there"),
        ("corpus.jsonl --column body", "corpus.jsonl, line 1 has no column body, got text: choose one of text"),
        ("corpus.jsonl --column tex", "corpus.jsonl, line 1 has no column tex, got text: did you mean text?"),
        ("corpus.jsonl --tokens none", "tokens must be words, whitespace, bytes, a tokenizer.json, a folder that"),
        ("corpus.jsonl --max-order 1", "the highest order must lie between 2 and 8, got 1"),
        ("corpus.jsonl --min-count x", "takes a whole number, got 'x'"),
        ("corpus.jsonl --min-count 100000", "must hold n-grams that occur 100000 times, got"),
        ("corpus.jsonl --memory 4X", "memory is written as a number of bytes"),
        (
            "corpus.jsonl --folder nowhere",
            "the folder for spilled files must be there, got nowhere: make it: mkdir -p",
        ),
        ("corpus.jsonl --engine slurm", "--engine must be one of local, ray, got slurm"),
        ("corpus.jsonl --weighting distnct", "did you mean distinct?"),
        ("corpus.jsonl --width 0", "the width of a window must lie in (0, 1], got 0.0"),
        ("corpus.jsonl --split test", "only a Hub data set has a subset and splits"),
        (
            "corpus.jsonl --out corpus.jsonl",
            "a profile is written to a .json file, got corpus.jsonl: name it corpus.js",
        ),
        ("corpus.jsonl --out no/x.json", "mkdir -p no"),
        ("corpus.jsonl --plot x.gif", "a figure is written to a .svg, .png or .pdf file, got x.gif: name it x.svg"),
        ("corpus.jsonl --doc line", "takes no argument --doc"),
    ],
)
def test_a_mistake_gets_one_line(line: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "corpus.jsonl").read_bytes()
    assert main(["window", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert err.startswith("halfmask: ") and err.count("\n") == 1
    assert not out
    assert [path.name for path in folder.iterdir()] == ["corpus.jsonl"]
    assert (folder / "corpus.jsonl").read_bytes() == before
