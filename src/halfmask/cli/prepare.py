"""`halfmask prepare SOURCE… --out FOLDER`: from a corpus to the tokens that models are trained on."""

from __future__ import annotations

import argparse
import sys

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, progress_bar, show
from halfmask.cli.window import add_reading
from halfmask.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="what halfmask window reads: files, folders, -, hub:NAME, builtin"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the tokens go")
    add_reading(parser)
    tokens = next(action for action in parser._actions if action.dest == "tokens")
    tokens.default = "bpe:4096"
    tokens.help = (
        "bytes, a tokenizer.json, a tokenizer's folder, hub:NAME, or bpe:N to train a byte-level BPE of N tokens on "
        "the training split; 4096 suit small models, whose embeddings would outgrow them with more"
    )
    parser.add_argument(
        "--limit", type=int, metavar="CHARACTERS", help="of SOURCE, rounded up to whole documents (default: all of it)"
    )
    held_out = "(one document cannot be shared out: see --documents)"
    parser.add_argument("--validation", type=float, metavar="SHARE", help=f"of the documents, 0.05 {held_out}")
    parser.add_argument("--test", type=float, metavar="SHARE", help="of the documents, none unless asked for")
    for split in ("validation", "test"):
        parser.add_argument(
            f"--{split}-from",
            nargs="+",
            metavar="SOURCE",
            help=f"read {split} from here instead, and leave its documents out of training",
        )
    add_output(parser, plot=False)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import fields

    from halfmask.corpus.sources import Reading
    from halfmask.data.prepare import prepare

    reading = Reading(**{field.name: getattr(arguments, field.name) for field in fields(Reading)})
    try:
        with progress_bar("reading") as advance:
            record = prepare(
                arguments.sources,
                arguments.out,
                tokens=arguments.tokens,
                reading=reading,
                limit=arguments.limit,
                validation=_share(arguments, "validation", 0.05),
                test=_share(arguments, "test", 0.0),
                progress=advance,
            )
    except KeyboardInterrupt:
        print(f"\nwhat is done is kept in {arguments.out}: the same command goes on from there", file=sys.stderr)
        raise
    show(record, arguments)


def _share(arguments: argparse.Namespace, split: str, default: float) -> float | list[str]:
    """A share of the documents, or sources."""
    share: float | None = getattr(arguments, split)
    sources: list[str] | None = getattr(arguments, f"{split}_from")
    if sources is None:
        return default if share is None else share
    if share is not None:
        raise UsageError(
            f"{split} is a share of the documents or has sources of its own",
            got=f"--{split} and --{split}-from",
            fix="leave one out",
        )
    return sources


COMMANDS = [
    Command(
        "prepare",
        "tokenise a corpus for training",
        configure,
        run,
        (
            "halfmask prepare builtin --out tokens --tokens bpe:1000",
            "halfmask prepare builtin --out bytes --tokens bytes --validation 0.1 --test 0.1 --json",
        ),
    )
]
