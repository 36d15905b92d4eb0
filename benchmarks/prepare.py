"""How much faster `halfmask prepare` tokenises on all cores than on one, and than a plain loop over the documents.

The corpus is the documentation inside Python, eight times over; its BPE is trained beforehand and not timed. Every way
runs in a process of its own, since the tokenizers package fixes its threads when it is first used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import Result, best_time, main

COPIES = 8
WAYS = ("ours", "one thread", "plain loop")


def run_way(way: str, folder: Path) -> None:
    """Print the seconds that one way takes."""
    from halfmask.data import shards
    from halfmask.data.prepare import prepare

    corpus, tokenizer = folder / "corpus.jsonl", folder / "tokenizer.json"

    def work() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            if way == "plain loop":
                plain_loop(corpus, tokenizer, Path(out))
            else:
                prepare(corpus, Path(out) / "out", tokens=str(tokenizer))

    if way == "one thread":
        shards.NUM_THREADS = 1
    print(best_time(work, 2))


def plain_loop(corpus: Path, tokenizer: Path, out: Path) -> None:
    """What a short script does: encode each document, append the end, write."""
    import numpy as np

    from halfmask.data.vocabulary import open_vocabulary

    vocabulary = open_vocabulary(tokenizer)
    with corpus.open(encoding="utf-8") as lines, (out / "train.bin").open("wb") as stream:
        for line in lines:
            ids = vocabulary.tokenizer.tokenizer.encode(json.loads(line)["text"]).ids  # type: ignore[union-attr]
            stream.write(np.array([*ids, vocabulary.end_id], dtype=np.uint16).tobytes())


def measure(arguments: argparse.Namespace) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_characters = write_corpus(folder)
        speeds = {}
        for way in WAYS:
            threads = {} if way == "ours" else {"RAYON_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--way", way, "--folder", name]
            done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=True)
            speeds[way] = num_characters / float(done.stdout) / 1e6
    cores = len(os.sched_getaffinity(0))
    return [
        Result(
            what=f"prepare on {cores} cores against {way}",
            ours=f"{speeds['ours']:.2f} M characters/s",
            theirs=f"{speeds[way]:.2f} M characters/s",
            ratio=speeds["ours"] / speeds[way],
            at_least=asked if cores > 1 else 0.8,
        )
        for way, asked in (("one thread", 1.5), ("plain loop", 1.5))
    ]


def write_corpus(folder: Path) -> int:
    from halfmask.corpus.sources import open_corpus
    from halfmask.data.vocabulary import train_vocabulary

    texts = [text for piece in open_corpus("builtin").pieces() for text in piece.texts]
    (folder / "tokenizer.json").write_text(str(train_vocabulary(texts, 4096).to_json()), encoding="utf-8")
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for copy in range(COPIES):
            stream.writelines(json.dumps({"text": f"{copy} {text}"}) + "\n" for text in texts)
    return COPIES * sum(map(len, texts))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)


if __name__ == "__main__":
    if "--way" in sys.argv:
        run_way(sys.argv[sys.argv.index("--way") + 1], Path(sys.argv[sys.argv.index("--folder") + 1]))
    else:
        main(measure, __doc__ or "", configure)
