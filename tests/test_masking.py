"""Schedules, ratios and hiding: what is drawn, that it is a function of its place, and that it is unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfmask.errors import UsageError
from halfmask.laws import MaskLaw, Point, Window
from halfmask.masking.corrupt import Batch, Masking, corrupt, hide_exactly, ratios_of, weights_of
from halfmask.masking.schedules import Always, Moving, Stages, parse_schedule
from halfmask.noise import Noise
from strategies import LAWS, laws

MASK = 99


def batch_of(num_rows: int, length: int = 12, step: int = 3, rows: list[int] | None = None) -> Batch:
    rows_B = np.arange(num_rows) if rows is None else np.array(rows)
    tokens_BT = (rows_B[:, None] * 7 + np.arange(length)) % 90
    return Batch(step, rows_B, num_rows, tokens_BT, np.ones(tokens_BT.shape, dtype=bool))


# Schedules


@pytest.mark.parametrize(
    "text, at",
    [
        ("0-1", {0: "0-1", 10_000: "0-1"}),
        ("0.45-0.55 until 10 then 0-1", {0: "0.45-0.55", 9: "0.45-0.55", 10: "0-1", 99: "0-1"}),
        ("0.5 until 2 then 0.2 until 5 then beta(2,2)", {1: "0.5", 2: "0.2", 4: "0.2", 5: "beta(2,2)"}),
        ("0.4-0.6 to 0-1 over 4", {0: "0.4-0.6", 2: "0.2-0.8", 4: "0-1", 400: "0-1"}),
        ("0.5 to 0-1 over 2", {0: "0.5", 1: "0.25-0.75", 2: "0-1"}),
        (
            "0.1-0.2 until 10 then 0.2-0.3 to 0.4-0.5 over 2 until 20 then 0-1",
            {9: "0.1-0.2", 11: "0.3-0.4", 20: "0-1"},
        ),
    ],
)
def test_a_schedule_names_the_law_of_a_step(text: str, at: dict[int, str]) -> None:
    schedule = parse_schedule(text)
    assert str(schedule) == text
    assert parse_schedule(str(schedule)) == schedule
    for step, expected in at.items():
        low, high = schedule.at(step).support
        want = parse_schedule(expected).at(0)
        assert (low, high) == pytest.approx(want.support)
        assert type(schedule.at(step)) is type(want)


@given(laws)
def test_any_law_is_a_schedule_that_stays(law: MaskLaw) -> None:
    assert parse_schedule(str(law)) == Always(law)


@pytest.mark.parametrize(
    "text, said",
    [
        ("0-1 then 0.5", "needs `until STEP`"),
        ("0-1 until 5 then 0.5 until 3 then 0.1", "must rise"),
        ("0-1 until 0 then 0.5", "must rise"),
        ("beta(2,2) to 0-1 over 5", "only windows and points can move"),
        ("0-1 to 0.5 over 0", "over 1 step or more"),
        ("0.6-0.3 until 5 then 0-1", "swap the two ends"),
        ("predicted:nowhere.json", "could not be read"),
    ],
)
def test_a_broken_schedule_is_refused(text: str, said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        parse_schedule(text)
    assert "got" in str(caught.value)


def test_moving_and_stages_can_be_built_by_hand() -> None:
    by_hand = Stages((Moving(Window(0.4, 0.6), Window(0, 1), 4), Always(Point(0.3))), (8,))
    assert parse_schedule(str(by_hand)) == by_hand


# Ratios


@pytest.mark.parametrize("num_rows", [1, 2, 5, 8, 32, 100])
@pytest.mark.parametrize("law", LAWS[:20:3], ids=str)
def test_a_stratified_batch_holds_one_ratio_of_each_stratum(law: MaskLaw, num_rows: int) -> None:
    for step in range(3):
        ratio_B = ratios_of(law, Noise(1), batch_of(num_rows, step=step))
        shift = Noise(1).number("ratios", step)
        assert np.array_equal(np.sort(ratio_B), np.sort(law.stratified(num_rows, shift)))


def test_consecutive_rows_come_from_all_over_the_law() -> None:
    """So that every accumulation step and every process of a batch sees a mean ratio near the law's."""
    ratio_B = ratios_of(Window(0, 1), Noise(0), batch_of(64))
    assert np.all(np.abs(ratio_B.reshape(8, 8).mean(axis=1) - 0.5) < 0.1)
    assert np.all(np.abs(ratio_B.reshape(8, 8).mean(axis=0) - 0.5) < 0.1)


@pytest.mark.parametrize("draws", ["stratified", "independent"])
def test_some_rows_get_what_they_get_among_all(draws: str) -> None:
    whole = ratios_of(Window(0, 1), Noise(5), batch_of(32), draws)  # type: ignore[arg-type]
    some = ratios_of(Window(0, 1), Noise(5), batch_of(32, rows=[3, 30, 7]), draws)  # type: ignore[arg-type]
    assert np.array_equal(some, whole[[3, 30, 7]])


