"""`halfmask recipe show RECIPE`: what a recipe resolves to, and where each value came from."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, show
from halfmask.cli.train import add_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_output(parser, plot=False)


def run(arguments: argparse.Namespace) -> None:
    from halfmask.recipe import flat_recipe, read_recipe
    from halfmask.records import Record
    from halfmask.training.recipe import TrainRecipe

    recipe, origins = read_recipe(TrainRecipe, arguments.recipe, arguments.overrides)
    rows = [{"key": key, "value": _text(value), "from": origins[key]} for key, value in flat_recipe(recipe)]
    notes = [f"mask.law: {recipe.mask.explained()}"]
    show(Record("recipe show", f"{arguments.recipe}, resolved", {"recipe": arguments.recipe}, rows, notes), arguments)


def _text(value: object) -> str:
    return "–" if value is None else str(value)


COMMANDS = [
    Command(
        "recipe show",
        "what a recipe resolves to, and where each value came from",
        configure,
        run,
        ("echo 'data: {folder: data}' > recipe.yaml && halfmask recipe show recipe.yaml optimizer.lr=3e-4",),
    )
]
