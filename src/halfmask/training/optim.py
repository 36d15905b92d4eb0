"""AdamW with decay on matrices alone, the learning rate of a step, and averaged weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from halfmask.training.recipe import OptimizerRecipe


def make_optimizer(model: nn.Module, recipe: OptimizerRecipe) -> torch.optim.AdamW:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [each for each in parameters if each.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [each for each in parameters if each.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=True
    )


def learning_rate(recipe: OptimizerRecipe, step: int, steps: int) -> float:
    """Linear warm-up, then constant or half a cosine down to `min_lr` of the top at the last step."""
    if step < recipe.warmup:
        return recipe.lr * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.lr
    progress = (step - recipe.warmup) / max(1, steps - 1 - recipe.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return recipe.lr * (recipe.min_lr + (1 - recipe.min_lr) * cosine)


class Averaged:
    """An exponential moving average of the weights, beside the weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = model
        self.weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        for name, parameter in self.model.named_parameters():
            self.weights[name].lerp_(parameter.detach(), 1 - self.decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange model and average: for evaluating or saving the average; twice is as before."""
        for name, parameter in self.model.named_parameters():
            held = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(held)


def clip_gradients(model: nn.Module, limit: float) -> Tensor:
    """The norm of the whole gradient, which is scaled down to `limit` where it is longer; 0 leaves it."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit > 0:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm
