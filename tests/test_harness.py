"""lm-evaluation-harness, offline: the model through its Python API and its command line, local files for the Hub."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance

from halfmask.cli.main import main
from halfmask.data.vocabulary import open_vocabulary
from halfmask.decoding.canvas import Canvas
from halfmask.decoding.decode import Decoder, decode
from halfmask.decoding.strategy import Strategy
from halfmask.errors import DataError, HalfmaskError, UsageError
from halfmask.evaluation.harness import model as harness
from halfmask.evaluation.harness.local import MIRRORS, stand_in
from halfmask.evaluation.harness.model import HalfmaskLM
from halfmask.evaluation.harness.tasks import TaskRun, task_manager
from halfmask.evaluation.likelihood import Likelihood, Question
from halfmask.models.load import open_model
from runs import tiny_data, tiny_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("harness")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return tiny_run(folder / "run", tiny_data(folder), "data.length=64")


@pytest.fixture(scope="module")
def local(folder: Path) -> Path:
    """Every data set, in the shapes of plain files; the right answers are drawn."""
    random = np.random.default_rng(0)

    def lines(path: Path, rows: list[dict[str, Any]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    words = ["red", "blue", "green", "grey"]
    arc = [{"query": f"Question: What is {n}?", "choices": words, "gold": int(random.integers(4))} for n in range(200)]
    lines(folder / "local/arc/arc_easy.jsonl", arc)
    lines(folder / "local/arc/arc_challenge.jsonl", arc[:3])
    ending = {"activity_label": "Walk", "ctx_a": "They walk.", "ctx_b": "they", "endings": words, "label": 1}
    lines(folder / "local/hellaswag/val.jsonl", [{**ending, "ind": n} for n in range(4)])
    sums = [{"question": f"{n} + 1?", "answer": f"So it is {n + 1}.\n#### {n + 1}"} for n in range(6)]
    for split in ("train", "test"):
        lines(folder / f"local/gsm8k/{split}.jsonl", sums)
        maths = [{"problem": "1+1", "solution": "\\boxed{2}", "level": "Level 1", "type": "Counting & Probability"}]
        lines(folder / f"local/math/{split}.jsonl", maths)
        with (folder / f"{'dev' if split == 'train' else 'test'}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([["What, then?", "1", "2", "3", "4", "C"]] * 6)
    (folder / "local/mmlu").mkdir()
    with tarfile.open(folder / "local/mmlu/mmlu.tar.gz", "w:gz") as archive:
        for split in ("dev", "test"):
            archive.add(folder / f"{split}.csv", f"{split}/astronomy_{split}.csv")
    gpqa = ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"]
    (folder / "local/gpqa").mkdir()
    with (folder / "local/gpqa/gpqa_main.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([gpqa, *[["Which?", *words]] * 8])
    return folder / "local"


def tasks(run: Path, local: Path, *names: str, **options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    model = {"path": str(run), "draws": 4, "device": "cpu", **options.pop("model", {})}
    record = TaskRun(names, model, local=local, **options).run()
    assert record is not None
    return {(row["task"], row["metric"]): row for row in record.rows}


def test_a_random_model_scores_at_chance(run: Path, local: Path) -> None:
    found = tasks(run, local, "arc_easy")["arc_easy", "acc"]
    assert found["questions"] == 200 and found["shots"] == 0
    assert math.isclose(found["±"], math.sqrt(found["value"] * (1 - found["value"]) / 199), rel_tol=1e-6)
    assert abs(found["value"] - 0.25) < 4 * found["±"]


def test_every_local_data_set_runs_its_stock_task(run: Path, local: Path) -> None:
    """Likelihood tasks of the paper's groups, few-shot where their examples are local."""
    names = ("arc_challenge", "hellaswag", "mmlu_astronomy", "gpqa_main_n_shot")
    found = tasks(run, local, *names, limit=2)
    assert {task for task, _ in found} == set(names)
    assert tasks(run, local, "mmlu_astronomy", num_fewshot=5)["mmlu_astronomy", "acc"]["shots"] == 5
    with stand_in(local) as mirrored:
        assert set(mirrored) == set(MIRRORS)


