"""`halfmask paper …`: the paper's claims, each with its experiment, our number and a verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, check_plot, progress_bar, show, wrote


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", default="results", metavar="FOLDER", help="where records are kept")


def add_experiment(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", help="a name that `halfmask paper list` shows")
    parser.add_argument("--scale", help=f"of the experiment (default: {default})")
    add_results(parser)


def configure_list(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_output(parser, plot=False)


def run_list(arguments: argparse.Namespace) -> None:
    from halfmask.experiments.claims import all_claims

    show(all_claims(Path(arguments.results)), arguments)


def configure_run(parser: argparse.ArgumentParser) -> None:
    add_experiment(parser, "the largest")
    parser.add_argument(
        "--data", metavar="FOLDER", help="of local data sets (default: HALFMASK_DATA, else they come from the Hub)"
    )
    add_output(parser)


def run_run(arguments: argparse.Namespace) -> None:
    from halfmask.experiments.claims import experiment

    check_plot(arguments)
    chosen, results = experiment(arguments.experiment), Path(arguments.results)
    scale = chosen.check_scale(arguments.scale or list(chosen.scales)[-1])
    data = Path(arguments.data) if arguments.data else None
    with progress_bar("starting") as advance:
        num_run = chosen.run(results, scale, data, lambda stage, done, total: advance(done, total, stage))
    show(chosen.table(results, scale), arguments)
    if num_run:
        wrote(str(chosen.path(results, scale)), arguments)
    elif not arguments.json:
        print(f"Nothing was left to run: the records are in {chosen.path(results, scale)}.")


def configure_show(parser: argparse.ArgumentParser) -> None:
    add_experiment(parser, "the largest that has run")
    add_output(parser)


def run_show(arguments: argparse.Namespace) -> None:
    from halfmask.experiments.claims import experiment

    check_plot(arguments)
    chosen, results = experiment(arguments.experiment), Path(arguments.results)
    show(chosen.table(results, chosen.chosen_scale(results, arguments.scale)), arguments)


def configure_check(parser: argparse.ArgumentParser) -> None:
    add_experiment(parser, "the largest that has run")
    add_output(parser, plot=False)


def run_check(arguments: argparse.Namespace) -> int:
    """0 where every claim holds, 1 where one does not or is undecided; not having run is a user's mistake, so 2."""
    from halfmask.experiments.claims import checked, experiment
    from halfmask.experiments.experiment import Verdict

    chosen, results = experiment(arguments.experiment), Path(arguments.results)
    scale = chosen.chosen_scale(results, arguments.scale)
    findings = chosen.findings(results, scale)
    show(checked(chosen.name, findings, scale), arguments)
    return int(any(each.verdict != Verdict.HOLDS for each in findings))


COMMANDS = [
    Command(
        "paper list",
        "every claim of the paper with its verdict",
        configure_list,
        run_list,
        ("halfmask paper list",),
    ),
    Command(
        "paper run",
        "run an experiment, or what of it has not run, and show it",
        configure_run,
        run_run,
        ("halfmask paper run optimal-laws", "halfmask paper run ngram-optimum --scale smoke --plot ngrams.svg"),
    ),
    Command(
        "paper show",
        "show what an experiment found, from its records",
        configure_show,
        run_show,
        ("halfmask paper run optimal-laws --json > run.json && halfmask paper show optimal-laws",),
    ),
    Command(
        "paper check",
        "judge the paper's claims by the records: exit 0 holds, 1 does not or undecided, 2 not run",
        configure_check,
        run_check,
        ("halfmask paper run optimal-laws --json > run.json && halfmask paper check optimal-laws",),
    ),
]
