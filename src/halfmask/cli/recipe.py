"""`halfmask recipe …`: what a recipe resolves to, with the origin of every value; the recipes of the package."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, show
from halfmask.cli.train import add_recipe


def configure_list(parser: argparse.ArgumentParser) -> None:
    add_output(parser, plot=False)


def run_list(arguments: argparse.Namespace) -> None:
    from halfmask.recipe import SHIPPED, shipped_recipes
    from halfmask.records import Record

    rows = []
    for name, path in shipped_recipes().items():
        first_line, _, _ = path.read_text(encoding="utf-8").partition("\n")
        rows.append({"recipe": name, "what": first_line.removeprefix("# ")})
    notes = [f"their files, with the reason of every value, are in {SHIPPED}"]
    show(Record("recipe list", "Recipes of the package", {}, rows, notes), arguments)


def configure_show(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_output(parser, plot=False)


def run_show(arguments: argparse.Namespace) -> None:
    from halfmask.recipe import flat_recipe, read_recipe
    from halfmask.records import Record
    from halfmask.training.recipe import TrainRecipe

    recipe, origins = read_recipe(TrainRecipe, arguments.recipe, arguments.overrides)
    rows = [{"key": key, "value": _text(value), "from": origins[key]} for key, value in flat_recipe(recipe)]
    settings = {"recipe": arguments.recipe, "overrides": arguments.overrides}
    notes = [f"mask.law: {recipe.mask.explained()}"]
    show(Record("recipe show", f"{arguments.recipe}, resolved", settings, rows, notes), arguments)


def _text(value: object) -> str:
    """As it is written in a recipe."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


COMMANDS = [
    Command(
        "recipe list",
        "the recipes of the package",
        configure_list,
        run_list,
        ("halfmask recipe list",),
    ),
    Command(
        "recipe show",
        "what a recipe resolves to, and where each value came from",
        configure_show,
        run_show,
        (
            "halfmask recipe show demo mask.law=0.45-0.55",
            "echo 'data: {folder: data}' > recipe.yaml && halfmask recipe show recipe.yaml optimizer.lr=3e-4",
        ),
    ),
]
