"""`halfmask eval likelihood` and `eval tasks`: how models answer questions."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command
from halfmask.cli.models import RUN, add_models, open_model_of
from halfmask.cli.output import add_output, progress_bar, show
from halfmask.errors import UsageError


def configure_likelihood(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    parser.add_argument("--prompt", default="", help="what comes before each option")
    parser.add_argument(
        "--option", nargs="+", default=[], metavar="TEXT", help="what may follow, with its first space"
    )
    parser.add_argument(
        "--file", metavar="FILE", help='JSON Lines instead, such as {"prompt": "…", "options": ["…", "…"], "gold": 0}'
    )
    _add_draws(parser)
    add_output(parser, plot=False)


HOW = ("draws", "guidance", "stop", "seed")  # of `Likelihood`


def _add_draws(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=128, help="of every option; with fewer sets, all are tried")
    parser.add_argument("--guidance", type=float, default=0.0, help="classifier-free, LLaDA's scale")
    parser.add_argument(
        "--stop", choices=("never", "decided"), default="never", help="no more draws once the best option is known"
    )
    parser.add_argument("--seed", type=int, default=2026, help="of the noise, the same for all options of a question")


def run_likelihood(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables
    from halfmask.evaluation.likelihood import Likelihood
    from halfmask.evaluation.questions import as_question, read_questions

    if bool(arguments.option) == bool(arguments.file):
        raise UsageError(
            "options are given with --option or in a file",
            got="both" if arguments.file else "neither",
            fix='give for example --prompt "2 + 2 =" --option " 4" " 5"',
        )
    asked = (
        read_questions(arguments.file)
        if arguments.file
        else [{"prompt": arguments.prompt, "options": arguments.option}]
    )
    with progress_bar("opening") as advance:
        how = Likelihood(
            open_model_of(arguments.models, arguments),
            num_draws=arguments.draws,
            guidance=arguments.guidance,
            stop=arguments.stop,
            seed=arguments.seed,
        )
        questions = [as_question(each, how.model.vocabulary, key) for key, each in enumerate(asked)]
        answers = how.ask(questions, advance)
    settings = {key: getattr(arguments, key) for key in ("models", *HOW)}
    sizes = [[len(option) for option in question.options] for question in questions]
    show(tables.likelihood(asked, answers, sizes, settings), arguments)


def configure_tasks(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    parser.add_argument(
        "--tasks",
        nargs="+",
        required=True,
        metavar="TASK",
        help="of lm-eval, and paper-pretraining, paper-knowledge, paper-reasoning",
    )
    parser.add_argument(
        "--local", metavar="FOLDER", help="of plain files in place of the Hub: arc, hellaswag, gsm8k, mmlu, gpqa, math"
    )
    parser.add_argument("--limit", type=float, metavar="N", help="questions of each task, or a share below 1")
    parser.add_argument("--shots", type=int, metavar="N", help="examples in the prompt (default: the task's)")
    _add_draws(parser)
    parser.add_argument("--cache", metavar="FILE", help="keep answers here, and take those that are there")
    add_output(parser, plot=False)


def run_tasks(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from halfmask.evaluation.harness.tasks import TaskRun

    record = TaskRun(
        tasks=tuple(arguments.tasks),
        model={
            "path": arguments.models,
            **{key: getattr(arguments, key) for key in (*HOW, "precision", "device")},
        },
        local=Path(arguments.local) if arguments.local else None,
        limit=arguments.limit,
        num_fewshot=arguments.shots,
        cache=arguments.cache,
    ).run()
    if record is not None:
        show(record, arguments)


COMMANDS = [
    Command(
        "eval likelihood",
        "how likely options are after a prompt",
        configure_likelihood,
        run_likelihood,
        (RUN + "halfmask eval likelihood run --prompt 41 --option 2 1 22",),
    ),
    Command(
        "eval tasks",
        "benchmarks of lm-evaluation-harness, and the paper's groups of them",
        configure_tasks,
        run_tasks,
        (
            RUN + "mkdir -p local/arc && "
            """echo '{"query": "1 + 1 =", "choices": ["2", "3"], "gold": 0}' > local/arc/arc_easy.jsonl && """
            "halfmask eval tasks run --tasks arc_easy --local local",
        ),
    ),
]
