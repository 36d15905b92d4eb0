"""Decoding: one loop over canvases, for continuation and infilling, exact and cached, one row and many.

    decoder.join(canvas, strategy)   at any time
    decoder.step()                   one step of every row; those that are full leave

    rows ──ask──▶ Passes ──states──▶ propose ──▶ each row commits what its rule chooses, and moves on

`decode` runs it to the end. A row's result is a function of its canvas and strategy: its noise is that of its own
seed, row, step and position, and nothing in a step depends on which rows share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halfmask.decoding.canvas import Bools, Canvas, Ids
from halfmask.decoding.commit import Scores
from halfmask.decoding.passes import Passes, View
from halfmask.decoding.propose import Proposals, Questions, propose
from halfmask.decoding.row import Completion, Row
from halfmask.decoding.strategy import Strategy
from halfmask.errors import UsageError
from halfmask.models.denoiser import Denoiser, Recalling
from halfmask.models.load import Loaded


@dataclass(frozen=True)
class Step:
    """What a step did to one row. Letters: N committed positions, R hidden again, A alternatives."""

    row: Row
    number: int
    is_exact: bool  # from a pass over the whole row
    position_N: Ids
    token_N: Ids
    confidence_N: Scores
    other_NA: Ids  # the likeliest tokens there
    chance_NA: Scores  # their probabilities
    reopened_R: Ids


class Decoder:
    """`num_ids`: ids from there on are never written, nor are the mask id and `pad_id`."""

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        num_ids: int | None = None,
        end_id: int | None = None,
        pad_id: int | None = None,
        max_length: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.denoiser, self.end_id, self.max_length = denoiser, end_id, max_length
        self.num_ids = denoiser.vocab_size if num_ids is None else num_ids
        never = {denoiser.mask_id, *range(self.num_ids, denoiser.vocab_size)}
        if pad_id is not None and pad_id != end_id:
            never.add(pad_id)
        self.never = torch.tensor(sorted(never), device=device)
        self.passes = Passes(denoiser, max_length, torch.device(device))
        self.rows: dict[Row, list[View]] = {}  # with its visible text, and where it is guided also without

    @classmethod
    def of(cls, model: Loaded) -> Decoder:
        words = model.vocabulary
        return cls(
            model.denoiser,
            num_ids=words.size,
            end_id=words.end_id,
            pad_id=words.pad_id,
            max_length=model.max_length,
            device=model.device,
        )

    def join(self, canvas: Canvas, strategy: Strategy) -> Row:
        """From the next step on."""
        self._check(canvas, strategy)
        end_id = self.end_id if strategy.may_end else None
        row = Row(canvas, strategy, mask_id=self.denoiser.mask_id, end_id=end_id)
        self.rows[row] = [View(row), View(row, unguided=True)] if strategy.guidance > 0 else [View(row)]
        if strategy.cache != "none":
            for view in self.rows[row]:
                self.passes.join(view)
        return row

    def leave(self, row: Row) -> None:
        """At any time, full or not."""
        for view in self.rows.pop(row):
            self.passes.leave(view)

    @torch.inference_mode()
    def step(self) -> list[Step]:
        """One step of every row; rows that are full leave."""
        views = [view for views in self.rows.values() for view in views]
        for view in views:
            view.ask()
        states = self.passes.states(views)
        found = propose(self.denoiser, self._questions(states), self.never, self.end_id)
        steps, start = [], 0
        for view, *_ in self.rows.values():
            part = slice(start, start := start + len(view.asked_N))
            steps.append(_commit(view, found.at(part)))
        for row in [row for row in self.rows if row.finished]:
            self.leave(row)
        return steps

    def _questions(self, states: dict[View, Tensor]) -> Questions:
        views = [views[0] for views in self.rows.values()]
        chosen = [view.row.strategy for view in views]
        num = [len(view.asked_N) for view in views]
        unguided_ND = None
        if any(strategy.guidance > 0 for strategy in chosen):  # a row without guidance is its own twin
            unguided_ND = torch.cat([states[views[-1]] for views in self.rows.values()])
        return Questions(
            states_ND=torch.cat([states[view] for view in views]),
            unguided_ND=unguided_ND,
            guidance_N=np.repeat([float(strategy.guidance) for strategy in chosen], num),
            temperature_N=np.repeat([float(strategy.temperature) for strategy in chosen], num),
            top_p_N=np.repeat([float(strategy.top_p) for strategy in chosen], num),
            may_end_N=np.concatenate([_may_end(view) for view in views]),
            key_N=np.concatenate([view.row.noise_keys(view.asked_N) for view in views]),
            wanted=frozenset(strategy.rule.score for strategy in chosen),
            alternatives=max(strategy.alternatives for strategy in chosen),
        )

    def _check(self, canvas: Canvas, strategy: Strategy) -> None:
        if self.max_length is not None and len(canvas.tokens_T) > self.max_length:
            raise UsageError(
                f"this model takes canvases of at most {self.max_length} tokens",
                got=f"{len(canvas.tokens_T)} with the holes",
                fix="shorten the text or ask for fewer tokens",
            )
        given_T = canvas.tokens_T[~canvas.hidden_T]
        if len(given_T) and not 0 <= given_T.min() <= given_T.max() < self.num_ids:
            got = f"{given_T.min()} to {given_T.max()}"
            raise UsageError(f"tokens must be ids below {self.num_ids}", got=got, fix="encode them for this model")
        if strategy.cache != "none" and not (isinstance(self.denoiser, Recalling) and self.denoiser.recalls):
            raise UsageError(
                f"the cache {strategy.cache} needs a model that can recall, as halfmask train makes them",
                got=type(self.denoiser).__name__,
                fix="decode without a cache",
            )


def decode(
    decoder: Decoder,
    canvases: Iterable[Canvas],
    strategy: Strategy,
    *,
    rows_at_once: int = 16,
    on_step: Callable[[int, Step], None] = lambda number, step: None,
    stop: Callable[[Row], bool] = lambda row: False,
) -> list[Completion]:
    """Fill canvases, so many at once: the next joins when one leaves. `on_step` is told the number of the canvas."""
    waiting = iter(canvases)
    number: dict[Row, int] = {}
    while True:
        while len(decoder.rows) < rows_at_once and (canvas := next(waiting, None)) is not None:
            number[decoder.join(canvas, strategy)] = len(number)
        if not decoder.rows:
            return [row.completion() for row in number]
        for step in decoder.step():
            on_step(number[step.row], step)
            if step.row in decoder.rows and stop(step.row):
                decoder.leave(step.row)


def _commit(view: View, found: Proposals) -> Step:
    row, number = view.row, view.row.num_steps
    chosen_N, reopened_R = row.take(view.asked_N, found)
    return Step(
        row=row,
        number=number,
        is_exact=view.computed_Q is None,
        position_N=view.asked_N[chosen_N],
        token_N=found.token_N[chosen_N],
        confidence_N=found.scores["confidence"][chosen_N],
        other_NA=found.other_NA[chosen_N, : row.strategy.alternatives],
        chance_NA=found.chance_NA[chosen_N, : row.strategy.alternatives],
        reopened_R=reopened_R,
    )


def _may_end(view: View) -> Bools:
    row = view.row
    return (view.asked_N >= row.canvas.open_from) & (row.end_id is not None)
