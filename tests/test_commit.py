"""Every commit rule keeps one contract and chooses what it says; canvases and strategies refuse nonsense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfmask.decoding.canvas import Canvas, split_holes
from halfmask.decoding.commit import Best, CommitRule, Factor, Threshold, parse_rule
from halfmask.decoding.strategy import Strategy
from halfmask.errors import UsageError

RULES = ["confidence", "margin", "entropy", "random", "threshold:0.9", "threshold:0.3", "factor:1", "factor:0.25"]
each_rule = pytest.mark.parametrize("text", RULES)
scores = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)
budgets = st.integers(1, 14)


def test_every_rule_is_tested() -> None:
    assert {type(parse_rule(text)) for text in RULES} == set(CommitRule.__subclasses__())


@each_rule
@given(score_N=scores, budget=budgets)
def test_a_rule_commits_its_budget_and_the_best(text: str, score_N: np.ndarray, budget: int) -> None:
    rule = parse_rule(text)
    chosen_N = rule.choose(score_N, budget)
    assert chosen_N.shape == score_N.shape and chosen_N.dtype == np.bool_
    assert chosen_N.sum() >= min(budget, len(score_N))
    if isinstance(rule, Best):
        assert chosen_N.sum() == min(budget, len(score_N))
    if not chosen_N.all():
        assert score_N[chosen_N].min() >= score_N[~chosen_N].max()


@each_rule
@given(score_N=scores, budget=budgets)
def test_where_a_proposal_stands_does_not_matter(text: str, score_N: np.ndarray, budget: int) -> None:
    score_N = np.unique(score_N)  # equals go by their place
    rule = parse_rule(text)
    assert np.array_equal(rule.choose(score_N, budget)[::-1], rule.choose(score_N[::-1], budget))


@each_rule
def test_a_rule_prints_as_its_text(text: str) -> None:
    assert str(parse_rule(text)) == text


def test_of_equals_the_leftmost_comes_first() -> None:
    assert parse_rule("confidence").choose(np.array([0.5, 0.7, 0.7, 0.5]), 3).tolist() == [True, True, True, False]


@given(score_N=scores, budget=budgets, least=st.floats(0.01, 1))
def test_threshold_takes_all_that_reach_it(score_N: np.ndarray, budget: int, least: float) -> None:
    assert Threshold(least).choose(score_N, budget).sum() == max(min(budget, len(score_N)), (score_N >= least).sum())


@given(score_N=scores, budget=budgets, factor=st.floats(0.01, 4))
def test_factor_against_its_definition(score_N: np.ndarray, budget: int, factor: float) -> None:
    best_first = sorted(score_N, reverse=True)
    fine = [n for n in range(1, len(best_first) + 1) if (n + 1) * (1 - best_first[n - 1]) < factor]
    assert Factor(factor).choose(score_N, budget).sum() == max(min(budget, len(score_N)), max(fine, default=0))


@pytest.mark.parametrize(
    "text, said",
    [
        ("confidance", "did you mean confidence?"),
        ("threshold", "takes a number, got threshold: write threshold:0.9"),
        ("threshold:high", "takes a number"),
        ("threshold:0", r"must lie in \(0, 1\], got 0.0"),
        ("threshold:1.1", r"must lie in \(0, 1\]"),
        ("threshold:nan", r"must lie in \(0, 1\]"),
        ("factor:0", "a positive number, got 0.0"),
        ("factor:inf", "a positive number"),
        ("margin:0.5", "takes no number, got margin:0.5: write margin"),
    ],
)
def test_rules_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_rule(text)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"steps": 0}, "steps must be 1 or more, got 0"),
        ({"tokens": 0}, "tokens of a step must be 1 or more"),
        ({"steps": 8, "tokens": 2}, "got both: leave one out"),
        ({"block": 0}, "block must be 1 or more"),
        ({"refresh": 0}, "refresh must be 1 or more"),
        ({"temperature": -1.0}, "temperature must be 0 or more"),
        ({"temperature": float("nan")}, "temperature must be 0 or more"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\]"),
        ({"guidance": -0.5}, "guidance must be 0 or more"),
        ({"remask": 1.5}, r"remask must lie in \[0, 1\]"),
        ({"cache": "duel"}, "did you mean dual?"),
        ({"alternatives": -1}, "alternatives must be 0 or more"),
    ],
)
def test_strategies_that_cannot_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Strategy(**given)  # type: ignore[arg-type]


def test_a_continuation_has_an_open_end_and_an_infilling_has_none() -> None:
    canvas = Canvas.continuation([7, 8], 3)
    assert canvas.hidden_T.tolist() == [False, False, True, True, True]
    assert (canvas.open_from, canvas.num_holes) == (2, 3)
    assert Canvas.continuation([], 3).open_from == 0
    canvas = Canvas.with_holes([2, [7, 8], 1, [9], 1])
    assert canvas.hidden_T.tolist() == [True, True, False, False, True, False, True]
    assert canvas.tokens_T[~canvas.hidden_T].tolist() == [7, 8, 9]
    assert canvas.open_from == len(canvas.tokens_T)


def test_holes_are_read_from_text() -> None:
    assert split_holes("[mask]The [mask:3] sat[mask:2][mask]") == [1, "The ", 3, " sat", 2, 1]


@pytest.mark.parametrize("text", ["no hole", "[mask:0]", "[mask:]", "[mask:-2]", "[mask:two]", "[MASK]"])
def test_holes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="a hole"):
        split_holes(text)


def test_canvases_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="1 token or more, got 0"):
        Canvas.continuation([1], 0)
    with pytest.raises(UsageError, match="must have a hole"):
        Canvas.with_holes([[1, 2]])
    with pytest.raises(UsageError, match="one mark for each"):
        Canvas(np.array([1, 2]), np.array([True]))
