"""Kill a run at random moments, resume it each time, and compare its weights with the unbroken run's. `make kills`."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from halfmask.training.checkpoint import checkpoints
from runs import TINY, tiny_data

OVERRIDES = (*TINY, "steps=400", "save_every=7", "log_every=3", "evaluate.every=50", "optimizer.ema=0.9")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="at the least")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = folder / "recipe.yaml"
        recipe.write_text(f"data: {{folder: {tiny_data(folder / 'data')}}}\n")
        whole, broken = folder / "whole", folder / "broken"
        start(recipe, whole).wait()
        kills = at_work = 0
        while not (finished := (broken / "model" / "model.safetensors").exists()) or kills < arguments.kills:
            if finished:
                raise SystemExit(f"the run ended after {kills} kills, fewer than {arguments.kills}: take more steps")
            process = start(recipe, broken)
            before = newest(broken)
            while process.poll() is None and newest(broken) == before and not stopped_early(moments):
                time.sleep(0.01)  # kills come while it starts, and from its first new checkpoint on
            time.sleep(moments.random() * 0.2)
            if process.poll() is None:
                process.kill()
                kills += 1
                at_work += newest(broken) != before
                print(f"kill {kills}, at {newest(broken) or 'start'}", file=sys.stderr, flush=True)
            process.wait()
        ours, theirs = (
            load_file(broken / "model" / "model.safetensors"),
            load_file(whole / "model" / "model.safetensors"),
        )
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours), "the weights differ"
        lines = [(folder / run / "metrics.jsonl").read_text().count("\n") for run in ("whole", "broken")]
        assert lines[0] == lines[1], "the metrics differ"
    print(f"{kills} kills, {at_work} of them while checkpoints were written: the weights are the unbroken run's")


def start(recipe: Path, out: Path) -> subprocess.Popen[bytes]:
    resume = ["--resume"] if (out / "recipe.yaml").exists() else []
    words = [sys.executable, "-m", "halfmask", "train", recipe, *OVERRIDES, "--out", out, "--device", "cpu", *resume]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([str(word) for word in words], env=environment, stderr=subprocess.DEVNULL)


def newest(run: Path) -> str:
    return next((path.name for path in reversed(checkpoints(run / "checkpoints"))), "")


def stopped_early(moments: random.Random) -> bool:
    """Now and then, long before anything is saved."""
    return moments.random() < 2e-4


if __name__ == "__main__":
    main()
