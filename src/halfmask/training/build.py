"""From a recipe to what the loop runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import nn

from halfmask.data.batches import Batches
from halfmask.data.tokens import TokenData
from halfmask.errors import UsageError
from halfmask.models.transformer import Transformer, preset
from halfmask.noise import Noise
from halfmask.objective import MaskedLoss
from halfmask.training.optim import make_optimizer
from halfmask.training.parallel import World, parallelise
from halfmask.training.recipe import TrainRecipe
from halfmask.training.step import Step


def make_step(recipe: TrainRecipe, data: TokenData, world: World) -> Step:
    if recipe.step.rows % world.size:
        raise UsageError(
            f"step.rows must be a multiple of the {world.size} processes", got=recipe.step.rows, fix="change either"
        )
    model = make_model(recipe, data).to(world.device)
    module = parallelise(MaskedLoss(model, recipe.step.head), recipe.step, world)
    return Step(
        recipe=recipe,
        world=world,
        batches=Batches(
            data.split("train"),
            length=recipe.data.length,
            num_rows=recipe.step.rows,
            seed=recipe.seed,
            packing=recipe.data.packing,
        ),
        masking=recipe.mask.masking(),
        noise=Noise(recipe.seed),
        mask_id=data.mask_id,
        model=model,
        module=module,
        optimizer=make_optimizer(model, recipe.optimizer),
    )


def make_model(recipe: TrainRecipe, data: TokenData) -> nn.Module:
    """A transformer with weights of the seed, or a pretrained model behind the same protocol."""
    chosen = asdict(recipe.model)
    name, pretrained = chosen.pop("preset"), chosen.pop("pretrained")
    if pretrained is not None:
        from halfmask.models.pretrained import load_pretrained

        return load_pretrained(pretrained, mask_id=data.mask_id, vocab_size=data.vocab_size)
    config = preset(
        name,
        vocab_size=-(-data.vocab_size // 64) * 64,  # whole tiles of the matrix units
        mask_id=data.mask_id,
        max_length=recipe.data.length,
        **{key: value for key, value in chosen.items() if value is not None},
    )
    model = Transformer(config)
    model.initialise(recipe.seed)
    model.checkpointing = recipe.step.checkpointing
    if recipe.step.compile:
        for block in model.blocks:
            block.compile()
    return model


def model_card(recipe: TrainRecipe, model: nn.Module, data: TokenData) -> dict[str, Any]:
    """Beside the weights: what they are, and what they were trained with."""
    if isinstance(model, Transformer):
        config = asdict(model.config)
    else:
        from halfmask.models.pretrained import Pretrained, architecture

        assert isinstance(model, Pretrained)
        config = {"pretrained": recipe.model.pretrained, "architecture": architecture(model)}
    return {
        "halfmask": "model",
        "config": config,
        "data": recipe.data.folder,
        "tokenizer": data.tokenizer,
        "law": str(recipe.mask.masking().schedule),
        "weight": recipe.mask.weight,
        "steps": recipe.steps,
        "seed": recipe.seed,
    }
