"""From sources to a folder of tokens: splits that share no document, the same bytes whatever interrupts the work."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfmask.cli.main import main
from halfmask.corpus import formats, sources
from halfmask.corpus.sources import Reading
from halfmask.data import shards
from halfmask.data.prepare import prepare
from halfmask.data.texts import split_of
from halfmask.data.tokens import SPLITS, TokenData
from halfmask.errors import DataError, HalfmaskError, MissingExtraError, UsageError

WORDS = ["the", "fox", "lazy", "dog", "é", "你", "🙂", "wakes", ",", ".", "1", "23\n"]


def write_rows(path: Path, documents: list[str], column: str = "text") -> Path:
    path.write_text("".join(json.dumps({column: each}) + "\n" for each in documents), encoding="utf-8")
    return path


def some_documents(num: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, size=random.integers(3, 30))) for _ in range(num)]


def documents_of(folder: Path, split: str) -> list[str]:
    data = TokenData.open(folder)
    file = data.split(split)
    return [data.decode(each) for each in np.split(file.tokens_N, file.starts_D[1:])]


def splits_of(folder: Path) -> dict[str, list[str]]:
    return {split: documents_of(folder, split) for split in TokenData.open(folder).splits}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def shards_of(num_characters: int) -> Iterator[None]:
    with patch.object(shards, "SHARD_CHARACTERS", num_characters):
        yield


# Splits


documents = st.lists(st.text("ab \n", min_size=1, max_size=4), min_size=1, max_size=30)


@settings(max_examples=40)
@given(documents, documents, documents, st.sampled_from(["shares", "test", "both"]))
def test_no_document_is_in_two_splits(train: list[str], validation: list[str], test: list[str], held: str) -> None:
    """Nor one that differs in the white space around it; and none is lost but those that are held out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shares: dict[str, Any] = {"validation": 0.3, "test": 0.3}
        if held != "shares":
            shares["test"] = write_rows(folder / "test.jsonl", test)
        if held == "both":
            shares["validation"] = write_rows(folder / "validation.jsonl", validation)
        try:
            prepare(write_rows(folder / "train.jsonl", train), folder / "out", tokens="bytes", **shares)
        except DataError as error:  # one of the splits would be empty
            assert "hold" in str(error) or "more than one document" in str(error)
            return
        found = splits_of(folder / "out")
    seen = [{each.strip() for each in found[split]} for split in SPLITS]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    if held == "shares":
        assert Counter(chain.from_iterable(found.values())) == Counter(train)
        assert all(found[split] == [each for each in train if each in found[split]] for split in SPLITS)
    else:
        test_set = {each.strip() for each in test}
        kept = [each for each in train if each.strip() not in test_set]
        assert found["test"] == test
        if held == "test":
            assert Counter(found["train"] + found["validation"]) == Counter(kept)
        else:
            assert found["validation"] == [each for each in validation if each.strip() not in test_set]
            assert found["train"] == [each for each in kept if each.strip() not in seen[1]]


