"""A canvas on its way to being full: what it asks of the model next, and what it does with the answer.

Everything here is about one row. Nothing knows which other rows are decoded at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from halfmask.decoding.canvas import Bools, Canvas, Ids
from halfmask.decoding.commit import Scores
from halfmask.decoding.propose import Proposals
from halfmask.decoding.strategy import Strategy
from halfmask.errors import UsageError
from halfmask.noise import Noise

NEVER = -1  # no step, and no id


Finish = Literal["end", "length", "stopped"]  # the end of the text, that of the canvas, or somebody's wish


@dataclass(frozen=True)
class Completion:
    """A canvas as it was left. Letters: T positions."""

    canvas: Canvas
    tokens_T: Ids
    length: int  # up to the end of the text, or to the first hole of a row that was stopped
    confidence_T: Scores  # with which each token was committed; 1 where none was
    step_T: Ids  # in which; NEVER where none was: the token was given, or follows the end of the text
    num_steps: int
    num_passes: int  # over the whole row; the other steps came from the cache
    finish: Finish

    @property
    def written(self) -> Ids:
        """What was written, in its order, without the end of the text."""
        return self.tokens_T[: self.length][self.canvas.hidden_T[: self.length]]


class Row:
    """Letters: T positions, N hidden ones that are asked about, Q positions that are computed."""

    def __init__(self, canvas: Canvas, strategy: Strategy, *, mask_id: int, end_id: int | None) -> None:
        self.canvas, self.strategy, self.end_id, self.mask_id = canvas, strategy, end_id, mask_id
        length = len(canvas.tokens_T)
        self.tokens_T = np.where(canvas.hidden_T, mask_id, canvas.tokens_T)
        self.hidden_T = canvas.hidden_T.copy()
        self.confidence_T = np.ones(length)
        self.step_T = np.full(length, NEVER)
        self.second_look_T = np.zeros(length, dtype=np.bool_)
        holes = np.flatnonzero(canvas.hidden_T)
        size = strategy.block or len(holes)
        self.blocks = [holes[start : start + size] for start in range(0, len(holes), size)]
        self.plan = planned_steps(strategy, [len(block) for block in self.blocks])
        self.block, self.steps_left = 0, self.plan[0]
        self.num_steps = self.num_passes = 0
        self.since_pass: int | None = None  # steps since a pass over the whole row; None: one is due

    @property
    def ends_at(self) -> int:
        """The first end of the text in the open end; behind the row where there is none."""
        start, end_id = self.canvas.open_from, NEVER if self.end_id is None else self.end_id
        ends = np.flatnonzero(self.tokens_T[start:] == end_id)
        return start + int(ends[0]) if len(ends) else len(self.tokens_T)

    @property
    def uncovered(self) -> int:
        """Up to here nothing is hidden any more, and the text has not ended."""
        hidden = np.flatnonzero(self.hidden_T)
        return min(int(hidden[0]) if len(hidden) else len(self.tokens_T), self.ends_at)

    @property
    def finished(self) -> bool:
        return self.block == len(self.blocks)

    def asked(self) -> Ids:
        """The hidden positions of the block at work, up to where the text ends."""
        block = self.blocks[self.block]
        return block[self.hidden_T[block] & (block < self.ends_at)]

    def computed(self) -> Ids | None:
        """The positions that the next pass computes; None: the whole row."""
        chosen = self.strategy
        if chosen.cache == "none" or self.since_pass is None or self.since_pass == chosen.refresh:
            return None
        block = self.blocks[self.block]
        return block if chosen.cache == "dual" else np.arange(block[0], len(self.tokens_T))

    def noise_keys(self, asked_N: Ids) -> NDArray[np.uint64]:
        """Of each position's Gumbel noise in this step."""
        place_N = np.uint64(self.canvas.row << 32) + asked_N.astype(np.uint64)
        return Noise(self.strategy.seed).keys("sampling", self.num_steps, place_N)

    def take(self, asked_N: Ids, found: Proposals) -> tuple[Bools, Ids]:
        """Commit what the rule chooses, and move on. Which of the asked, and what was hidden again."""
        whole = self.computed() is None
        self.num_passes += whole
        self.since_pass = 1 if whole else (self.since_pass or 0) + 1
        budget = -(-len(asked_N) // self.steps_left)
        chosen_N = self.strategy.rule.choose(self._scores(asked_N, found), budget)
        at = asked_N[chosen_N]
        self.tokens_T[at] = found.token_N[chosen_N]
        self.hidden_T[at] = False
        self.confidence_T[at] = found.scores["confidence"][chosen_N]
        self.step_T[at] = self.num_steps
        self.num_steps += 1
        self.steps_left = max(1, self.steps_left - 1)
        return chosen_N, self._move_on()

    def _scores(self, asked_N: Ids, found: Proposals) -> Scores:
        if self.strategy.rule.score != "random":
            return found.scores[self.strategy.rule.score]
        noise, length = Noise(self.strategy.seed), len(self.tokens_T)
        random: Scores = noise.uniform("order", self.num_steps, [self.canvas.row], length)[0, asked_N]
        return random

    def _move_on(self) -> Ids:
        """To the next block where this one is full, or back to its doubtful tokens."""
        reopened = np.empty(0, dtype=np.int64)
        while not self.finished and len(self.asked()) == 0:
            reopened = self._doubtful()
            if len(reopened):
                self.hidden_T[reopened], self.tokens_T[reopened] = True, self.mask_id
                self.second_look_T[reopened] = True
                self.steps_left = len(reopened)  # one by one: together, they would be what they were
            else:
                self.block += 1
                self.steps_left = 0 if self.finished else self.plan[self.block]
            self.since_pass = None
        return reopened

    def _doubtful(self) -> Ids:
        block = self.blocks[self.block]
        doubted = (
            (self.confidence_T[block] < self.strategy.remask) & ~self.second_look_T[block] & ~self.hidden_T[block]
        )
        return block[doubted & (block <= self.ends_at)]

    def completion(self) -> Completion:
        tokens_T, length = self.tokens_T.copy(), self.uncovered
        if self.end_id is not None:
            tokens_T[length:] = self.end_id
        assert length == self.ends_at or not self.finished, "what is finished is full"
        finish: Finish = "end" if self.ends_at == length < len(tokens_T) else "length" if self.finished else "stopped"
        return Completion(
            canvas=self.canvas,
            tokens_T=tokens_T,
            length=length,
            confidence_T=self.confidence_T,
            step_T=self.step_T,
            num_steps=self.num_steps,
            num_passes=self.num_passes,
            finish=finish,
        )


def planned_steps(strategy: Strategy, sizes: list[int]) -> list[int]:
    """Steps of each block: as many as its tokens need, or its share of all."""
    if strategy.steps is None:
        return [-(-size // strategy.tokens) for size in sizes]
    if strategy.steps < len(sizes):
        raise UsageError(
            f"{len(sizes)} blocks need a step each, at least",
            got=f"{strategy.steps} steps",
            fix="take more steps or larger blocks",
        )
    upto = np.cumsum([0, *sizes]) * min(strategy.steps, sum(sizes))
    bounds = np.maximum(upto // sum(sizes), np.arange(len(sizes) + 1))
    return [max(1, int(each)) for each in np.diff(bounds)]
