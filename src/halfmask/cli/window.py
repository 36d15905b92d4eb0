"""`halfmask window SOURCE…`: from a corpus to the mask window that the paper's theory predicts for it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, check_plot, progress_bar, show, wrote
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from halfmask.corpus.profile import NGramProfile


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="a file (text, JSON Lines, CSV, TSV, Parquet; .gz, .zst), a folder, a pattern, - for standard input, "
        "hub:NAME for a Hugging Face data set, or builtin for the documentation inside Python",
    )
    parser.add_argument("--profile", metavar="FILE", help="predict from a saved profile instead of a source")
    measuring = [*add_reading(parser), *add_counting(parser)]
    parser.set_defaults(measuring={action.option_strings[0]: (action.dest, action.default) for action in measuring})
    parser.add_argument(
        "--weighting",
        choices=("occurrences", "distinct", "unexplained"),
        default="occurrences",
        help="weigh an order by its n-grams' occurrences (the paper), by how many n-grams it has, or by the "
        "occurrences that no n-gram of the order above explains",
    )
    parser.add_argument("--width", type=float, default=0.1, help="of the recommended window")
    parser.add_argument("--out", metavar="FILE", help="save the profile, a small .json file")
    add_output(parser)


def add_reading(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """How sources are read and tokenised."""
    return [
        parser.add_argument(
            "--tokens",
            default="words",
            metavar="TOKENIZER",
            help="words (lower-cased, the paper's), whitespace, bytes, a tokenizer.json, a tokenizer's folder or "
            "hub:NAME",
        ),
        parser.add_argument(
            "--documents",
            choices=("file", "line", "paragraph"),
            default="file",
            help="what a document is in plain text; elsewhere each row is one",
        ),
        parser.add_argument(
            "--format", choices=("text", "jsonl", "csv", "tsv", "parquet"), help="of all sources (default: by suffix)"
        ),
        parser.add_argument("--column", default="text", help="of rows"),
        parser.add_argument("--subset", help="of a Hub data set: its configuration"),
        parser.add_argument("--split", default="train", help="of a Hub data set"),
        parser.add_argument(
            "--skip-broken",
            action="store_true",
            help="leave out and count the lines, rows and files that cannot be read, instead of stopping; what was "
            "read of a file before it broke off stays",
        ),
    ]


def add_counting(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        parser.add_argument("--join", action="store_true", help="let n-grams cross from document to document"),
        parser.add_argument("--max-order", type=int, default=6, metavar="N", help="highest n-gram order, up to 8"),
        parser.add_argument(
            "--min-count", type=int, default=5, metavar="N", help="leave out n-grams that occur less often"
        ),
        parser.add_argument("--limit", type=int, metavar="TOKENS", help="read no more than this"),
        parser.add_argument("--brief", action="store_true", help="leave out what t* depends on: faster"),
        parser.add_argument("--memory", default="4G", metavar="BYTES", help="for counting; beyond it, files are used"),
        parser.add_argument(
            "--folder",
            metavar="FOLDER",
            help="for those files (default: the system's); with Ray, one all machines see",
        ),
        parser.add_argument("--engine", choices=("local", "ray"), default="local", help="what runs the counting"),
    ]


def run(arguments: argparse.Namespace) -> None:
    check_plot(arguments)
    _check_sources(arguments)

    from halfmask.corpus.predict import check_width, predict
    from halfmask.corpus.profile import NGramProfile

    check_width(arguments.width)
    if arguments.out:
        check_out(Path(arguments.out))
    profile = NGramProfile.load(arguments.profile) if arguments.profile else _measure(arguments)
    record = predict(profile, weighting=arguments.weighting, width=arguments.width).record()
    if arguments.out:
        profile.save(arguments.out)
    show(record, arguments)
    if arguments.out:
        wrote(arguments.out, arguments)


def _check_sources(arguments: argparse.Namespace) -> None:
    if bool(arguments.sources) == bool(arguments.profile):
        raise UsageError(
            "halfmask window needs sources or a profile",
            got="both" if arguments.sources else "neither",
            fix="name a file, a folder or builtin, or give --profile FILE",
        )
    given = [name for name, (dest, default) in arguments.measuring.items() if getattr(arguments, dest) != default]
    if arguments.profile and given:
        raise UsageError(
            "a saved profile has been read and counted already",
            got=" ".join(given),
            fix="leave it out, or name the source instead of --profile",
        )


def check_out(path: Path) -> None:
    """A .json file: so no corpus is overwritten by a slip."""
    from halfmask.records import check_writable

    if path.suffix != ".json":
        fix = f"name it {path.stem or 'profile'}.json"
        raise UsageError("a profile is written to a .json file", got=path, fix=fix)
    check_writable(path)


def _measure(arguments: argparse.Namespace) -> NGramProfile:
    from halfmask.corpus.profile import measure_corpus
    from halfmask.corpus.sources import Reading

    memory = parse_bytes(arguments.memory)
    with progress_bar("reading") as advance:
        return measure_corpus(
            arguments.sources,
            tokens=arguments.tokens,
            reading=Reading(
                documents=arguments.documents,
                format=arguments.format,
                column=arguments.column,
                subset=arguments.subset,
                split=arguments.split,
                skip_broken=arguments.skip_broken,
            ),
            join=arguments.join,
            max_order=arguments.max_order,
            min_count=arguments.min_count,
            sensitivity=not arguments.brief,
            limit=arguments.limit,
            memory=memory,
            folder=Path(arguments.folder) if arguments.folder else None,
            engine=arguments.engine,
            progress=lambda stage, done, total: advance(done, total, stage),
        )


def parse_bytes(text: str) -> int:
    """`4G` → 4 · 2^30."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)(?:i?[bB])?", text)
    if match is None:
        raise UsageError(
            "memory is written as a number of bytes, or with K, M, G or T",
            got=text or "nothing",
            fix="give for example 4G",
        )
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


COMMANDS = [
    Command(
        "window",
        "predict the mask window of a corpus from its n-grams",
        configure,
        run,
        (
            "halfmask window builtin",
            "halfmask window builtin --tokens bytes --brief --json",
            "halfmask window builtin --documents line --out profile.json --plot window.svg",
        ),
    )
]