def test_shares_are_those_asked_for(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [f"document {number}" for number in range(4000)])
    prepare(rows, tmp_path / "out", tokens="bytes", validation=0.1, test=0.2)
    counts = {split: each.documents for split, each in TokenData.open(tmp_path / "out").splits.items()}
    assert sum(counts.values()) == 4000
    for split, share in (("validation", 0.1), ("test", 0.2)):  # four standard errors
        assert abs(counts[split] / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5


def test_a_document_keeps_its_split_when_others_come(tmp_path: Path) -> None:
    documents = some_documents(200)
    for name, some in (("one", documents[:120]), ("two", documents[50:])):
        prepare(write_rows(tmp_path / f"{name}.jsonl", some), tmp_path / name, tokens="bytes", validation=0.3)
    one, two = (set(documents_of(tmp_path / name, "validation")) for name in ("one", "two"))
    both = set(documents[50:120])
    assert one & both == two & both


@pytest.mark.parametrize("place, split", [(0, "test"), (0.19, "test"), (0.21, "validation"), (0.31, "train")])
def test_where_a_hash_goes(place: float, split: str) -> None:
    assert split_of(int(place * 2**64).to_bytes(8, "big"), {"test": 0.2, "validation": 0.1}) == split


# What is written does not depend on how the work is cut


@pytest.mark.parametrize("tokens", ["bytes", "bpe:270"])
def test_the_size_of_a_shard_does_not_matter(tokens: str, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", some_documents(150))
    for size in (1, 500, 10**9):
        with shards_of(size):
            prepare(rows, tmp_path / str(size), tokens=tokens, validation=0.2)
    found = [files_of(tmp_path / str(size)) for size in (1, 500, 10**9)]
    for each in found:
        del each["manifest.json"]  # names the size
    assert found[0] == found[1] == found[2]
    assert sorted(chain.from_iterable(splits_of(tmp_path / "500").values())) == sorted(some_documents(150))


@pytest.mark.parametrize("tokens", ["bytes", "bpe:270"])
def test_a_long_document_comes_in_pieces_and_stays_one(tokens: str, tmp_path: Path) -> None:
    texts = {"a.txt": "\n".join(some_documents(60)), "b.txt": "short", "c.txt": "é" * 3000}
    (tmp_path / "texts").mkdir()
    for name, text in texts.items():
        (tmp_path / "texts" / name).write_text(text, encoding="utf-8")
    with shards_of(100), patch.multiple(formats, BLOCK_BYTES=64, CHUNK_BYTES=32):
        prepare(tmp_path / "texts", tmp_path / "out", tokens=tokens, validation=0)
    assert documents_of(tmp_path / "out", "train") == list(texts.values())


def test_equal_documents_meet_however_they_were_cut(tmp_path: Path) -> None:
    text = "\n".join(some_documents(40))
    (tmp_path / "held.txt").write_text(text, encoding="utf-8")
    rows = write_rows(tmp_path / "rows.jsonl", ["one", text, "two"])  # a whole row; the file comes in pieces
    with patch.multiple(formats, BLOCK_BYTES=64, CHUNK_BYTES=32):
        record = prepare(rows, tmp_path / "out", tokens="bytes", validation=0, test=tmp_path / "held.txt")
    assert documents_of(tmp_path / "out", "train") == ["one", "two"]
    assert "left out of train: 1 documents that are held out" in record.notes


def test_a_bpe_learns_from_the_training_split_alone(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.jsonl", ["abc abc abc", "abc abd"])
    test = write_rows(tmp_path / "test.jsonl", ["xyz xyz xyz xyz xyz xyz"])
    prepare(train, tmp_path / "out", tokens="bpe:300", validation=0, test=test)
    vocabulary = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert any("abc" in token for token in vocabulary) and not any("xy" in token for token in vocabulary)


# Sources


def test_standard_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe(documents: list[str]) -> None:
        text = "\n".join(documents).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))

    def run() -> Any:
        return prepare("-", tmp_path / "out", tokens="bpe:260", reading=Reading(documents="line"), validation=0.2)

    documents = [each.replace("\n", " ") for each in some_documents(50)]
    pipe(documents)
    run()
    assert sorted(chain.from_iterable(splits_of(tmp_path / "out").values())) == sorted(documents)
    pipe(documents)
    assert "out held this already" in run().notes[-1]
    pipe(documents[1:])
    with pytest.raises(UsageError, match="was begun with other text"):
        run()
    assert not (tmp_path / "out" / "parts").exists()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A data set of the Hub, and what was fetched of it."""
    fetched: list[str] = []

    def rows(name: str, reading: Reading, tally: formats.Tally) -> Iterator[str]:
        fetched.append(f"{name} {reading.split}")
        tally.broken("row", DataError("row 1 must hold text", got="nothing", fix="skip it"))
        yield from some_documents(50, seed=len(reading.split))

    monkeypatch.setattr(sources, "_hub_rows", rows)
    return fetched


def test_a_data_set_of_the_hub_is_fetched_once(hub: list[str], tmp_path: Path) -> None:
    def run() -> Any:
        reading = Reading(skip_broken=True)
        return prepare("hub:set", tmp_path / "out", tokens="bpe:260", reading=reading, validation="hub:set")

    with patch.object(shards, "assemble", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run()
    record = run()
    assert hub == ["set validation", "set train"]
    assert [note for note in record.notes if note.startswith("skipped")] == [
        "skipped 1 rows of hub:set; the first: row 1 must hold text, got nothing"
    ] * 2
    assert documents_of(tmp_path / "out", "train") == some_documents(50, seed=len("train"))
    assert documents_of(tmp_path / "out", "validation") == some_documents(50, seed=len("validation"))
    assert "nothing was done" in run().notes[-1]
    assert len(hub) == 2


def test_the_limit_counts_whole_documents(hub: list[str], tmp_path: Path) -> None:
    documents = some_documents(50, seed=len("train"))
    rows = write_rows(tmp_path / "rows.jsonl", documents)
    limit = sum(map(len, documents[:7])) - 1
    (tmp_path / "held.txt").write_text("x" * 10**5, encoding="utf-8")
    for source, out in (("hub:set", tmp_path / "one"), (rows, tmp_path / "two")):
        held, reading = tmp_path / "held.txt", Reading(skip_broken=True)
        prepare(source, out, tokens="bytes", reading=reading, limit=limit, validation=0, test=held)
        assert splits_of(out) == {"train": documents[:7], "test": ["x" * 10**5]}  # what is held out has no limit


def test_gsm8k_wikitext_and_gpt2(data_folder: Path, tmp_path: Path) -> None:
    wiki, gsm8k = data_folder / "wikitext-2", data_folder / "gsm8k"
    record = prepare(
        wiki / "wiki.valid.tokens.gz",
        tmp_path / "wiki",
        tokens=str(data_folder / "tokenizer-gpt2"),
        reading=Reading(documents="line"),
        limit=100_000,
        validation=0.1,
    )
    assert record.extra == {"vocab_size": 50258, "mask_id": 50257, "end_id": 50256, "pad_id": None}
    assert TokenData.open(tmp_path / "wiki").dtype == np.uint16
    prepare(
        gsm8k / "train.jsonl",
        tmp_path / "gsm8k",
        tokens="bytes",
        reading=Reading(column="question"),
        test=gsm8k / "test.jsonl",
    )
    counts = {split: each.documents for split, each in TokenData.open(tmp_path / "gsm8k").splits.items()}
    assert counts["test"] == 1319 and counts["train"] + counts["validation"] == 7473


# Interruptions


class Killed(BaseException):
    """What a process that was killed does not live to see."""


class Death:
    """Comes before a chosen file operation below a folder; nothing is done to a file from then on."""

    folder, num_left = "", 0
    events = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or event not in self.events:
            return
        path, in_open_folder = arguments[0], event in ("os.remove", "os.rmdir") and arguments[1] != -1
        if in_open_folder or (isinstance(path, (str, os.PathLike)) and str(path).startswith(self.folder)):
            self.num_left -= 1
            if self.num_left < 0:
                raise Killed

    @contextmanager
    def after(self, num: int, folder: Path) -> Iterator[None]:
        self.folder, self.num_left = str(folder), num
        try:
            yield
        finally:
            self.folder = ""


death = Death()
sys.addaudithook(death)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_rows(tmp_path / "test.jsonl", some_documents(4, seed=1))
    return write_rows(tmp_path / "rows.jsonl", some_documents(60))


def run_on(corpus: Path, out: Path, **changes: Any) -> None:
    with shards_of(2000):
        prepare(corpus, out, tokens="bpe:270", validation=0.2, test=corpus.parent / "test.jsonl", **changes)


def test_killed_before_any_file_operation_it_goes_on_to_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    run_on(corpus, tmp_path / "unbroken")
    unbroken = files_of(tmp_path / "unbroken")
    assert len(unbroken) == 8
    with death.after(10**9, tmp_path / "counted"):
        run_on(corpus, tmp_path / "counted")
    num_operations = 10**9 - death.num_left
    assert num_operations > 60
    for num in range(num_operations):
        out = tmp_path / f"out-{num}"
        with death.after(num, out), pytest.raises(Killed):
            run_on(corpus, out)
        run_on(corpus, out)
        assert files_of(out) == unbroken, num
        shutil.rmtree(out)


PROGRAM = """
import sys
from halfmask.data import shards
from halfmask.data.prepare import prepare
shards.SHARD_CHARACTERS = 2000
show = lambda done, total, stage: print(stage, flush=True)
from halfmask.data import texts
texts.SHOWN_CHARACTERS = 200
prepare(sys.argv[1], sys.argv[2], tokens="bpe:270", validation=0.2, test=sys.argv[3], progress=show)
"""


def test_killed_by_the_system_again_and_again(corpus: Path, tmp_path: Path) -> None:
    run_on(corpus, tmp_path / "unbroken")
    command = [sys.executable, "-c", PROGRAM, str(corpus), str(tmp_path / "out"), str(tmp_path / "test.jsonl")]
    stages = Counter()
    for num_lines in (1, 25, 45, 70):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _, line in zip(range(num_lines), process.stdout, strict=False):
            last = line.strip()
        process.kill()
        process.communicate()
        stages[last] += 1
    assert len(stages) > 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "unbroken")


def test_what_is_done_is_not_done_again(corpus: Path, tmp_path: Path) -> None:
    with patch.object(shards, "assemble", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run_on(corpus, tmp_path / "out")
    with (
        patch.object(shards, "tokenised", side_effect=AssertionError),
        patch("halfmask.data.prepare.train_vocabulary", side_effect=AssertionError),
    ):
        run_on(corpus, tmp_path / "out")
        run_on(corpus, tmp_path / "out")  # and nothing at all where it is whole


def test_ctrl_c_says_that_the_work_is_kept(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = shards.np.savez

    def interrupted(*arguments: Any, **arrays: Any) -> None:
        write(*arguments, **arrays)
        signal.raise_signal(signal.SIGINT)

    words = ["prepare", str(corpus), "--out", str(tmp_path / "out"), "--tokens", "bytes"]
    with shards_of(2000), monkeypatch.context() as during:
        during.setattr(np, "savez", interrupted)
        assert main(words) == 130
        out, err = capsys.readouterr()
        assert not out and err.split("\n")[1:] == [
            f"what is done is kept in {tmp_path / 'out'}: the same command goes on from there",
            "",
            "halfmask: interrupted",
            "",
        ]
    with shards_of(2000):
        assert main(words) == 0
    assert sorted(chain.from_iterable(splits_of(tmp_path / "out").values())) == sorted(some_documents(60))


def test_a_full_disk_has_its_line_and_the_command_goes_on(corpus: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system refuses to write either way."""
    command = [sys.executable, "-m", "halfmask", "prepare", str(corpus), "--tokens", "bpe:270", "--validation", "0.2"]
    limited = ["bash", "-c", 'ulimit -f 3; exec "$@"', "bash", *command, "--out", str(tmp_path / "out")]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "could not be written, got File too large: free space" in done.stderr and done.stderr.count("\n") == 1
    for out in ("out", "unbroken"):
        subprocess.run([*command, "--out", str(tmp_path / out)], check=True, capture_output=True)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "unbroken")


