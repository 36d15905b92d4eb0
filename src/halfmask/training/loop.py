"""The loop around the step: measure, evaluate, save, and stop well."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from halfmask.data.batches import held_out_rows
from halfmask.data.tokens import TokenData
from halfmask.errors import HalfmaskError
from halfmask.evaluation.bound import Bound, model_losses
from halfmask.evaluation.draws import Draws
from halfmask.models.transformer import Transformer
from halfmask.objective import HiddenTokens
from halfmask.training.board import open_board
from halfmask.training.build import make_step, model_card
from halfmask.training.checkpoint import State, save_card, save_model
from halfmask.training.meter import matrix_peak, step_operations
from halfmask.training.optim import Averaged
from halfmask.training.parallel import World, let_go, open_world
from halfmask.training.recipe import TrainRecipe
from halfmask.training.run import Run
from halfmask.training.step import Step, Taken

Line = dict[str, Any]  # of metrics


class NonFiniteLossError(HalfmaskError):
    """Training left the numbers; the last checkpoint is from before."""


def train(
    recipe: TrainRecipe,
    folder: Path,
    *,
    resume: bool = False,
    device: str | None = None,
    report: Callable[[Line], None] = lambda line: None,
    say: Callable[[str], None] = lambda text: None,
) -> Line:
    """Run a recipe to its end; returns the last line of metrics. An interrupt saves before it leaves."""
    with open_world(device) as world, asked_to_stop() as stop, open_board(recipe, folder, world) as board:
        data = TokenData.open(recipe.data.folder)
        has_bound = "validation" in data.splits
        step_of = make_step(recipe, data, world)
        averaged = Averaged(step_of.model, recipe.optimizer.ema) if recipe.optimizer.ema else None
        state, run = State(step_of.model, step_of.optimizer, averaged), Run(folder)
        if world.is_first:
            run.start(recipe, data, world.size, resume=resume)
            save_card(folder / "model", model_card(recipe, step_of.model, data), data.tokenizer_file)
        world.wait()
        first = state.load(run.checkpoints, world, say) if resume else 0
        if world.is_first:
            run.forget_after(first)
            say(f"steps {first} to {recipe.steps}, {recipe.mask.explained()}, {_where(world)}")
            if not has_bound:
                say(f"{recipe.data.folder} has no validation split: no held-out bound")
        line, lap = run.last_line(), _Lap(step_of)
        for step, prepared in _ahead(step_of.prepare, range(first, recipe.steps)):
            lap.add(step, step_of.take(step, prepared))
            if averaged is not None:
                averaged.update()
            done, last = step + 1, step + 1 == recipe.steps
            due = _due(done, recipe.log_every, last=last)
            save = _due(done, recipe.save_every, last=last)
            evaluate = has_bound and _due(done, recipe.evaluate.every, last=last)
            stopping = world.total(int(stop.asked)) > 0 if due or world.size == 1 else False
            if due or save or evaluate or stopping:
                line = {"step": done, **lap.finish(done)}  # raises where the loss is not finite: nothing bad is saved
                if evaluate:
                    line |= _as_metrics(held_out_bound(step_of, averaged, data))
                    lap.start(done)
                if world.is_first:
                    run.log(line)
                    board.log(line)
                    report(line)
            if save or stopping:
                state.save(run.checkpoints, done, world, recipe.keep)
            if stopping and not last:
                raise KeyboardInterrupt
        if averaged is not None:
            averaged.swap()
        save_model(step_of.model, folder / "model", world)
        return line


def _where(world: World) -> str:
    return f"{world.size} processes on {world.device.type}" if world.size > 1 else f"one process on {world.device}"


def _due(done: int, every: int, *, last: bool) -> bool:
    return last or (every > 0 and done % every == 0)


def _ahead(prepare: Callable[[int], list[HiddenTokens]], steps: range) -> Iterator[tuple[int, list[HiddenTokens]]]:
    """Each step with its rows; a thread prepares the next while this one runs."""
    with ThreadPoolExecutor(1) as thread:
        waiting = [thread.submit(prepare, step) for step in steps[:1]]
        for step in steps:
            prepared = waiting.pop().result()
            if step + 1 in steps:
                waiting.append(thread.submit(prepare, step + 1))
            yield step, prepared


def held_out_bound(step_of: Step, averaged: Averaged | None, data: TokenData) -> Bound:
    """On the validation split, shared between the processes."""
    world, recipe = step_of.world, step_of.recipe
    chosen, file = recipe.evaluate, data.split("validation")
    rows = held_out_rows(file, length=recipe.data.length, limit=chosen.rows, packing=recipe.data.packing)
    num_rows = len(rows.rows_B)
    share = -(-num_rows // world.size)
    # FSDP2 needs as many forward passes of every process: some take the last row once more, outside of what counts.
    place = np.arange(share) * world.size + world.rank
    draws = Draws(rows, chosen.ratios)
    found_RK2 = torch.zeros(share * world.size, chosen.ratios, 2, dtype=torch.float64)
    micro = recipe.step.micro_rows or max(1, recipe.step.rows // world.size)
    losses = model_losses(step_of.module, world.device, step_of.autocast)
    with _evaluated(step_of, averaged):
        for start in range(0, share, micro):
            at = place[start : start + micro]
            found_RK2[at] = torch.as_tensor(draws.found(losses, np.minimum(at, num_rows - 1), step_of.mask_id))
    found = world.sum(found_RK2.to(world.device)).cpu().numpy()[:num_rows]
    return Bound.of(draws, found, num_bins=chosen.ratios)


@contextlib.contextmanager
def _evaluated(step_of: Step, averaged: Averaged | None) -> Iterator[None]:
    """The module as it is evaluated: with averaged weights, if there are any."""
    if averaged is not None:
        averaged.swap()
    step_of.module.eval()
    try:
        yield
    finally:
        let_go(step_of.module)
        step_of.module.train()
        if averaged is not None:
            averaged.swap()


def _as_metrics(bound: Bound) -> Line:
    by_ratio = [round(float(each), 6) for each in bound.curve.loss_B]
    return {"bound": bound.mean.value, "bound error": bound.mean.standard_error, "loss by ratio": by_ratio}


@dataclass
class _Lap:
    """The steps since the last line of metrics: mean loss, speed, and whether all of it was finite."""

    step_of: Step
    peak: float = field(init=False)

    def __post_init__(self) -> None:
        world, precision = self.step_of.world, self.step_of.recipe.step.precision
        self.peak = world.size * matrix_peak(world.device, torch.bfloat16 if precision == "bf16" else torch.float32)
        self.start(None)

    def start(self, step: int | None) -> None:
        device = self.step_of.world.device
        self.first, self.started_at = step, time.perf_counter()
        self.loss, self.num_steps, self.num_hidden = torch.zeros((), device=device), 0, 0
        self.gradient, self.lr = torch.zeros((), device=device), 0.0
        self.bad = torch.full((), math.inf, device=device)  # the first step that was not finite

    def add(self, step: int, taken: Taken) -> None:
        self.num_steps += 1
        self.loss += taken.loss
        self.gradient, self.lr = taken.gradient, taken.lr
        self.num_hidden += taken.num_hidden
        finite = torch.isfinite(taken.loss) & torch.isfinite(taken.gradient)
        self.bad = torch.where(finite, self.bad, self.bad.clamp(max=step))

    def finish(self, done: int) -> Line:
        bad, loss = float(self.bad), float(self.loss) / max(1, self.num_steps)  # waits for the device
        if math.isfinite(bad):
            raise self._not_finite(int(bad))
        recipe, world, model = self.step_of.recipe, self.step_of.world, self.step_of.model
        seconds = (time.perf_counter() - self.started_at) / max(1, self.num_steps)
        length = recipe.data.length
        line = {"loss": loss, "gradient": float(self.gradient), "lr": self.lr}
        line["tokens/s"] = recipe.step.rows * length / seconds
        if isinstance(model, Transformer):
            num_hidden = self.num_hidden * world.size / max(1, self.num_steps)
            line["share of peak"] = (
                step_operations(model.config, recipe.step.rows, length, num_hidden) / seconds / self.peak
            )
        self.start(done)
        return line

    def _not_finite(self, step: int) -> NonFiniteLossError:
        rows = self.step_of.recipe.step.rows
        return NonFiniteLossError(
            f"loss and gradient must stay finite, which they did until step {step}",
            got=f"one that is not, on rows {step * rows} to {(step + 1) * rows - 1} of the data's order",
            fix="lower optimizer.lr or raise optimizer.warmup; the last checkpoint is from before",
        )


@dataclass
class _Stop:
    asked: bool = False


@contextlib.contextmanager
def asked_to_stop() -> Iterator[_Stop]:
    """The first interrupt or termination asks; the second one interrupts."""
    stop = _Stop()

    def ask(number: int, frame: object) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, where nobody can ask
        before = {}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
