"""The output layer and its loss, forward and backward: ours in chunks against torch's two ways.

Plain: all logits at once. Built in: `torch.nn.functional.linear_cross_entropy`, as it comes and in pieces of tokens.
Shape: the hidden tokens of 32 rows of 150 at half masking, vocabulary 50,304, width 512, in bfloat16. Memory is the
peak over what stands before, in a process of its own for each way. On a GPU, kernel libraries are another choice;
they cannot be tried without one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

from bench import Result, Watch, best_time, main
from halfmask.objective import ChunkedHead, plain_nll

TOKENS, VOCABULARY, WIDTH = 2_400, 50_304, 512
WAYS = ("ours", "plain", "built in", "built in, in pieces")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory-of", choices=WAYS, help=argparse.SUPPRESS)


class Bench:
    def __init__(self) -> None:
        random = torch.Generator().manual_seed(0)
        self.states_ND = torch.randn(TOKENS, WIDTH, generator=random).bfloat16().requires_grad_()
        self.weight_VD = (0.02 * torch.randn(VOCABULARY, WIDTH, generator=random)).requires_grad_()
        self.target_N = torch.randint(0, VOCABULARY, (TOKENS,), generator=random)
        self.factor_N = torch.rand(TOKENS, generator=random) / TOKENS

    def run(self, way: str) -> float:
        self.states_ND.grad = self.weight_VD.grad = None
        with torch.autocast("cpu", torch.bfloat16):
            if way == "ours":
                loss, _ = ChunkedHead.apply(self.states_ND, self.weight_VD, None, self.target_N, self.factor_N)
            elif way == "plain":
                loss = (plain_nll(self.states_ND, self.weight_VD, None, self.target_N) * self.factor_N).sum()
            else:
                weight_VD = self.weight_VD.to(torch.bfloat16)
                options = LinearCrossEntropyOptions(batch_chunk_size=512) if "pieces" in way else None
                nll_N = F.linear_cross_entropy(
                    self.states_ND, weight_VD, self.target_N, reduction="none", options=options
                )
                loss = (nll_N.float() * self.factor_N).sum()
        loss.backward()
        return float(loss.detach())


def measure(arguments: argparse.Namespace) -> list[Result]:
    bench = Bench()
    if arguments.memory_of:
        watch = Watch()
        bench.run(arguments.memory_of)
        before = watch.now()
        with watch:
            bench.run(arguments.memory_of)
        print(json.dumps(watch.highest - before))
        sys.exit(0)
    losses = [bench.run(way) for way in WAYS]
    assert max(losses) - min(losses) < 1e-2 * max(losses), f"the ways differ: {losses}"
    seconds = {way: best_time(lambda way=way: bench.run(way), repeats=5) for way in WAYS}  # type: ignore[misc]
    memory = {way: memory_of(way) for way in WAYS}
    return [
        Result(
            f"time against {way}",
            f"{seconds['ours']:.2f} s",
            f"{seconds[way]:.2f} s",
            seconds[way] / seconds["ours"],
            1,
        )
        for way in WAYS[1:]
    ] + [
        Result(f"memory against {way}", mib(memory["ours"]), mib(memory[way]), memory[way] / memory["ours"], least)
        for way, least in (("plain", 2.0), ("built in, in pieces", 0.5))
    ]


def memory_of(way: str) -> float:
    done = subprocess.run([sys.executable, __file__, "--memory-of", way], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
