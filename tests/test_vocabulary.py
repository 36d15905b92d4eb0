"""Vocabularies: texts come back as they were, special tokens are nobody's text, and every bad name has its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from halfmask.corpus.counts import BOUNDARY
from halfmask.data.vocabulary import END, MASK, PAD, Vocabulary, bpe_size, open_vocabulary, train_vocabulary
from halfmask.errors import DataError, UsageError

TEXT = "The quick brown fox. The lazy dog: don't wake it!\n\nTschüß, 你好 🙂 \u2028 end\n"
SPECIAL = [*END, *MASK, *PAD]
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aeéThe \n\t你🙂\x00")), max_size=40
)


@pytest.fixture(scope="module")
def trained() -> Vocabulary:
    return train_vocabulary([TEXT] * 3, 300)


def word_level(*words: str) -> tokenizers.Tokenizer:
    """A tokenizer of a model that splits at white space, each word an id."""
    ids = {word: number for number, word in enumerate(["[UNK]", *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return tokenizer


def saved(tokenizer: tokenizers.Tokenizer, folder: Path) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("name", ["bytes", "bpe"])
def test_texts_come_back_as_they_were(name: str, trained: Vocabulary) -> None:
    vocabulary = trained if name == "bpe" else open_vocabulary("bytes")

    @given(st.lists(texts, min_size=1, max_size=3))
    def holds(texts: list[str]) -> None:
        row = vocabulary.encode(texts)
        ids = row[row != BOUNDARY]
        assert row.max(initial=0) < vocabulary.size
        assert not np.isin(ids, [vocabulary.end_id, vocabulary.mask_id]).any()
        assert vocabulary.decode(ids) == "".join(texts)
        assert vocabulary.decode([*ids, vocabulary.end_id, vocabulary.mask_id]) == "".join(texts)

    holds()


def test_the_text_of_a_special_token_never_becomes_one(tmp_path: Path) -> None:
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([TEXT, *SPECIAL], vocab_size=400, special_tokens=SPECIAL, show_progress=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = open_vocabulary(tmp_path)
    special = [tokenizer.token_to_id(token) for token in SPECIAL]
    assert {vocabulary.end_id, vocabulary.mask_id, vocabulary.pad_id} <= set(special)

    @given(st.lists(st.one_of(texts, st.sampled_from(SPECIAL)), max_size=6).map(" ".join))
    def holds(text: str) -> None:
        ids = vocabulary.encode([text])
        assert not np.isin(ids, special).any()
        assert vocabulary.decode(ids) == text

    holds()


def test_ids_the_tokenizer_has_are_used_and_others_come_after_its_last(tmp_path: Path) -> None:
    own = open_vocabulary(saved(word_level("fox", "[MASK]", "[PAD]", "</s>"), tmp_path))
    assert (own.mask_id, own.pad_id, own.end_id, own.size) == (2, 3, 4, 5)
    lacking = open_vocabulary(saved(word_level("fox"), tmp_path))
    assert (lacking.end_id, lacking.mask_id, lacking.pad_id, lacking.size) == (2, 3, None, 4)


def test_a_mask_token_that_is_a_plain_word_is_refused_in_a_text(tmp_path: Path) -> None:
    vocabulary = open_vocabulary(saved(word_level("fox", "[MASK]"), tmp_path))
    assert vocabulary.encode(["fox fox"]).tolist() == [1, 1]
    with pytest.raises(DataError, match="must not hold the tokenizer's own mask token, got a text with the id 2"):
        vocabulary.encode(["fox [MASK]"])


def test_a_tokenizer_without_room_is_refused(tmp_path: Path) -> None:
    fields = json.loads(word_level("a", "b", "c").to_str())
    fields["model"]["vocab"] = {"[UNK]": 0, "a": 1, "b": 3, "c": 4}  # the package gives the next token the id 4
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(DataError, match=r"must leave room for the ids .*, got ids with gaps"):
        open_vocabulary(path)


def test_gpt2_from_its_two_files(data_folder: Path) -> None:
    vocabulary = open_vocabulary(data_folder / "tokenizer-gpt2")
    assert (vocabulary.end_id, vocabulary.mask_id, vocabulary.size) == (50256, 50257, 50258)
    assert vocabulary.encode(["Hello world", "<|endoftext|>"]).tolist()[:3] == [15496, 995, BOUNDARY]
    row = vocabulary.encode([TEXT + "<|endoftext|>"])
    assert row.max() < 50256
    assert vocabulary.decode(row) == TEXT + "<|endoftext|>"


# A trained BPE


def test_training_gives_what_was_asked_for_and_the_same_each_time(trained: Vocabulary, tmp_path: Path) -> None:
    assert trained.size == 302  # the end of a document and the hidden token come on top
    assert trained.digest == train_vocabulary([TEXT] * 3, 300).digest
    assert train_vocabulary([TEXT], 5000).size < 1000  # short texts have no more
    path = tmp_path / "tokenizer.json"
    path.write_text(str(trained.to_json()), encoding="utf-8")
    again = open_vocabulary(path)
    assert (again.digest, again.size, again.end_id, again.mask_id) == (trained.digest, 302, 300, 301)


def test_what_goes_wrong_in_the_texts_comes_through_the_training() -> None:
    def broken(error: BaseException) -> object:
        yield from ["some text"] * 3000
        raise error

    for error in (KeyboardInterrupt(), DataError("a", got="b", fix="c")):
        with pytest.raises(type(error)) as caught:
            train_vocabulary(broken(error), 300)  # type: ignore[arg-type]
        assert caught.value is error


@pytest.mark.parametrize("name, size", [("bpe:256", 256), ("bpe:50000", 50000), ("bytes", None), ("xbpe:9", None)])
def test_the_size_of_a_bpe(name: str, size: int | None) -> None:
    assert bpe_size(name) == size


@pytest.mark.parametrize("name", ["bpe:", "bpe:255", "bpe:-300", "bpe:1e3", "bpe:9999999", "bpe:many"])
def test_a_size_that_is_none(name: str) -> None:
    with pytest.raises(UsageError, match=r"takes a number of tokens from 256 .*: write for example bpe:4096"):
        bpe_size(name)


@pytest.mark.parametrize("name", ["words", "whitespace"])
def test_an_open_vocabulary_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"a closed vocabulary: .*, got {name}, .*: take bpe:4096"):
        open_vocabulary(name)
