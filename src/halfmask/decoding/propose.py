"""What the model would write in hidden positions: output layer, guidance, temperature, top-p, and how sure it is.

    states_ND ──head──▶ logits ──(guidance)──▶ probabilities ──(temperature, top-p, Gumbel noise)──▶ Proposals

Positions of any number of rows are worked on together, a bounded number of logits at a time. What a position gets is
a function of its own state and key: its noise is that of (seed, row, step, position), and sums run over its own
vocabulary alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfmask.decoding.commit import Score, Scores
from halfmask.models.denoiser import Denoiser, head

CHUNK_BYTES = {"cpu": 1 << 22, "cuda": 1 << 28}  # of float32 logits at a time
TILE = 16  # rows of a matrix product: libraries sum fewer rows in another order; see LOG.md


@dataclass(frozen=True)
class Questions:
    """N hidden positions of any rows. Letters: N positions, D width."""

    states_ND: Tensor
    unguided_ND: Tensor | None  # states without the visible text; None: no row asks for guidance
    guidance_N: Scores
    temperature_N: Scores
    top_p_N: Scores
    may_end_N: NDArray[np.bool_]
    key_N: NDArray[np.uint64]  # of the Gumbel noise
    wanted: frozenset[Score]
    alternatives: int


@dataclass(frozen=True)
class Proposals:
    """Letters: N positions, A alternatives."""

    token_N: NDArray[np.int64]
    scores: dict[Score, Scores]  # always with the confidence
    other_NA: NDArray[np.int64]  # the likeliest tokens, likeliest first
    chance_NA: Scores  # their probabilities

    def at(self, part: slice) -> Proposals:
        scores = {name: score_N[part] for name, score_N in self.scores.items()}
        return Proposals(self.token_N[part], scores, self.other_NA[part], self.chance_NA[part])


def propose(denoiser: Denoiser, asked: Questions, never: Tensor, end_id: int | None) -> Proposals:
    """`never` are the ids that are not written anywhere; `end_id` is not where the text may not end."""
    num, device = len(asked.states_ND), asked.states_ND.device
    size = max(1, CHUNK_BYTES.get(device.type, 1 << 22) // (4 * denoiser.vocab_size * TILE)) * TILE
    found = [_propose(denoiser, asked, slice(at, at + size), never, end_id) for at in range(0, num, size)]
    return Proposals(
        token_N=np.concatenate([each.token_N for each in found]),
        scores={name: np.concatenate([each.scores[name] for each in found]) for name in found[0].scores},
        other_NA=np.concatenate([each.other_NA for each in found]),
        chance_NA=np.concatenate([each.chance_NA for each in found]),
    )


def _propose(denoiser: Denoiser, asked: Questions, at: slice, never: Tensor, end_id: int | None) -> Proposals:
    device = asked.states_ND.device

    def on_device(array: NDArray[np.generic]) -> Tensor:
        return torch.as_tensor(array[at]).to(device)

    logits_NV = _logits(denoiser, asked.states_ND[at])
    if asked.unguided_ND is not None:
        plain_NV = _logits(denoiser, asked.unguided_ND[at])
        guidance_N1 = on_device(asked.guidance_N).float()[:, None]
        logits_NV = plain_NV + (1 + guidance_N1) * (logits_NV - plain_NV)
    logits_NV[:, never] = -torch.inf
    if end_id is not None:
        logits_NV[:, end_id].masked_fill_(~on_device(asked.may_end_N), -torch.inf)
    token_N = logits_NV.argmax(dim=1)
    warm = np.flatnonzero(asked.temperature_N[at] > 0)
    if len(warm):
        index = torch.as_tensor(warm).to(device)
        scaled = logits_NV[index].double() / on_device(asked.temperature_N)[index, None]
        kept = nucleus(scaled, on_device(asked.top_p_N)[index]) if (asked.top_p_N[at][warm] < 1).any() else scaled
        noise = gumbel(asked.key_N[at][warm], logits_NV.shape[1], device)
        token_N[index] = (kept + noise).argmax(dim=1)
    log_p_NV = logits_NV.log_softmax(dim=1)
    scores = {name: score.double().cpu().numpy() for name, score in _scores(log_p_NV, token_N, asked.wanted)}
    chance_NA, other_NA = log_p_NV.topk(min(asked.alternatives, log_p_NV.shape[1]), dim=1)
    return Proposals(token_N.cpu().numpy(), scores, other_NA.cpu().numpy(), chance_NA.double().exp().cpu().numpy())


def _logits(denoiser: Denoiser, states_ND: Tensor) -> Tensor:
    """In float32, of whole tiles: a position's logits must not depend on how many there are."""
    num = len(states_ND)
    if short := -num % TILE:
        states_ND = torch.cat([states_ND, states_ND.new_zeros(short, states_ND.shape[1])])
    return head(denoiser, states_ND)[:num].float()


def _scores(log_p_NV: Tensor, token_N: Tensor, wanted: frozenset[Score]) -> Iterable[tuple[Score, Tensor]]:
    """What rules rank by, of the probabilities at temperature 1; a random score needs no model."""
    p_N = log_p_NV.gather(1, token_N[:, None])[:, 0].exp()
    yield "confidence", p_N
    if "margin" in wanted:
        best_N2, which_N2 = log_p_NV.topk(2, dim=1)
        rival_N = torch.where(which_N2[:, 0] == token_N, best_N2[:, 1], best_N2[:, 0])
        yield "margin", p_N - rival_N.exp()
    if "entropy" in wanted:
        yield "entropy", torch.special.xlogy(log_p_NV.exp(), log_p_NV.exp()).sum(dim=1)


def nucleus(logits_NV: Tensor, top_p_N: Tensor) -> Tensor:
    """The likeliest tokens that together reach top_p; the others at minus infinity."""
    best_NV, order_NV = logits_NV.sort(dim=1, descending=True, stable=True)
    p_NV = best_NV.softmax(dim=1)
    beyond_NV = p_NV.cumsum(dim=1) - p_NV >= top_p_N[:, None]  # reached before this token
    return logits_NV.masked_fill(torch.zeros_like(beyond_NV).scatter(1, order_NV, beyond_NV), -torch.inf)


def gumbel(key_N: NDArray[np.uint64], num_columns: int, device: torch.device) -> Tensor:
    """Gumbel noise in float64, the numbers of `Noise.uniform` with these keys, computed where the logits are.

    A lower precision rounds the rare large values away and so sharpens what is drawn (Zheng et al., 2024).
    """
    golden = _signed(0x9E3779B97F4A7C15)
    column_V = torch.arange(1, num_columns + 1, device=device) * golden
    word_NV = torch.as_tensor(key_N.view(np.int64)).to(device)[:, None] + column_V
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word_NV = (word_NV ^ _shifted(word_NV, shift)) * _signed(factor)
    word_NV = word_NV ^ _shifted(word_NV, 31)
    return -(-(_shifted(word_NV, 11).double() * 2.0**-53).log()).log()


def _shifted(word: Tensor, bits: int) -> Tensor:
    """To the right, as of an unsigned number: torch has signed ones."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
