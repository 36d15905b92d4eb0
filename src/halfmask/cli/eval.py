"""`halfmask eval …`: what a model has learned, by measures that never depend on the law it was trained with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from halfmask.cli.command import Command
from halfmask.cli.eval_questions import COMMANDS as QUESTIONS
from halfmask.cli.models import RUN, add_models, open_model_of
from halfmask.cli.output import add_output, check_plot, progress_bar, show
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfmask.evaluation.bound import Bound
    from halfmask.evaluation.held_out import HeldOut
    from halfmask.masking.corrupt import Batch
    from halfmask.models.load import Loaded
    from halfmask.theory.mixture import Weights


def add_text(parser: argparse.ArgumentParser, rows: int = 128) -> None:
    """What is measured on."""
    parser.add_argument(
        "--data", metavar="FOLDER", help="of halfmask prepare (default: what the model was trained on)"
    )
    parser.add_argument("--split", choices=("validation", "test", "train"), default="validation", help="of --data")
    parser.add_argument(
        "--text", nargs="+", metavar="SOURCE", help="measure on any text instead: files, -, builtin, …"
    )
    parser.add_argument(
        "--documents", choices=("file", "line", "paragraph"), default="file", help="what a document of --text is"
    )
    parser.add_argument("--column", default="text", help="of --text, where it has rows")
    parser.add_argument(
        "--per", choices=("window", "document"), default="window", help="a row is a window of the text, or a document"
    )
    parser.add_argument("--length", type=int, metavar="TOKENS", help="of a row (default: what the models take)")
    parser.add_argument("--rows", type=int, default=rows, help="how many, from the start of the text; 0: all")
    parser.add_argument("--seed", type=int, default=2026, help="of the noise, the same for every model")


def add_draws(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=8, help="forward passes of every row; even, to know the noise")
    parser.add_argument("--bins", type=int, default=10, help="of the ratio")


def configure_bound(parser: argparse.ArgumentParser) -> None:
    add_models(parser, nargs="+")
    add_text(parser)
    add_draws(parser)
    add_output(parser)


def run_bound(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables

    check_plot(arguments)
    # Each model by itself: they may have different tokens, and bits per byte compare even so.
    parts = [_measured(arguments, [name]) for name in arguments.models]
    records = [tables.bound(*part) for part in parts]
    first = records[0]
    for record in records[1:]:
        first.rows.extend(record.rows)
        for key in ("names", "laws", "loss", "error"):
            first.extra[key].extend(record.extra[key])
    show(first, arguments)


def run_ratios(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables

    check_plot(arguments)
    show(tables.ratios(*_measured(arguments, arguments.models)), arguments)


def run_compare(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables

    check_plot(arguments)
    if len(arguments.models) < 2:
        raise UsageError("two models or more are compared", got=1, fix="name another MODEL after it")
    show(tables.compare(*_measured(arguments, arguments.models)), arguments)


def _measured(
    arguments: argparse.Namespace, names: Sequence[str]
) -> tuple[list[Loaded], list[Bound], HeldOut, dict[str, Any]]:
    """The models, their bounds on the same rows with the same noise, and how they were measured."""
    from halfmask.evaluation.held_out import measure

    if arguments.bins < 1:
        raise UsageError("the ratio needs 1 bin or more", got=arguments.bins, fix="give for example --bins 10")
    with progress_bar("opening") as advance:
        models = [open_model_of(name, arguments) for name in names]
        held_out, rows, settings = _rows(arguments, models, advance)
        settings |= {"draws": arguments.draws, "bins": arguments.bins}
        bounds = [
            measure(
                model, rows, num_draws=arguments.draws, seed=arguments.seed, num_bins=arguments.bins, progress=advance
            )
            for model in models
        ]
    return models, bounds, held_out, settings


def _rows(
    arguments: argparse.Namespace, models: Sequence[Loaded], advance: Any
) -> tuple[HeldOut, Batch, dict[str, Any]]:
    from halfmask.corpus.sources import Reading
    from halfmask.evaluation.held_out import check_fits, encode_texts, open_tokens, rows_of

    if arguments.text and arguments.data:
        raise UsageError("a model is measured on data or on text", got="--data and --text", fix="leave one out")
    if arguments.text:
        reading = Reading(documents=arguments.documents, column=arguments.column)
        held_out = encode_texts(arguments.text, models[0], reading, advance)
    else:
        folder = arguments.data or models[0].card.get("data")
        if folder is None:
            raise UsageError(
                f"{models[0].name} does not say what it was trained on", got="no data", fix="give --data or --text"
            )
        held_out = open_tokens(folder, arguments.split)
    for model in models:
        check_fits(held_out, model)
    rows = rows_of(held_out, length=arguments.length, limit=arguments.rows or None, per=arguments.per, models=models)
    settings = {
        "models": [model.name for model in models],
        "text": held_out.name,
        "per": arguments.per,
        "rows": len(rows.rows_B),
        "length": rows.tokens_BT.shape[1],
        "seed": arguments.seed,
    }
    return held_out, rows, settings


def configure_exact(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    add_text(parser, rows=4)
    parser.set_defaults(length=8)
    parser.add_argument("--draws", type=int, default=256, help="of every row, for the sampled bound")
    parser.add_argument("--orders", type=int, default=256, help="of the tokens, for the chain rule")
    add_output(parser, plot=False)


def run_exact(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables
    from halfmask.evaluation.exact import all_sets

    if arguments.per == "document":
        raise UsageError("every set is tried on windows", got="--per document", fix="leave it out")
    if arguments.orders < 2:
        raise UsageError("two orders or more are needed", got=arguments.orders, fix="give for example --orders 256")
    all_sets(arguments.length)  # complains of long rows before the work
    with progress_bar("opening") as advance:
        model = open_model_of(arguments.models, arguments)
        _, rows, settings = _rows(arguments, [model], advance)
        record = tables.exact(model, rows, num_orders=arguments.orders, num_draws=arguments.draws, settings=settings)
    show(record, arguments)


def configure_signal(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    add_text(parser, rows=64)
    parser.add_argument("--bins", type=int, default=10, help="of the ratio")
    parser.add_argument("--micro-rows", type=int, default=1, help="rows of one gradient: 1 is exact, more are faster")
    parser.add_argument(
        "--profile", metavar="FILE", help="of halfmask window: whose Signal(t) to draw (default: the paper's WikiText)"
    )
    add_output(parser)


def run_signal(arguments: argparse.Namespace) -> None:
    from halfmask.evaluation import tables
    from halfmask.evaluation.signal import gradient_signal

    check_plot(arguments)
    weights, source = _weights(arguments.profile)
    with progress_bar("opening") as advance:
        model = open_model_of(arguments.models, arguments)
        _, rows, settings = _rows(arguments, [model], advance)
        settings |= {"bins": arguments.bins, "micro rows": arguments.micro_rows}
        found = gradient_signal(
            model,
            rows,
            num_bins=arguments.bins,
            micro_rows=arguments.micro_rows,
            seed=arguments.seed,
            progress=advance,
        )
    show(tables.signal(model, found, weights, source, settings), arguments)


def _weights(profile: str | None) -> tuple[Weights, str]:
    if profile is None:
        from halfmask.cli.theory import PAPER_WEIGHTS, parse_weights

        return parse_weights(PAPER_WEIGHTS), "the paper's WikiText"
    from halfmask.corpus.profile import NGramProfile

    return NGramProfile.load(profile).weights("occurrences"), profile


COMMANDS = [
    Command(
        "eval bound",
        "the full-interval bound per token, byte and as a perplexity, with its errors",
        configure_bound,
        run_bound,
        (
            RUN + "halfmask eval bound run --rows 8",
            RUN + "halfmask eval bound run --text numbers.txt --per document --documents line --json",
        ),
    ),
    Command(
        "eval ratios",
        "the loss of hidden tokens at every ratio, of any number of models",
        configure_bound,
        run_ratios,
        (RUN + "halfmask eval ratios run run/checkpoints/step-00000002 --rows 8 --bins 4 --plot ratios.svg",),
    ),
    Command(
        "eval compare",
        "models against the first one on the same noise, and how many rows or draws would decide",
        configure_bound,
        run_compare,
        (
            RUN + "halfmask train recipe.yaml steps=4 step.rows=4 --out other && "
            "halfmask eval compare run other --rows 8 --plot compare.svg",
        ),
    ),
    Command(
        "eval exact",
        "the bound of short rows by every set of hidden tokens, by the chain rule and by draws",
        configure_exact,
        run_exact,
        (RUN + "halfmask eval exact run --rows 2 --length 6 --orders 32 --draws 64",),
    ),
    Command(
        "eval signal",
        "which ratios still teach a model: the gradient's signal-to-noise beside Signal(t)",
        configure_signal,
        run_signal,
        (RUN + "halfmask eval signal run --rows 16 --bins 4 --plot signal.svg",),
    ),
    *QUESTIONS,
]
