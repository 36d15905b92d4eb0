"""The variance of the bound's estimate at equal forward passes: ours, LLaDA's strided counts, training's coins.

64 rows of 128 tokens. With one draw of each row: (a) a ratio of its own for every row, coins, weight 1/t, as training
code measures; (b) counts in equal strides over the rows, so many tokens hidden exactly (LLaDA's scheme). With eight
draws: (b) in equal strides over the draws of each row, as LLaDA measures one text; there the noise of rows is
independent, and its variance is the mean over rows.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from bench import Result, main
from halfmask.evaluation.bound import Bound, model_losses
from halfmask.evaluation.draws import Draws, Losses
from halfmask.evaluation.held_out import open_tokens, rows_of
from halfmask.masking.corrupt import Batch, hide
from halfmask.models.load import Loaded
from halfmask.objective import MaskedLoss
from small import add_model, small_model

ROWS, LENGTH = 64, 128


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--repeats", type=int, default=100, help="seeds at one draw of each row")
    parser.add_argument("--repeats-8", type=int, default=12, help="seeds at eight draws")


def measure(arguments: argparse.Namespace) -> list[Result]:
    bench = Bench(small_model(arguments))
    coins = np.array([bench.coins(seed).mean() for seed in range(arguments.repeats)])
    strided = np.array([bench.strided(seed, 1).mean() for seed in range(arguments.repeats)])
    ours = np.array([bench.ours(seed, 1).mean() for seed in range(arguments.repeats)])
    ours_8 = np.array([bench.ours(seed, 8) for seed in range(arguments.repeats_8)])
    strided_8 = np.array([bench.strided(seed, 8) for seed in range(arguments.repeats_8)])
    sd_8, strided_sd_8 = (np.sqrt(each.var(axis=0, ddof=1).mean() / ROWS) for each in (ours_8, strided_8))
    values = [each.mean() for each in (coins, strided, ours, ours_8, strided_8)]
    assert np.ptp(values) < 0.1, f"the estimates differ: {values}"
    return [
        _result("(a) independent ratios and coins, 1 draw a row", ours.std(ddof=1), coins.std(ddof=1), 15.0),
        _result("(b) strided exact counts, 1 draw a row", ours.std(ddof=1), strided.std(ddof=1), 1.5),
        _result("(b) strided exact counts, 8 draws a row", sd_8, strided_sd_8, 1.5),
    ]


def _result(what: str, ours: float, theirs: float, at_least: float) -> Result:
    return Result(
        f"variance of the mean against {what}",
        f"sd {ours:.4f}",
        f"sd {theirs:.4f}",
        float((theirs / ours) ** 2),
        at_least,
    )


class Bench:
    """Estimates of the same rows, one for each of them."""

    def __init__(self, model: Loaded) -> None:
        self.mask_id = model.denoiser.mask_id
        held_out = open_tokens(model.card["data"])
        self.rows: Batch = rows_of(held_out, length=LENGTH, limit=ROWS, per="window", models=[model])
        self.losses: Losses = model_losses(MaskedLoss(model.module), torch.device("cpu"))
        assert self.rows.tokens_BT.shape == (ROWS, LENGTH)

    def ours(self, seed: int, num_draws: int) -> np.ndarray:
        draws = Draws(self.rows, num_draws, seed)
        return Bound.of(draws, draws.found(self.losses, np.arange(ROWS), self.mask_id)).estimate_RG.mean(axis=1)

    def coins(self, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        ratio_R = random.random(ROWS)
        return self._total(random.random((ROWS, LENGTH)) < ratio_R[:, None]) / ratio_R / LENGTH

    def strided(self, seed: int, num_draws: int) -> np.ndarray:
        """LLaDA's forward process: from a random count on, in equal strides, over rows or over the draws of a row."""
        random = np.random.default_rng(seed)
        if num_draws == 1:
            count_RK = random.permutation(_strides(random, ROWS))[:, None]
        else:
            count_RK = np.stack([_strides(random, num_draws) for _ in range(ROWS)])
        found = np.zeros(ROWS)
        for count_R in count_RK.T:
            rank_RT = random.random((ROWS, LENGTH)).argsort(axis=1).argsort(axis=1)
            found += self._total(rank_RT < count_R[:, None]) / count_R
        return found / num_draws

    def _total(self, hidden_RT: np.ndarray) -> np.ndarray:
        nll_N = self.losses(hide(self.rows, hidden_RT, np.ones(ROWS), np.ones(ROWS), self.mask_id))
        return np.bincount(np.nonzero(hidden_RT)[0], weights=nll_N, minlength=ROWS)


def _strides(random: np.random.Generator, num: int) -> np.ndarray:
    first = random.integers(1, LENGTH + 1)
    return (np.round(np.linspace(first, first + (num - 1) * LENGTH / num, num)) - 1) % LENGTH + 1


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
