"""Two real processes under torchrun, by DDP and by FSDP2, do what one does; a checkpoint moves between them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from halfmask.training import checkpoint
from runs import TINY, tiny_data
from test_training import metrics, weights

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
OVERRIDES = (*TINY, "steps=6", "save_every=3", "keep=9", "log_every=1", "evaluate.every=3", "optimizer.warmup=2")


def run(data: Path, out: Path, *overrides: str, processes: int = 1, resume: bool = False) -> Path:
    recipe = out.parent / "recipe.yaml"
    recipe.write_text(f"data: {{folder: {data}}}\n")
    launch = [sys.executable]
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launch += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", str(port)]
    words = [*launch, "-m", "halfmask", "train", recipe, *OVERRIDES, *overrides, "--out", out, "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*map(str, words), *(["--resume"] if resume else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(data, tmp_path_factory.mktemp("alone") / "run")


def assert_equal_to_rounding(one: Path, other: Path) -> None:
    for ours, theirs in zip(metrics(one), metrics(other), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["gradient"] == pytest.approx(theirs["gradient"], rel=1e-4)
        if "bound" in ours:
            assert ours["bound"] == pytest.approx(theirs["bound"], rel=1e-5)
            assert ours["loss by ratio"] == pytest.approx(theirs["loss by ratio"], rel=1e-5)
    for name, weight in weights(one).items():
        assert torch.allclose(weight, weights(other)[name], atol=1e-5)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_are_one(data: Path, alone: Path, tmp_path: Path, parallel: str) -> None:
    """Accumulating, too; and what they saved half-way goes on in one process, and the other way round."""
    two = run(data, tmp_path / "two", f"step.parallel={parallel}", "step.micro_rows=1", processes=2)
    assert_equal_to_rounding(alone, two)

    def cut(whole: Path, out: Path) -> Path:
        shutil.copytree(whole, out)
        shutil.rmtree(out / "checkpoints" / "step-00000006")
        assert [path.name for path in checkpoint.checkpoints(out / "checkpoints")] == ["step-00000003"]
        return out

    assert_equal_to_rounding(alone, run(data, cut(two, tmp_path / "down"), f"step.parallel={parallel}", resume=True))
    if parallel == "fsdp":
        up = cut(alone, tmp_path / "up")
        assert_equal_to_rounding(alone, run(data, up, "step.parallel=fsdp", processes=2, resume=True))


def test_a_tied_and_averaged_model_is_sharded_too(data: Path, tmp_path: Path) -> None:
    overrides = ("model.tied=true", "optimizer.ema=0.5", "step.checkpointing=true")
    one = run(data, tmp_path / "one", *overrides)
    two = run(data, tmp_path / "two", *overrides, "step.parallel=fsdp", processes=2)
    assert_equal_to_rounding(one, two)
    assert "output.weight" not in load_file(two / "model" / "model.safetensors")  # stored once, as the embedding
