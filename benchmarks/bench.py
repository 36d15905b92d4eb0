"""What every benchmark shares: timing within one run, the table, `--json`, and `--check`.

A benchmark file defines `measure(arguments) -> list[Result]` and ends with `main(measure, __doc__)`. Absolute times
are noisy, so what counts is a ratio of two things measured in the same run. `--check` exits with 1 where one falls
short.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    what: str  # what is compared with what
    ours: str  # the two measurements, in words
    theirs: str
    ratio: float  # how many times better ours is
    at_least: float  # what is asked of it

    @property
    def holds(self) -> bool:
        return self.ratio >= self.at_least


def best_time(work: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of a few runs: the one that other work disturbed least."""
    seconds = []
    for _ in range(repeats):
        started_at = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started_at)
    return min(seconds)


class Watch:
    """The highest resident size while it is open, read every two milliseconds."""

    def now(self) -> int:
        with open("/proc/self/statm") as stream:  # noqa: PTH123 (read often)
            return int(stream.read().split()[1]) * 4096

    def __enter__(self) -> None:
        self.highest, self.open = self.now(), True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while self.open:
            self.highest = max(self.highest, self.now())
            time.sleep(0.002)

    def __exit__(self, *error: object) -> None:
        self.open = False
        self.thread.join()


def main(
    measure: Callable[[argparse.Namespace], list[Result]],
    description: str,
    configure: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a ratio falls short")
    if configure is not None:
        configure(parser)
    arguments = parser.parse_args()
    results = measure(arguments)
    if arguments.json:
        print(json.dumps([{**asdict(result), "holds": result.holds} for result in results], indent=2))
    else:
        _print_table(results)
    if arguments.check and not all(result.holds for result in results):
        sys.exit(1)


def _print_table(results: list[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold")
    for column in ("what", "ours", "theirs"):
        table.add_column(column)
    for column in ("ratio", "asked", "holds"):
        table.add_column(column, justify="right")
    for result in results:
        verdict = "yes" if result.holds else "NO"
        table.add_row(
            result.what, result.ours, result.theirs, f"{result.ratio:,.1f}×", f"{result.at_least:g}×", verdict
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
