"""Profiles: the numbers of a plain counter, however a corpus is cut; what is saved is what is loaded."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfmask.corpus import counts as counts_module
from halfmask.corpus import profile as profile_module
from halfmask.corpus.profile import NGramProfile, measure_corpus
from halfmask.corpus.sources import Reading
from halfmask.errors import DataError
from reference import refused


def make_documents(num: int, seed: int = 0) -> list[str]:
    """Sentences of a small language: few words, so that many n-grams come often."""
    draw = random.Random(seed)
    phrases = ["The dog sees", "a cat in the house", "and so it goes", "over there!", "it goes in", "the house"]
    return [" ".join(draw.choices(phrases, k=draw.randint(1, 12))) for _ in range(num)]


DOCUMENTS = make_documents(60)


def write(path: Path, documents: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", DOCUMENTS)


@pytest.fixture(scope="module")
def profile(corpus: Path) -> NGramProfile:
    return measure_corpus(corpus)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def counted(documents: list[list[str]], min_count: int = 5) -> dict[int, list[int]]:
    """How often each frequent n-gram occurs, by order from 2 to 8; none crosses from document to document."""
    found = {}
    for order in range(2, 9):
        grams = Counter(
            tuple(words[start : start + order]) for words in documents for start in range(len(words) - order + 1)
        )
        found[order] = [count for count in grams.values() if count >= min_count]
    return found


def occurrences(documents: list[list[str]], min_count: int = 5) -> tuple[int, ...]:
    return tuple(map(sum, counted(documents, min_count).values()))


# The numbers


def test_a_profile_holds_what_a_plain_counter_finds(profile: NGramProfile) -> None:
    documents = [words_of(text) for text in DOCUMENTS]
    expected = counted(documents)
    assert profile.orders == tuple(range(2, 9))
    assert profile.occurrences == tuple(map(sum, expected.values()))
    assert profile.distinct == tuple(map(len, expected.values()))
    assert (profile.num_tokens, profile.num_documents) == (sum(map(len, documents)), len(documents))
    total = sum(profile.occurrences[:5])
    assert profile.weights() == {order: sum(expected[order]) / total for order in range(2, 7)}


def test_blocks_add_up_to_the_whole(profile: NGramProfile) -> None:
    assert tuple(map(sum, profile.occurrences_OK)) == profile.occurrences
    assert tuple(map(sum, profile.unexplained_OK)) == profile.unexplained
    assert 20 <= len(profile.occurrences_OK[0]) <= len(DOCUMENTS)


def test_blocks_begin_where_documents_do(tmp_path: Path) -> None:
    """Documents of one word twenty times each, so nineteen pairs."""
    documents = [" ".join([f"word{number}"] * 20) for number in range(150)]
    profile = measure_corpus(write(tmp_path / "x.jsonl", documents), sensitivity=False)
    pairs_K = profile.occurrences_OK[0]
    assert sum(pairs_K) == 19 * 150 and all(pairs % 19 == 0 for pairs in pairs_K)
    assert 75 <= len(pairs_K) <= profile_module.NUM_BLOCKS


def test_few_documents_are_cut_into_blocks(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("\n".join(DOCUMENTS), encoding="utf-8")
    profile = measure_corpus(tmp_path / "one.txt", sensitivity=False)
    assert len(profile.occurrences_OK[0]) == profile_module.NUM_BLOCKS
    assert tuple(map(sum, profile.occurrences_OK)) == profile.occurrences


@settings(max_examples=30)
@given(st.lists(st.integers(0, len(DOCUMENTS)), max_size=5), st.booleans(), st.sampled_from([200, 1 << 16]))
def test_parts_merge_to_the_whole(cuts: list[int], spills: bool, part_tokens: int) -> None:
    """Files in any number, memory of any size, and parts of any size: the integers are the same."""
    edges = [0, *sorted(cuts), len(DOCUMENTS)]
    parts = [DOCUMENTS[start:end] for start, end in itertools.pairwise(edges) if end > start]
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        folder = Path(name)
        patch.setattr(counts_module, "SMALLEST_PART", part_tokens)
        paths = [write(folder / f"{number}.jsonl", part) for number, part in enumerate(parts)]
        memory = 0 if spills else 1 << 30
        found = measure_corpus(paths, sensitivity=False, memory=memory, folder=folder)
    assert found.occurrences == occurrences([words_of(text) for text in DOCUMENTS])
    assert found.num_documents == len(DOCUMENTS)
    # And no sum over parts would do: what is rare in each may be frequent in the whole.
    alone = [occurrences([words_of(text) for text in part]) for part in parts]
    assert all(sum(each) <= whole for *each, whole in zip(*alone, found.occurrences, strict=True))


def test_boundaries_are_respected_or_ignored(corpus: Path, profile: NGramProfile) -> None:
    joined = measure_corpus(corpus, join=True)
    assert joined.occurrences == occurrences([[word for text in DOCUMENTS for word in words_of(text)]])
    assert joined.num_tokens == profile.num_tokens
    assert sum(joined.occurrences) > sum(profile.occurrences)


def test_documents_can_be_lines_and_paragraphs(tmp_path: Path, profile: NGramProfile) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(DOCUMENTS), encoding="utf-8")
    (tmp_path / "paragraphs.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    for unit in ("line", "paragraph"):
        found = measure_corpus(tmp_path / f"{unit}s.txt", reading=Reading(documents=unit), sensitivity=False)
        assert replace(found, provenance={}) == replace(profile, provenance={}, variants=())


@pytest.mark.parametrize("limit", [1, 100, 10_000])
def test_a_limit_reads_that_many_tokens(limit: int, corpus: Path, profile: NGramProfile) -> None:
    found = measure_corpus(corpus, limit=limit, join=True, min_count=1, sensitivity=False)
    words = [word for text in DOCUMENTS for word in words_of(text)][:limit]
    assert found.num_tokens == min(limit, profile.num_tokens)
    assert found.occurrences == occurrences([words], min_count=1)


# The same corpus, counted otherwise


def test_variants_are_what_a_fresh_measurement_finds(corpus: Path) -> None:
    profile = measure_corpus(corpus, join=True)
    words = [word for text in DOCUMENTS for word in words_of(text)]
    found = {(each.what, each.value): (each.num_tokens, each.occurrences) for each in profile.variants}
    expected: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = {}
    for min_count in (2, 3, 5, 10, 20, 50):
        expected["minimum count", str(min_count)] = len(words), occurrences([words], min_count)
    for tokens in ("words", "whitespace", "bytes"):
        other = measure_corpus(corpus, tokens=tokens, join=True, sensitivity=False)
        expected["tokens", tokens] = other.num_tokens, other.occurrences
    for part in (32, 16, 8, 4, 2):
        some = words[: round(len(words) / part)]
        expected["text", f"1/{part}"] = len(some), occurrences([some])
    expected["text", "all"] = len(words), occurrences([words])
    assert found == expected


@pytest.mark.parametrize("min_count", [1, 2, 7, 60])
def test_the_chosen_minimum_count_is_among_the_variants(min_count: int, corpus: Path) -> None:
    profile = measure_corpus(corpus, min_count=min_count)
    thresholds = [int(each.value) for each in profile.variants if each.what == "minimum count"]
    assert thresholds == sorted({min_count, 2, 3, 10, 20, 50} | ({5} if min_count == 5 else set()))
    chosen = next(each for each in profile.variants if each.value == str(min_count))
    assert chosen.occurrences == profile.occurrences


def test_tokens_are_compared_on_the_first_texts(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_module, "SAMPLE_CHARACTERS", 1)
    monkeypatch.setattr("halfmask.corpus.formats.BLOCK_BYTES", 300)
    profile = measure_corpus(corpus)
    by_tokens = {each.value: each.num_tokens for each in profile.variants if each.what == "tokens"}
    assert 0 < by_tokens["words"] < profile.num_tokens
    assert by_tokens["bytes"] > 3 * by_tokens["words"]


# Weights


def test_weights_by_hand() -> None:
    """ "a b c" six times, and "a b" four times more: ab 10 times, bc and abc 6 times."""
    counts = {"occurrences": (16, 6), "distinct": (2, 1), "unexplained": (4, 6)}
    blocks = {"occurrences_OK": ((10, 6), (6, 0)), "unexplained_OK": ((4, 0), (6, 0))}
    profile = NGramProfile((2, 3), 5, 3, 26, 10, **counts, **blocks)
    assert profile.weights() == {2: 16 / 22, 3: 6 / 22}
    assert profile.weights("distinct") == {2: 2 / 3, 3: 1 / 3}
    assert profile.weights("unexplained") == {2: 0.4, 3: 0.6}
    assert profile.weights("unexplained", max_order=2) == {2: 1.0}
    assert profile.block_counts_OK("distinct") is None
    lower = replace(profile, max_order=2)
    assert lower.block_counts_OK("unexplained").tolist() == [[10, 6]]  # type: ignore[union-attr]
    with refused("weights are by occurrences, distinct, unexplained, got occurences: did you mean occurrences?"):
        profile.weights("occurences")  # type: ignore[arg-type]
    with refused("a profile counts orders 2 to 3, got 4"):
        profile.weights(max_order=4)


@pytest.mark.parametrize("text, got", [("word", "1 token without one"), ("a b c d " * 4, "16 tokens without one")])
def test_a_corpus_without_frequent_ngrams_has_no_weights(text: str, got: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(text, encoding="utf-8")
    profile = measure_corpus(tmp_path / "x.txt")
    with pytest.raises(DataError, match=f"a corpus must hold n-grams that occur 5 times, got {got}: read more text"):
        profile.weights()


# Where it comes from


def test_provenance(tmp_path: Path, corpus: Path, saved_tokenizer: Path) -> None:
    (tmp_path / "copy.jsonl.gz").write_bytes(gzip.compress(corpus.read_bytes() + b"broken\n"))
    reading = Reading(skip_broken=True)
    one = measure_corpus(corpus, sensitivity=False).provenance
    two = measure_corpus(tmp_path / "copy.jsonl.gz", reading=reading, tokens=str(saved_tokenizer)).provenance
    assert one["digest"] == two["digest"] and one["sources"] == [str(corpus)]
    assert (one["tokens"], one["tokenizer digest"]) == ("words", "")
    assert two["tokens"] == str(saved_tokenizer) and len(two["tokenizer digest"]) == 32
    assert (one["skipped"], two["skipped"]) == ({}, {"row": 1})
    assert two["first skipped"].startswith(f"{tmp_path}/copy.jsonl.gz, line 61")
    assert two["reading"]["skip_broken"] is True


@pytest.fixture
def saved_tokenizer(tmp_path: Path) -> Path:
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "the": 1}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_progress_reaches_its_totals(corpus: Path) -> None:
    seen: dict[str, tuple[int, int]] = {}

    def progress(stage: str, done: int, total: int) -> None:
        assert 0 <= done <= total or not total
        seen[stage] = done, total

    measure_corpus(corpus, max_order=3, progress=progress)
    assert seen["reading"] == (corpus.stat().st_size,) * 2
    assert {"counting, order 8 of 8", "tokens bytes, order 2 of 8", "1/2 of the text, order 2 of 8"} <= set(seen)
    assert all(done == total for done, total in seen.values())


@pytest.mark.parametrize("stage", ["reading", "counting, order 2 of 8", "tokens whitespace, order 1 of 8"])
def test_an_interrupt_leaves_no_file(stage: str, corpus: Path, tmp_path: Path) -> None:
    def interrupt(at: str, done: int, total: int) -> None:
        if at == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_corpus(corpus, memory=0, folder=tmp_path, progress=interrupt)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options, said",
    [
        ({"max_order": 9}, "the highest order must lie between 2 and 8, got 9"),
        ({"min_count": 0}, "the minimum count must be 1 or more, got 0"),
        ({"limit": 0}, "the limit must be 1 token or more, got 0"),
        ({"folder": Path("nowhere")}, "the folder for spilled files must be there, got nowhere: make it: mkdir -p"),
        ({"tokens": "wrods"}, "got wrods: did you mean words?"),
    ],
)
def test_mistakes_are_seen_before_anything_is_read(
    options: dict[str, Any], said: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("the corpus was opened"))
    with refused(said):
        measure_corpus(corpus, **options)


def test_a_corpus_of_which_all_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("no rows\n" * 3, encoding="utf-8")
    with pytest.raises(DataError, match=r"must hold text that can be read, got nothing .*; the first skipped: .*"):
        measure_corpus(tmp_path / "x.jsonl", reading=Reading(skip_broken=True))


# Files


def test_what_is_saved_is_what_is_loaded(profile: NGramProfile, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profile.save(path)
    assert NGramProfile.load(path) == profile
    assert path.stat().st_size < 40_000
    first = path.read_bytes()
    NGramProfile.load(path).save(path)
    assert path.read_bytes() == first


Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, Change] = {
    "another kind": lambda fields: fields.update(halfmask="record"),
    "an order missing": lambda fields: fields["orders"].pop(),
    "orders that do not rise": lambda fields: fields["orders"].reverse(),
    "a count missing": lambda fields: fields["occurrences"].pop(),
    "a negative count": lambda fields: fields["distinct"].__setitem__(0, -1),
    "a count that is a text": lambda fields: fields["unexplained"].__setitem__(0, "7"),
    "a block missing": lambda fields: fields["occurrences_OK"][0].pop(),
    "blocks of an order missing": lambda fields: fields["unexplained_OK"].pop(),
    "a variant of other orders": lambda fields: fields["variants"][0]["occurrences"].pop(),
    "a variant that is a number": lambda fields: fields.update(variants=[7]),
    "an order that is not counted": lambda fields: fields.update(max_order=9),
    "a field missing": lambda fields: fields.pop("min_count"),
    "a field too many": lambda fields: fields.update(colour="blue"),
    "provenance of another kind": lambda fields: fields.update(provenance=[]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_was_changed_is_refused(name: str, profile: NGramProfile, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profile.save(path)
    fields = json.loads(path.read_text(encoding="utf-8"))
    CHANGES[name](fields)
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(DataError, match=f"{path} must hold an n-gram profile, got .+: write one with halfmask window"):
        NGramProfile.load(path)


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"halfmask": ', "[" * 100_000, "\x00"])
def test_what_is_no_profile(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"x.json must hold an n-gram profile"):
        NGramProfile.load(tmp_path / "x.json")
    with pytest.raises(DataError, match=r"none.json could not be read, got No such file"):
        NGramProfile.load(tmp_path / "none.json")
