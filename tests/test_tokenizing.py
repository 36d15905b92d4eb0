"""Tokenisers: one contract over all of them, then what each must say, and the names that open them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from halfmask.corpus.counts import BOUNDARY
from halfmask.corpus.tokenizing import PLAIN, TokenIds, Tokenizer, open_tokenizer
from halfmask.errors import DataError, MissingExtraError, UsageError

TEXT = "The quick brown fox. The lazy dog: don't wake it!\n\nTschüß, 你好 🙂 \u2028 end\n"
texts = st.lists(st.text(st.sampled_from("aA bé你🙂\n\t\x00.'İΣ\u2028"), max_size=20), max_size=6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tokenisers as models come with them: one file, which cuts and pads; and GPT-2's two files."""
    folder = tmp_path_factory.mktemp("tokenizers")
    one = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "the": 1, "fox": 2, "[CLS]": 3}, "[UNK]"))
    one.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    one.normalizer = tokenizers.normalizers.Lowercase()
    one.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 3)])
    one.enable_truncation(4)
    one.enable_padding(length=8)
    one.save(str(folder / "tokenizer.json"))
    two = tokenizers.ByteLevelBPETokenizer()
    two.train_from_iterator([TEXT] * 3, vocab_size=300, show_progress=False)
    (folder / "two").mkdir()
    two.save_model(str(folder / "two"))
    return folder


@pytest.fixture(params=[*PLAIN, "tokenizer.json", ".", "two"])
def tokenizer(request: pytest.FixtureRequest, saved: Path) -> Tokenizer:
    return open_tokenizer(request.param if request.param in PLAIN else str(saved / request.param))


def parts_of(row: TokenIds) -> list[list[int]]:
    return [part[part != BOUNDARY].tolist() for part in np.split(row, np.flatnonzero(row == BOUNDARY))]


def test_the_contract(tokenizer: Tokenizer) -> None:
    @given(texts)
    def holds(texts: list[str]) -> None:
        row = tokenizer.encode(texts)
        assert row.dtype == np.int32 and row.ndim == 1
        assert np.count_nonzero(row == BOUNDARY) == max(len(texts) - 1, 0)
        assert row.min(initial=0) >= BOUNDARY
        alone = [tokenizer.encode([text]).tolist() for text in texts]  # ids mean the same in every call
        assert parts_of(row) == (alone or [[]])

    holds()


@pytest.mark.parametrize(
    "name, split", [("words", lambda text: re.findall(r"\w+", text.lower())), ("whitespace", str.split)]
)
def test_words_get_ids_as_they_come(name: str, split: Any) -> None:
    @given(texts)
    def holds(texts: list[str]) -> None:
        found = [number for part in parts_of(open_tokenizer(name).encode(texts)) for number in part]
        words = [word for text in texts for word in split(text)]
        first = list(dict.fromkeys(words))
        assert found == [first.index(word) for word in words]

    holds()


@given(texts)
def test_bytes_are_utf8(texts: list[str]) -> None:
    assert parts_of(open_tokenizer("bytes").encode(texts)) == ([list(text.encode()) for text in texts] or [[]])


def test_a_tokenizer_of_a_model_neither_cuts_nor_adds(saved: Path) -> None:
    for name in (saved / "tokenizer.json", saved):
        row = open_tokenizer(str(name)).encode(["The fox " * 1000, "fox"])
        assert row.tolist() == [1, 2] * 1000 + [BOUNDARY, 2]


def test_gpt2_from_its_two_files(data_folder: Path) -> None:
    tokenizer = open_tokenizer(str(data_folder / "tokenizer-gpt2"))
    assert tokenizer.encode(["Hello world", " the"]).tolist() == [15496, 995, BOUNDARY, 262]
    back: Any = getattr(tokenizer, "tokenizer")  # noqa: B009 (of this kind of tokeniser only)
    assert back.decode(tokenizer.encode([TEXT]).tolist()) == TEXT


# Names that open nothing


@pytest.mark.parametrize(
    "name, said",
    [
        ("word", "tokens must be words, whitespace, bytes, a tokenizer.json, a folder that holds one, or hub:NAME"),
        ("word", "got word: did you mean words? (hub:word if it is on the Hub)"),
        ("gpt2", "choose one of bytes, whitespace, words (hub:gpt2 if it is on the Hub)"),
    ],
)
def test_a_name_that_is_none(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        open_tokenizer(name)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "no JSON", '{"model": {"type": "new"}}'])
def test_a_file_that_is_no_tokenizer(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    for name in (path, tmp_path):
        with pytest.raises(DataError, match=rf"{name} must be a tokenizer, got .+: name a tokenizer.json"):
            open_tokenizer(str(name))


def test_a_folder_that_holds_no_tokenizer(tmp_path: Path) -> None:
    rule = r"must hold tokenizer.json, or encoder.json and vocab.bpe or vocab.json and merges.txt, got"
    with pytest.raises(DataError, match=f"{rule} an empty folder"):
        open_tokenizer(str(tmp_path))
    (tmp_path / "vocab.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=f"{rule} vocab.json: name the folder"):
        open_tokenizer(str(tmp_path))
    (tmp_path / "merges.txt").write_text("no merges\nat all here\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"{tmp_path} must be a tokenizer, got .+"):
        open_tokenizer(str(tmp_path))


def test_the_package_is_needed_only_for_its_tokenizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in PLAIN:
        open_tokenizer(name)
    with pytest.raises(MissingExtraError, match=r"the package tokenizers, .*pip install 'halfmask\[corpus\]'"):
        open_tokenizer(str(tmp_path))
