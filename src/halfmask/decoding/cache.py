"""Keys and values of rows that are being filled: a pass computes some positions and takes the others from here.

What is kept of a position is what it was when it was last computed; the text around it may have changed since. So a
pass from the cache is an approximation, and a pass over whole rows (a refresh) makes it exact again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Cache:
    """Of rows of one length; each has a slot while it is here. S slots, T positions, H heads of width d."""

    length: int
    keys: dict[int, Tensor] = field(default_factory=dict)  # layer → (S, T, H, d)
    values: dict[int, Tensor] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    num_slots: int = 0

    def take(self) -> int:
        if not self.free:
            self.free = list(range(self.num_slots, max(1, 2 * self.num_slots)))
            self.num_slots = max(1, 2 * self.num_slots)
        self.free.sort(reverse=True)
        return self.free.pop()  # the lowest: rows stay side by side, so that no pass has to gather them

    def leave(self, slot: int) -> None:
        self.free.append(slot)

    def store(self, layer: int, at: tuple[Tensor | slice, ...], keys: Tensor, values: Tensor) -> None:
        for kept, new in ((self.keys, keys), (self.values, values)):
            old = kept.get(layer)
            if old is None or len(old) < self.num_slots:
                grown = new.new_zeros(self.num_slots, self.length, *new.shape[2:])
                if old is not None:
                    grown[: len(old)] = old
                kept[layer] = grown
            kept[layer][at] = new


@dataclass(frozen=True)
class Recall:
    """The `Memory` of one pass over the rows in some slots."""

    cache: Cache
    slots: list[int]
    position_BQ: Tensor | None

    def merge(self, layer: int, keys_BHQd: Tensor, values_BHQd: Tensor) -> tuple[Tensor, Tensor]:
        rows = self._rows(keys_BHQd.device)
        new = keys_BHQd.transpose(1, 2), values_BHQd.transpose(1, 2)
        if self.position_BQ is None:
            self.cache.store(layer, (rows,), *new)
            return keys_BHQd, values_BHQd
        slots_B1 = torch.tensor(self.slots, device=keys_BHQd.device)[:, None]
        self.cache.store(layer, (slots_B1, self.position_BQ), *new)
        return self.cache.keys[layer][rows].transpose(1, 2), self.cache.values[layer][rows].transpose(1, 2)

    def _rows(self, device: torch.device) -> Tensor | slice:
        """A slice, which copies nothing, where the slots lie side by side."""
        first, num = self.slots[0], len(self.slots)
        if self.slots == list(range(first, first + num)):
            return slice(first, first + num)
        return torch.tensor(self.slots, device=device)
