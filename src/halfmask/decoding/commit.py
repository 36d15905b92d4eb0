"""Which of the proposed tokens stay: a rule looks at their scores and marks some.

    confidence, margin, entropy, random    the best by that score, exactly as many as the budget says
    threshold:0.9                          all whose confidence reaches 0.9, and at least the budget
    factor:1                               as many as the confidences bear together, and at least the budget

`parse_rule` reads these texts; a rule prints as its text. A rule sees one row alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import UsageError, nearest

Scores = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Of the proposed token: its probability; that minus the next best one's; minus the entropy in nats; a random number.
Score = Literal["confidence", "margin", "entropy", "random"]


class CommitRule(ABC):
    score: Score = "confidence"

    @abstractmethod
    def choose(self, score_N: Scores, budget: int) -> Bools:
        """Which of N proposals stay: at least `budget` of them, where there are as many."""


@dataclass(frozen=True)
class Best(CommitRule):
    score: Score = "confidence"

    def choose(self, score_N: Scores, budget: int) -> Bools:
        return _first(_order(score_N), budget)

    def __str__(self) -> str:
        return self.score


@dataclass(frozen=True)
class Threshold(CommitRule):
    """Fast-dLLM's parallel decoding (Wu et al., 2025): what is sure enough need not wait."""

    least: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise UsageError("a threshold must lie in (0, 1]", got=self.least, fix="write for example threshold:0.9")

    def choose(self, score_N: Scores, budget: int) -> Bools:
        return _first(_order(score_N), max(budget, int((score_N >= self.least).sum())))

    def __str__(self) -> str:
        return f"threshold:{self.least:g}"


@dataclass(frozen=True)
class Factor(CommitRule):
    """The largest n with (n + 1)(1 - c_n) < factor, c_n the n-th confidence from above (Fast-dLLM, Theorem 1).

    With a factor of 1, n tokens that each miss with probability below 1 / (n + 1) are all right together with a
    probability above 1 / (n + 1): none of them can exclude another.
    """

    factor: float

    def __post_init__(self) -> None:
        if not self.factor > 0 or self.factor == float("inf"):
            raise UsageError("a factor must be a positive number", got=self.factor, fix="write for example factor:1")

    def choose(self, score_N: Scores, budget: int) -> Bools:
        order_N = _order(score_N)
        fine_N = np.arange(2, len(score_N) + 2) * (1 - score_N[order_N]) < self.factor
        largest = int(np.flatnonzero(fine_N)[-1]) + 1 if fine_N.any() else 0
        return _first(order_N, max(budget, largest))

    def __str__(self) -> str:
        return f"factor:{self.factor:g}"


WITH_NUMBER: dict[str, Callable[[float], CommitRule]] = {"threshold": Threshold, "factor": Factor}
NAMES = (*get_args(Score), *WITH_NUMBER)


def parse_rule(text: str) -> CommitRule:
    name, _, number = text.partition(":")
    if name not in NAMES:
        allowed = ", ".join(f"{each}:NUMBER" if each in WITH_NUMBER else each for each in NAMES)
        raise UsageError(f"a commit rule must be one of {allowed}", got=text, fix=nearest(name, NAMES))
    if name not in WITH_NUMBER:
        if number:
            raise UsageError(f"the rule {name} takes no number", got=text, fix=f"write {name}")
        return Best(name)  # type: ignore[arg-type]
    try:
        return WITH_NUMBER[name](float(number))
    except UsageError:
        raise
    except ValueError as error:
        example = {"threshold": "threshold:0.9", "factor": "factor:1"}[name]
        raise UsageError(f"the rule {name} takes a number", got=text, fix=f"write {example}") from error


def _order(score_N: Scores) -> NDArray[np.int64]:
    """Best first; of equals the leftmost."""
    return np.argsort(-score_N, kind="stable")


def _first(order_N: NDArray[np.int64], num: int) -> Bools:
    chosen_N = np.zeros(len(order_N), dtype=np.bool_)
    chosen_N[order_N[:num]] = True
    return chosen_N
