"""`halfmask demo`: the main job, as the ordinary commands, each printed before it runs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from halfmask.cli.command import Command
from halfmask.errors import UsageError

# {out} is the folder of results.
STAGES = (
    "halfmask parity show --n 4 --k 2",
    "halfmask theory signal --k 6 --mask 0-0.246 0-1 --plot {out}/signal.svg",
    "halfmask theory optimum --k 6 --plot {out}/optimum.svg",
    "halfmask theory identify --n 20 --k 6 --mask 0-0.1844 0-1 --trials 50 --plot {out}/identify.svg",
    "halfmask theory loss --n 4 --k 2 --plot {out}/loss.svg",
    "halfmask theory energy --n 4 --k 2 --plot {out}/energy.svg",
    "halfmask theory mixture --plot {out}/mixture.svg",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="demo", metavar="FOLDER", help="where the results go; made if need be")


def run(arguments: argparse.Namespace) -> int:
    from halfmask.cli.main import main

    out = Path(arguments.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "the demo needs a folder it can write to", got=out, fix=f"choose another --out ({error.strerror})"
        ) from error
    for stage in STAGES:
        words = shlex.split(stage.format(out=shlex.quote(str(out))))
        print(f"\n$ {shlex.join(words)}\n", flush=True)
        if status := main(words[1:]):
            return status
    print("\nThe demo wrote:")
    for path in sorted(out.iterdir()):
        print(f"  {path}")
    return 0


COMMANDS = [
    Command(
        "demo",
        "run the main job end to end and name the files it wrote",
        configure,
        run,
        ("halfmask demo --out results",),
    )
]
