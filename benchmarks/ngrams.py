"""Counting the frequent n-grams of orders 2 to 6, against collections.Counter and against a Polars group_by per order.

The stream: words by Zipf's law, and phrases of 3 to 8 words, by Zipf's law too, planted over a third of it. All three
must find the same numbers. Memory is the peak of a fresh process that loads the stream and counts, beyond what it took
to start. `--long 100` counts 100 million tokens under a budget of 4 GB instead.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from bench import Result, best_time, main
from halfmask.corpus.counts import count_ngrams

ORDERS = range(2, 7)
MIN_COUNT = 5
VOCABULARY, PHRASES = 50_000, 20_000
LONGEST_PHRASE, PHRASE_EVERY = 8, 16  # words
BUDGET = 4 << 30
BYTES_PER_TOKEN = 60  # what memory may take
Found = dict[int, tuple[int, int]]  # order → occurrences of its frequent n-grams, and how many there are


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokens", type=float, default=10, metavar="MILLIONS", help="of the stream")
    parser.add_argument("--long", type=float, metavar="MILLIONS", help="count so many tokens within 4 GB, alone")
    parser.add_argument("--stages", action="store_true", help="where the time of ours goes")
    parser.add_argument("--memory-of", metavar="FILE", help=argparse.SUPPRESS)


def measure(arguments: argparse.Namespace) -> list[Result]:
    if arguments.memory_of:
        print(json.dumps(count_here(Path(arguments.memory_of))))
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.npy"
        write_stream(path, int((arguments.long or arguments.tokens) * 1e6))
        if arguments.stages:
            print_stages(path)
        return [within_budget(path)] if arguments.long else [*against_others(path), memory(path)]


def against_others(path: Path) -> list[Result]:
    tokens_T = np.load(path)
    expected = by_halfmask(tokens_T)
    ours_s = best_time(lambda: by_halfmask(tokens_T), repeats=5)
    keys = np.random.default_rng(0).integers(0, 1 << 62, len(tokens_T))
    sort_s = best_time(lambda: np.sort(keys), repeats=5)
    assert by_polars(tokens_T) == expected, "Polars finds other numbers"
    polars_s = best_time(lambda: by_polars(tokens_T), repeats=2)
    words = tokens_T.tolist()
    started_at = time.perf_counter()
    assert by_counter(words) == expected, "Counter finds other numbers"
    counter_s = time.perf_counter() - started_at
    ours = f"{ours_s:.2f} s, {len(tokens_T) / ours_s / 1e6:.0f} M tokens/s"
    return [
        Result("against collections.Counter", ours, f"{counter_s:.1f} s", counter_s / ours_s, 20.0),
        Result("against Polars, a group_by per order", ours, f"{polars_s:.2f} s", polars_s / ours_s, 3.0),
        Result("against one np.sort of as many 64-bit keys", ours, f"{sort_s:.2f} s", sort_s / ours_s, 0.1),
    ]


def memory(path: Path) -> Result:
    found = count_apart(path)
    each = found["peak"] / found["tokens"]
    return Result("peak memory", f"{each:.1f} bytes a token", f"{BYTES_PER_TOKEN} asked", BYTES_PER_TOKEN / each, 1.0)


def within_budget(path: Path) -> Result:
    found = count_apart(path)
    ours = f"{found['peak'] / 2**30:.2f} GiB, {found['seconds']:.1f} s"
    return Result(f"{found['tokens'] / 1e6:g} M tokens within a budget", ours, "4 GiB", BUDGET / found["peak"], 1.0)


def count_apart(path: Path) -> dict[str, float]:
    """In a fresh process, whose peak of memory is its own."""
    command = [sys.executable, __file__, "--memory-of", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def count_here(path: Path) -> dict[str, float]:
    before = resident("VmRSS")
    started_at = time.perf_counter()
    tokens_T = np.load(path)
    by_halfmask(tokens_T)
    return {
        "tokens": len(tokens_T),
        "seconds": time.perf_counter() - started_at,
        "peak": resident("VmHWM") - before,
    }


def resident(field: str) -> int:
    """Bytes, now (VmRSS) or at the highest (VmHWM), as Linux counts them."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def print_stages(path: Path) -> None:
    seconds: dict[str, float] = {}
    last = time.perf_counter()

    def lap(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        name = f"{stage}, {('propose', 'merge', 'assign')[3 * (done - 1) // total]}"
        seconds[name] = seconds.get(name, 0.0) + now - last
        last = now

    count_ngrams(np.load(path), max_order=ORDERS[-1], min_count=MIN_COUNT, memory=BUDGET, progress=lap)
    for stage, each in seconds.items():
        print(f"{stage:<24}{each:8.3f} s")


# The stream


def write_stream(path: Path, num_tokens: int) -> None:
    """Ten million tokens at a time, straight into the file."""
    random = np.random.default_rng(0)
    phrases_PT = zipf(random, VOCABULARY, PHRASES * LONGEST_PHRASE).reshape(PHRASES, LONGEST_PHRASE)
    length_P = random.integers(3, LONGEST_PHRASE + 1, PHRASES)
    tokens_T = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(num_tokens,))
    for start in range(0, num_tokens, 10_000_000):
        part_T = zipf(random, VOCABULARY, min(10_000_000, num_tokens - start))
        begin = np.arange(0, len(part_T) - PHRASE_EVERY, PHRASE_EVERY)
        begin += random.integers(0, PHRASE_EVERY - LONGEST_PHRASE + 1, len(begin))
        phrase = zipf(random, PHRASES, len(begin))
        for place in range(LONGEST_PHRASE):
            reaches = length_P[phrase] > place
            part_T[begin[reaches] + place] = phrases_PT[phrase[reaches], place]
        tokens_T[start : start + len(part_T)] = part_T
    tokens_T.flush()


def zipf(random: np.random.Generator, num_words: int, size: int) -> np.ndarray:
    share = 1 / np.arange(1, num_words + 1)
    words = np.searchsorted(np.cumsum(share / share.sum()), random.random(size))
    return words.clip(max=num_words - 1).astype(np.int32)


# Three ways to count


def by_halfmask(tokens_T: np.ndarray) -> Found:
    counts = count_ngrams(tokens_T, max_order=ORDERS[-1], min_count=MIN_COUNT, memory=BUDGET)
    totals = zip(counts.occurrences_O.tolist(), counts.distinct_O.tolist(), strict=True)
    return dict(zip(counts.orders, totals, strict=True))


def by_counter(words: list[int]) -> Found:
    found = {}
    for order in ORDERS:
        counter = Counter(zip(*(words[shift:] for shift in range(order)), strict=False))
        kept = [count for count in counter.values() if count >= MIN_COUNT]
        found[order] = sum(kept), len(kept)
    return found


def by_polars(tokens_T: np.ndarray) -> Found:
    import polars

    found = {}
    for order in ORDERS:
        length = len(tokens_T) - order + 1
        table = polars.DataFrame({f"{shift}": tokens_T[shift : shift + length] for shift in range(order)})
        counts = table.lazy().group_by(table.columns).len().filter(polars.col("len") >= MIN_COUNT)
        occurrences, distinct = counts.select(polars.col("len").sum(), polars.len().alias("distinct")).collect().row(0)
        found[order] = int(occurrences), int(distinct)
    return found


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
