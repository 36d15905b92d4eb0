"""`halfmask train RECIPE`: train a masked diffusion language model with any mask law."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, check_plot, console, show, wrote


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="of the run: metrics, checkpoints, model")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(default: cuda where there is one)")
    add_output(parser)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="a YAML file of what differs from the defaults, or a name that `halfmask recipe list` shows",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="such as optimizer.lr=1e-3 mask.law=0.45-0.55"
    )


def run(arguments: argparse.Namespace) -> None:
    import os

    from halfmask.recipe import read_recipe
    from halfmask.training.recipe import TrainRecipe

    check_plot(arguments)
    recipe, _ = read_recipe(TrainRecipe, arguments.recipe, arguments.overrides)
    from halfmask.training.loop import train
    from halfmask.training.run import Run

    first = os.environ.get("RANK", "0") == "0"
    screen = console(stderr=True)
    with _progress(recipe.steps, shown=first and sys.stderr.isatty()) as (progress, task):

        def report(line: dict[str, Any]) -> None:
            progress.update(task, completed=line["step"], description=describe(line))
            if not sys.stderr.isatty() or "bound" in line:
                screen.print(f"step {line['step']}  {describe(line)}", highlight=False)

        try:
            train(
                recipe,
                Path(arguments.out),
                resume=arguments.resume,
                device=arguments.device,
                report=report,
                say=lambda text: screen.print(text, highlight=False) if first else None,
            )
        except KeyboardInterrupt:
            screen.print(f"stopped; the same command with --resume goes on from {arguments.out}", highlight=False)
            raise
    if first:
        show(Run(Path(arguments.out)).record(), arguments)
        wrote(f"{arguments.out}/model and {arguments.out}/metrics.jsonl", arguments)


def describe(line: dict[str, Any]) -> str:
    parts = [f"loss {line['loss']:.4f}", f"{line['tokens/s']:,.0f} tokens/s"]
    if "share of peak" in line:
        parts.append(f"{line['share of peak']:.0%} of peak")
    if "bound" in line:
        parts.append(f"held-out bound {line['bound']:.4f} ± {line['bound error']:.4f}")
    return "  ".join(parts)


def _progress(steps: int, *, shown: bool) -> Any:
    from contextlib import contextmanager

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    @contextmanager
    def bar() -> Any:
        columns = [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}")]
        with Progress(*columns, console=console(stderr=True), disable=not shown) as progress:
            yield progress, progress.add_task("starting", total=steps)

    return bar()


COMMANDS = [
    Command(
        "train",
        "train a masked diffusion language model",
        configure,
        run,
        (
            "halfmask prepare builtin --out tokens --tokens bpe:1000 && "
            "halfmask train demo steps=2 step.rows=4 mask.law=0.45-0.55 --out run",
        ),
    )
]
