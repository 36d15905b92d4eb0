"""Passes of the model over rows at different stages: whole, or in part with a cache; many rows in one pass.

Views that share a pass have one length, rounded up, and as many positions to compute. The rounding is a function of
the row alone, and products of whole tiles give a row the same bits whatever else is in them. So a row's states do not
depend on which rows it shares its passes with. (Tested on CPU in float32, for libraries that keep to that; where one
does not, agreement is to rounding.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from halfmask.decoding.cache import Cache, Recall
from halfmask.decoding.canvas import Ids
from halfmask.decoding.propose import TILE
from halfmask.decoding.row import Row
from halfmask.models.denoiser import Denoiser

PASS_TOKENS = {"cpu": 512, "cuda": 1 << 15}  # of one pass: more gain nothing on CPU, where they leave the caches


@dataclass(eq=False)
class View:
    """A row as a pass sees it: with its visible text, or for guidance without. Q computed positions, N asked ones."""

    row: Row
    unguided: bool = False
    slot: int | None = None  # in the cache
    asked_N: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    computed_Q: Ids | None = None  # None: the whole row

    def ask(self) -> None:
        self.asked_N, self.computed_Q = self.row.asked(), self.row.computed()

    @property
    def length(self) -> int:
        return len(self.row.tokens_T)

    @property
    def tokens_T(self) -> Ids:
        if not self.unguided:
            return self.row.tokens_T
        return np.where(self.row.canvas.hidden_T, self.row.tokens_T, self.row.mask_id)


class Passes:
    def __init__(self, denoiser: Denoiser, max_length: int | None, device: torch.device) -> None:
        self.denoiser, self.max_length, self.device = denoiser, max_length, device
        self.caches: dict[int, tuple[Cache, set[View]]] = {}  # of rows of a length, and who they are

    def join(self, view: View) -> None:
        """For rows that are cached: they have a place until they leave."""
        length = self._length(view)
        cache, views = self.caches.setdefault(length, (Cache(length), set()))
        views.add(view)
        view.slot = cache.take()

    def leave(self, view: View) -> None:
        if view.slot is None:
            return
        cache, views = self.caches[self._length(view)]
        cache.leave(view.slot)
        views.remove(view)
        if not views:
            del self.caches[self._length(view)]

    def states(self, views: Iterable[View]) -> dict[View, Tensor]:
        """The model's states at the positions that each view asks about."""
        found: dict[View, Tensor] = {}
        for some in self._shared(views):
            found.update(zip(some, self._pass(some), strict=True))
        return found

    def _shared(self, views: Iterable[View]) -> Iterator[list[View]]:
        """Views that one pass takes together."""

        def kind(view: View) -> tuple[int, bool, bool, bool, int]:
            length, whole = self._length(view), view.computed_Q is None
            num = length if view.computed_Q is None else _tiles(len(view.computed_Q))
            return length, view.length < length, view.slot is None, whole, num

        most = PASS_TOKENS.get(self.device.type, 512)
        for (*_, num), group in groupby(sorted(views, key=lambda view: (*kind(view), view.slot or 0)), key=kind):
            some = list(group)
            size = max(1, most // num)
            yield from (some[start : start + size] for start in range(0, len(some), size))

    def _pass(self, views: list[View]) -> list[Tensor]:
        length = self._length(views[0])
        tokens_BT = np.full((len(views), length), self.denoiser.mask_id)
        for i, view in enumerate(views):
            tokens_BT[i, : view.length] = view.tokens_T
        position_BQ = None
        place = [view.asked_N for view in views]
        if views[0].computed_Q is not None:
            computed = [view.computed_Q for view in views if view.computed_Q is not None]
            position_BQ = np.stack([_whole_tiles(each) for each in computed])
            tokens_BT = np.take_along_axis(tokens_BT, position_BQ, axis=1)
            place = [np.searchsorted(each, asked) for each, asked in zip(computed, place, strict=True)]
        tokens = self._on_device(tokens_BT)
        attend = self._attend([view.length for view in views], length, tokens.shape[1])
        if views[0].slot is None:
            states_BQD = self.denoiser.hidden(tokens, attend)
        else:
            at = None if position_BQ is None else self._on_device(position_BQ)
            recall = Recall(self.caches[length][0], [view.slot or 0 for view in views], at)
            states_BQD = self.denoiser.hidden(tokens, attend, recall)  # type: ignore[call-arg]  # `Recalling`
        return [states_BQD[i, self._on_device(each)] for i, each in enumerate(place)]

    def _attend(self, lengths: list[int], length: int, num_positions: int) -> Tensor | None:
        """Nobody looks at what only fills a row up."""
        if min(lengths) == length:
            return None
        there_BT = self._on_device(np.arange(length) < np.array(lengths)[:, None])
        return there_BT[:, None].expand(-1, num_positions, -1)

    def _length(self, view: View) -> int:
        """Rounded up to one of four lengths for each doubling, so that rows of about one length share passes."""
        num = view.length
        rounded = _tiles(num, max(TILE, 1 << max(0, num.bit_length() - 3)))
        return rounded if self.max_length is None else max(num, min(rounded, self.max_length))

    def _on_device(self, array: np.ndarray[tuple[int, ...], np.dtype[np.int64 | np.bool_]]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def _tiles(num: int, tile: int = TILE) -> int:
    return -(-num // tile) * tile


def _whole_tiles(position_Q: Ids) -> Ids:
    """The last position is computed again, which changes nothing."""
    return np.pad(position_Q, (0, _tiles(len(position_Q)) - len(position_Q)), mode="edge")
