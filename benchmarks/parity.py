"""A step of the parity laboratory against the obvious float32 loop in PyTorch, on the same rows and masks.

mlp   5,000 rows, all of the training set, width 2,560 (the paper's size)        asked: 5 times
gpt   512 rows, width 128, 2 layers                                              asked: 2 times

The obvious loop draws its masks with torch, builds one-hot vectors, or runs the engine's transformer as it stands and
reads all positions, and steps with AdamW. Both are timed in turn in one process. Then both are trained for some steps
from the same weights over five seeds: their mean losses must agree within three standard errors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn

from bench import Result, main
from halfmask.models.denoiser import head
from halfmask.parity.lab import Lab
from halfmask.parity.models import NUM_IDS, NanoGpt, TwoLayer, own_ids
from halfmask.parity.recipe import ParityRecipe, recipe_for
from halfmask.parity.task import HIDDEN

RECIPES = {
    "mlp": recipe_for("mlp", mask="0-0.2"),
    "gpt": recipe_for("gpt", mask="0-0.246", width=128, layers=2, rows=512),
}
ASKED = {"mlp": 5.0, "gpt": 2.0}
CURVE_STEPS = {"mlp": 30, "gpt": 18}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=5, help="timed of each, in turn")
    parser.add_argument("--model", choices=("mlp", "gpt"), nargs="+", default=["mlp", "gpt"])
    parser.add_argument(
        "--curves", action=argparse.BooleanOptionalAction, default=True, help="compare learning curves too"
    )
    parser.add_argument("--profile", action="store_true", help="where the time of ours goes")


class Obvious:
    """What one writes first."""

    def __init__(self, recipe: ParityRecipe) -> None:
        self.recipe, self.lab = recipe, Lab(recipe)  # the laboratory's weights and data
        self.module = self.lab.module
        self.train_NT = torch.from_numpy(self.lab.task.train_NT)
        self.random = torch.Generator().manual_seed(recipe.seed)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=recipe.lr, betas=(0.9, recipe.beta2), weight_decay=recipe.weight_decay
        )
        self.law = recipe.masks.law(0)
        self.done = 0

    def step(self) -> float:
        recipe, clean_BT = self.recipe, self.train_NT
        if recipe.rows is not None:
            clean_BT = clean_BT[torch.randint(len(clean_BT), (recipe.rows,), generator=self.random)]
        assert self.law is not None
        ratio_B = torch.from_numpy(self.law.from_uniform(torch.rand(len(clean_BT), generator=self.random).numpy()))
        hidden_BT = torch.rand(clean_BT.shape, generator=self.random) < ratio_B[:, None]
        value_BT = torch.where(clean_BT == 2, -1.0, 1.0)
        output_BT = self.outputs(torch.where(hidden_BT, HIDDEN, clean_BT))
        if recipe.loss == "squared":
            loss_BT = (output_BT - value_BT) ** 2
        else:
            loss_BT = F.binary_cross_entropy_with_logits(output_BT, (value_BT + 1) / 2, reduction="none")
        loss = ((loss_BT * hidden_BT).sum(dim=1) / (2 * ratio_B.clamp(min=1e-9))).mean()
        self.optimizer.zero_grad()
        loss.backward()
        if recipe.clip:
            nn.utils.clip_grad_norm_(self.module.parameters(), recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.lr * min(1.0, (self.done + 1) / max(1, recipe.warmup))
        self.optimizer.step()
        self.done += 1
        return loss.item()

    def outputs(self, tokens_BT: Tensor) -> Tensor:
        if isinstance(self.module, TwoLayer):
            one_hot_BTV = F.one_hot(tokens_BT, NUM_IDS).float()
            z_BE = one_hot_BTV.transpose(1, 2).flatten(1)
            f_B = F.relu(z_BE @ self.module.W_DE.T) @ self.module.v_D
            return f_B[:, None].expand(tokens_BT.shape)
        assert isinstance(self.module, NanoGpt)
        model, T = self.module.transformer, tokens_BT.shape[1]
        logits_BTV = head(model, model.hidden(own_ids(tokens_BT)))
        own_T = torch.arange(T)
        return logits_BTV[:, own_T, T + own_T] - logits_BTV[:, own_T, 2 * T + own_T]


def measure(arguments: argparse.Namespace) -> list[Result]:
    results = []
    for model in arguments.model:
        recipe = RECIPES[model]
        results.append(_speed(recipe, arguments.steps, ASKED[model]))
        if arguments.profile:
            _profile(recipe)
        if arguments.curves:
            results.append(_curves(recipe, CURVE_STEPS[model]))
    return results


def _speed(recipe: ParityRecipe, steps: int, asked: float) -> Result:
    ours, theirs = Lab(recipe), Obvious(recipe)
    best = {"ours": float("inf"), "theirs": float("inf")}
    for number in range(steps + 1):  # in turn, so that a disturbance meets both; the first ones warm
        for name, work in (("ours", ours.step), ("theirs", theirs.step)):
            seconds = _seconds(work)
            if number:
                best[name] = min(best[name], seconds)
    masks = _seconds(lambda: ours.hidden(0))
    return Result(
        f"a step of {recipe.model}: {recipe.rows or recipe.train:,} rows, width {recipe.width:,}",
        f"{best['ours'] * 1e3:.1f} ms (masks {masks * 1e3:.1f})",
        f"{best['theirs'] * 1e3:.1f} ms",
        best["theirs"] / best["ours"],
        asked,
    )


def _seconds(work: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


def _curves(recipe: ParityRecipe, steps: int) -> Result:
    """Smoothed loss at the end, over five seeds: how far apart the two means are, in standard errors."""
    seeded = [replace(recipe, seed=seed) for seed in range(5)]
    ours = np.array([[lab.step()["loss"] for _ in range(steps)] for lab in map(Lab, seeded)])
    theirs = np.array([[loop.step() for _ in range(steps)] for loop in map(Obvious, seeded)])
    last = steps // 3  # the mean of the last third: single steps differ by their masks
    ends = [curve[:, -last:].mean(axis=1) for curve in (ours, theirs)]
    error = float(np.sqrt(sum(end.var(ddof=1) / len(end) for end in ends)))
    apart = abs(float(ends[0].mean() - ends[1].mean()))
    return Result(
        f"loss of {recipe.model} at step {steps}, five seeds: three standard errors against the difference",
        f"{ends[0].mean():.4f} ± {ends[0].std(ddof=1):.4f}",
        f"{ends[1].mean():.4f} ± {ends[1].std(ddof=1):.4f}",
        3 * error / max(apart, 1e-12),
        1.0,
    )


def _profile(recipe: ParityRecipe) -> None:
    from torch.profiler import ProfilerActivity, profile

    lab = Lab(recipe)
    lab.step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        lab.step()
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=16, max_name_column_width=60))


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
