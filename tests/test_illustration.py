"""The illustration of identifiability: each row is of the regime it claims, and its last bit is the parity."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfmask.theory.illustration import VERDICTS, illustrate
from halfmask.theory.signal import Regime
from reference import refused, regime_of

tasks = st.integers(2, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))


@given(tasks, st.integers(0, 2**32))
def test_each_row_is_what_it_says(task: tuple[int, int], seed: int) -> None:
    n, k = task
    picture = illustrate(n, k, seed)
    assert picture.secret == tuple(sorted(set(picture.secret)))
    assert len(picture.secret) == k + 1 and picture.secret[0] >= 0 and picture.secret[-1] == n
    assert picture.verdicts == [VERDICTS[regime] for regime in VERDICTS] and set(VERDICTS) == set(Regime)
    for regime, bits, hidden in zip(VERDICTS, picture.bits, picture.hidden, strict=True):
        assert len(bits) == len(hidden) == n + 1 and set(bits) <= {0, 1}
        assert sum(bits[position] for position in picture.secret) % 2 == 0  # the parity bit is the sum of the others
        assert any(hidden)
        assert regime_of(tuple(hidden), picture.secret) == regime
    assert illustrate(n, k, seed) == picture


def test_seeds_differ_and_every_secret_set_can_come() -> None:
    pictures = [illustrate(4, 2, seed) for seed in range(200)]
    assert len({picture.secret for picture in pictures}) == 6
    signal_bits = {picture.hidden[0].index(True) for picture in pictures}
    assert signal_bits == {0, 1, 2, 3, 4}
    assert {sum(picture.hidden[1][j] for j in picture.secret) for picture in pictures} == {2, 3}


def test_the_record_holds_the_picture() -> None:
    picture = illustrate(4, 2, 0)
    record = json.loads(picture.record().to_json())
    assert [row["regime"] for row in record["rows"]] == ["identifiable", "under-determined", "non-informative"]
    assert [row["bits"] for row in record["rows"]] == picture.bits
    assert [row["hidden"] for row in record["rows"]] == picture.hidden
    assert record["settings"] == {"n": 4, "k": 2, "seed": 0, "secret": list(picture.secret)}


@pytest.mark.parametrize("n, k", [(4, 0), (4, 4), (4, 9), (4, -1)])
def test_a_task_needs_secret_bits_and_others(n: int, k: int) -> None:
    with refused("1 <= k < n"):
        illustrate(n, k, 0)
