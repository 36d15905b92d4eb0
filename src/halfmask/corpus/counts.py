"""Exact counts of the frequent n-grams of a token stream, of any length, in bounded memory.

An n-gram is frequent if it occurs at least `min_count` times. Orders 2 to `max_order` are counted by refinement: each
position carries the id of the frequent n-gram that starts there, and order n + 1 is counted from neighbouring ids of
order n, which loses nothing since prefix and suffix of a frequent n-gram are frequent. The stream is worked on in
parts, by the passes of `passes.py`; what does not fit the memory is kept in files by `spill.py`. The integers are the
same for every size of the parts, memory and engine.

What comes out feeds the mixture of Appendix "Why Does the Optimum Fall Near t ≈ 0.5?".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfmask.corpus.passes import (
    BOUNDARY,
    HIGHEST_ORDER,
    NONE,
    Ints,
    KeyRange,
    Level,
    Live,
    Merged,
    Part,
    assign,
    merge,
    propose,
)
from halfmask.corpus.spill import Engine, Shelf, number_of_threads, open_engine, open_shelf
from halfmask.errors import UsageError

__all__ = ["BOUNDARY", "HIGHEST_ORDER", "NGramCounts", "count_ngrams"]

# What counting holds at most, measured where nothing is rare and no n-gram comes twice; of text it is a quarter.
BYTES_PER_TOKEN = 72  # of a part, or of the stream where nothing is spilled
BYTES_PER_THREAD = 20 << 20
SMALLEST_PART = 1 << 16  # below this, files cost more than they save
LARGEST_PART = 1 << 24  # above this, key and position of wide vocabularies no longer fit a word
LARGEST_MERGE = 1 << 22  # entries

Returned = TypeVar("Returned")
Progress = Callable[[str, int, int], None]  # stage, done, total
NUM_PASSES = 3


@dataclass(frozen=True, eq=False)
class NGramCounts:
    """Letters: O orders, K blocks."""

    orders: tuple[int, ...]
    min_count: int
    num_tokens: int  # without the boundaries
    occurrences_O: Ints  # of frequent n-grams
    distinct_O: Ints  # frequent n-grams
    unexplained_O: Ints  # occurrences that lie in no occurrence of a frequent (n+1)-gram; of the top order, all
    occurrences_OK: Ints  # by the block in which the occurrence starts
    unexplained_OK: Ints
    occurrences_at: dict[int, Ints]  # higher minimum count → occurrences by order
    distinct_at: dict[int, Ints]


def count_ngrams(
    tokens: ArrayLike,
    *,
    max_order: int = 6,
    min_count: int = 5,
    also_min_counts: Sequence[int] = (),
    blocks: ArrayLike | None = None,
    memory: int = 4 << 30,
    part_tokens: int | None = None,
    folder: Path | None = None,
    engine: Literal["local", "ray"] = "local",
    progress: Progress | None = None,
) -> NGramCounts:
    """Count the frequent n-grams of `tokens`, int32 ids (an array or a memory map) with BOUNDARY between documents.

    `blocks` are the K + 1 edges of K blocks in tokens, from 0 to the length. `also_min_counts` are higher minimum
    counts whose totals come along. `memory` is what one worker may hold, in bytes; a stream that needs more, and any
    count by Ray, spills to a fresh subfolder of `folder` (all machines of a Ray cluster must see it), which is removed
    in the end. `part_tokens` overrides the size of the parts that follows from `memory`.
    """
    tokens_T, num_tokens, highest_id = _check_tokens(tokens)
    edges_K = _check_blocks(blocks, len(tokens_T))
    thresholds = _check_numbers(max_order, min_count, also_min_counts, memory, part_tokens)
    fitting = max((memory - number_of_threads() * BYTES_PER_THREAD) // BYTES_PER_TOKEN, SMALLEST_PART)
    in_memory = engine == "local" and len(tokens_T) <= fitting
    parts = _cut(edges_K, len(tokens_T), part_tokens or min(fitting, LARGEST_PART))

    occurrences_OK = np.zeros((max_order, len(edges_K) - 1), dtype=np.int64)  # from order 1
    ends_OK = np.zeros_like(occurrences_OK)
    occurrences_OM = np.zeros((max_order, len(thresholds)), dtype=np.int64)
    distinct_OM = np.zeros_like(occurrences_OM)
    with open_shelf(in_memory, folder) as shelf, open_engine(engine) as workers:
        counting = _Counting(shelf, workers, parts, min(fitting, LARGEST_MERGE), max_order, progress)
        for part in parts:
            part_T = tokens_T[part.start : part.start + part.size]
            shelf.put(f"ids-0-{part.number}", id=part_T.view(np.uint32))
        num_frequent, vocabulary, space = num_tokens, 0, highest_id + 1
        for row in range(max_order):
            if not num_frequent:
                break
            level = Level(row + 1, thresholds, len(parts), vocabulary, space, 4 * space <= parts[0].size)
            merged, lives = counting.one_order_up(level)
            occurrences_OK[row], ends_OK[row] = _by_block(parts, edges_K, lives)
            occurrences_OM[row] = np.sum([each.occurrences_M for each in merged], axis=0)
            distinct_OM[row] = np.sum([each.distinct_M for each in merged], axis=0)
            num_frequent = int(distinct_OM[row, 0])
            vocabulary = vocabulary or num_frequent
            space = num_frequent * vocabulary
    assert (occurrences_OK.sum(axis=1) == occurrences_OM[:, 0]).all(), "positions and counts must agree"

    # The position p of a frequent n-gram is explained if a frequent (n+1)-gram starts at p, or at p - 1 and not at p.
    unexplained_OK = occurrences_OK.copy()
    unexplained_OK[:-1] -= occurrences_OK[1:] + ends_OK[1:]
    return NGramCounts(
        orders=tuple(range(2, max_order + 1)),
        min_count=min_count,
        num_tokens=num_tokens,
        occurrences_O=occurrences_OM[1:, 0],
        distinct_O=distinct_OM[1:, 0],
        unexplained_O=unexplained_OK[1:].sum(axis=1),
        occurrences_OK=occurrences_OK[1:],
        unexplained_OK=unexplained_OK[1:],
        occurrences_at={threshold: occurrences_OM[1:, m] for m, threshold in enumerate(thresholds) if m > 0},
        distinct_at={threshold: distinct_OM[1:, m] for m, threshold in enumerate(thresholds) if m > 0},
    )


def _cut(edges_K: Ints, length: int, part_tokens: int) -> list[Part]:
    """Parts of nearly the same size, `part_tokens` at most, the first the largest."""
    num_parts = -(-length // part_tokens)
    cuts = [length - length * (num_parts - number) // num_parts for number in range(num_parts + 1)] if length else [0]
    behind = np.full(1, NONE)  # of single tokens, nothing reaches out of a part
    return [
        Part(number, lo, hi - lo, np.clip(edges_K - lo, 0, hi - lo), behind)
        for number, (lo, hi) in enumerate(pairwise(cuts))
    ]


@dataclass
class _Counting:
    """The passes over all parts and ranges of keys."""

    shelf: Shelf
    engine: Engine
    parts: list[Part]
    merge_entries: int
    max_order: int
    progress: Progress | None

    def one_order_up(self, level: Level) -> tuple[list[Merged], list[Live]]:
        shelf, parts, order = self.shelf, self.parts, level.order
        proposals = [(shelf, level, part) for part in parts]
        entries = sum(self._run(level, 0, propose, proposals))
        ranges = self._ranges(level, entries)
        merged = self._run(level, 1, merge, [(shelf, level, keys_in) for keys_in in ranges])
        first_ids = np.cumsum([0, *(each.distinct_M[0] for each in merged)]).tolist()
        assert first_ids.pop() <= NONE, "ids must fit 32 bits"

        def forget(number: int) -> None:
            shelf.drop(f"run-{order}-{number}")
            if order != 2:  # the ids of single tokens are needed to the end
                shelf.drop(f"ids-{order - 1}-{number}")

        lives = self._run(level, 2, assign, [(*job, first_ids) for job in proposals], forget)
        for number in range(len(ranges)):
            shelf.drop(f"merged-{order}-{number}")
        if order == 1:
            heads = np.concatenate([*(live.head for live in lives), np.full(HIGHEST_ORDER, NONE)])
            starts = np.cumsum([len(live.head) for live in lives])
            tails = [heads[start : start + HIGHEST_ORDER - 1] for start in starts]
            self.parts = [replace(part, tail=tail) for part, tail in zip(parts, tails, strict=True)]
        return merged, lives

    def _run(
        self,
        level: Level,
        num_before: int,  # passes of this order
        work: Callable[..., Returned],
        jobs: Sequence[tuple[Any, ...]],
        forget: Callable[[int], None] = lambda _: None,
    ) -> list[Returned]:
        def done(number: int) -> None:
            forget(number)
            if self.progress is not None:
                num_done = num_before * len(jobs) + number + 1
                self.progress(f"order {level.order} of {self.max_order}", num_done, NUM_PASSES * len(jobs))

        return self.engine.run(work, jobs, done)

    def _ranges(self, level: Level, entries: int) -> list[KeyRange]:
        """Ranges of keys with about `merge_entries` entries of all runs in each, or fewer."""
        edges = [0, level.space]
        num_ranges = -(-entries // self.merge_entries) if level.num_parts > 1 else 1
        if num_ranges > 1:
            step = max(1, entries // (64 * num_ranges))  # every sampled key stands for as many entries
            runs = [self.shelf.get(f"run-{level.order}-{part.number}", "key")[0] for part in self.parts]
            sample = np.sort(np.concatenate([run[::step] for run in runs]))
            inner = sample[np.arange(1, num_ranges) * len(sample) // num_ranges]
            edges[1:1] = np.unique(inner[inner > 0]).tolist()
        return [KeyRange(number, lo, hi) for number, (lo, hi) in enumerate(pairwise(edges))]


def _by_block(parts: list[Part], edges_K: Ints, lives: list[Live]) -> tuple[Ints, Ints]:
    """Live positions and ends by block in the whole stream: the parts' own, and the ends at the start of a part."""
    occurrences_K = np.sum([live.occurrences_K for live in lives], axis=0)
    ends_K = np.sum([live.ends_K for live in lives], axis=0)
    for (_, left), (part, right) in pairwise(zip(parts, lives, strict=True)):
        if left.last != NONE and right.head[0] == NONE:
            ends_K[np.searchsorted(edges_K, part.start, side="right") - 1] += 1
    return occurrences_K, ends_K


