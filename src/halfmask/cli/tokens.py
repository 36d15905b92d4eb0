"""`halfmask tokens FOLDER`: what a folder of `halfmask prepare` holds, whether it is sound, and how its rows read."""

from __future__ import annotations

import argparse

from halfmask.cli.command import Command
from halfmask.cli.output import add_output, show


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="of halfmask prepare")
    parser.add_argument("--verify", action="store_true", help="read everything and compare it with its digests")
    parser.add_argument("--rows", type=int, metavar="N", help="also print N rows, as training would cut them first")
    parser.add_argument("--length", type=int, default=128, help="of these rows, in tokens")
    parser.add_argument("--split", default="train", help="of these rows")
    add_output(parser, plot=False)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from halfmask.data.batches import Batches
    from halfmask.data.tokens import TokenData

    data = TokenData.open(arguments.folder)
    notes = []
    if arguments.verify:
        data.verify()
        notes.append("every file has the digest that the manifest says")
    record = data.record("tokens", notes)
    if arguments.rows is not None:
        file = data.split(arguments.split)
        batch = Batches(file, length=arguments.length, num_rows=arguments.rows, seed=0).at(0)
        rows = [{"row": number, "text": data.decode(tokens_T)} for number, tokens_T in enumerate(batch.tokens_BT)]
        record = replace(record, tables={f"Rows of {arguments.split}, step 0, seed 0": rows})
    show(record, arguments)


COMMANDS = [
    Command(
        "tokens",
        "what a folder of tokens holds",
        configure,
        run,
        ("halfmask prepare builtin --out tokens --tokens bytes && halfmask tokens tokens --verify --rows 2",),
    )
]
