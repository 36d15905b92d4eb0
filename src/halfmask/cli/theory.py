"""`halfmask theory …`: the paper's theory as tables, records and figures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, check_plot, progress_bar, show
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from halfmask.theory.mixture import Weights

PAPER_WEIGHTS = "2:0.7427,3:0.2063,4:0.0401,5:0.0084,6:0.0024"  # WikiText's, in the paper's appendix


def add_law(parser: argparse.ArgumentParser, default: list[str]) -> None:
    parser.add_argument(
        "--mask",
        nargs="+",
        default=default,
        metavar="LAW",
        help="laws of the ratio: 0-0.246, 0.15, beta(2,2), normal(0.5,0.1), histogram(1,3,1), '0.5*0-1 + 0.5*0.15'",
    )


def add_task(parser: argparse.ArgumentParser, n: int, k: int) -> None:
    parser.add_argument("--n", type=int, default=n, help="input bits")
    parser.add_argument("--k", type=int, default=k, help="secret input bits")


def configure_signal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--k", type=int, nargs="+", default=[6], help="secret input bits")
    add_law(parser, ["0-0.246", "0-1"])
    add_output(parser)


def run_signal(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    show(tables.signal(arguments.mask, arguments.k), arguments)


def configure_optimum(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--k", type=int, help="one dependency of k inputs (default: 6)")
    which.add_argument("--weights", metavar="ORDER:W,…", help="a mixture of n-gram orders, such as 2:0.74,3:0.26")
    parser.add_argument("--t0", type=float, default=0.0, help="the given lower end of the window")
    parser.add_argument("--width", type=float, default=0.1, help="the given width of a window")
    parser.add_argument("--concentration", type=float, default=10.0, help="the given a + b of a Beta law")
    add_output(parser)


def run_optimum(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    weights = parse_weights(arguments.weights) if arguments.weights else None
    k = None if weights else 6 if arguments.k is None else arguments.k
    record = tables.optimum(k, weights, arguments.t0, arguments.width, arguments.concentration)
    show(record, arguments)


def configure_identify(parser: argparse.ArgumentParser) -> None:
    add_task(parser, 20, 6)
    add_law(parser, ["0-0.1844", "0-1"])
    parser.add_argument("--delta", type=float, default=0.05, help="the probability of failure that is allowed")
    parser.add_argument(
        "--samples",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="sizes to simulate (default: around the bound)",
    )
    parser.add_argument("--trials", type=int, default=200, help="data sets for each size")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation")
    parser.add_argument(
        "--biased", action="store_true", help="measure the gap as the rows that hide a position see it"
    )
    add_output(parser)


def run_identify(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    with progress_bar("simulating") as advance:
        record = tables.identify(
            arguments.n,
            arguments.k,
            arguments.mask,
            delta=arguments.delta,
            samples=arguments.samples,
            trials=arguments.trials,
            seed=arguments.seed,
            biased=arguments.biased,
            progress=advance,
        )
    show(record, arguments)


def configure_loss(parser: argparse.ArgumentParser) -> None:
    add_task(parser, 4, 2)
    add_law(parser, ["0-0.5"])
    parser.add_argument("--loss", choices=("squared", "cross-entropy"), default="squared", help="which loss")
    parser.add_argument(
        "--samples",
        type=int,
        nargs="+",
        default=[16, 64, 256, 1024],
        metavar="N",
        help="sizes of drawn data sets",
    )
    parser.add_argument("--seed", type=int, default=0, help="of networks and data sets")
    add_output(parser)


def run_loss(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    with progress_bar("enumerating") as advance:
        record = tables.loss(
            arguments.n,
            arguments.k,
            one_law(arguments),
            arguments.loss,
            samples=arguments.samples,
            seed=arguments.seed,
            progress=advance,
        )
    show(record, arguments)


def configure_energy(parser: argparse.ArgumentParser) -> None:
    add_task(parser, 4, 2)
    add_law(parser, ["0-0.5"])
    parser.add_argument("--width", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512], help="widths D")
    parser.add_argument("--draws", type=int, default=4, help="random W of each width")
    parser.add_argument("--seed", type=int, default=0, help="of W")
    add_output(parser)


def run_energy(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    with progress_bar("enumerating") as advance:
        record = tables.energy(
            arguments.n,
            arguments.k,
            one_law(arguments),
            arguments.width,
            draws=arguments.draws,
            seed=arguments.seed,
            progress=advance,
        )
    show(record, arguments)


def configure_mixture(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", metavar="ORDER:W,…", default=PAPER_WEIGHTS, help="weights of the n-gram orders")
    parser.add_argument("--share", type=float, default=0.95, help="the window holds this share of the maximum")
    add_output(parser)


def run_mixture(arguments: argparse.Namespace) -> None:
    from halfmask.theory import tables

    check_plot(arguments)
    show(tables.mixture(parse_weights(arguments.weights), arguments.share), arguments)


def parse_weights(text: str) -> Weights:
    """`2:0.74,3:0.26` → {2: 0.74, 3: 0.26}."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        weights = {int(order): float(weight) for order, weight in pairs}
    except ValueError:
        weights = {}
    if not weights or len(weights) < len(text.split(",")):
        raise UsageError(
            "order weights are written ORDER:WEIGHT, separated by commas, each order once",
            got=repr(text),
            fix="give for example 2:0.74,3:0.21,4:0.05",
        )
    return weights


def one_law(arguments: argparse.Namespace) -> str:
    if len(arguments.mask) != 1:
        raise UsageError("one law is needed here", got=" ".join(arguments.mask), fix="give one --mask")
    return str(arguments.mask[0])


COMMANDS = [
    Command(
        "theory signal",
        "how often a law of the ratio makes a mask signal (P_S) or noise (P_N)",
        configure_signal,
        run_signal,
        (
            "halfmask theory signal --k 6 --mask 0-0.246 0-1",
            "halfmask theory signal --k 2 6 --mask 'beta(2,2)' '0.5*0-1 + 0.5*0.15' --plot signal.svg",
        ),
    ),
    Command(
        "theory optimum",
        "the best laws: for the signal and for the number of samples",
        configure_optimum,
        run_optimum,
        (
            "halfmask theory optimum --k 6",
            "halfmask theory optimum --weights 2:0.7427,3:0.2063,4:0.0401 --width 0.1 --json",
        ),
    ),
    Command(
        "theory identify",
        "how many samples identify the secret set: the bound and a simulation",
        configure_identify,
        run_identify,
        ("halfmask theory identify --n 20 --k 6 --mask 0-0.1844 --trials 50 --plot identify.png",),
    ),
    Command(
        "theory loss",
        "training loss against effective loss, by exact enumeration, and on drawn samples",
        configure_loss,
        run_loss,
        (
            "halfmask theory loss --n 4 --k 2 --mask 0-0.5",
            "halfmask theory loss --n 4 --k 2 --loss cross-entropy --samples 16 64",
        ),
    ),
    Command(
        "theory energy",
        "the energy landscape of the two-layer network, and where it goes flat",
        configure_energy,
        run_energy,
        ("halfmask theory energy --n 4 --k 2 --mask 0-0.5 --width 32 128 256",),
    ),
    Command(
        "theory mixture",
        "Signal(t) of a mixture of n-gram dependencies, its optimum t* and window",
        configure_mixture,
        run_mixture,
        (
            "halfmask theory mixture",
            "halfmask theory mixture --weights 2:0.5,3:0.5 --share 0.9 --plot mixture.svg",
        ),
    ),
]