def _check_tokens(tokens: ArrayLike) -> tuple[NDArray[np.int32], int, int]:
    """The stream, how many tokens it has, and the highest id."""
    tokens_T = np.asarray(tokens)
    if tokens_T.dtype != np.int32 or tokens_T.ndim != 1:
        raise UsageError(
            "tokens must be one row of int32 ids",
            got=f"{tokens_T.dtype} of shape {tokens_T.shape}",
            fix="join the documents with BOUNDARY between them: np.asarray(ids, dtype=np.int32)",
        )
    num_tokens, highest_id = 0, BOUNDARY
    for start in range(0, len(tokens_T), LARGEST_PART):
        part_T = tokens_T[start : start + LARGEST_PART]
        if (lowest := int(part_T.min())) < BOUNDARY:
            raise UsageError(
                f"token ids must be 0 or more, or {BOUNDARY} between documents", got=lowest, fix="check the tokenizer"
            )
        num_tokens += int(np.count_nonzero(part_T != BOUNDARY))
        highest_id = max(highest_id, int(part_T.max()))
    return tokens_T, num_tokens, highest_id


def _check_blocks(blocks: ArrayLike | None, length: int) -> Ints:
    edges_K = np.array([0, length]) if blocks is None else np.asarray(blocks)
    if (
        edges_K.ndim != 1
        or len(edges_K) < 2
        or not np.issubdtype(edges_K.dtype, np.integer)
        or edges_K[0] != 0
        or edges_K[-1] != length
        or (edges_K[1:] < edges_K[:-1]).any()
    ):
        raise UsageError(
            f"blocks must be token offsets that rise from 0 to the length of the stream, here {length}",
            got=np.array2string(edges_K, threshold=6),
            fix="give the edges of the blocks, one more than there are blocks",
        )
    return edges_K.astype(np.int64)


def _check_numbers(
    max_order: int, min_count: int, also_min_counts: Sequence[int], memory: int, part_tokens: int | None
) -> list[int]:
    """The minimum counts, lowest first."""
    if not 2 <= max_order <= HIGHEST_ORDER:
        raise UsageError(
            f"the highest order must lie between 2 and {HIGHEST_ORDER}", got=max_order, fix="the paper takes 6"
        )
    if min_count < 1:
        raise UsageError("the minimum count must be 1 or more", got=min_count, fix="the paper takes 5")
    if memory < 0:
        raise UsageError("memory must be 0 bytes or more", got=memory, fix="give for example 4 << 30")
    if part_tokens is not None and not 1 <= part_tokens < 1 << 32:
        raise UsageError(
            "a part must have between 1 and 2**32 - 1 tokens", got=part_tokens, fix="leave it out to let memory decide"
        )
    if too_low := [each for each in also_min_counts if each < min_count]:
        raise UsageError(
            f"further minimum counts must be {min_count} or more, the minimum count",
            got=too_low[0],
            fix=f"count with min_count={min(too_low)}",
        )
    return [min_count, *sorted(set(also_min_counts) - {min_count})]
