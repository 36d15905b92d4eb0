"""Decoding against the plain loop that others use: one row, and in each step a full forward pass with all logits.

A small model (width 128, 4 layers, a vocabulary of 16,384) is trained for a few minutes on the built-in corpus; 16
held-out prompts of 32 tokens are continued by 96. The plain loop is that of LLaDA's generate.py. What is not exact is
printed beside its speed: how many of its tokens are those of exact decoding, and the bound of what was written under
the model. The cost against length is that of one step of one row, with untrained weights of the same shape.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bench import Result, best_time, main
from halfmask.data.batches import held_out_rows
from halfmask.data.tokens import TokenData
from halfmask.decoding.canvas import Canvas, Ids
from halfmask.decoding.commit import Threshold
from halfmask.decoding.decode import Decoder, decode
from halfmask.decoding.row import Completion
from halfmask.decoding.strategy import Strategy
from halfmask.evaluation.written import difference
from halfmask.models.denoiser import Denoiser, head
from halfmask.models.load import Loaded, open_model
from halfmask.models.transformer import Transformer, preset

PROMPT, LENGTH, BLOCK, ROWS, REPEATS = 32, 96, 32, 16, 5
LENGTHS = (64, 128, 256, 512, 1024)
EXACT = Strategy(block=BLOCK, may_end=False)
DUAL = replace(EXACT, cache="dual")
RECIPE = (
    "data.length=128", "step.rows=64", "optimizer.lr=4e-3", "optimizer.warmup=40", "model.tied=true",
    "evaluate.rows=32",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="FOLDER", help="keep tokens and model here, or take those it holds")
    parser.add_argument("--steps", type=int, default=400, help="of training")
    parser.add_argument("--threshold", type=float, default=0.5, help="of the parallel commits")


def measure(arguments: argparse.Namespace) -> list[Result]:
    with tempfile.TemporaryDirectory() as temporary:
        model, prompts = _trained(Path(arguments.folder or temporary), arguments.steps)
    return [*_speeds(model, prompts, arguments.threshold), *_against_length(model.denoiser.vocab_size)]


def _speeds(model: Loaded, prompts: Ids, threshold: float) -> list[Result]:
    strategies = {"exact": EXACT, "dual": DUAL, "parallel": replace(DUAL, rule=Threshold(threshold))}
    canvases = [Canvas.continuation(prompt, LENGTH) for prompt in prompts]
    done: dict[str, list[Completion]] = {}
    best = dict.fromkeys(("plain", *strategies), float("inf"))
    for prompt, canvas in list(zip(prompts, canvases, strict=True))[:REPEATS]:  # in turn: a disturbance meets all
        started_at = time.perf_counter()
        theirs_T = plain_loop(model, prompt)
        best["plain"] = min(best["plain"], time.perf_counter() - started_at)
        for name, strategy in strategies.items():
            started_at = time.perf_counter()
            done[name] = decode(Decoder.of(model), canvases, strategy, rows_at_once=ROWS)
            best[name] = min(best[name], time.perf_counter() - started_at)
        ours = next(each for each in done["exact"] if each.canvas is canvas)
        assert np.array_equal(theirs_T, ours.tokens_T), "exact decoding is the plain loop"
    plain = LENGTH / best["plain"]
    results = []
    for name, what, at_least in (
        ("exact", "exact, a batch of 16", 3.0),
        ("dual", "with blocks and the dual cache", 0.0),
        ("parallel", f"with blocks, dual cache, threshold:{threshold:g}", 8.0),
    ):
        speed = ROWS * LENGTH / best[name]
        told = f"{speed:,.0f} tokens/s, {np.mean([each.num_steps for each in done[name]]):.0f} steps"
        if name != "exact":
            found = difference(model.denoiser, done[name], done["exact"], model.device)
            told += f"; {found.same:.0%} of exact, bound {found.bound:.3f} (exact {found.other_bound:.3f})"
        results.append(Result(what, told, f"{plain:,.0f} tokens/s, {LENGTH} steps", speed / plain, at_least))
    return results


def _against_length(vocab_size: int) -> list[Result]:
    """One step of one row, of which the last 32 tokens are hidden."""
    config = preset("1m", vocab_size=vocab_size, mask_id=vocab_size - 1, max_length=LENGTHS[-1])
    denoiser = Transformer(config).eval()
    denoiser.initialise(0)
    results = []
    for length in LENGTHS:
        canvas = Canvas.continuation(np.arange(length - BLOCK), BLOCK)
        x = torch.from_numpy(np.where(canvas.hidden_T, denoiser.mask_id, canvas.tokens_T))[None]
        never = torch.tensor([denoiser.mask_id])
        plain = best_time(partial(_plain_step, denoiser, x, length, never), REPEATS)
        exact, cached = (_step_time(denoiser, canvas, strategy) for strategy in (EXACT, DUAL))
        told = f"exact {exact * 1e3:.2f} ms, cached {cached * 1e3:.2f} ms"
        results.append(Result(f"a step at length {length:,}", told, f"{plain * 1e3:.2f} ms", plain / cached, 1.0))
    return results


def _step_time(denoiser: Transformer, canvas: Canvas, strategy: Strategy) -> float:
    decoder = Decoder(denoiser, max_length=LENGTHS[-1])
    decoder.join(canvas, strategy)
    decoder.step()  # fills the cache
    return best_time(decoder.step, REPEATS)


def _trained(folder: Path, steps: int) -> tuple[Loaded, Ids]:
    from halfmask.data.prepare import prepare
    from halfmask.recipe import read_recipe
    from halfmask.training.loop import train
    from halfmask.training.recipe import TrainRecipe

    data, run = folder / "data", folder / "run"
    if not data.exists():
        print("preparing the built-in corpus …", file=sys.stderr)
        prepare(["builtin"], str(data), tokens="bpe:16384")
    if not (run / "model").exists():
        print(f"training for {steps} steps …", file=sys.stderr)
        recipe, _ = read_recipe(TrainRecipe, None, [f"data.folder={data}", f"steps={steps}", *RECIPE])
        train(recipe, run, report=lambda line: print(f"step {line['step']}, loss {line['loss']:.3f}", file=sys.stderr))
    rows = held_out_rows(TokenData.open(data).split("validation"), length=PROMPT + LENGTH, limit=ROWS)
    return open_model(run, device="cpu"), rows.tokens_BT[:, :PROMPT]


@torch.inference_mode()
def plain_loop(model: Loaded, prompt: Ids) -> Ids:
    """LLaDA's generate.py at temperature 0: in every step the surest token of the block."""
    denoiser, words = model.denoiser, model.vocabulary
    never = torch.tensor([words.mask_id, words.end_id, *range(words.size, denoiser.vocab_size)])  # as ours
    x = torch.full((1, PROMPT + LENGTH), denoiser.mask_id)
    x[0, :PROMPT] = torch.from_numpy(prompt)
    for end in range(PROMPT + BLOCK, PROMPT + LENGTH + 1, BLOCK):
        for _ in range(BLOCK):
            _plain_step(denoiser, x, end, never)
    return x[0].numpy()


@torch.inference_mode()
def _plain_step(denoiser: Denoiser, x: torch.Tensor, end: int, never: torch.Tensor) -> None:
    logits = head(denoiser, denoiser.hidden(x))
    logits[..., never] = -torch.inf
    best = logits.argmax(dim=-1)
    confidence = torch.softmax(logits, dim=-1).gather(-1, best[..., None])[..., 0]
    confidence[:, end:] = -torch.inf
    confidence = torch.where(x == denoiser.mask_id, confidence, -torch.inf)
    chosen = confidence[0].topk(1).indices
    x[0, chosen] = best[0, chosen]


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
