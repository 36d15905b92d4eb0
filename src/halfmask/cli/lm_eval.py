"""`halfmask lm-eval …`: the command line of lm-evaluation-harness, with our model and the paper's groups in it."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command
from halfmask.cli.models import RUN


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--local", metavar="FOLDER", help="of plain files in place of the Hub: see halfmask eval tasks"
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="lm-eval's own, beginning with run, ls, …"
    )


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from halfmask.evaluation.harness.command import lm_eval_command

    return lm_eval_command(arguments.arguments, Path(arguments.local) if arguments.local else None)


COMMANDS = [
    Command(
        "lm-eval",
        "lm-evaluation-harness's own command line, with the model halfmask and the paper's groups",
        configure,
        run,
        (
            RUN + "mkdir -p local/arc && "
            """echo '{"query": "1 + 1 =", "choices": ["2", "3"], "gold": 0}' > local/arc/arc_easy.jsonl && """
            "halfmask lm-eval --local local run --model halfmask --model_args path=run,draws=8 --tasks arc_easy",
        ),
    )
]
