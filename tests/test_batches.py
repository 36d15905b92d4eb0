"""Rows of a step: a function of (seed, step), an epoch without repeats, documents kept apart where asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from halfmask.data.batches import Batches, held_out_rows
from halfmask.data.tokens import TokenFile
from halfmask.errors import DataError, UsageError


def token_file(num_tokens: int, starts: tuple[int, ...] = (0,)) -> TokenFile:
    """Every token is its place, so that a row says where it was cut."""
    return TokenFile("tokens (train)", np.arange(num_tokens, dtype="<u4"), np.array(starts, dtype="<i8"))


sizes = st.tuples(st.integers(1, 150), st.integers(1, 40)).filter(lambda size: size[0] >= size[1])
seeds = st.integers(0, 2**63)


def first_tokens(batches: Batches, steps: range) -> list[int]:
    return [int(row[0]) for step in steps for row in batches.at(step).tokens_BT]


@settings(max_examples=40)
@given(sizes, st.integers(1, 60), seeds)
def test_an_epoch_is_a_permutation_of_rows_that_do_not_overlap(
    size: tuple[int, int], num_rows: int, seed: int
) -> None:
    num_tokens, length = size
    batches = Batches(token_file(num_tokens), length, num_rows, seed)
    per_epoch = batches.rows_per_epoch
    starts = first_tokens(batches, range(-(-2 * per_epoch // num_rows)))
    for epoch in (starts[:per_epoch], starts[per_epoch : 2 * per_epoch]):
        ordered = sorted(epoch)
        assert all(later - earlier == length for earlier, later in itertools.pairwise(ordered))
        assert ordered[0] >= 0 and ordered[-1] + length <= num_tokens
        assert num_tokens - length * per_epoch < 2 * length  # what an epoch leaves out is less than two rows


@given(sizes, st.integers(1, 9), seeds, st.integers(0, 10**6), st.data())
def test_some_rows_are_those_of_the_whole_step(
    size: tuple[int, int], num_rows: int, seed: int, step: int, data: st.DataObject
) -> None:
    batches = Batches(token_file(*size[:1], starts=(0, size[0] // 2)), size[1], num_rows, seed, "documents")
    some = data.draw(st.lists(st.integers(0, num_rows - 1), max_size=5))
    whole, part = batches.at(step), batches.at(step, some)
    assert whole.rows_B.tolist() == list(range(num_rows)) and part.rows_B.tolist() == some
    assert (whole.num_rows, part.num_rows, part.step) == (num_rows, num_rows, step)
    assert np.array_equal(whole.tokens_BT[some], part.tokens_BT)
    assert whole.documents_BT is not None and part.documents_BT is not None
    assert np.array_equal(whole.documents_BT[some], part.documents_BT)
    assert part.maskable_BT.all() and part.tokens_BT.dtype == np.int64


def test_the_line_of_rows_does_not_depend_on_the_size_of_a_step() -> None:
    file = token_file(1000)
    one, seven = Batches(file, 8, 1, seed=3), Batches(file, 8, 7, seed=3)
    assert first_tokens(one, range(350)) == first_tokens(seven, range(50))


def test_epochs_and_seeds_differ() -> None:
    batches = Batches(token_file(10_007), 10, 20, seed=0)
    steps = -(-batches.rows_per_epoch // 20)
    orders = [
        first_tokens(batches, range(steps))[:900],
        first_tokens(batches, range(steps, 2 * steps))[:900],
        first_tokens(Batches(token_file(10_007), 10, 20, seed=1), range(steps))[:900],
    ]
    offsets = {order[0] % 10 for order in orders}
    assert len(offsets) > 1  # an epoch cuts rows of its own
    for a, b in itertools.combinations(orders, 2):
        assert np.mean(np.array(a) // 10 == np.array(b) // 10) < 0.02


def test_rows_of_a_step_never_change() -> None:
    """A resumed run would see other rows."""
    batches = Batches(token_file(1000), 8, 4, seed=2026)
    assert first_tokens(batches, range(3)) == [434, 98, 642, 82, 250, 194, 866, 714, 986, 26, 370, 202]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(1, 40), seeds)
def test_documents_are_told_apart(lengths: list[int], length: int, seed: int) -> None:
    num_tokens = sum(lengths)
    assume(num_tokens >= length)
    starts = tuple(np.cumsum([0, *lengths[:-1]]).tolist())
    document_N = np.repeat(np.arange(len(lengths)), lengths)
    batch = Batches(token_file(num_tokens, starts), length, 3, seed, "documents").at(1)
    assert batch.documents_BT is not None
    wanted_BT = document_N[batch.tokens_BT]
    assert np.array_equal(batch.documents_BT, wanted_BT - wanted_BT[:, :1])
    plain = Batches(token_file(num_tokens, starts), length, 3, seed).at(1)
    assert plain.documents_BT is None and np.array_equal(plain.tokens_BT, batch.tokens_BT)


# Held-out rows


@given(sizes, st.one_of(st.none(), st.integers(1, 50)))
def test_held_out_rows_are_spread_over_the_file(size: tuple[int, int], limit: int | None) -> None:
    num_tokens, length = size
    batch = held_out_rows(token_file(num_tokens), length=length, limit=limit)
    place_B, rest_B = np.divmod(batch.tokens_BT[:, 0], length)
    all_rows = num_tokens // length
    num_rows = all_rows if limit is None else min(limit, all_rows)
    assert not rest_B.any() and batch.rows_B.tolist() == list(range(num_rows)) and batch.num_rows == num_rows
    assert place_B[0] == 0 and place_B[-1] < all_rows
    gaps = np.diff([*place_B, all_rows])
    assert gaps.min() >= 1 and gaps.max() - gaps.min() <= 1


def test_all_held_out_rows_are_the_file() -> None:
    batch = held_out_rows(token_file(25, (0, 7)), length=8, packing="documents")
    assert batch.tokens_BT.ravel().tolist() == list(range(24))
    assert batch.documents_BT is not None
    assert batch.documents_BT.sum(axis=1).tolist() == [1, 0, 0]


# Mistakes


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"num_rows": 0}, "a step must have 1 row or more, got 0: give for example 32"),
        ({"length": 0}, "a row must have 1 token or more, got 0: give for example 256"),
        ({"packing": "document"}, "packing must be concatenate or documents, got document: did you mean documents?"),
        ({"length": 26}, "tokens (train) must hold one row of 26 tokens, got 25 tokens: prepare more text"),
    ],
)
def test_a_mistake_has_its_line(changes: dict[str, object], said: str) -> None:
    settings: dict[str, object] = {"length": 5, "num_rows": 2, "seed": 0, **changes}
    with pytest.raises((UsageError, DataError)) as caught:
        Batches(token_file(25), **settings)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_mistakes_of_an_evaluation() -> None:
    with pytest.raises(UsageError, match="an evaluation needs 1 row or more, got 0"):
        held_out_rows(token_file(25), length=5, limit=0)
    with pytest.raises(DataError, match="must hold one row of 26 tokens"):
        held_out_rows(token_file(25), length=26)


@pytest.mark.parametrize("rows", [[2], [-1]])
def test_a_row_outside_the_step_is_our_own_mistake(rows: list[int]) -> None:
    with pytest.raises(AssertionError):
        Batches(token_file(25), 5, 2, 0).at(0, rows)