def test_independent_ratios_have_the_laws_moments() -> None:
    law = Window(0.2, 0.8)
    ratio = ratios_of(law, Noise(2), batch_of(40_000), "independent")
    assert ratio.mean() == pytest.approx(law.mean, abs=4 * np.sqrt(law.variance / 40_000))
    assert ratio.var() == pytest.approx(law.variance, rel=0.03)


# Hiding


@pytest.mark.parametrize("hiding", ["coins", "exact"])
@pytest.mark.parametrize("ratio", [0.0, 0.04, 0.3, 0.5, 0.97, 1.0])
def test_every_maskable_token_is_hidden_with_the_ratio(hiding: str, ratio: float) -> None:
    num_rows, length = 20_000, 5
    batch = batch_of(num_rows, length)
    batch.maskable_BT[:, 1] = False
    noisy = corrupt(
        batch,
        np.full(num_rows, ratio),
        Noise(0),
        mask_id=MASK,
        weight_B=np.ones(num_rows),
        hiding=hiding,  # type: ignore[arg-type]
    )
    share_T = noisy.hidden_BT.mean(axis=0)
    assert share_T[1] == 0
    error = np.sqrt(ratio * (1 - ratio) / num_rows)
    assert share_T[[0, 2, 3, 4]] == pytest.approx(ratio, abs=4.5 * error)
    if hiding == "exact":
        count_B = noisy.hidden_BT.sum(axis=1)
        assert set(np.unique(count_B)) <= {np.floor(4 * ratio), np.ceil(4 * ratio)}


def test_what_is_hidden_can_be_put_back() -> None:
    batch = batch_of(16)
    noisy = Masking(parse_schedule("0-1")).noisy(batch, Noise(4), MASK)
    assert np.all(noisy.tokens_BT[noisy.hidden_BT] == MASK)
    assert np.array_equal(noisy.tokens_BT[~noisy.hidden_BT], batch.tokens_BT[~noisy.hidden_BT])
    restored = noisy.tokens_BT.reshape(-1).copy()
    restored[noisy.position_N] = noisy.target_N
    assert np.array_equal(restored.reshape(batch.tokens_BT.shape), batch.tokens_BT)
    assert noisy.num_maskable == batch.tokens_BT.size


@pytest.mark.parametrize("hiding", ["coins", "exact"])
def test_hiding_is_a_function_of_seed_step_and_row(hiding: str) -> None:
    masking = Masking(parse_schedule("0.3-0.7"), hiding=hiding)  # type: ignore[arg-type]
    whole = masking.noisy(batch_of(32), Noise(5), MASK)
    some = masking.noisy(batch_of(32, rows=[4, 9, 31]), Noise(5), MASK)
    assert np.array_equal(some.hidden_BT, whole.hidden_BT[[4, 9, 31]])
    assert np.array_equal(some.weight_B, whole.weight_B[[4, 9, 31]])
    for other in (masking.noisy(batch_of(32, step=4), Noise(5), MASK), masking.noisy(batch_of(32), Noise(6), MASK)):
        assert not np.array_equal(other.hidden_BT, whole.hidden_BT)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 10**6), st.data())
def test_exact_hiding_takes_the_smallest_numbers(rows: int, length: int, seed: int, data: st.DataObject) -> None:
    uniform = Noise(seed).uniform("hiding", 0, np.arange(rows), length)
    maskable = np.array(data.draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length)))
    maskable = maskable.reshape(rows, length)
    wanted = np.array([data.draw(st.integers(0, int(each.sum()))) for each in maskable])
    hidden = hide_exactly(wanted, uniform, maskable)
    assert np.array_equal(hidden.sum(axis=1), wanted)
    for row in range(rows):
        chosen = sorted(uniform[row][hidden[row]])
        assert chosen == sorted(uniform[row][maskable[row]])[: wanted[row]]


# Weights


def test_weights() -> None:
    t = np.array([0.0, 0.25, 0.5, 1.0])
    uniform, window = Window(0, 1), Window(0.25, 0.75)
    assert weights_of("1/t", uniform, t).tolist() == [0, 4, 2, 1]
    assert weights_of("elbo", uniform, t).tolist() == [0, 4, 2, 1]
    assert weights_of("elbo", window, t[1:3]).tolist() == [2, 1]  # the window holds half of the interval
    assert weights_of("flat", window, t).tolist() == [2, 2, 2, 2]
    assert weights_of("flat", Point(0), t).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Masking(parse_schedule("0-1"), weight="2/t"), "weight must be 1/t or elbo or flat, got 2/t"),  # type: ignore[arg-type]
        (lambda: Masking(parse_schedule("0-1"), draws="strat"), "did you mean stratified"),  # type: ignore[arg-type]
        (lambda: Masking(parse_schedule("0-1"), hiding="coin"), "did you mean coins"),  # type: ignore[arg-type]
        (lambda: Masking(parse_schedule("0.3"), weight="elbo"), "needs a law with a density"),
    ],
)
def test_a_wrong_choice_is_refused(make: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()  # type: ignore[operator]
