"""The step: what training does, once for every number from 0 to `steps`.

    Batches.at ──▶ Masking.noisy ──▶ MaskedLoss ──▶ backward ──▶ AdamW
     rows           ratios, hidden     hidden tokens
     of (seed, step)                   alone

A step is a function of the recipe and of its number. What a process holds are some rows of the step's global batch:
their noise is that of their numbers in it, and the loss is divided by the count of the whole batch, so that the number
of processes and of accumulation steps changes nothing but rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfmask.data.batches import Batches
from halfmask.masking.corrupt import Masking
from halfmask.noise import Noise
from halfmask.objective import HiddenTokens, on_device
from halfmask.training.optim import clip_gradients, learning_rate
from halfmask.training.parallel import World, only_last_syncs
from halfmask.training.recipe import TrainRecipe


@dataclass(frozen=True)
class Taken:
    """What a step measured; still on the device, so that nobody waits for it."""

    loss: Tensor  # of the whole global batch
    gradient: Tensor  # its norm, before clipping
    lr: float
    num_hidden: int  # of this process


@dataclass(frozen=True)
class Step:
    recipe: TrainRecipe
    world: World
    batches: Batches
    masking: Masking
    noise: Noise
    mask_id: int
    model: nn.Module  # the denoiser
    module: nn.Module  # MaskedLoss around it, and DDP or FSDP2 around that
    optimizer: torch.optim.AdamW

    def prepare(self, step: int) -> list[HiddenTokens]:
        """This process's rows, hidden, on the device: a batch for each accumulation step."""
        batches = (self.batches.at(step, rows_B) for rows_B in self._rows())
        noisy = (self.masking.noisy(batch, self.noise, self.mask_id) for batch in batches)
        return [on_device(each, self.world.device) for each in noisy]

    def take(self, step: int, prepared: list[HiddenTokens]) -> Taken:
        normaliser = self.world.total(sum(each.num_maskable for each in prepared))
        loss = torch.zeros((), device=self.world.device)
        for number, hidden in enumerate(prepared, start=1):
            with only_last_syncs(self.module, is_last=number == len(prepared)):
                with self.autocast():
                    part, _ = self.module(hidden, normaliser)
                (part * self.world.size).backward()  # DDP and FSDP2 average over processes; parts add up
            loss += part.detach()
        gradient = clip_gradients(self.model, self.recipe.optimizer.clip)
        lr = learning_rate(self.recipe.optimizer, step, self.recipe.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Taken(self.world.sum(loss), gradient, lr, sum(len(each.position_N) for each in prepared))

    def autocast(self) -> torch.autocast:
        enabled = self.recipe.step.precision == "bf16"
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=enabled)

    def _rows(self) -> list[NDArray[np.int64]]:
        """Every size-th row of the global batch is this process's; cut into accumulation steps."""
        mine = np.arange(self.world.rank, self.recipe.step.rows, self.world.size)
        micro = self.recipe.step.micro_rows or len(mine)
        return [mine[start : start + micro] for start in range(0, len(mine), micro)]
