"""`halfmask parity …`: the paper's task, in the terminal; and the laboratory that trains on it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, check_plot, console, show
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from halfmask.theory.illustration import Picture


def configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=4, help="input bits")
    parser.add_argument("--k", type=int, default=2, help="secret input bits")
    parser.add_argument("--seed", type=int, default=0, help="of secret set, bits and masks")
    add_output(parser, plot=False)


def run_show(arguments: argparse.Namespace) -> None:
    from halfmask.theory.illustration import illustrate

    picture = illustrate(arguments.n, arguments.k, arguments.seed)
    if arguments.json:
        print(picture.record().to_json())
        return
    screen = console()
    title = f"({arguments.n}, {arguments.k})-parity: the last bit is the parity of the secret ones; "
    screen.print(title + "[bold blue][] secret[/], [reverse]?[/] hidden\n", highlight=False)
    for i in range(len(picture.verdicts)):
        screen.print(draw_row(picture, i))


def draw_row(picture: Picture, i: int) -> Text:
    """`[1] 0 [?] 1 [0]   identifiable …`: brackets are the secret set, so that it reads without colour too."""
    from rich.text import Text

    line = Text("  ")
    for j, bit in enumerate(picture.bits[i]):
        secret = j in picture.secret
        cell = "?" if picture.hidden[i][j] else str(bit)
        line.append(f"[{cell}]" if secret else f" {cell} ", style=_style(secret, picture.hidden[i][j]))
        line.append(" ")
    mark, colour = ("✓", "green") if picture.verdicts[i].startswith("identifiable") else ("✗", "red")
    return line.append(f"  {mark} {picture.verdicts[i]}", style=colour)


def _style(secret: bool, hidden: bool) -> str:
    return " ".join(filter(None, ("bold blue" if secret else "", "reverse" if hidden else ""))) or "none"


# flag → (type, what it is). Defaults are those of `parity/recipe.py`, which a help text may not import.
FLAGS: dict[str, tuple[Callable[[str], Any], str]] = {
    "--n": (int, "input bits (default: 20)"),
    "--k": (int, "secret input bits (default: 6)"),
    "--train": (int, "training sequences, N (default: 5000)"),
    "--held-out": (int, "held-out sequences, disjoint from them (default: 2000)"),
    "--mask": (str, "plain (supervision of the parity bit), a law, a curriculum, or `signal of LAW` (default: 0-0.2)"),
    "--loss": (str, "squared or cross-entropy (default: squared; gpt cross-entropy)"),
    "--attention": (str, "of one-layer: softmax or uniform (default: softmax)"),
    "--width": (int, "of the model (default: 2560; one-layer 512, gpt 128)"),
    "--layers": (int, "of gpt (default: 1)"),
    "--heads": (int, "of gpt (default: 4)"),
    "--init": (float, "size of the first features; of gpt the gain of its matrices (default: 0.33; gpt 1.6)"),
    "--rows": (int, "of a step (default: all; one-layer 1000, gpt 512)"),
    "--lr": (float, "learning rate (default: 0.001)"),
    "--weight-decay": (float, "of AdamW (default: 0; gpt 0.1)"),
    "--beta2": (float, "of AdamW (default: 0.999; gpt 0.98)"),
    "--warmup": (int, "steps over which the learning rate rises (default: 0; gpt 100)"),
    "--clip": (float, "longest gradient, 0 for any (default: 0; gpt 1)"),
    "--steps": (int, "at most (default: 10000)"),
    "--evaluate-every": (int, "steps (default: 100)"),
    "--seed": (int, "of secret, data, masks and weights (default: 0)"),
    "--precision": (str, "bf16 or fp32 (default: bf16)"),
}


def configure_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=("mlp", "one-layer", "gpt"), default="mlp", help="what is trained")
    for flag, (kind, what) in FLAGS.items():
        parser.add_argument(flag, type=kind, help=what)
    parser.add_argument(
        "--until-solved",
        dest="until",
        metavar="ACCURACY",
        type=float,
        nargs="?",
        const=0.99,
        help="stop at this held-out accuracy (0.99 where none is named)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="keep the run: recipe, every step's measures, checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    add_output(parser)


def run_train(arguments: argparse.Namespace) -> None:
    from halfmask.parity.recipe import recipe_for

    check_plot(arguments)
    if arguments.resume and not arguments.out:
        raise UsageError("--resume needs the folder of a run", got="no --out", fix="add --out FOLDER")
    names = [*(flag.removeprefix("--").replace("-", "_") for flag in FLAGS), "until"]
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    recipe = recipe_for(arguments.model, **given)

    from halfmask.cli.live_curve import live_curve
    from halfmask.parity.run import train
    from halfmask.parity.summary import Curve, run_record

    with tempfile.TemporaryDirectory() as temporary, live_curve(recipe, lines=not arguments.json) as report:
        folder = Path(arguments.out or temporary)
        try:
            run = train(recipe, folder, resume=arguments.resume, report=report)
        except KeyboardInterrupt:
            if arguments.out:
                print(f"\n{folder} holds the run; go on with --resume", file=sys.stderr)
            raise
        curve = Curve.of(run.lines())
    show(run_record(recipe, curve), arguments)


COMMANDS = [
    Command(
        "parity show",
        "draw which masks leave a bit identifiable (the paper's illustration)",
        configure_show,
        run_show,
        ("halfmask parity show --n 4 --k 2", "halfmask parity show --n 12 --k 5 --seed 3 --json"),
    ),
    Command(
        "parity train",
        "train a model of the paper on the task, by plain supervision or masked diffusion",
        configure_train,
        run_train,
        (
            "halfmask parity train --n 8 --k 2 --train 128 --held-out 128 --mask 0-0.5 --width 128 --lr 1e-2 "
            "--steps 1000 --until-solved --plot curve.svg",
            "halfmask parity train --n 6 --k 3 --train 40 --held-out 20 --mask plain --width 64 --steps 200 --out run",
        ),
    ),
]
