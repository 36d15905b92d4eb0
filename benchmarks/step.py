"""A training step of the paper's 51M model against the plain recipe: logits and cross-entropy at every position.

Shape: width 512, 8 layers, vocabulary 50,304, rows of 150, window 0.45-0.55. Both make the same update of the same
weights. `--profile` adds where the time of ours goes. Memory is the peak beyond weights, gradients and optimiser
state, in a process of its own for each recipe.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

from bench import Result, Watch, main
from halfmask.laws import Window
from halfmask.masking.corrupt import Batch, Masking
from halfmask.masking.schedules import Always
from halfmask.models.transformer import Transformer, preset
from halfmask.noise import Noise
from halfmask.objective import HiddenTokens, masked_loss, on_device
from halfmask.training.meter import matrix_peak, step_operations
from halfmask.training.optim import make_optimizer
from halfmask.training.recipe import OptimizerRecipe

VOCABULARY, LENGTH = 50_304, 150
RECIPES = ("plain fp32", "plain bf16", "ours bf16")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=32, help="of a step")
    parser.add_argument("--steps", type=int, default=3, help="timed for each recipe, in turn")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="compile the blocks of both")
    parser.add_argument("--profile", action="store_true", help="where the time of ours goes")
    parser.add_argument("--memory-of", choices=RECIPES, help=argparse.SUPPRESS)


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.rows, self.device = arguments.rows, torch.device(arguments.device)
        self.config = preset("51m", vocab_size=VOCABULARY, mask_id=VOCABULARY - 1, max_length=LENGTH)
        self.model = Transformer(self.config)
        self.model.initialise(0)
        self.model.to(self.device)
        if arguments.compile:
            for block in self.model.blocks:
                block.compile()
        self.optimizer = make_optimizer(self.model, OptimizerRecipe())
        tokens = np.random.default_rng(0).integers(0, VOCABULARY - 1, (self.rows, LENGTH))
        batch = Batch(0, np.arange(self.rows), self.rows, tokens, np.ones(tokens.shape, dtype=bool))
        masking = Masking(Always(Window(0.45, 0.55)))
        self.hidden = on_device(masking.noisy(batch, Noise(0), VOCABULARY - 1), self.device)
        self.clean_BT = torch.as_tensor(tokens, device=self.device)
        self.weight_BT = torch.zeros(self.rows * LENGTH, device=self.device)
        self.weight_BT[self.hidden.position_N] = self.hidden.weight_N

    def loss(self, recipe: str) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=recipe != "plain fp32"):
            if recipe.startswith("plain"):
                return self.plain_loss(self.hidden)
            return masked_loss(self.model, self.hidden, self.rows * LENGTH).loss

    def step(self, recipe: str) -> float:
        loss = self.loss(recipe)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())  # waits for the device

    def plain_loss(self, hidden: HiddenTokens) -> torch.Tensor:
        logits_BTV = F.linear(self.model.hidden(hidden.tokens_BT), self.model.output_weight)
        nll = F.cross_entropy(logits_BTV.flatten(0, 1).float(), self.clean_BT.flatten(), reduction="none")
        return (nll * self.weight_BT).sum() / (self.rows * LENGTH)

    def seconds(self, work: Callable[[], object]) -> float:
        started_at = time.perf_counter()
        work()
        return time.perf_counter() - started_at


def measure(arguments: argparse.Namespace) -> list[Result]:
    if arguments.memory_of:
        print(json.dumps(memory_of(arguments)))
        sys.exit(0)
    bench = Bench(arguments)
    with torch.no_grad():
        losses = [float(bench.loss(recipe)) for recipe in RECIPES]
    assert max(losses) - min(losses) < 0.01 * max(losses), f"the recipes differ: {losses}"
    for recipe in RECIPES:  # warm
        bench.step(recipe)
    best = dict.fromkeys(RECIPES, float("inf"))
    for _ in range(arguments.steps):  # in turn, so that a disturbance meets all of them
        for recipe in RECIPES:
            best[recipe] = min(best[recipe], bench.seconds(lambda recipe=recipe: bench.step(recipe)))  # type: ignore[misc]
    peak = matrix_peak(bench.device, torch.bfloat16, seconds=2.0)
    done = step_operations(bench.config, bench.rows, LENGTH, len(bench.hidden.position_N))
    share = done / best["ours bf16"] / peak
    speed = {recipe: bench.rows * LENGTH / seconds for recipe, seconds in best.items()}
    ours = f"{speed['ours bf16']:,.0f} tokens/s"
    memory = {recipe: _memory(arguments, recipe) for recipe in ("plain bf16", "ours bf16")}
    if arguments.profile:
        _profile(bench)
    return [
        Result(
            "against plain float32",
            ours,
            f"{speed['plain fp32']:,.0f} tokens/s",
            best["plain fp32"] / best["ours bf16"],
            3.3,
        ),
        Result(
            "against plain bfloat16",
            ours,
            f"{speed['plain bf16']:,.0f} tokens/s",
            best["plain bf16"] / best["ours bf16"],
            1.7,
        ),
        Result(
            "share of half the bfloat16 peak",
            f"{done / best['ours bf16'] / 1e9:,.0f} GFLOP/s",
            f"{peak / 1e9:,.0f} GFLOP/s peak",
            share / 0.5,
            1.0,
        ),
        Result(
            "memory beyond weights, gradients, optimiser",
            f"{memory['ours bf16'] / 2**20:,.0f} MiB",
            f"{memory['plain bf16'] / 2**20:,.0f} MiB plain bfloat16",
            memory["plain bf16"] / memory["ours bf16"],
            2.0,
        ),
    ]


def _memory(arguments: argparse.Namespace, recipe: str) -> float:
    words = ["--memory-of", recipe, "--rows", arguments.rows, "--device", arguments.device]
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def memory_of(arguments: argparse.Namespace) -> float:
    """Peak of a step over what stands before it, once gradients and optimiser state exist."""
    bench = Bench(arguments)
    bench.step(arguments.memory_of)
    gradients = sum(parameter.numel() * 4 for parameter in bench.model.parameters())
    if bench.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        bench.step(arguments.memory_of)
        return float(torch.cuda.max_memory_allocated() - before - gradients)
    watch = Watch()
    before = watch.now()
    with watch:
        bench.step(arguments.memory_of)
    return float(watch.highest - before - gradients)


def _profile(bench: Bench) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as found:
        bench.step("ours bf16")
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=16, max_name_column_width=60))


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
