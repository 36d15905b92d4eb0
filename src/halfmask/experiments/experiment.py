"""What an experiment is, and how it is run, resumed and judged.

An experiment splits into *units*: one recipe each (a law, a seed, …), a pure function of it, one line of
`results/NAME/SCALE.jsonl` when done. So a run that is stopped goes on where it was, and what is drawn and judged is
read from the committed lines alone.

    units(scale) ──▶ run_unit(recipe) ──▶ results/NAME/SCALE.jsonl ──▶ record   (tables, figure)
                                                                   └─▶ check    (findings: claim by claim)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from halfmask.errors import DataError, UsageError, nearest
from halfmask.provenance import made_by
from halfmask.records import Record, atomic_write, plain

Recipe = dict[str, Any]
Progress = Callable[[str, int, int], None]  # stage, done, total


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "not decided"  # at this scale
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Done:
    """One unit that has run."""

    recipe: Recipe
    result: dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """What the records say of one claim."""

    claim: str  # its key in claims.py
    ours: str
    n: int  # independent runs behind it
    verdict: Verdict


@dataclass(frozen=True)
class Experiment:
    name: str
    claims: tuple[str, ...]  # their keys in claims.py
    scales: dict[str, str]  # name → what it is and how long it takes; in rising order
    units: Callable[[str], list[Recipe]]
    run_unit: Callable[[Recipe, Path | None, Progress], dict[str, Any]]  # recipe, folder of data, progress → result
    record: Callable[[str, list[Done]], Record]
    check: Callable[[str, list[Done]], list[Finding]]

    def path(self, results: Path, scale: str) -> Path:
        return results / self.name / f"{self.check_scale(scale)}.jsonl"

    def check_scale(self, scale: str) -> str:
        if scale not in self.scales:
            raise UsageError(
                f"{self.name} has the scales {', '.join(self.scales)}", got=scale, fix=nearest(scale, self.scales)
            )
        return scale

    def largest_run(self, results: Path) -> str | None:
        """The largest scale that has a record."""
        return next((scale for scale in reversed(list(self.scales)) if self.path(results, scale).exists()), None)

    def chosen_scale(self, results: Path, scale: str | None) -> str:
        """The scale that is asked for; else the largest that has run, else the largest."""
        return self.check_scale(scale or self.largest_run(results) or list(self.scales)[-1])

    def load(self, results: Path, scale: str) -> list[Done]:
        """What has run, in the order of the units; recipes of another version of the experiment are refused."""
        path = self.path(results, scale)
        if not path.exists():
            return []
        found = {}
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                match json.loads(line):
                    case {"recipe": dict(recipe), "result": dict(result)}:
                        found[_key(recipe)] = Done(recipe, result)
                    case _:
                        raise ValueError("no recipe with its result")
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number} must be a record of {self.name}",
                    got=error,
                    fix="delete the line and run the experiment again",
                ) from error
        units = [_key(recipe) for recipe in self.units(scale)]
        if strange := set(found) - set(units):
            raise DataError(
                f"{path} must hold records of this {self.name}",
                got=f"another recipe: {min(strange)}",
                fix="move the file away and run the experiment again, or use another --results folder",
            )
        return [found[key] for key in units if key in found]

    def table(self, results: Path, scale: str) -> Record:
        """What the records say, as tables and figure."""
        return self.record(scale, self._some(results, scale))

    def findings(self, results: Path, scale: str) -> list[Finding]:
        """What the records say of every claim; undecided while units are missing."""
        done, num_units = self._some(results, scale), len(self.units(scale))
        if len(done) < num_units:
            ours = f"{len(done)} of {num_units} units have run"
            return [Finding(claim, ours, 0, Verdict.UNDECIDED) for claim in self.claims]
        return self.check(scale, done)

    def _some(self, results: Path, scale: str) -> list[Done]:
        if done := self.load(results, scale):
            return done
        raise UsageError(
            f"{self.name} must have run at scale {scale}",
            got=f"no record in {self.path(results, scale)}",
            fix=f"halfmask paper run {self.name} --scale {scale} --results {results}",
        )

    def run(self, results: Path, scale: str, data: Path | None, progress: Progress) -> int:
        """Run the units that have not run, and say how many; every one is on disk before the next begins."""
        path = self.path(results, scale)
        done = {_key(each.recipe) for each in self.load(results, scale)}
        _make_folder(path.parent)
        missing = [recipe for recipe in self.units(scale) if _key(recipe) not in done]
        for recipe in missing:
            _append(path, recipe, self.run_unit(recipe, data, progress))
        return len(missing)


def _key(recipe: Recipe) -> str:
    return json.dumps(plain(recipe), sort_keys=True)


def _append(path: Path, recipe: Recipe, result: dict[str, Any]) -> None:
    """One more line; the file is replaced whole, so that a reader never sees half of one."""
    line = {"recipe": plain(recipe), "result": plain(result), "made by": made_by()}
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    with atomic_write(path) as stream:
        stream.write(before + json.dumps(line, ensure_ascii=False) + "\n")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} must be a folder for results", got=error.strerror or error, fix="choose another --results"
        ) from error


def find_data(data: Path | None, *names: str) -> Path | None:
    """The first of the named files in the folder of data sets, or in the one HALFMASK_DATA names; None without one."""
    folder = data or (Path(os.environ["HALFMASK_DATA"]) if os.environ.get("HALFMASK_DATA") else None)
    if folder is None:
        return None
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise DataError(
        f"the folder of data sets (--data, HALFMASK_DATA) must hold {names[0]}",
        got=folder,
        fix="name another folder, or none, to read from the Hub",
    )