def test_the_papers_groups_are_there() -> None:
    manager = task_manager(["paper-pretraining", "paper-knowledge", "paper-reasoning"])
    members = {name: manager.task_index[name].cfg["task"] for name in manager.all_groups if name.startswith("paper-")}
    assert [each["task"] for each in members["paper-pretraining"]] == ["hellaswag", "arc_easy"]
    assert members["paper-knowledge"][0] == {"group": "mmlu", "num_fewshot": 5}
    assert members["paper-reasoning"][0] == {"task": "gsm8k", "num_fewshot": 4}
    assert len(members["paper-reasoning"][1]["task"]) == 7  # the subjects of MATH
    named = [*members["paper-pretraining"], *members["paper-knowledge"][1:], members["paper-reasoning"][0]]
    assert {each["task"] for each in named} | {*members["paper-reasoning"][1]["task"], "mmlu"} <= {*manager.all_tasks}


def test_a_group_reports_its_tasks(run: Path, local: Path) -> None:
    found = tasks(run, local, "paper-pretraining", limit=2)
    assert {"hellaswag", "arc_easy"} <= {task for task, _ in found}


def test_answers_are_kept_and_taken(run: Path, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tasks(run, local, "arc_easy", limit=5, cache=str(tmp_path / "answers"))
    monkeypatch.setattr(Likelihood, "ask", lambda *arguments: pytest.fail("asked again"))
    assert tasks(run, local, "arc_easy", limit=5, cache=str(tmp_path / "answers")) == first


def requests(*pairs: tuple[str, str], doc: bool = True) -> list[Instance]:
    """Of one document each, unless they come without any."""
    return [
        Instance("loglikelihood", {}, pair, at, metadata=("task", 7, 1) if doc else (None, None, None))
        for at, pair in enumerate(pairs)
    ]


@pytest.fixture(scope="module")
def lm(run: Path) -> HalfmaskLM:
    return HalfmaskLM(path=str(run), draws=16, device="cpu")


def test_likelihoods_are_those_of_the_question(lm: HalfmaskLM, run: Path) -> None:
    found = lm.loglikelihood(requests(("The law", " holds well"), ("The law", " does not"), ("A law", " holds well")))
    vocabulary = open_vocabulary("bytes")
    options = tuple(vocabulary.encode([text]).astype(np.int64) for text in (" holds well", " does not"))
    key = harness._key(requests(("", ""))[0])
    question = Question(vocabulary.encode(["The law"]).astype(np.int64), options, key)
    answer = Likelihood(open_model(run, device="cpu"), num_draws=16).ask([question])[0]
    assert np.allclose([value for value, _ in found[:2]], answer.log_p_O, atol=1e-3)
    # Prompts that differ within a document (as in WinoGrande) share its noise as well.
    again = lm.loglikelihood(requests(("A law", " holds well")))
    assert abs(again[0][0] - found[2][0]) < 1e-3


def test_an_answer_does_not_depend_on_what_else_this_process_is_given(lm: HalfmaskLM) -> None:
    """So that documents can be dealt out to processes in any way."""
    two = [
        Instance("loglikelihood", {}, ("The law", f" holds {word} here"), 0, metadata=("task", number, 1))
        for number, word in enumerate(("well", "badly"))
    ]
    together = [value for value, _ in lm.loglikelihood(two)]
    apart = [lm.loglikelihood([each])[0][0] for each in two]
    assert np.allclose(together, apart, atol=1e-3)


def test_greedy_is_asked_where_a_continuation_stands_alone(lm: HalfmaskLM, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        harness, "is_greedy", lambda model, pairs, **options: asked.append(len(pairs)) or [True] * len(pairs)
    )
    assert [yes for _, yes in lm.loglikelihood(requests(("a", " b"), ("a", " c")))] == [False, False]
    assert [yes for _, yes in lm.loglikelihood(requests(("a", " b"), ("a", " b")))] == [True, True]  # one, repeated
    assert asked == [0, 2]


def test_rolling_is_the_bound_of_the_whole_text(lm: HalfmaskLM) -> None:
    text = "mask token hidden ratio " * 5  # 120 bytes in windows of 64
    found = lm.loglikelihood_rolling(requests((text,), doc=False))[0]  # type: ignore[arg-type]
    parts = lm.loglikelihood_rolling(requests((text[:64],), doc=False))  # type: ignore[arg-type]
    assert -120 * 7 < found < parts[0] < -64 * 4


def generation(prompt: str = "Question:", **settings: Any) -> Instance:
    return Instance("generate_until", {}, (prompt, settings), 0)


def test_generation_is_decoding(lm: HalfmaskLM, run: Path, local: Path) -> None:
    some = [generation(prompt, until=[], max_gen_toks=16) for prompt in ("Question:", "mask token")]
    model = lm.how.model
    prompts = [model.vocabulary.encode([each.args[0]]).astype(np.int64) for each in some]
    canvases = [Canvas.continuation(prompt, 16) for prompt in prompts]
    filled = [decode(Decoder.of(model), [canvas], Strategy(steps=16))[0].written for canvas in canvases]
    assert lm.generate_until(some) == [model.vocabulary.decode(ids) for ids in filled]
    for task in ("gsm8k", "minerva_math_counting_and_prob"):  # they run up to what this model can hold
        with pytest.raises(HalfmaskError, match="at most 64 tokens, got 512 with the holes"):
            tasks(run, local, task, limit=1)


def test_generation_knows_settings_and_stops(lm: HalfmaskLM, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def fill_in(model: object, prompts: list[np.ndarray], **settings: Any) -> list[np.ndarray]:
        seen.append({**settings, "prompts": len(prompts)})
        return [np.array([*b" 42. So\nQuestion:", 256, *b"more"]) for _ in prompts]

    monkeypatch.setattr(harness, "fill_in", fill_in)
    asked = [generation(until=["\nQ"]), generation(until="So", max_gen_toks=32), generation(until=[])]
    assert lm.generate_until(asked) == [" 42. So", " 42. ", " 42. So\nQuestion:"]
    assert seen == [
        {"num_tokens": 512, "steps": 512, "temperature": 0.0, "prompts": 2},
        {"num_tokens": 32, "steps": 32, "temperature": 0.0, "prompts": 1},
    ]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"pth": "run"}, "did you mean path"),
        ({}, "needs a path"),
        ({"path": "run", "greedy": "sometimes"}, "greedy must be alone or always or never"),
        ({"path": "run", "precision": "fp16"}, "precision must be fp32 or bf16"),
        ({"path": "run", "steps": 0}, "must be 1 or more"),
        ({"path": "no/such/run"}, "got nothing there"),
    ],
)
def test_wrong_arguments_of_the_model(given: dict[str, Any], said: str) -> None:
    with pytest.raises(HalfmaskError, match=said):
        HalfmaskLM(**given)


