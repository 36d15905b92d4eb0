"""How likely a model finds a continuation of a prompt: the bound on its tokens alone, with the prompt visible.

    -log p(continuation | prompt)  ≤  Σ_l E_hidden [ mean over hidden tokens of -log p(x_j | prompt, visible) ]

with l = 1 … L of the L tokens hidden, as in LLaDA (Nie et al., 2025). Where the sets of hidden tokens are no more
than the draws, all of them are tried and the answer is exact: one pass for one token. Otherwise sets are drawn in
groups as in `draws.py`, and what they cost is compared with what the same tokens cost while the whole continuation is
hidden, the mean of which is known from one pass more.

All options of a question meet the same noise, so that most of it leaves their ranking alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from halfmask.errors import DataError, UsageError, nearest
from halfmask.evaluation.continuations import Continuation, Ids, Sets, hidden_losses
from halfmask.evaluation.draws import EVALUATION_SEED
from halfmask.evaluation.exact import LONGEST, all_sets, set_weights
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import random_ranks
from halfmask.models.load import Loaded
from halfmask.noise import Noise

Stop = Literal["never", "decided"]
Progress = Callable[[int, int, str], None]
GROUP = 16  # draws at most, with stratified counts and their sets side by side
CONFIDENCE = 0.999  # at which a ranking is decided
QUESTIONS_AT_ONCE = 256


@dataclass(frozen=True)
class Question:
    """A prompt and what may follow it, as ids; `key` chooses the noise."""

    prompt: Ids
    options: tuple[Ids, ...]
    key: int = 0


@dataclass(frozen=True)
class Answer:
    """Letters: O options."""

    log_p_O: FloatArray  # nats of the whole option: what the bound grants it
    error_O: FloatArray  # of the noise: 0 where every set was tried, NaN where there is one group


@dataclass(frozen=True)
class Likelihood:
    """How continuations are measured. `guidance` is LLaDA's classifier-free scale; 0 leaves the model as it is."""

    model: Loaded
    num_draws: int = 128
    guidance: float = 0.0
    stop: Stop = "never"  # decided: no more draws of a question once its best option is known
    seed: int = EVALUATION_SEED
    batch_tokens: int = 1 << 14

    def __post_init__(self) -> None:
        if self.num_draws < 1:
            raise UsageError("an option needs 1 draw or more", got=self.num_draws, fix="give for example 128")
        if self.stop not in get_args(Stop):
            allowed = get_args(Stop)
            raise UsageError(f"stop must be {' or '.join(allowed)}", got=self.stop, fix=nearest(self.stop, allowed))

    def ask(self, questions: Sequence[Question], progress: Progress = lambda done, total, stage: None) -> list[Answer]:
        """In the order of the questions; they are taken in the order of their lengths, which fills the passes."""
        asked = [self._options(question) for question in questions]
        order = sorted(range(len(asked)), key=lambda at: max(option.row_length for option in asked[at]))
        for start in range(0, len(order), QUESTIONS_AT_ONCE):
            some = [asked[at] for at in order[start : start + QUESTIONS_AT_ONCE]]
            for groups in self._rounds():
                self._draw([each for options in some for each in options], groups)
                some = [options for options in some if not _is_decided(options)] if self.stop == "decided" else []
            progress(min(len(order), start + QUESTIONS_AT_ONCE), len(order), "likelihoods")
        return [_answer(options) for options in asked]

    def _options(self, question: Question) -> list[_Option]:
        """Each with as much of the prompt's end as the model can take beside the longest."""
        most, longest = self.model.max_length, max(map(len, question.options), default=0)
        if min(map(len, question.options), default=0) == 0:
            raise DataError("a continuation must have 1 token or more", got="none", fix="leave it out")
        if most is None or longest <= most:
            room = len(question.prompt) if most is None else most - longest
            prompt = question.prompt[max(0, len(question.prompt) - room) :]
            return [_Option([_Part(prompt, option, question.key)]) for option in question.options]
        return [_Option(list(_windows(question, option, most))) for option in question.options]

    def _rounds(self) -> list[list[tuple[int, int]]]:
        """Groups as (number, draws): all in one round, or one in each where it may be enough."""
        num = -(-self.num_draws // GROUP)
        groups = [(at, self.num_draws // num + (at < self.num_draws % num)) for at in range(num)]
        return [[group] for group in groups] if self.stop == "decided" else [groups]

    def _draw(self, options: Sequence[_Option], groups: Sequence[tuple[int, int]]) -> None:
        parts = (part for option in options for part in option.parts if not part.is_exact)
        plans = [_Plan.of(part, groups, self) for part in parts]
        hidden_losses(
            self.model, (plan.asked for plan in plans), guidance=self.guidance, batch_tokens=self.batch_tokens
        )
        for plan in plans:
            plan.finish()


@dataclass
class _Part:
    """A continuation, or a window of one that is longer than the model's rows."""

    prompt: Ids
    tokens_L: Ids
    key: int
    estimates: list[float] = field(default_factory=list)  # -log p, one of each group
    is_exact: bool = False


@dataclass
class _Option:
    parts: list[_Part]

    @property
    def num_tokens(self) -> int:
        return sum(len(part.tokens_L) for part in self.parts)

    @property
    def row_length(self) -> int:
        return max(len(part.prompt) + len(part.tokens_L) for part in self.parts)

    @property
    def is_exact(self) -> bool:
        return all(part.is_exact for part in self.parts)

    @property
    def estimates(self) -> FloatArray:
        """-log p, one of each group; one alone where every set was tried."""
        return np.asarray(sum(np.array(part.estimates) for part in self.parts))


def _windows(question: Question, option: Ids, longest: int) -> Iterator[_Part]:
    """Side by side, each predicted from what comes before it: the first beside the prompt's end, at most half a row,
    the last with as much in sight as there is room for."""
    room = min(len(question.prompt), longest // 2)
    row_T, place = np.concatenate([question.prompt, option]), len(question.prompt)
    cuts = [place, *range(place + longest - room, len(row_T), longest), len(row_T)]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        yield _Part(row_T[max(0, stop - longest) : start], row_T[start:stop], question.key + number)


@dataclass(frozen=True)
class _Plan:
    """The sets of some groups of draws, each once, and what each weighs in its group. Letters: G groups, S sets."""

    part: _Part
    asked: Continuation
    weight_GS: FloatArray
    is_exact: bool

    @classmethod
    def of(cls, part: _Part, groups: Sequence[tuple[int, int]], how: Likelihood) -> _Plan:
        length = len(part.tokens_L)
        if length <= LONGEST and (1 << length) - 1 <= how.num_draws:
            sets_SL = all_sets(length)
            weight_GS, is_exact = set_weights(sets_SL.sum(axis=1), length)[None], True
        else:
            everything = np.ones((1, length), dtype=bool)  # the last one of all sets in their order: the control
            drawn = [draw_sets(length, size, Noise(how.seed), part.key, group) for group, size in groups]
            sets_SL, place_D = np.unique(
                np.concatenate([*(sets for sets, _ in drawn), everything]), axis=0, return_inverse=True
            )
            weight_GS, start = np.zeros((len(groups), len(sets_SL))), 0
            for group, (sets, weight_D) in enumerate(drawn):
                np.add.at(weight_GS[group], place_D.reshape(-1)[start : start + len(sets)], weight_D / len(sets))
                start += len(sets)
            is_exact = False
        return cls(part, Continuation(part.prompt, part.tokens_L, sets_SL), weight_GS, is_exact)

    def finish(self) -> None:
        sets_SL, nll_SL = self.asked.sets_SL, self.asked.nll_SL
        count_S = sets_SL.sum(axis=1)
        control_L = np.zeros(nll_SL.shape[1]) if self.is_exact else nll_SL[-1]
        gain_S = (nll_SL.sum(axis=1) - sets_SL @ control_L) / count_S
        self.part.estimates += list(nll_SL.shape[1] * (control_L.mean() + self.weight_GS @ gain_S))
        self.part.is_exact = self.is_exact


def draw_sets(length: int, size: int, noise: Noise, key: int, group: int) -> tuple[Sets, FloatArray]:
    """A group of draws from `length` tokens, and their weights; the noise of a place is the same for every length."""
    u_D = (np.arange(size) + noise.uniform("ratios", group, [key], size)[0]) / size
    count_D = np.floor(u_D**2 * length).astype(np.int64) + 1
    weight_D = 1 / (length * (np.sqrt(count_D / length) - np.sqrt((count_D - 1) / length)))
    rank_L = random_ranks(noise.uniform("hiding", group, [key], length), np.ones((1, length), dtype=bool))[0]
    start_D = np.cumsum(count_D) - count_D
    return (rank_L - start_D[:, None]) % length < count_D[:, None], weight_D


def _answer(options: Sequence[_Option]) -> Answer:
    log_p_O = np.array([-np.mean(option.estimates) for option in options])
    error_O = [0.0 if each.is_exact else _error(each.estimates) for each in options]
    return Answer(log_p_O, np.array(error_O))


def _error(estimates: FloatArray) -> float:
    return float(estimates.std(ddof=1) / np.sqrt(len(estimates))) if len(estimates) > 1 else float("nan")


def _is_decided(options: Sequence[_Option]) -> bool:
    """Whether the best option leads each other by more than the noise allows, by its whole and by its mean token.

    A continuation that stands alone has no rank to decide.
    """
    from scipy.special import stdtrit

    if len(options) == 1:
        return options[0].is_exact

    for scale in ([1.0] * len(options), [1 / option.num_tokens for option in options]):
        estimates = [option.estimates * each for option, each in zip(options, scale, strict=True)]
        best = int(np.argmin([each.mean() for each in estimates]))
        for other, option in enumerate(options):
            if other == best or (option.is_exact and options[best].is_exact):
                continue
            lead = estimates[other] - estimates[best]
            if len(lead) < 2 or lead.mean() <= stdtrit(len(lead) - 1, CONFIDENCE) * _error(lead):
                return False
    return True