# Folders that are refused


def times_of(folder: Path) -> dict[Path, int]:
    """When each file was written, but the lock."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"validation": 0.3},
            r"begun with validation 0\.2, got validation 0\.3: remove the folder, or write to another",
        ),
        ({"test": 0.1}, r"begun with test sources, got test 0\.1"),
        ({"tokens": "bpe:280"}, "begun with tokenizer bpe:270, got tokenizer bpe:280"),
        ({"tokens": "bytes"}, "begun with tokenizer bpe:270, got tokenizer [0-9a-f]{32}"),
        ({"limit": 7}, "begun with limit None, got limit 7"),
        ({"reading": Reading(skip_broken=True)}, "begun with skip_broken False, got skip_broken True"),
        ({"sources": "builtin"}, r"begun with other text, got the digest \w+"),
    ],
)
def test_a_folder_begun_otherwise(
    changes: dict[str, Any], said: str, finished: bool, corpus: Path, tmp_path: Path
) -> None:
    if finished:
        run_on(corpus, tmp_path / "out")
    else:
        with patch.object(shards, "assemble", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            run_on(corpus, tmp_path / "out")
    before = times_of(tmp_path / "out")
    settings: dict[str, Any] = {
        "sources": corpus,
        "tokens": "bpe:270",
        "validation": 0.2,
        "test": tmp_path / "test.jsonl",
    }
    with shards_of(2000), pytest.raises(UsageError, match=said):
        prepare(out=tmp_path / "out", **{**settings, **changes})
    assert times_of(tmp_path / "out") == before


def test_a_second_process_waits(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "parts").mkdir(parents=True)
    with (tmp_path / "out" / "parts" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match=r"one process at a time prepares .*, got a second: wait for it"):
            run_on(corpus, tmp_path / "out")
    run_on(corpus, tmp_path / "out")


def test_text_that_changes_while_it_is_read(corpus: Path, tmp_path: Path) -> None:
    make = shards.write_shards
    for change in (
        lambda text: text + text,
        lambda text: text.replace("fox", "cat"),
        lambda text: text[: text.index("\n")],
    ):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        whole = corpus.read_text(encoding="utf-8")

        def changed(*arguments: Any, change: Any = change, whole: str = whole) -> Any:
            corpus.write_text(change(whole), encoding="utf-8")
            return make(*arguments)

        with (
            patch.object(shards, "write_shards", changed),
            pytest.raises(DataError, match="must not change while they are read, got other text than before"),
        ):
            run_on(corpus, tmp_path / "out")
        corpus.write_text(whole, encoding="utf-8")


def test_a_broken_shard_is_named(corpus: Path, tmp_path: Path) -> None:
    with patch.object(shards, "assemble", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run_on(corpus, tmp_path / "out")
    shard = tmp_path / "out" / "parts" / "000001.npz"
    whole = shard.read_bytes()
    for broken in (b"", whole[:100], b"\x93NUMPY", whole[: len(whole) // 2] + b"\0" * (len(whole) // 2)):
        shard.write_bytes(broken)
        with pytest.raises(DataError, match=r"000001.npz must be a sound .npz file, got .*: remove it"):
            run_on(corpus, tmp_path / "out")
    shard.unlink()
    run_on(corpus, tmp_path / "out")
    run_on(corpus, tmp_path / "unbroken")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "unbroken")


def test_settings_that_cannot_be_read(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "parts").mkdir(parents=True)
    (tmp_path / "out" / "parts" / "begun.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"begun.json must hold settings, got .*: remove .* and begin again"):
        run_on(corpus, tmp_path / "out")


# Mistakes get one line, and leave nothing behind


@pytest.mark.parametrize(
    "line, said",
    [
        ("nowhere.txt --out out", "a source must be a file, a folder, a pattern, -, builtin or hub:NAME"),
        ("empty.txt --out out", "empty.txt must hold text, got nothing: leave it out"),
        ("empty.txt --out out --skip-broken", "the split train must hold documents, got none of 0"),
        ("one.txt --out out", "shares of the documents need more than one document, got one: cut it (--documents"),
        ("rows.jsonl --out out --column txt", "rows.jsonl, line 1 has no column txt, got text: did you mean text?"),
        (
            "one.txt --out out --validation-from one.txt",
            "the split train must hold documents, got none of 1 (1 are held",
        ),
        ("rows.jsonl --out out --validation 1e-9", "the split validation must hold documents, got none of 60"),
        ("rows.jsonl --out out --validation 0.6 --test 0.4", "leave some for training, got validation 0.6, test 0.4"),
        ("rows.jsonl --out out --validation -0.1", "the shares of validation and test must lie in [0, 1)"),
        ("rows.jsonl --out out --validation nan", "the shares of validation and test must lie in [0, 1)"),
        ("rows.jsonl --out out --validation 0.1 --validation-from one.txt", "got --validation and --validation-from"),
        ("- --out out --test-from -", "standard input can be read once, got - -: name - once"),
        ("rows.jsonl --out out --tokens words", "a model needs a closed vocabulary"),
        ("rows.jsonl --out out --tokens bpe:12", "bpe:N takes a number of tokens from 256 (the bytes) to 1048576"),
        ("rows.jsonl --out out --tokens gpt2", "got gpt2: choose one of bytes, whitespace, words (hub:gpt2"),
        ("rows.jsonl --out out --tokens one.txt", "one.txt must be a tokenizer, got expected value"),
        ("rows.jsonl --out out --tokens folder", "folder must hold tokenizer.json, or encoder.json and vocab.bpe"),
        ("rows.jsonl --out out --limit 0", "the limit must be 1 character or more, got 0"),
        ("rows.jsonl --out one.txt", "tokens are written to a folder, got the file one.txt: name a folder (--out)"),
        ("rows.jsonl --out one.txt/out", "one.txt/out must be a folder for tokens, got Not a directory"),
        (
            "rows.jsonl --out folder",
            "folder must be new, empty, or a folder that this command began, got one that holds",
        ),
        ("rows.jsonl", "halfmask prepare needs --out, got nothing"),
    ],
)
def test_a_mistake_gets_one_line_and_leaves_nothing(
    line: str, said: str, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus.parent)
    Path("one.txt").write_text("one document", encoding="utf-8")
    Path("empty.txt").touch()
    Path("folder").mkdir()
    Path("folder/other").touch()
    before = sorted(Path().rglob("*"))
    assert main(["prepare", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert said in err and err.startswith("halfmask: ") and err.count("\n") == 1 and not out
    assert sorted(Path().rglob("*")) == before


def test_an_extra_that_is_not_there_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError) as caught:
        prepare("hub:set", tmp_path / "out", tokens="bytes")
    assert isinstance(caught.value, HalfmaskError) and not list(tmp_path.iterdir())
