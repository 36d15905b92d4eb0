"""From a profile to a window: t* by the theory's own search, the interval by another estimate, the tables by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfmask.corpus.predict import predict
from halfmask.corpus.profile import WEIGHTINGS, NGramProfile, Variant
from halfmask.errors import DataError
from halfmask.laws import Window
from halfmask.records import Record, plain
from halfmask.theory.mixture import FORMS, optimal_ratio
from reference import refused

PAPER = (972_996, 270_322, 52_545, 11_004, 3_155)  # occurrences of orders 2 to 6 in WikiText-2


def make_profile(occurrences: tuple[int, ...] = PAPER, **changes: Any) -> NGramProfile:
    """One of a single block, in which every n-gram comes ten times and half of the occurrences are unexplained."""
    counts = {
        "occurrences": occurrences,
        "distinct": tuple(-(-each // 10) for each in occurrences),
        "unexplained": tuple(-(-each // 2) for each in occurrences),
    }
    blocks = {"occurrences_OK": tuple((each,) for each in occurrences)}
    blocks["unexplained_OK"] = tuple((each,) for each in counts["unexplained"])
    top = len(occurrences) + 1
    settings = {"min_count": 5, "max_order": top, "num_tokens": 1_750_345, "num_documents": 1}
    return NGramProfile(**{"orders": tuple(range(2, top + 1)), **counts, **blocks, **settings, **changes})


def with_blocks(blocks_OK: np.ndarray) -> NGramProfile:
    totals = tuple(blocks_OK.sum(axis=1).tolist())
    blocks = tuple(map(tuple, blocks_OK.tolist()))
    return replace(make_profile(totals), occurrences_OK=blocks, unexplained_OK=blocks)


counts = st.lists(st.integers(0, 10**9), min_size=1, max_size=7).filter(any).map(tuple)


@given(counts, st.sampled_from(WEIGHTINGS))
def test_the_ratio_is_that_of_the_theory(occurrences: tuple[int, ...], weighting: Any) -> None:
    """In every form, to what tables show. Where two humps are as high, either may win."""
    profile = make_profile(occurrences)
    prediction = predict(profile, weighting=weighting)
    weights = profile.weights(weighting)
    assert prediction.weights == weights
    for form, options in FORMS.items():
        assert abs(prediction.forms[form] - optimal_ratio(weights, **options)) < 1e-5
    assert prediction.ratio == prediction.forms["linear"]


def test_the_numbers_of_the_paper() -> None:
    prediction = predict(make_profile())
    assert [round(weight, 4) for weight in prediction.weights.values()] == [0.7427, 0.2063, 0.0401, 0.0084, 0.0024]
    assert [round(each, 3) for each in prediction.forms.values()] == [0.463, 0.445, 0.481, 0.457]
    assert prediction.window == Window(0.41, 0.51)
    assert str(prediction) == "window 0.41-0.51; t* = 0.463"


@given(counts, st.floats(1e-6, 1))
def test_the_window_has_its_width_and_holds_the_ratio(occurrences: tuple[int, ...], width: float) -> None:
    prediction = predict(make_profile(occurrences), width=width)
    lo, hi = prediction.window.lo, prediction.window.hi
    assert 0 <= lo < hi <= 1
    assert abs(hi - lo - width) < 0.02 * width
    assert lo - 0.01 * width <= prediction.ratio <= hi + 0.01 * width
    if lo > 0 and hi < 1:
        assert abs((lo + hi) / 2 - prediction.ratio) <= 0.005 + 0.06 * width


@pytest.mark.parametrize("width, window", [(0.1, "0.41-0.51"), (0.2, "0.36-0.56"), (1, "0-1"), (0.95, "0-0.95")])
def test_windows_in_plain_numbers(width: float, window: str) -> None:
    assert str(predict(make_profile(), width=width).window) == window


@pytest.mark.parametrize("width", [0, -0.1, 1.01, float("nan")])
def test_a_width_that_is_none(width: float) -> None:
    with refused(f"the width of a window must lie in (0, 1], got {width}"):
        predict(make_profile(), width=width)


# The interval


@pytest.mark.parametrize("weighting", ["occurrences", "unexplained"])
def test_the_interval_agrees_with_the_jackknife(weighting: Any) -> None:
    """Its half width over 1.96 is a standard error; the jackknife leaves one block out at a time instead."""
    draw = np.random.default_rng(0)
    shares = draw.dirichlet(20 * np.array(PAPER) / sum(PAPER), size=80).T
    blocks_OK = np.round(shares * 10_000 * draw.uniform(0.5, 1.5, 80)).astype(np.int64)
    profile = with_blocks(blocks_OK)
    lo, hi = predict(profile, weighting=weighting).interval or (0, 0)
    kept = profile.block_counts_OK(weighting)
    assert kept is not None
    left_out = [
        optimal_ratio(dict(enumerate(kept.sum(axis=1) - kept[:, block], start=2))) for block in range(kept.shape[1])
    ]
    num_blocks = len(left_out)
    error = np.sqrt((num_blocks - 1) * np.var(left_out))
    assert 0.85 < (hi - lo) / 3.92 / error < 1.15
    assert lo < optimal_ratio(dict(enumerate(kept.sum(axis=1), start=2))) < hi


def test_blocks_that_are_all_alike_leave_no_doubt() -> None:
    lo, hi = predict(with_blocks(np.tile(np.array(PAPER)[:, None], 50))).interval or (0, 1)
    assert abs(hi - lo) < 1e-9 and abs(lo - 0.46296) < 1e-4


def test_the_same_profile_has_the_same_interval() -> None:
    profile = with_blocks(np.random.default_rng(1).integers(1, 1000, (5, 30)))
    assert predict(profile).interval == predict(profile).interval


def test_what_has_no_interval() -> None:
    assert predict(make_profile()).interval is None  # one block
    distinct = predict(with_blocks(np.ones((5, 30), dtype=np.int64)), weighting="distinct")
    assert distinct.interval is None
    assert "No interval: a distinct n-gram belongs to no one block of the corpus." in distinct.record().notes


def test_blocks_without_an_ngram_are_no_trouble() -> None:
    blocks_OK = np.zeros((5, 30), dtype=np.int64)
    blocks_OK[:, 0] = PAPER  # a third of the resamples hold nothing
    lo, hi = predict(with_blocks(blocks_OK)).interval or (0, 1)
    assert abs(lo - 0.46296) < 1e-4 and abs(hi - lo) < 1e-9


# The tables


VARIANTS = (
    Variant("minimum count", "2", 1000, (50, 30, 20)),
    Variant("minimum count", "5", 1000, (40, 10, 5)),
    Variant("minimum count", "50", 1000, (0, 0, 0)),
    Variant("tokens", "words", 1000, (40, 10, 5)),
    Variant("tokens", "bytes", 5000, (9, 8, 7)),
    Variant("text", "1/2", 500, (20, 4, 1)),
    Variant("text", "all", 1000, (40, 10, 5)),
)
SMALL = make_profile((40, 10, 5), num_tokens=1000, variants=VARIANTS, provenance={"tokens": "words"})


def ratio_of(*occurrences: int) -> float:
    return optimal_ratio({order: float(count) for order, count in enumerate(occurrences, start=2)})


def test_every_choice_made_otherwise() -> None:
    rows = predict(SMALL).record().tables["t* if one choice were made otherwise"]
    found = {(row["choice"], row["value"]): (row["chosen"], row["tokens read"], round(row["t*"], 5)) for row in rows}
    chosen = round(ratio_of(40, 10, 5), 5)
    assert found == {
        ("weighting", "occurrences"): (True, 1000, chosen),
        ("weighting", "distinct"): (False, 1000, round(ratio_of(4, 1, 1), 5)),
        ("weighting", "unexplained"): (False, 1000, round(ratio_of(20, 5, 5), 5)),
        ("highest order", "2"): (False, 1000, 0.5),
        ("highest order", "3"): (False, 1000, round(ratio_of(40, 10), 5)),
        ("highest order", "4"): (True, 1000, chosen),
        ("minimum count", "2"): (False, 1000, round(ratio_of(50, 30, 20), 5)),
        ("minimum count", "5"): (True, 1000, chosen),  # and not 50, at which nothing is frequent
        ("tokens", "words"): (True, 1000, chosen),
        ("tokens", "bytes"): (False, 5000, round(ratio_of(9, 8, 7), 5)),
    }


def test_orders_above_the_highest_are_kept_out_of_the_weights() -> None:
    prediction = predict(replace(SMALL, max_order=3))
    assert prediction.weights == {2: 0.8, 3: 0.2}
    record = prediction.record()
    assert [row["order"] for row in record.rows] == [2, 3]
    by_order = {
        row["value"]: row["chosen"]
        for row in record.tables["t* if one choice were made otherwise"]
        if row["choice"] == "highest order"
    }
    assert by_order == {"2": False, "3": True, "4": False}


def test_the_ratio_against_the_amount_of_text() -> None:
    record = predict(SMALL).record()
    rows = record.tables["t* against the amount of text"]
    assert [(row["text"], row["tokens read"], round(row["t*"], 5)) for row in rows] == [
        ("1/2", 500, round(ratio_of(20, 4, 1), 5)),
        ("all", 1000, round(ratio_of(40, 10, 5), 5)),
    ]
    assert record.extra["growth"] == rows  # what the figure draws
    assert "t* against the amount of text" not in predict(make_profile()).record().tables
    assert any("not scale-free" in note for note in record.notes)


@pytest.mark.parametrize(
    "changes, weighting, said",
    [
        ({}, "occurrences", "1,000 tokens, 1 document; weights by occurrences."),
        ({"num_documents": 7}, "distinct", "1,000 tokens, 7 documents; weights by distinct."),
        ({}, "distinct", "Minimum counts, tokens and amounts of text are compared by occurrences."),
        ({"num_tokens": 9999}, "occurrences", "Tokens are compared on a sample of the text"),
        (
            {"provenance": {"skipped": {"row": 2, "file": 1}, "first skipped": "x, line 3"}},
            "occurrences",
            "Skipped as broken: 2 rows, 1 file; the first: x, line 3.",
        ),
    ],
)
def test_notes(changes: dict[str, Any], weighting: Any, said: str) -> None:
    notes = predict(replace(SMALL, **changes), weighting=weighting).record().notes
    assert any(said in note for note in notes)


def test_notes_that_would_not_be_true() -> None:
    notes = " ".join(predict(SMALL).record().notes)
    assert "sample of the text" not in notes and "Skipped" not in notes and "bootstrap" not in notes


def test_a_record_is_plain_data() -> None:
    record = predict(SMALL).record()
    assert json.loads(record.to_json())["extra"]["law"] == str(predict(SMALL).window)
    assert Record(**json.loads(record.to_json())).rows == plain(record.rows)
    assert record.settings["max order"] == 4 and record.settings["tokens"] == "words"


def test_nothing_frequent_predicts_nothing() -> None:
    with pytest.raises(DataError, match="a corpus must hold n-grams that occur 5 times, got 1,750,345 tokens without"):
        predict(make_profile((0, 0, 0)))