def test_wrong_tasks_and_folders(run: Path, local: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean arc_easy"):
        task_manager(["arc_esy"])
    with pytest.raises(DataError, match="in a folder"):
        tasks(run, tmp_path / "none", "arc_easy")
    with pytest.raises(DataError, match="got an empty folder"):
        tasks(run, tmp_path, "arc_easy")
    with pytest.raises(DataError, match="have no training split, so ask for no shots"):
        tasks(run, local, "arc_easy", num_fewshot=1, limit=2)
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"got no train.jsonl"), stand_in(tmp_path):
        pass
    (tmp_path / "gsm8k" / "train.jsonl").write_text('{"question": 1}')
    with pytest.raises(DataError, match="line 1, must hold question, answer, got no answer"), stand_in(tmp_path):
        pass


def test_a_random_model_scores_at_chance_on_the_real_files(run: Path, data_folder: Path) -> None:
    for task in ("arc_easy", "hellaswag"):
        found = tasks(run, data_folder, task, limit=100, model={"draws": 1})[task, "acc"]
        assert abs(found["value"] - 0.25) < 4 * found["±"]


def test_lm_evals_command_line(run: Path, local: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same numbers as through the Python API; a path of our own stays right while the folder changes."""
    by_api = tasks(run, local, "arc_easy", limit=20)["arc_easy", "acc"]["value"]
    words = ["--model", "halfmask", "--model_args", f"path={run},draws=4", "--tasks", "arc_easy", "--limit", "20"]
    assert main(["lm-eval", "--local", str(local), "run", *words, "--output_path", str(tmp_path)]) == 0
    assert "arc_easy" in capsys.readouterr().out
    (path,) = tmp_path.rglob("results_*.json")
    assert json.loads(path.read_text())["results"]["arc_easy"]["acc,none"] == by_api
    assert main(["lm-eval"]) == 2
    assert "needs one of its words" in capsys.readouterr().err


def test_two_processes_share_the_documents(run: Path, local: Path) -> None:
    alone = tasks(run, local, "arc_easy", limit=9)["arc_easy", "acc"]
    program = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "--", "halfmask"]
    words = ["eval", "tasks", str(run), "--tasks", "arc_easy", "--local", str(local), "--limit", "9", "--draws", "4"]
    done = subprocess.run(
        [sys.executable, *program, *words, "--device", "cpu", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (both, *_) = json.loads(done.stdout)["rows"]  # of the first process, and no other
    assert both["questions"] == 9 and both["value"] == alone["value"]
