"""The law of each step: one that stays, or a curriculum; and how a recipe names it.

    0-1                                     any text of `laws.parse_law` stays the same
    0.45-0.55 until 1000 then 0-1           one law after another; `until` counts steps from 0
    0.45-0.55 to 0-1 over 1000              the ends of the window move to those of another, then stay
    0.2-0.3 to 0-1 over 500 until 800 then 0.5-1
    predicted:profile.json                  the window that `halfmask window --out profile.json` found

A `Schedule` has one method, `at(step) -> MaskLaw`: what asks for the law of a step never asks whether it moves.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from halfmask.errors import UsageError
from halfmask.laws import MaskLaw, Point, Window, parse_law

PREDICTED = "predicted:"


class Schedule(ABC):
    """Which law a step draws its ratios from."""

    @abstractmethod
    def at(self, step: int) -> MaskLaw: ...

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Always(Schedule):
    law: MaskLaw

    def at(self, step: int) -> MaskLaw:
        return self.law

    def __str__(self) -> str:
        return str(self.law)


@dataclass(frozen=True)
class Moving(Schedule):
    """A window whose ends move along straight lines to those of another; a point is a window of no width."""

    first: MaskLaw
    last: MaskLaw
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError("a law moves over 1 step or more", got=self.steps, fix="write for example 0-1 over 1000")
        if not all(isinstance(law, (Window, Point)) for law in (self.first, self.last)):
            raise UsageError(
                "only windows and points can move", got=str(self), fix="write stages: LAW until STEP then LAW"
            )

    def at(self, step: int) -> MaskLaw:
        share = min(max(step / self.steps, 0.0), 1.0)
        lo, hi = ((1 - share) * a + share * b for a, b in zip(self.first.support, self.last.support, strict=True))
        return Window(lo, hi) if lo < hi else Point(lo)

    def __str__(self) -> str:
        return f"{self.first} to {self.last} over {self.steps}"


@dataclass(frozen=True)
class Stages(Schedule):
    """Each schedule until its step, with steps counted from its own start; the last one stays."""

    stages: tuple[Schedule, ...]
    untils: tuple[int, ...]  # one fewer

    def __post_init__(self) -> None:
        if any(later <= earlier for earlier, later in pairwise((0, *self.untils))):
            raise UsageError("the steps of a curriculum must rise from 1", got=str(self), fix="put them in order")

    def at(self, step: int) -> MaskLaw:
        index = int(np.searchsorted(self.untils, step, side="right"))
        return self.stages[index].at(step - (0, *self.untils)[index])

    def __str__(self) -> str:
        parts = [f"{stage} until {until}" for stage, until in zip(self.stages, self.untils, strict=False)]
        return " then ".join([*parts, str(self.stages[-1])])


_MOVING = re.compile(r"(?P<first>.+?)\s+to\s+(?P<last>.+?)\s+over\s+(?P<steps>[0-9]+)")
_UNTIL = re.compile(r"(?P<stage>.+?)\s+until\s+(?P<step>[0-9]+)")


def parse_schedule(text: str) -> Schedule:
    """The schedule that a text names; `parse_schedule(str(schedule)) == schedule` for every schedule."""
    *early, last = (part.strip() for part in re.split(r"\s+then\s+", text.strip()))
    matches = [_UNTIL.fullmatch(part) for part in early]
    if not all(matches):
        raise UsageError(
            "every law of a curriculum but the last needs `until STEP`",
            got=repr(text),
            fix="write for example 0.45-0.55 until 1000 then 0-1",
        )
    if not early:
        return _parse_stage(last)
    stages = [_parse_stage(match["stage"]) for match in matches if match]
    return Stages((*stages, _parse_stage(last)), tuple(int(match["step"]) for match in matches if match))


def _parse_stage(text: str) -> Schedule:
    if match := _MOVING.fullmatch(text):
        return Moving(_parse_law(match["first"]), _parse_law(match["last"]), int(match["steps"]))
    return Always(_parse_law(text))


def _parse_law(text: str) -> MaskLaw:
    if text.startswith(PREDICTED):
        from halfmask.corpus.predict import predict
        from halfmask.corpus.profile import NGramProfile

        return predict(NGramProfile.load(text.removeprefix(PREDICTED))).window
    return parse_law(text)
