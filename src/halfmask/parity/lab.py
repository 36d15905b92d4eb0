"""The laboratory's step, and the loop around it.

    rows of (seed, step) ──▶ Masks.hide ──▶ model.outputs ──▶ training_loss ──▶ backward ──▶ fused AdamW
                                                     └─▶ effective_parts: its signal and its noise part

A step is a function of the recipe and of its number, so that a run that is resumed equals an unbroken one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from halfmask.noise import Noise
from halfmask.parity.landscape import energy_of
from halfmask.parity.losses import Rows, effective_parts, training_loss
from halfmask.parity.masks import HiddenRows, hide_parity
from halfmask.parity.models import NanoGpt, OneLayer, ParityModel, TwoLayer
from halfmask.parity.recipe import ParityRecipe
from halfmask.parity.task import Ids

Measures = dict[str, float]  # of one step
EVALUATED = 2000  # training sequences whose accuracy is measured
EVALUATION_ROWS = 1000  # at once


def make_model(recipe: ParityRecipe) -> nn.Module:
    length, seed = recipe.n + 1, recipe.seed
    if recipe.model == "gpt":
        return NanoGpt(
            length,
            width=recipe.width,
            layers=recipe.layers or 1,
            heads=recipe.heads or 4,
            seed=seed,
            gain=recipe.init,
        )
    if recipe.model == "one-layer":
        return OneLayer(length, recipe.width, seed=seed, scale=recipe.init, uniform=recipe.attention == "uniform")
    return TwoLayer(length, recipe.width, seed=seed, scale=recipe.init)


class Lab:
    """A run in memory: model, optimiser, and how many steps they have taken."""

    def __init__(self, recipe: ParityRecipe) -> None:
        self.recipe, self.task, self.masks = recipe, recipe.task, recipe.masks
        self.noise = Noise(recipe.seed)
        self.module = make_model(recipe)
        self.model = cast("ParityModel", self.module)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(),
            lr=recipe.lr,
            betas=(0.9, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self.done = 0  # steps
        self.solved = False  # held-out accuracy has reached `until`

    def hidden(self, step: int) -> HiddenRows:
        """What the step trains on."""
        recipe, clean_BT = self.recipe, self.task.train_NT
        if recipe.rows is not None:
            words_B = self.noise.words("rows", step, np.arange(recipe.rows), 1)[:, 0]
            clean_BT = clean_BT[words_B % np.uint64(len(clean_BT))]
        return self.masks.hide(clean_BT, self.task, self.noise, step)

    def step(self) -> Measures:
        hidden = self.hidden(self.done)
        rows = Rows.of(hidden)
        with self._autocast():
            f_N = self.model.outputs(rows.tokens_BT, rows.position_N)
        loss = training_loss(f_N, rows, self.recipe.loss)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr * min(1.0, (self.done + 1) / max(1, self.recipe.warmup))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.done += 1
        with torch.no_grad():
            signal, noise = effective_parts(f_N, rows, self.recipe.loss, one_output=self.model.one_output)
        return {
            "step": self.done,
            "loss": loss.item(),
            "signal share": float(np.mean(hidden.num_secret_B == 1)),
            "signal loss": signal.item(),
            "noise loss": noise.item(),
        }

    def evaluate(self) -> Measures:
        """Accuracy on the parity bit, all others visible (Section "Evaluation"); the energy where n is small."""
        found = {
            "train accuracy": self._accuracy(self.task.train_NT[:EVALUATED]),
            "held-out accuracy": self._accuracy(self.task.held_out_NT),
        }
        law = self.masks.law(self.done)
        if isinstance(self.module, TwoLayer) and law is not None:
            found |= energy_of(self.module, self.task, law, signal=self.masks.signal_only)
        return found

    @torch.no_grad()
    def _accuracy(self, sequences_NT: Ids) -> float:
        right = 0.0
        for start in range(0, len(sequences_NT), EVALUATION_ROWS):
            rows = Rows.of(hide_parity(sequences_NT[start : start + EVALUATION_ROWS], self.task))
            with self._autocast():
                f_N = self.model.outputs(rows.tokens_BT, rows.position_N)
            right += float((f_N * rows.value_N > 0).sum())
        return right / len(sequences_NT)

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.precision == "bf16")

    def state(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "solved": self.solved,
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.done, self.solved = int(state["done"]), bool(state["solved"])


def steps_of(lab: Lab) -> Iterator[Measures]:
    """Take the steps that are left; every so often, and at the end, a step's measures hold the evaluation too."""
    recipe = lab.recipe
    while lab.done < recipe.steps and not (lab.solved and recipe.until is not None):
        measures = lab.step()
        if lab.done % recipe.evaluate_every == 0 or lab.done == recipe.steps:
            measures |= lab.evaluate()
            lab.solved = recipe.until is not None and measures["held-out accuracy"] >= recipe.until
        yield measures
