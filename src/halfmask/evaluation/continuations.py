"""The loss of hidden tokens of continuations, for any sets of them: rows of many requests in full forward passes.

A `Continuation` names a prompt, what follows it, and which sets of the latter are to be hidden; `hidden_losses` fills
in the loss of every hidden token. Rows go through the model in passes of equal length, whichever request they come
from, so that nothing is padded; rows that are equal, such as those of options of one length with all hidden, go
through once; and the output layer sees hidden tokens alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from numpy.typing import NDArray
from torch import Tensor

from halfmask.laws import FloatArray
from halfmask.models.denoiser import head
from halfmask.models.load import Loaded
from halfmask.objective import CHUNK_BYTES, HiddenTokens, masked_loss

Ids = NDArray[np.int64]
Sets = NDArray[np.bool_]


@dataclass
class Continuation:
    """Letters: S sets, L tokens of the continuation, T of the whole row."""

    prompt: Ids
    tokens_L: Ids
    sets_SL: Sets
    nll_SL: FloatArray = field(default_factory=lambda: np.empty((0, 0)))  # 0 where visible

    @property
    def row_T(self) -> Ids:
        return np.concatenate([self.prompt, self.tokens_L])


def hidden_losses(model: Loaded, asked: Iterable[Continuation], *, guidance: float, batch_tokens: int) -> int:
    """Fill in `nll_SL` of each; returns how many rows went through the model."""
    by_length: dict[int, list[Continuation]] = {}
    for each in asked:
        each.nll_SL = np.zeros(each.sets_SL.shape)
        by_length.setdefault(len(each.row_T), []).append(each)
    return sum(
        _forward(model, batch, guidance)
        for length, alike in by_length.items()
        for batch in _passes(alike, max(1, batch_tokens // length))
    )


Part = tuple[Continuation, slice]  # some of its sets


def _passes(alike: Sequence[Continuation], most: int) -> Iterator[list[Part]]:
    """Cut into parts of at most `most` rows together."""
    batch: list[Part] = []
    room = most
    for each in alike:
        start = 0
        while start < len(each.sets_SL):
            stop = min(len(each.sets_SL), start + room)
            batch.append((each, slice(start, stop)))
            room -= stop - start
            start = stop
            if room == 0:
                yield batch
                batch, room = [], most
    if batch:
        yield batch


def _forward(model: Loaded, batch: Sequence[Part], guidance: float) -> int:
    mask_id, device = model.denoiser.mask_id, model.device
    hidden_RT = np.concatenate(
        [np.pad(each.sets_SL[at], ((0, 0), (len(each.prompt), 0))) for each, at in batch]
    )  # all rows of these parts
    sizes = [at.stop - at.start for _, at in batch]
    clean_RT = np.repeat(np.stack([each.row_T for each, _ in batch]), sizes, axis=0)
    prompt_R = np.repeat([len(each.prompt) for each, _ in batch], sizes)
    # The row as the model sees it, and without its prompt, where that is asked for as well.
    noisy_RT = np.where(hidden_RT, mask_id, clean_RT)
    kind_RT = np.column_stack([noisy_RT, prompt_R]) if guidance else noisy_RT
    _, first_B, row_R = np.unique(kind_RT, axis=0, return_index=True, return_inverse=True)
    at_N, place_N = np.nonzero(hidden_RT)
    hidden = HiddenTokens(
        tokens_BT=torch.as_tensor(noisy_RT[first_B], device=device),
        position_N=torch.as_tensor(row_R.reshape(-1)[at_N] * noisy_RT.shape[1] + place_N, device=device),
        target_N=torch.as_tensor(clean_RT[hidden_RT], device=device),
        weight_N=torch.ones(len(at_N), device=device),
        attend_BTT=None,
        num_maskable=len(at_N),
    )
    with torch.no_grad():
        if guidance:
            nll_N = _guided(model, hidden, torch.as_tensor(prompt_R[first_B], device=device), guidance)
        else:
            nll_N = masked_loss(model.denoiser, hidden, 1.0).nll_N
    nll_RT = np.zeros(hidden_RT.shape)
    nll_RT[hidden_RT] = nll_N.double().cpu().numpy()
    for (each, at), found in zip(batch, np.split(nll_RT, np.cumsum(sizes)[:-1]), strict=True):
        each.nll_SL[at] = found[:, len(each.prompt) :]
    return len(first_B)


def _guided(model: Loaded, hidden: HiddenTokens, prompt_B: Tensor, guidance: float) -> Tensor:
    """LLaDA's: from the logits without the prompt, 1 + guidance times the way to those with it."""
    denoiser = model.denoiser
    column_T = torch.arange(hidden.tokens_BT.shape[1], device=prompt_B.device)
    blind_BT = torch.where(column_T < prompt_B[:, None], denoiser.mask_id, hidden.tokens_BT)
    seeing_ND, blind_ND = (
        denoiser.hidden(tokens_BT).flatten(0, 1)[hidden.position_N] for tokens_BT in (hidden.tokens_BT, blind_BT)
    )
    size = max(16, CHUNK_BYTES[model.device.type] // (8 * denoiser.vocab_size))
    found = []
    for at in (slice(start, start + size) for start in range(0, len(seeing_ND), size)):
        seeing_CV, blind_CV = head(denoiser, seeing_ND[at]).float(), head(denoiser, blind_ND[at]).float()
        guided_CV = blind_CV + (1 + guidance) * (seeing_CV - blind_CV)
        found.append(F.cross_entropy(guided_CV, hidden.target_N[at], reduction="none"))
    return torch.cat(found)


def is_greedy(model: Loaded, asked: Sequence[tuple[Ids, Ids]], *, batch_tokens: int) -> list[bool]:
    """Whether filling in one token after another, the surest first, writes each (prompt, continuation)."""
    open_: dict[int, Sets] = {at: np.ones(len(tokens), dtype=bool) for at, (_, tokens) in enumerate(asked)}
    written = [True] * len(asked)
    while open_:
        by_length: dict[int, list[int]] = {}
        for at in open_:
            by_length.setdefault(len(asked[at][0]) + len(asked[at][1]), []).append(at)
        for length, alike in by_length.items():
            most = max(1, batch_tokens // length)
            for start in range(0, len(alike), most):
                some = alike[start : start + most]
                for at, place, token in _surest(model, [(*asked[each], open_[each]) for each in some], some):
                    written[at] = token == asked[at][1][place]
                    open_[at][place] = False
        open_ = {at: hidden for at, hidden in open_.items() if written[at] and hidden.any()}
    return written


def _surest(
    model: Loaded, rows: Sequence[tuple[Ids, Ids, Sets]], names: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """For each row the place in its continuation of which the model is surest, and the token it sees there."""
    mask_id, device = model.denoiser.mask_id, model.device
    noisy_BT = np.stack([np.concatenate([prompt, np.where(hidden, mask_id, ids)]) for prompt, ids, hidden in rows])
    hidden_BT = np.stack([np.pad(hidden, (len(prompt), 0)) for prompt, _, hidden in rows])
    with torch.no_grad():
        states_BTD = model.denoiser.hidden(torch.as_tensor(noisy_BT, device=device))
        log_p_NV = head(model.denoiser, states_BTD[torch.as_tensor(hidden_BT, device=device)]).float().log_softmax(-1)
        best_N, token_N = (each.cpu().numpy() for each in log_p_NV.max(dim=-1))
    row_N, place_N = np.nonzero(hidden_BT)
    for row, name in enumerate(names):
        here = np.flatnonzero(row_N == row)
        at = here[np.argmax(best_N[here])]
        yield name, int(place_N[at]) - len(rows[row][0]), int(token_N[at])
