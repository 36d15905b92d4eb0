"""Experiments: one contract for all of them, resuming, verdicts, and `halfmask paper` with its exit statuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import halfmask
from halfmask import provenance
from halfmask.cli.main import main
from halfmask.errors import DataError, UsageError
from halfmask.experiments.claims import CLAIMS, EXPERIMENTS, all_claims, experiment
from halfmask.experiments.experiment import Done, Experiment, Finding, Verdict, find_data
from halfmask.provenance import made_by
from halfmask.records import Record, plain
from halfmask.reports.figures import draw
from reference import refused

ROOT = Path(__file__).parent.parent
COMMITTED = ROOT / "results"


# The contract


@pytest.fixture(params=EXPERIMENTS)
def built(request: pytest.FixtureRequest) -> Experiment:
    return experiment(request.param)


def test_names_and_claims(built: Experiment) -> None:
    assert EXPERIMENTS[built.name]
    assert built.claims == tuple(claim.key for claim in CLAIMS if claim.experiment == built.name)
    assert built.scales


def test_units_are_plain_distinct_and_always_the_same(built: Experiment) -> None:
    for scale in built.scales:
        units = built.units(scale)
        texts = [json.dumps(plain(recipe), sort_keys=True) for recipe in units]
        assert units and len(set(texts)) == len(texts)
        assert texts == [json.dumps(plain(recipe), sort_keys=True) for recipe in built.units(scale)]
        assert all(json.loads(json.dumps(recipe)) == recipe for recipe in units)


def test_committed_records_are_shown_drawn_and_judged(built: Experiment, tmp_path: Path) -> None:
    for scale in built.scales:
        if not built.path(COMMITTED, scale).exists():
            continue
        record = built.table(COMMITTED, scale)
        assert record.name == f"paper {built.name}" and record.rows
        draw(record, tmp_path / "figure.svg")
        assert (tmp_path / "figure.svg").stat().st_size > 1000
        findings = built.findings(COMMITTED, scale)
        assert tuple(each.claim for each in findings) == built.claims
        assert all(each.ours and each.verdict != Verdict.NOT_RUN for each in findings)


def test_every_claim_is_of_one_experiment_and_stands_in_the_paper() -> None:
    keys = [claim.key for claim in CLAIMS]
    assert len(set(keys)) == len(keys)
    for name in EXPERIMENTS:  # those that go beyond the paper have none
        assert set(experiment(name).claims) == {claim.key for claim in CLAIMS if claim.experiment == name}
    for claim in CLAIMS:
        assert claim.where.split(" ")[0] in ("Corollary", "Section", "Appendix", "Theorem", "Table")
        assert claim.statement and claim.paper


# Running


class Squares:
    """An experiment of four units that can be killed; what it ran is in `ran`."""

    def __init__(self, kill_at: int | None = None, name: str = "squares") -> None:
        self.ran: list[int] = []
        self.kill_at = kill_at
        self.experiment = Experiment(
            name=name,
            claims=("grows",),
            scales={"small": "two units", "large": "four units"},
            units=lambda scale: [{"n": n} for n in range({"small": 2, "large": 4}[scale])],
            run_unit=self.run_unit,
            record=lambda scale, done: Record("squares", scale, {}, [each.result for each in done]),
            check=self.check,
        )

    def run_unit(self, recipe: dict[str, Any], data: Path | None, progress: Any) -> dict[str, Any]:
        if recipe["n"] == self.kill_at:
            raise KeyboardInterrupt
        self.ran.append(recipe["n"])
        return {"square": recipe["n"] ** 2, "not a number": float("nan")}

    def check(self, scale: str, done: list[Done]) -> list[Finding]:
        squares = [each.result["square"] for each in done]
        verdict = Verdict.HOLDS if squares == sorted(squares) else Verdict.FAILS
        return [Finding("grows", str(squares), len(squares), verdict)]


def run(squares: Squares, results: Path, scale: str = "large") -> int:
    return squares.experiment.run(results, scale, None, lambda *_: None)


def test_a_run_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(killed := Squares(kill_at=2), tmp_path)
    path = tmp_path / "squares" / "large.jsonl"
    assert killed.ran == [0, 1] and len(path.read_text(encoding="utf-8").splitlines()) == 2
    before = path.read_text(encoding="utf-8")
    (finding,) = killed.experiment.findings(tmp_path, "large")
    assert (finding.ours, finding.verdict) == ("2 of 4 units have run", Verdict.UNDECIDED)

    again = Squares()
    assert run(again, tmp_path) == 2 and again.ran == [2, 3]
    assert path.read_text(encoding="utf-8").startswith(before)
    assert [each.result["square"] for each in again.experiment.load(tmp_path, "large")] == [0, 1, 4, 9]
    assert again.experiment.findings(tmp_path, "large")[0].verdict == Verdict.HOLDS
    assert run(again, tmp_path) == 0 and again.ran == [2, 3]
    assert [each.name for each in path.parent.iterdir()] == ["large.jsonl"]


def test_the_order_of_the_lines_does_not_matter(tmp_path: Path) -> None:
    run(Squares(), tmp_path)
    path = tmp_path / "squares" / "large.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(reversed(lines)), encoding="utf-8")
    assert [each.recipe["n"] for each in Squares().experiment.load(tmp_path, "large")] == [0, 1, 2, 3]


def test_a_line_says_what_it_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["halfmask", "paper", "run", "squares"])
    run(Squares(), tmp_path)
    line = json.loads((tmp_path / "squares" / "large.jsonl").read_text(encoding="utf-8").splitlines()[3])
    assert (line["recipe"], line["result"]) == ({"n": 3}, {"square": 9, "not a number": None})
    assert line["made by"]["command"] == "halfmask paper run squares"
    assert line["made by"]["halfmask"] == halfmask.__version__ and line["made by"]["python"]


def test_the_commit_is_that_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"ls-files": "__init__.py", "rev-parse": "0123456789ab", "status": " M laws.py"}
    monkeypatch.setattr(provenance, "_git", lambda word, *_: answers[word])
    assert made_by()["commit"] == "0123456789ab and changes"
    answers["status"] = ""
    assert made_by()["commit"] == "0123456789ab"
    answers["ls-files"] = ""  # the code is installed somewhere
    assert "commit" not in made_by()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert "commit" not in made_by()


# Records that do not fit


@pytest.mark.parametrize(
    "line, told",
    [
        (b'{"recipe": {"n": 1', "line 2 must be a record of squares, got Expecting"),
        (b'{"recipe": {"n": 1}}', "line 2 must be a record of squares, got no recipe with its result"),
        (b'{"recipe": 1, "result": {}}', "got no recipe with its result"),
        (b"[]", "got no recipe with its result"),
        (b"\xff", "line 2 must be a record of squares, got 'utf-8' codec can't decode"),
        (b'{"recipe": {"n": 7}, "result": {}}', 'must hold records of this squares, got another recipe: {"n": 7}'),
        (b'{"recipe": {"n": 1, "m": 2}, "result": {}}', "another recipe: "),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_alone(line: bytes, told: str, tmp_path: Path) -> None:
    squares = Squares()
    path = tmp_path / "squares" / "large.jsonl"
    path.parent.mkdir()
    path.write_bytes(data := b'{"recipe": {"n": 0}, "result": {"square": 0}}\n' + line + b"\n")
    for read in (squares.experiment.findings, squares.experiment.table, lambda results, _: run(squares, results)):
        with pytest.raises(DataError) as caught:
            read(tmp_path, "large")
        assert str(caught.value).startswith(str(path)) and told in str(caught.value)
    assert path.read_bytes() == data and not squares.ran


def test_a_scale_that_is_none_and_results_that_are_a_file(tmp_path: Path) -> None:
    with refused("squares has the scales small, large, got smal: did you mean small?"):
        run(Squares(), tmp_path, "smal")
    (tmp_path / "results").touch()
    with pytest.raises(DataError, match=r"must be a folder for results, got .*: choose another --results"):
        run(Squares(), tmp_path / "results")


def test_the_scale_is_the_largest_that_has_run(tmp_path: Path) -> None:
    chosen = Squares().experiment
    assert (chosen.largest_run(tmp_path), chosen.chosen_scale(tmp_path, None)) == (None, "large")
    run(Squares(), tmp_path, "small")
    assert chosen.chosen_scale(tmp_path, None) == "small" and chosen.chosen_scale(tmp_path, "large") == "large"
    run(Squares(), tmp_path, "large")
    assert chosen.chosen_scale(tmp_path, None) == "large"


def test_data_is_looked_for_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALFMASK_DATA", raising=False)
    assert find_data(None, "a") is None
    (tmp_path / "b").touch()
    assert find_data(tmp_path, "a", "b") == tmp_path / "b"
    monkeypatch.setenv("HALFMASK_DATA", str(tmp_path))
    assert find_data(None, "b") == tmp_path / "b"
    with pytest.raises(DataError, match=rf"\(--data, HALFMASK_DATA\) must hold a, got {tmp_path}"):
        find_data(None, "a")


# halfmask paper


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what is committed, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(COMMITTED, tmp_path / "results"))


def test_check_exits_with_what_it_found(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "check", "ngram-optimum"]) == 0
    assert capsys.readouterr().out.count("│ holds") == 3

    path = results / "ngram-optimum" / "paper.jsonl"
    line = json.loads(path.read_text(encoding="utf-8"))
    line["result"]["weights"]["2"] += 0.0001
    path.write_text(json.dumps(line), encoding="utf-8")
    assert main(["paper", "check", "ngram-optimum"]) == 1
    out = capsys.readouterr().out
    assert out.count("does not hold") == 1 and out.count("│ holds") == 2

    path.unlink()
    assert main(["paper", "check", "ngram-optimum"]) == 2
    assert "halfmask paper run ngram-optimum --scale paper" in capsys.readouterr().err


def test_another_corpus_decides_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "run", "ngram-optimum", "--scale", "smoke", "--plot", "x.svg"]) == 0
    assert "wrote results/ngram-optimum/smoke.jsonl\n" in capsys.readouterr().out
    assert main(["paper", "check", "ngram-optimum", "--scale", "smoke"]) == 1
    assert capsys.readouterr().out.count("not decided") == 3
    assert main(["paper", "check", "ngram-optimum"]) == 0  # by the largest scale that has run


def test_what_has_run_is_not_run_again(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = results / "optimal-laws" / "paper.jsonl"
    before = path.read_bytes()
    assert main(["paper", "run", "optimal-laws"]) == 0
    first = capsys.readouterr().out
    assert first.endswith("Nothing was left to run: the records are in results/optimal-laws/paper.jsonl.\n")
    assert main(["paper", "show", "optimal-laws"]) == 0
    assert first.startswith(capsys.readouterr().out)
    assert path.read_bytes() == before


def test_the_committed_numbers_come_out_again(tmp_path: Path, data_folder: Path) -> None:
    """Of the experiments that take seconds."""
    for name in ("optimal-laws", "ngram-optimum"):
        chosen = experiment(name)
        chosen.run(tmp_path, "paper", data_folder, lambda *_: None)
        fresh, committed = (chosen.load(results, "paper") for results in (tmp_path, COMMITTED))
        for ours, theirs in zip(fresh, committed, strict=True):
            assert ours.recipe == theirs.recipe
            for one, other in zip(leaves(ours.result), leaves(theirs.result), strict=True):
                assert one == (pytest.approx(other, abs=1e-7) if isinstance(other, float) else other)


def leaves(result: Any) -> Iterator[Any]:
    """The numbers and texts of a result, whatever holds them."""
    if isinstance(result, (dict, list)):
        for each in result.values() if isinstance(result, dict) else result:
            yield from leaves(each)
    else:
        yield result


def test_list_shows_every_claim(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["claim"] for row in rows] == [claim.statement for claim in CLAIMS]
    by_experiment: dict[str, set[str]] = {}
    for row in rows:
        by_experiment.setdefault(row["experiment"], set()).add(row["verdict"])
        assert (row["ours"] is None) == (row["verdict"] == "not run")
    assert by_experiment["optimal-laws"] == by_experiment["ngram-optimum"] == {"holds"}
    shutil.rmtree(results)
    assert {row["verdict"] for row in all_claims(results).rows} == {"not run"}


@pytest.mark.parametrize(
    "line, told",
    [
        ("paper check ngram-optimun", "is no experiment of the paper, got ngram-optimun: did you mean ngram-optimum?"),
        ("paper show ngram-optimum --scale huge", "ngram-optimum has the scales smoke, paper, got huge"),
        ("paper show ngram-optimum", "ngram-optimum must have run at scale paper, got no record in"),
        ("paper run ngram-optimum --data nowhere", "must hold wikitext-2/wiki.train.tokens, got nowhere"),
        ("paper run ngram-optimum --plot x.gif", "a figure is written to"),
        ("paper run", "needs EXPERIMENT"),
    ],
)
def test_a_mistake_gets_one_line(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert told in err and err.count("\n") == 1 and not out
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_claim_whose_experiment_is_not_built() -> None:
    missing = [claim.experiment for claim in CLAIMS if claim.experiment not in EXPERIMENTS]
    for name in missing:
        with pytest.raises(UsageError, match=f"{name} has not been built yet"):
            experiment(name)
