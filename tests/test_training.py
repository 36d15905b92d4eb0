"""Training: a run is a function of its recipe, whatever interrupts it, and it stops well."""

from __future__ import annotations

import errno
import json
import math
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from halfmask.cli.main import main
from halfmask.data.tokens import TokenData
from halfmask.errors import DataError, UsageError
from halfmask.recipe import dump_recipe, flat_recipe, read_recipe
from halfmask.training import checkpoint
from halfmask.training.build import make_step
from halfmask.training.loop import NonFiniteLossError, train
from halfmask.training.optim import Averaged, clip_gradients, learning_rate, make_optimizer
from halfmask.training.parallel import World
from halfmask.training.recipe import OptimizerRecipe, TrainRecipe
from runs import TINY, tiny_data, tiny_run

CPU = torch.device("cpu")
GOLDEN = Path(__file__).parent / "golden" / "loss_20_steps.json"
EVERY_5 = ("save_every=5", "keep=9", "log_every=1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("data"))


def recipe_of(data: Path, *overrides: str) -> TrainRecipe:
    return read_recipe(TrainRecipe, None, [f"data.folder={data}", *TINY, *overrides])[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def metrics(run: Path) -> list[dict[str, Any]]:
    """Without what the clock says."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if key not in ("tokens/s", "share of peak")} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit."""
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert metrics(one) == metrics(other)


# A run is a function of its recipe


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("step.precision=bf16", "step.micro_rows=3"),
        ("optimizer.ema=0.9", "evaluate.every=2", "mask.law=0.2-0.4 until 4 then 0-1", "mask.draws=independent"),
        ("data.packing=documents", "mask.hiding=exact", "mask.weight=elbo", "model.tied=true"),
    ],
    ids=["plain", "accumulated", "averaged", "packed"],
)
def test_ten_steps_are_five_and_five(data: Path, tmp_path: Path, overrides: tuple[str, ...]) -> None:
    whole = tiny_run(tmp_path / "whole", data, *EVERY_5, *overrides, steps=10)
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    shutil.rmtree(broken / "checkpoints" / "step-00000010")
    (broken / "model" / "model.safetensors").unlink()
    tiny_run(broken, data, *EVERY_5, *overrides, steps=10, resume=True)
    assert_same_run(whole, broken)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_the_run_goes_on(data: Path, tmp_path: Path, number: signal.Signals) -> None:
    def interrupt(line: dict[str, Any]) -> None:
        if line["step"] == 3:
            signal.raise_signal(number)

    whole = tiny_run(tmp_path / "whole", data, "log_every=1", steps=8)
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        tiny_run(broken, data, "log_every=1", steps=8, report=interrupt)
    (saved,) = checkpoint.checkpoints(broken / "checkpoints")
    assert saved.name in ("step-00000003", "step-00000004")
    tiny_run(broken, data, "log_every=1", steps=8, resume=True)
    assert_same_run(whole, broken)


