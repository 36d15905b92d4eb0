"""The rows of a step, as a pure function of (seed, step): `Batches(file, …).at(step) -> Batch`.

All rows ever trained on stand in one line: row r of step s is number s · num_rows + r. The line is cut into epochs of
the same length. An epoch cuts the tokens into rows from an offset of its own and shuffles them by a permutation of its
own; both are computed from (seed, epoch), so neither history nor a table of the epoch is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfmask.data.tokens import TokenFile
from halfmask.errors import DataError, UsageError, nearest
from halfmask.masking.corrupt import Batch
from halfmask.noise import Noise, permuted

Ids = NDArray[np.int64]
Packing = Literal["concatenate", "documents"]


@dataclass(frozen=True)
class Batches:
    """Rows of `length` tokens, `num_rows` of them in each step.

    Packing: "concatenate" lets a row run across documents (the paper); "documents" says which document each token
    belongs to, so that attention stays inside it.
    """

    file: TokenFile
    length: int
    num_rows: int
    seed: int
    packing: Packing = "concatenate"

    def __post_init__(self) -> None:
        if self.num_rows < 1:
            raise UsageError("a step must have 1 row or more", got=self.num_rows, fix="give for example 32")
        _check(self.file, self.length, self.packing)

    @cached_property
    def rows_per_epoch(self) -> int:
        """As many as fit whatever the offset."""
        return max(1, (len(self.file.tokens_N) - self.length + 1) // self.length)

    def at(self, step: int, rows_B: ArrayLike | None = None) -> Batch:
        """Some rows of the step, by their numbers in it; all of them where none are named."""
        rows_B = np.arange(self.num_rows) if rows_B is None else np.asarray(rows_B, dtype=np.int64)
        assert np.all((rows_B >= 0) & (rows_B < self.num_rows)), "a row lies outside the step"
        epoch_B, index_B = np.divmod(step * self.num_rows + rows_B, self.rows_per_epoch)
        start_B = np.empty_like(rows_B)
        for epoch in np.unique(epoch_B):
            here = epoch_B == epoch
            start_B[here] = self._starts(int(epoch), index_B[here])
        return _cut(self.file, start_B, self.length, self.packing, step=step, rows_B=rows_B, num_rows=self.num_rows)

    def _starts(self, epoch: int, index_B: Ids) -> Ids:
        """Where the rows of one epoch begin in the file."""
        key, spare = (int(word) for word in Noise(self.seed).words("rows", epoch, [0], 2)[0])
        room = len(self.file.tokens_N) - self.rows_per_epoch * self.length + 1
        offset = spare % min(self.length, room)
        return offset + permuted(index_B, self.rows_per_epoch, key) * self.length


def held_out_rows(
    file: TokenFile, *, length: int, limit: int | None = None, packing: Packing = "concatenate"
) -> Batch:
    """For evaluation: all rows of the file one after another, a rest left out; or `limit` of them, evenly spread."""
    _check(file, length, packing)
    if limit is not None and limit < 1:
        raise UsageError("an evaluation needs 1 row or more", got=limit, fix="give for example 64")
    all_rows = len(file.tokens_N) // length
    num_rows = all_rows if limit is None else min(all_rows, limit)
    rows_B = np.arange(num_rows)
    start_B = rows_B * all_rows // num_rows * length
    return _cut(file, start_B, length, packing, step=0, rows_B=rows_B, num_rows=num_rows)


def _check(file: TokenFile, length: int, packing: str) -> None:
    if packing not in get_args(Packing):
        allowed = get_args(Packing)
        raise UsageError(f"packing must be {' or '.join(allowed)}", got=packing, fix=nearest(packing, allowed))
    if length < 1:
        raise UsageError("a row must have 1 token or more", got=length, fix="give for example 256")
    if len(file.tokens_N) < length:
        raise DataError(
            f"{file.name} must hold one row of {length:,} tokens",
            got=f"{len(file.tokens_N):,} tokens",
            fix="prepare more text, or shorten the rows",
        )


def _cut(
    file: TokenFile, start_B: Ids, length: int, packing: Packing, *, step: int, rows_B: Ids, num_rows: int
) -> Batch:
    position_BT = start_B[:, None] + np.arange(length)
    tokens_BT = file.tokens_N[position_BT].astype(np.int64)
    documents_BT = None
    if packing == "documents":  # counted from the row's first, which may have begun before the row
        document_BT = np.searchsorted(file.starts_D, position_BT, side="right")
        documents_BT = (document_BT - document_BT[:, :1]).astype(np.int32)
    maskable_BT = np.ones(tokens_BT.shape, dtype=np.bool_)
    return Batch(step, rows_B, num_rows, tokens_BT, maskable_BT, documents_BT)
