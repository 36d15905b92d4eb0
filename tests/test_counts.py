"""Counting n-grams against a counter that is short, slow and plain; whatever the parts, memory, threads and engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfmask.corpus import counts as counts_module
from halfmask.corpus import passes, spill
from halfmask.corpus.counts import BOUNDARY, NGramCounts, count_ngrams
from reference import refused

HIGHEST_ID = 2**31 - 1


def count_plainly(
    tokens: Sequence[int],
    *,
    max_order: int,
    min_count: int,
    blocks: Sequence[int],
    also_min_counts: Sequence[int] = (),
) -> NGramCounts:
    """The definitions, word for word."""
    orders = tuple(range(2, max_order + 1))
    counters = {
        order: Counter(
            gram
            for gram in (tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
            if BOUNDARY not in gram
        )
        for order in orders
    }
    starts = {  # of the occurrences of frequent n-grams
        order: [
            start
            for start in range(len(tokens) - order + 1)
            if counters[order].get(tuple(tokens[start : start + order]), 0) >= min_count
        ]
        for order in orders
    }
    unexplained = {
        order: [
            start
            for start in starts[order]
            # The two (n+1)-grams in which an occurrence of an n-gram can lie start with it or one place before it.
            if not {start - 1, start} & set(starts.get(order + 1, []))
        ]
        for order in orders
    }

    def by_block(of: dict[int, list[int]]) -> Any:
        return np.array(
            [[sum(lo <= start < hi for start in of[order]) for lo, hi in pairwise(blocks)] for order in orders]
        )

    def reaching(threshold: int) -> list[list[int]]:
        return [[count for count in counters[order].values() if count >= threshold] for order in orders]

    return NGramCounts(
        orders=orders,
        min_count=min_count,
        num_tokens=sum(token != BOUNDARY for token in tokens),
        occurrences_O=np.array([sum(each) for each in reaching(min_count)]),
        distinct_O=np.array([len(each) for each in reaching(min_count)]),
        unexplained_O=np.array([len(unexplained[order]) for order in orders]),
        occurrences_OK=by_block(starts),
        unexplained_OK=by_block(unexplained),
        occurrences_at={t: np.array([sum(each) for each in reaching(t)]) for t in also_min_counts if t > min_count},
        distinct_at={t: np.array([len(each) for each in reaching(t)]) for t in also_min_counts if t > min_count},
    )


def assert_same(ours: NGramCounts, theirs: NGramCounts) -> None:
    for each in fields(NGramCounts):
        left, right = getattr(ours, each.name), getattr(theirs, each.name)
        if isinstance(left, dict):
            assert left.keys() == right.keys(), each.name
            assert all(np.array_equal(left[key], right[key]) for key in left), each.name
        else:
            assert np.array_equal(left, right), (each.name, left, right)
            assert not isinstance(left, np.ndarray) or left.dtype == np.int64, each.name


@st.composite
def streams(draw: st.DrawFn) -> list[int]:
    """Documents of words and of a few phrases that come again and again; empty ones and bare boundaries too."""
    ids = draw(st.lists(st.integers(0, HIGHEST_ID) | st.integers(0, 5), min_size=1, max_size=6, unique=True))
    word = st.sampled_from(ids)
    phrases = draw(st.lists(st.lists(word, min_size=2, max_size=9), min_size=1, max_size=3))
    pieces = (
        st.sampled_from(phrases) | st.lists(word, max_size=4) | st.just([BOUNDARY]) | st.just([BOUNDARY, BOUNDARY])
    )
    return [token for piece in draw(st.lists(pieces, max_size=30)) for token in piece]


@st.composite
def blocks_of(draw: st.DrawFn, length: int) -> list[int]:
    return [0, *sorted(draw(st.lists(st.integers(0, length), max_size=5))), length]


WAYS = st.fixed_dictionaries(
    {
        "part_tokens": st.none() | st.integers(1, 40),
        "spills": st.booleans(),
        "merge_entries": st.sampled_from([1, 3, 1 << 22]),
        "chunk": st.sampled_from([1, 2, 7, 1 << 18]),
        "word_bits": st.sampled_from([0, 20, 63]),  # too few for most keys, for wide ids, for none
        "threads": st.integers(1, 3),
    }
)


def count_in(way: dict[str, Any], tokens: Sequence[int], **options: Any) -> NGramCounts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "SMALLEST_PART", 1 if way["spills"] else 1 << 16)
        patch.setattr(counts_module, "LARGEST_MERGE", way["merge_entries"])
        patch.setattr(passes, "CHUNK", way["chunk"])
        patch.setattr(passes, "WORD_BITS", way["word_bits"])
        patch.setattr(spill, "number_of_threads", lambda: way["threads"])
        memory = 1 if way["spills"] else 1 << 30
        return count_ngrams(np.array(tokens, dtype=np.int32), part_tokens=way["part_tokens"], memory=memory, **options)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_counts_are_those_of_the_plain_counter(data: st.DataObject) -> None:
    tokens = data.draw(streams())
    options = {
        "max_order": data.draw(st.integers(2, 8)),
        "min_count": data.draw(st.integers(1, 6)),
        "blocks": data.draw(blocks_of(len(tokens))),
    }
    options["also_min_counts"] = data.draw(st.lists(st.integers(options["min_count"], 12), max_size=3, unique=True))
    assert_same(count_in(data.draw(WAYS), tokens, **options), count_plainly(tokens, **options))


STREAM = np.random.default_rng(0).zipf(1.5, 3000).clip(max=50).astype(np.int32)
STREAM[::100] = BOUNDARY


def test_a_memory_map_is_counted_like_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", STREAM)
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    assert_same(count_ngrams(mapped, part_tokens=700), count_ngrams(STREAM))


def test_boundaries_decide_what_is_counted() -> None:
    joined = STREAM[STREAM != BOUNDARY]
    apart, together = count_ngrams(STREAM, min_count=1), count_ngrams(joined, min_count=1)
    assert apart.num_tokens == together.num_tokens == len(joined)
    num_documents = 30
    lost = [(num_documents - 1) * (order - 1) for order in apart.orders]  # n-grams that cross a boundary
    assert (together.occurrences_O - apart.occurrences_O).tolist() == lost


def test_progress_rises_to_its_total() -> None:
    seen: list[tuple[str, int, int]] = []
    count_ngrams(STREAM, max_order=3, part_tokens=1000, progress=lambda *each: seen.append(each))
    for order in (1, 2, 3):
        steps = [(done, total) for stage, done, total in seen if stage == f"order {order} of 3"]
        shares = [done / total for done, total in steps]
        assert shares == sorted(shares) and shares[-1] == 1 and shares[0] <= 1 / 3


@pytest.mark.parametrize("at", range(1, 30, 4))
def test_an_interrupt_at_any_pass_leaves_no_file(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "SMALLEST_PART", 1)
    num_calls = 0

    def interrupt(stage: str, done: int, total: int) -> None:
        nonlocal num_calls
        num_calls += 1
        assert any(tmp_path.rglob("*.npy"))
        if num_calls == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count_ngrams(STREAM, memory=1, part_tokens=1000, folder=tmp_path, progress=interrupt)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options, said",
    [
        ({"tokens": [1, 2]}, "tokens must be one row of int32 ids, got int64 of shape (2,)"),
        ({"tokens": np.zeros((2, 2), np.int32)}, "got int32 of shape (2, 2)"),
        ({"tokens": np.array([3, -2], np.int32)}, "token ids must be 0 or more, or -1 between documents, got -2"),
        ({"max_order": 1}, "the highest order must lie between 2 and 8, got 1"),
        ({"max_order": 9}, "the highest order must lie between 2 and 8, got 9"),
        ({"min_count": 0}, "the minimum count must be 1 or more, got 0"),
        ({"memory": -1}, "memory must be 0 bytes or more, got -1"),
        ({"part_tokens": 0}, "a part must have between 1 and 2**32 - 1 tokens, got 0"),
        ({"also_min_counts": [7, 4]}, "further minimum counts must be 5 or more, the minimum count, got 4"),
        ({"blocks": [0, 2000]}, "blocks must be token offsets that rise from 0 to the length of the stream"),
        ({"blocks": [0, 9, 3, 3000]}, "got [   0    9    3 3000]"),
        ({"blocks": [0.0, 3000.0]}, "got [   0. 3000.]"),
        ({"engine": "spark"}, "the engine must be local or ray, got spark"),
    ],
)
def test_what_cannot_be_counted(options: dict[str, Any], said: str) -> None:
    with refused(said):
        count_ngrams(**{"tokens": STREAM, **options})