def test_lines_of_steps_that_are_done_again_are_forgotten(data: Path, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", data, *EVERY_5, steps=10)
    before = metrics(run)
    shutil.rmtree(run / "checkpoints" / "step-00000010")
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 11, "lo')  # killed in the middle of a line
    tiny_run(run, data, *EVERY_5, steps=10, resume=True)
    assert metrics(run) == before


def test_accumulation_changes_nothing_but_rounding(data: Path, tmp_path: Path) -> None:
    one = tiny_run(tmp_path / "one", data, "log_every=1", steps=4)
    four = tiny_run(tmp_path / "four", data, "log_every=1", "step.micro_rows=1", steps=4)
    for ours, theirs in zip(metrics(one), metrics(four), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["gradient"] == pytest.approx(theirs["gradient"], rel=1e-4)
    for name, weight in weights(one).items():
        assert torch.allclose(weight, weights(four)[name], atol=1e-5)


def test_processes_share_out_what_one_would_do(data: Path) -> None:
    """The same rows, ratios and hidden positions, exactly; see test_processes.py for real processes."""
    recipe = recipe_of(data, "step.rows=6", "mask.law=beta(2,2)")
    step = make_step(recipe, TokenData.open(data), World(0, 1, CPU))
    (whole,) = step.prepare(7)
    hidden = torch.zeros(whole.tokens_BT.numel())
    hidden[whole.position_N] = whole.weight_N
    for rank in range(3):
        (part,) = replace(step, world=World(rank, 3, CPU)).prepare(7)
        assert torch.equal(part.tokens_BT, whole.tokens_BT[rank::3])
        mine = torch.zeros(part.tokens_BT.numel())
        mine[part.position_N] = part.weight_N
        assert torch.equal(mine.reshape(2, -1), hidden.reshape(6, -1)[rank::3])


def test_the_law_of_the_recipe_reaches_the_batch(data: Path) -> None:
    """A window that is read and not used would pass every other test."""
    for law, lo, hi in (("0-0.1", 0.0, 0.12), ("0.9-1", 0.88, 1.0), ("0.5 until 3 then 0", 0.0, 0.0)):
        recipe = recipe_of(data, f"mask.law={law}", "step.rows=64", "mask.hiding=exact", "data.length=64")
        (hidden,) = make_step(recipe, TokenData.open(data), World(0, 1, CPU)).prepare(5)
        share_B = torch.bincount(hidden.position_N // 64, minlength=64) / 64
        assert lo <= float(share_B.min()) and float(share_B.max()) <= hi


def test_the_golden_loss_curve(data: Path, tmp_path: Path) -> None:
    """Twenty steps on the CPU, committed: what changes them changes every run that was ever made."""
    run = tiny_run(tmp_path / "run", data, "log_every=1", "optimizer.warmup=5", "optimizer.lr=1e-2", steps=20)
    found = [line["loss"] for line in metrics(run)]
    golden = json.loads(GOLDEN.read_text())["loss"]
    assert found == pytest.approx(golden, rel=1e-4)
    assert golden[-1] < golden[0]


# What stands in a run's folder


def test_a_run_says_what_made_it(data: Path, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", data, "mask.law=likelihood")
    made_by = json.loads((run / "run.json").read_text())
    assert made_by["law"] == "0.45-0.55" and made_by["torch"] == torch.__version__
    assert made_by["tokens"] == TokenData.open(data).splits["train"].digest
    again, _ = read_recipe(TrainRecipe, run / "recipe.yaml")
    assert dict(flat_recipe(again))["mask.law"] == "likelihood"
    assert dump_recipe(again) == (run / "recipe.yaml").read_text()


def test_a_folder_of_another_run_is_refused(data: Path, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", data)
    with pytest.raises(UsageError, match="add --resume to go on"):
        tiny_run(run, data)
    with pytest.raises(UsageError, match=r"got mask\.law: 0\.5, there 0-1"):
        tiny_run(run, data, "mask.law=0.5", resume=True)
    with pytest.raises(UsageError, match="got steps: 3, there 2"):
        tiny_run(run, data, steps=3, resume=True)
    tiny_run(run, data, "log_every=1", "step.micro_rows=2", resume=True)  # what changes no number may change
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="must be a folder for a run"):
        tiny_run(tmp_path / "file", data)


def test_a_constant_rate_may_go_further(data: Path, tmp_path: Path) -> None:
    whole = tiny_run(tmp_path / "whole", data, "optimizer.schedule=constant", steps=6)
    run = tiny_run(tmp_path / "run", data, "optimizer.schedule=constant", steps=4)
    tiny_run(run, data, "optimizer.schedule=constant", steps=6, resume=True)
    assert all(torch.equal(weights(run)[name], weight) for name, weight in weights(whole).items())


def test_what_a_name_stands_for_must_not_change(data: Path, tmp_path: Path) -> None:
    """A profile or the tokens of a folder can be replaced behind the recipe's back."""
    from halfmask.corpus.profile import measure_corpus

    text, profile = tmp_path / "text.txt", tmp_path / "profile.json"
    text.write_text("a b a b c a b c d " * 40)
    measure_corpus(text, sensitivity=False).save(profile)
    run = tiny_run(tmp_path / "run", data, f"mask.law=predicted:{profile}")
    tiny_run(run, data, f"mask.law=predicted:{profile}", resume=True)
    text.write_text(" ".join(f"w{number} a b" for number in range(200)))  # nothing above order 2 is frequent
    measure_corpus(text, sensitivity=False).save(profile)
    with pytest.raises(UsageError, match="got law: 0"):
        tiny_run(run, data, f"mask.law=predicted:{profile}", resume=True)
    other = tiny_data(tmp_path / "other", text="quite another text\n" * 3 + "and more of it\n" * 40)
    moved = tmp_path / "moved"
    shutil.copytree(other, moved)
    run = tiny_run(tmp_path / "second", moved)
    shutil.rmtree(moved)
    shutil.copytree(data, moved)
    with pytest.raises(UsageError, match="got tokens: "):
        tiny_run(run, moved, resume=True)


def test_without_a_validation_split_there_is_no_bound(tmp_path: Path) -> None:
    from halfmask.data.prepare import prepare

    (tmp_path / "text.txt").write_text("one document of some words, and no other\n" * 9)
    prepare([str(tmp_path / "text.txt")], tmp_path / "tokens", tokens="bytes", validation=0.0)
    said: list[str] = []
    run = tiny_run(tmp_path / "run", tmp_path / "tokens", say=said.append)
    assert any("no validation split" in line for line in said)
    assert "bound" not in metrics(run)[-1]


def test_tensorboard_shows_the_metrics(data: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tiny_run(tmp_path / "run", data, "tensorboard=true", "log_every=1")
    shown = events.EventAccumulator(str(run / "tensorboard")).Reload()
    assert [each.step for each in shown.Scalars("loss")] == [1, 2]
    assert [each.value for each in shown.Scalars("loss")] == pytest.approx([line["loss"] for line in metrics(run)])


# Checkpoints


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "name, damage, said",
    [
        ("*.distcp", truncate, "is not what was written"),
        ("*.distcp", flip_a_bit, "is not what was written"),
        ("*.distcp", Path.unlink, "is missing"),
        (".metadata", Path.unlink, "is missing"),
        ("manifest.json", truncate, "manifest.json is broken"),
    ],
)
def test_a_damaged_checkpoint_is_left_out(
    data: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], said: str
) -> None:
    run = tiny_run(tmp_path / "run", data, *EVERY_5, steps=10)
    before = weights(run)
    damage(next((run / "checkpoints" / "step-00000010").glob(name)))
    heard: list[str] = []
    tiny_run(run, data, *EVERY_5, steps=10, resume=True, say=heard.append)
    assert any("step-00000010 is left out" in line and said in line for line in heard)
    assert any(line.startswith("steps 5 to 10") for line in heard)
    assert all(torch.equal(weights(run)[key], weight) for key, weight in before.items())


def test_a_full_disk_leaves_the_checkpoint_before(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = checkpoint.save_tensors

    def full(tensors: Any, checkpoint_id: Path, **options: Any) -> None:
        save(tensors, checkpoint_id=checkpoint_id, **options)
        if "10" in checkpoint_id.name:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_tensors", full)
    run = tmp_path / "run"
    with pytest.raises(DataError, match=r"step 10 could not be written, got No space left on device: free space"):
        tiny_run(run, data, *EVERY_5, steps=10)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000005"]
    monkeypatch.undo()
    tiny_run(run, data, *EVERY_5, steps=10, resume=True)
    assert_same_run(run, tiny_run(tmp_path / "whole", data, *EVERY_5, steps=10))


def test_only_the_last_checkpoints_stay(data: Path, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", data, "save_every=1", "keep=2", steps=5)
    assert [path.name for path in checkpoint.checkpoints(run / "checkpoints")] == ["step-00000004", "step-00000005"]


def test_a_loss_that_is_not_finite_stops_the_run(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    overrides = ("save_every=2", "log_every=2", "optimizer.warmup=0", "optimizer.clip=0", "optimizer.lr=1e36")
    with pytest.raises(NonFiniteLossError, match=r"until step \d+, got one that is not, on rows \d+ to \d+") as caught:
        tiny_run(run, data, *overrides, steps=40)
    step = int(caught.value.rule.rsplit(maxsplit=1)[1])
    assert f"rows {4 * step} to {4 * step + 3}" in caught.value.got  # type: ignore[operator]
    assert all(int(path.name[5:]) <= step for path in checkpoint.checkpoints(run / "checkpoints"))


# The optimiser


def test_the_learning_rate_of_every_step() -> None:
    recipe = OptimizerRecipe(lr=2.0, warmup=4, min_lr=0.25)
    rates = [learning_rate(recipe, step, 11) for step in range(11)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert rates[4] == 2.0 and rates[10] == pytest.approx(0.5) and rates[7] == pytest.approx(1.25)
    assert all(a >= b for a, b in pairwise(rates[4:]))
    constant = replace(recipe, schedule="constant")
    assert [learning_rate(constant, step, 11) for step in (3, 4, 10)] == [2.0, 2.0, 2.0]


def test_the_step_against_adamw_written_down(data: Path) -> None:
    """One step from zero: each weight moves by the rate towards minus its gradient's sign, and matrices decay."""
    changes = {"warmup": 0, "lr": 1e-3, "weight_decay": 0.5, "clip": 0}
    recipe = recipe_of(data, *(f"optimizer.{key}={value}" for key, value in changes.items()))
    step = make_step(recipe, TokenData.open(data), World(0, 1, CPU))
    before = {name: weight.detach().clone() for name, weight in step.model.named_parameters()}
    (hidden,) = prepared = step.prepare(0)
    loss, _ = step.module(hidden, hidden.num_maskable)
    gradients = dict(zip(before, torch.autograd.grad(loss, list(step.model.parameters())), strict=True))
    taken = step.take(0, prepared)
    assert float(taken.loss) == pytest.approx(float(loss.detach()))
    norm = math.sqrt(sum(float(each.square().sum()) for each in gradients.values()))
    assert float(taken.gradient) == pytest.approx(norm, rel=1e-5)
    for name, weight in step.model.named_parameters():
        decay = 0.5 if weight.ndim >= 2 else 0.0
        g = gradients[name]
        moved = before[name] * (1 - 1e-3 * decay) - 1e-3 * g / (g.abs() + 1e-8)
        assert torch.allclose(weight.detach(), moved, atol=1e-6)


def test_clipping_keeps_the_direction() -> None:
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert float(clip_gradients(model, 0.0)) == pytest.approx(math.sqrt(8))
    assert float(clip_gradients(model, 1.0)) == pytest.approx(math.sqrt(8))
    assert torch.allclose(model.weight.grad, torch.full((2, 3), 1 / math.sqrt(8)), atol=1e-5)


def test_averaged_weights() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    averaged = Averaged(model, 0.75)
    for value in (1.0, 2.0):
        torch.nn.init.constant_(model.weight, value)
        averaged.update()
    expected = 0.75 * 0.25 * 1.0 + 0.25 * 2.0
    averaged.swap()
    assert model.weight.tolist() == [[expected, expected]]
    averaged.swap()
    assert model.weight.tolist() == [[2.0, 2.0]]


def test_decay_is_of_matrices_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 2))
    decay = {
        id(parameter): group["weight_decay"]
        for group in make_optimizer(model, OptimizerRecipe(weight_decay=0.3)).param_groups
        for parameter in group["params"]
    }
    assert {parameter.ndim: decay[id(parameter)] for parameter in model.parameters()} == {2: 0.3, 1: 0.0}


# The command


def test_mistakes_get_one_line(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good = tmp_path / "good.yaml"
    good.write_text(f"data: {{folder: {data}}}\n")
    for words, said in (
        (["nowhere.yaml"], "nowhere.yaml"),
        ([good, "mask.low=0-1"], "did you mean mask.law?"),
        ([good, "mask.law=0.6-0.3"], "swap the two ends"),
        ([good, "data.folder=nowhere"], "nowhere must be a folder of tokens"),
        ([good, "steps=0"], "steps must be 1 or more"),
        ([good, "data.length=100000"], "must hold one row of 100,000 tokens"),
        ([good, "model.preset=2m"], "a preset must be one of"),
        ([good, "model.heads=3"], "width must be a multiple of heads"),
        ([good, "optimizer.lr=-1"], "optimizer.lr"),
        ([good, "mask.law=0.3", "mask.weight=elbo"], "needs a law with a density"),
        ([good, "--device", "cuda"], "needs a CUDA device"),
    ):
        if said.startswith("needs a CUDA") and torch.cuda.is_available():
            continue
        assert main(["train", *map(str, words), "--out", "run"]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1
    assert main(["train", str(good), *TINY, "steps=2", "--out", "run", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rows"][0]["step"] == 2 and np.isfinite(record["rows"][0]["bound"])
    assert record["extra"]["bounds"][-1][0] == 2 and len(record["extra"]["loss by ratio"]) == 8
    assert main(["train", str(good), *TINY, "steps=2", "--out", "run", "--resume", "--plot", "run.svg"]) == 0
    assert (tmp_path / "run.svg").stat().st_size > 1000


def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import halfmask.recipe

    def without_yaml(*given: object) -> None:
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

    monkeypatch.setattr(halfmask.recipe, "read_recipe", without_yaml)
    assert main(["train", "recipe.yaml", "--out", "run"]) == 2
    assert "pip install 'halfmask[train]'" in capsys.readouterr().err


def test_train_is_a_function_too(data: Path, tmp_path: Path) -> None:
    line = train(recipe_of(data, "steps=1"), tmp_path / "run", device="cpu")
    assert line["step"] == 1 and line["bound"] > 0 and len(line["loss by ratio"]) == 8
