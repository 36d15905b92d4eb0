"""How a canvas is filled: every choice in one place, each with a default that is slow and exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from halfmask.decoding.commit import Best, CommitRule
from halfmask.errors import UsageError, nearest

Caching = Literal["none", "prefix", "dual"]


@dataclass(frozen=True)
class Strategy:
    rule: CommitRule = Best()  # noqa: RUF009 (frozen)
    steps: int | None = None  # for the whole canvas; None: as many as `tokens` makes them
    tokens: int = 1  # committed in a step, at least
    block: int | None = None  # holes are worked on so many at a time, from left to right; None: all at once
    temperature: float = 0.0  # 0: the likeliest token
    top_p: float = 1.0  # drawn from the likeliest tokens that hold this share
    guidance: float = 0.0  # how far to go from what would be said without the visible text to what is said with it
    remask: float = 0.0  # tokens committed with less confidence are hidden again, once, and decided one by one
    cache: Caching = "none"  # what is not computed again in every step: the text before the block, or all around it
    refresh: int | None = None  # everything is, every so many steps; None: when a block begins
    may_end: bool = True  # an open end may end before the row does
    seed: int = 0
    alternatives: int = 0  # likeliest tokens told of each committed one

    def __post_init__(self) -> None:
        if self.cache not in get_args(Caching):
            allowed = get_args(Caching)
            raise UsageError(
                f"cache must be one of {', '.join(allowed)}", got=self.cache, fix=nearest(self.cache, allowed)
            )
        if self.steps is not None and self.tokens != 1:
            raise UsageError("steps or tokens of a step are given", got="both", fix="leave one out")
        rules: dict[str, tuple[Any, bool, str]] = {
            "steps must be 1 or more": (self.steps, self.steps is None or self.steps >= 1, "64"),
            "tokens of a step must be 1 or more": (self.tokens, self.tokens >= 1, "1"),
            "block must be 1 or more": (self.block, self.block is None or self.block >= 1, "32"),
            "refresh must be 1 or more": (self.refresh, self.refresh is None or self.refresh >= 1, "8"),
            "temperature must be 0 or more": (self.temperature, 0 <= self.temperature < float("inf"), "0.7"),
            "top_p must lie in (0, 1]": (self.top_p, 0 < self.top_p <= 1, "0.9"),
            "guidance must be 0 or more": (self.guidance, 0 <= self.guidance < float("inf"), "1"),
            "remask must lie in [0, 1]": (self.remask, 0 <= self.remask <= 1, "0.3"),
            "alternatives must be 0 or more": (self.alternatives, self.alternatives >= 0, "5"),
        }
        for rule, (given, holds, example) in rules.items():
            if not holds:
                raise UsageError(rule, got=given, fix=f"give for example {example}")

    @property
    def is_exact(self) -> bool:
        """Whether every prediction is made from the canvas as it stands."""
        return self.cache == "none" or self.refresh == 1
