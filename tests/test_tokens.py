"""A folder of tokens: what opens, what is refused and in which words; every byte of it is watched by a digest."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from halfmask.cli.main import main
from halfmask.data.prepare import prepare
from halfmask.data.tokens import TokenData, dtype_of
from halfmask.errors import DataError, UsageError

DOCUMENTS = ["the fox", "a lazy dog", "the dog wakes", "é你🙂", "the end"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in DOCUMENTS))
    (folder / "held.txt").write_text("held out")
    prepare(folder / "text.jsonl", folder / "out", tokens="bpe:260", validation=0, test=folder / "held.txt")
    return folder / "out"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_what_opens(folder: Path) -> None:
    data = TokenData.open(folder)
    data.verify()
    assert list(data.splits) == ["train", "test"]
    file = data.split("train")
    assert (data.splits["train"].documents, data.splits["train"].tokens) == (5, len(file.tokens_N))
    assert data.splits["train"].characters == sum(map(len, DOCUMENTS))
    assert data.splits["train"].bytes == sum(len(text.encode()) for text in DOCUMENTS)
    documents = np.split(file.tokens_N, file.starts_D[1:])
    assert [data.decode(each) for each in documents] == DOCUMENTS
    assert all(each[-1] == data.end_id and data.end_id not in each[:-1] for each in documents)
    assert data.encode("the fox").tolist() == documents[0][:-1].tolist()
    assert data.encode("the fox").dtype == np.int64
    assert not file.tokens_N.flags.writeable


def test_ids_take_two_bytes_while_they_can() -> None:
    assert [str(dtype_of(size)) for size in (258, 65_536, 65_537)] == ["uint16", "uint16", "uint32"]


def test_a_split_that_is_not_there(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"holds the splits train, test, got validation: choose one of test, train"):
        TokenData.open(folder).split("validation")


def changed(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_bytes(change((folder / path).read_bytes()))


def field(key: str, value: object) -> Callable[[Path], object]:
    def change(data: bytes) -> bytes:
        fields = json.loads(data)
        fields[key] = value
        return json.dumps(fields).encode()

    return changed("manifest.json", change)


def resaved(path: str, array: object) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / path, array)  # type: ignore[arg-type]


def gone(path: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).unlink()


MANIFEST = r"manifest.json must be the manifest of a folder of tokens, got"
AGAIN = r": remove .* and run halfmask prepare again"
STARTS = r"train.documents.npy must be a sound .npy file, got"


@pytest.mark.parametrize(
    "breaks, said",
    [
        (shutil.rmtree, r"out must be a folder of tokens, got No such file or directory: make one: halfmask prepare"),
        (gone("manifest.json"), r"got no manifest.json in it: make one: .* goes on where it was stopped"),
        (changed("manifest.json", lambda data: data[:-20]), MANIFEST + " .*: remove the folder and make it again"),
        (changed("manifest.json", lambda data: b"\xff" + data), MANIFEST + " 'utf-8' codec"),
        (changed("manifest.json", lambda data: b"[]"), MANIFEST + " a list"),
        (changed("manifest.json", lambda data: b"{}"), MANIFEST + " no 'halfmask'"),
        (field("halfmask", "model"), MANIFEST + " model, format 1, where tokens, format 1 is read"),
        (field("format", 2), MANIFEST + " tokens, format 2, where"),
        (field("mask_id", 3), MANIFEST + " one that was changed after it was written"),
        (field("splits", {}), MANIFEST + " one that was changed"),
        (gone("tokenizer.json"), r"tokenizer.json must be there, got nothing" + AGAIN),
        (gone("train.tokens"), r"train.tokens must hold \d+ bytes \(\d+ tokens\), got nothing" + AGAIN),
        (changed("train.tokens", lambda data: data[:-1]), r"train.tokens must hold (\d+) bytes .*, got \d+" + AGAIN),
        (changed("test.tokens", lambda data: data + b"\0"), r"test.tokens must hold \d+ bytes .*, got \d+" + AGAIN),
        (changed("test.tokens", lambda data: b""), r"test.tokens must hold \d+ bytes .*, got 0" + AGAIN),
        (gone("train.documents.npy"), STARTS + " nothing" + AGAIN),
        (changed("train.documents.npy", lambda data: data[:-1]), STARTS + " mmap length .*" + AGAIN),
        (changed("train.documents.npy", lambda data: data[:20]), STARTS + " .*" + AGAIN),
        (changed("train.documents.npy", lambda data: b""), STARTS + " .*" + AGAIN),
        (changed("train.documents.npy", lambda data: b"PK" + data), STARTS + " .*" + AGAIN),
        (
            resaved("train.documents.npy", np.zeros(5, "<i4")),
            r"must hold 5 starts as int64, got int32 of shape \(5,\)",
        ),
        (
            resaved("train.documents.npy", np.zeros(4, "<i8")),
            r"must hold 5 starts as int64, got int64 of shape \(4,\)",
        ),
        (resaved("train.documents.npy", np.array([None])), STARTS + " .*" + AGAIN),
    ],
)
def test_a_broken_folder_does_not_open(breaks: Callable[[Path], object], said: str, folder: Path) -> None:
    breaks(folder)
    with pytest.raises(DataError) as caught:
        TokenData.open(folder)
    assert re.search(said, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.json", "train.tokens", "test.tokens", "train.documents.npy"])
def test_any_other_byte_is_found_by_its_digest(name: str, folder: Path) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-3] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(DataError, match=rf"{name} must have the digest \w+, got \w+: remove"):
        TokenData.open(folder).verify()


def test_another_tokenizer_is_not_used(folder: Path) -> None:
    for ids in ({"vocab_size": 300}, {"mask_id": 7}, {"end_id": 7}):
        data = dataclasses.replace(TokenData.open(folder), **ids)
        with pytest.raises(
            DataError, match=r"tokenizer.json must have the ids of the manifest, got \(\d+, \d+, \d+\)"
        ):
            data.decode([1])


# halfmask tokens


def test_the_verb_shows_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tokens", str(folder), "--verify", "--rows", "2", "--length", "4", "--split", "test", "--json"]
    assert main(words) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["split"] for row in record["rows"]] == ["train", "test"]
    assert "every file has the digest that the manifest says" in record["notes"]
    (rows,) = record["tables"].values()
    assert all(row["text"] and row["text"] in "held out" for row in rows)


@pytest.mark.parametrize(
    "words, said",
    [
        ("nowhere", "nowhere must be a folder of tokens, got No such file or directory"),
        ("out --rows 0", "a step must have 1 row or more, got 0"),
        ("out --rows 1 --length 999", "out (train) must hold one row of 999 tokens, got"),
        ("out --rows 1 --split validation", "holds the splits train, test, got validation"),
        ("broken --verify", "test.tokens must have the digest"),
    ],
)
def test_mistakes_of_the_verb(
    words: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    shutil.copytree(folder, "broken")
    changed("test.tokens", lambda data: data[::-1])(Path("broken"))
    assert main(["tokens", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and not out
