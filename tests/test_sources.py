"""What a person names as a corpus: the same documents from every kind of source, and one line for what is none."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from halfmask.corpus import sources
from halfmask.corpus.formats import UNITS
from halfmask.corpus.sources import Reading, open_corpus
from halfmask.errors import DataError, HalfmaskError, UsageError
from test_formats import documents_of

TEXTS = ["one small step", 'two, "quoted"', "three: é語🙂", "four"]
LINES = "".join(f"{text}\n" for text in TEXTS)
ROWS = "".join(json.dumps({"text": text, "id": number}) + "\n" for number, text in enumerate(TEXTS))


def as_table(delimiter: str) -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows([("id", "text"), *enumerate(TEXTS)])
    return stream.getvalue()


def write_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "x.txt": lambda path: path.write_text(LINES, encoding="utf-8"),
    "x.txt.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "x.zst": lambda path: path.write_bytes(zstandard.compress(LINES.encode())),
    "x.jsonl": lambda path: path.write_text(ROWS, encoding="utf-8"),
    "x.ndjson.gz": lambda path: path.write_bytes(gzip.compress(ROWS.encode())),
    "x.csv": lambda path: path.write_text(as_table(","), encoding="utf-8"),
    "x.tsv.zst": lambda path: path.write_bytes(zstandard.compress(as_table("\t").encode())),
    "x.parquet": write_parquet,
}


def read(*names: str | Path, **reading: object) -> list[str]:
    return documents_of(open_corpus(names, Reading(**reading)).pieces())  # type: ignore[arg-type]


def digest(*names: str | Path, **reading: object) -> str:
    corpus = open_corpus(names, Reading(**reading))  # type: ignore[arg-type]
    documents_of(corpus.pieces())
    return corpus.digest


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_holds_the_same_documents(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    corpus = open_corpus(path, Reading(documents="line"))
    assert documents_of(corpus.pieces()) == TEXTS
    assert corpus.total_bytes == path.stat().st_size
    assert corpus.tally.num_bytes == corpus.total_bytes


@pytest.mark.parametrize("name", ["hub:data", "hub:./data"])
def test_a_data_set_of_the_hub_is_streamed(name: str, tmp_path: Path) -> None:
    """A folder stands in for the Hub: the library opens both by the same call. Alone, since it warns and is slow."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text(ROWS, encoding="utf-8")
    (tmp_path / "data" / "test.jsonl").write_text('{"text": "held out"}\n', encoding="utf-8")
    code = (
        "import json, sys\n"
        "from halfmask.corpus.sources import Reading, open_corpus\n"
        "corpora = [open_corpus(sys.argv[1], Reading(split=split)) for split in ('train', 'test')]\n"
        "print(json.dumps([[text for piece in corpus.pieces() for text in piece.texts] for corpus in corpora]))\n"
        "for options in ({'split': 'dev'}, {'column': 'txt'}):\n"
        "    try:\n"
        "        list(open_corpus(sys.argv[1], Reading(**options)).pieces())\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, name], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, bad_split, bad_column = done.stdout.splitlines()
    assert json.loads(found) == [TEXTS, ["held out"]]
    assert bad_split.startswith(f"{name} must be a data set that can be read, its subset and split named if need be")
    assert "dev" in bad_split
    assert f"{name}, row 1 has no column txt, got " in bad_column and "did you mean text?" in bad_column


def test_a_name_that_the_hub_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Datasets:
        @staticmethod
        def load_dataset(name: str, subset: str | None, *, split: str, streaming: bool) -> None:
            assert (name, subset, split, streaming) == ("owner/none", "en", "test", True)
            raise ConnectionError("cannot reach the Hub.\nAnd a second line.")

    monkeypatch.setitem(sys.modules, "datasets", Datasets)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"got cannot reach the Hub: check the name, --subset and --split"):
        read("hub:owner/none", subset="en", split="test")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(HalfmaskError, match=r"reading hub:owner/none needs the package datasets.*halfmask\[hub\]"):
        read("hub:owner/none")


# Several files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Text in files, in folders in it, and hidden."""
    for name in ("b.txt", "a/2.txt", "a/10.txt", ".hidden.txt", ".git/c.txt", "c/.d/e.txt"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}", encoding="utf-8")
    return tmp_path / "corpus"


def test_folders_and_patterns_in_the_order_of_names(folder: Path) -> None:
    in_a = ["text of a/10.txt", "text of a/2.txt"]
    assert read(folder) == [*in_a, "text of b.txt"]
    assert read(folder / "**" / "*.txt") == [*in_a, "text of b.txt"]
    assert read(folder / "a" / "*.txt") == in_a
    assert read(folder / "[ab].txt") == ["text of b.txt"]
    assert read(folder / "b.txt", folder / "a") == ["text of b.txt", *in_a]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("this one", encoding="utf-8")
    (tmp_path / "a1.txt").write_text("not this one", encoding="utf-8")
    assert read(tmp_path / "a[1].txt") == ["this one"]


@pytest.mark.parametrize("documents", UNITS)
def test_no_document_goes_on_in_the_next_file(documents: str, tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt"):
        (tmp_path / name).write_text("no newline at its end", encoding="utf-8")
    assert read(tmp_path, documents=documents) == ["no newline at its end"] * 2


@pytest.mark.parametrize("form, data", [("text", LINES), ("jsonl", ROWS), ("csv", as_table(","))])
def test_standard_input(form: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
    corpus = open_corpus("-", Reading(documents="line", format=form))
    assert documents_of(corpus.pieces()) == TEXTS
    assert corpus.total_bytes is None and corpus.tally.num_bytes == len(data.encode())


def test_the_digest_is_of_the_text_alone(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name)
    assert digest(tmp_path / "x.txt") == digest(tmp_path / "x.txt.gz") == digest(tmp_path / "x.zst")
    assert digest(tmp_path / "x.jsonl") == digest(tmp_path / "x.parquet") == digest(tmp_path / "x.csv")
    assert digest(tmp_path / "x.txt") != digest(tmp_path / "x.jsonl")
    assert digest(tmp_path / "x.txt", tmp_path / "x.csv") != digest(tmp_path / "x.csv", tmp_path / "x.txt")


# The sample that is always there


def test_the_builtin_sample_is_real_english() -> None:
    corpus = open_corpus("builtin")
    documents = documents_of(corpus.pieces())
    words = " ".join(documents).split()
    assert len(documents) > 300 and len(words) > 250_000
    assert 0.03 < sum(word.lower() == "the" for word in words) / len(words) < 0.1
    assert "dictionary" in words
    assert corpus.tally.num_bytes == sum(len(text.encode()) for text in documents)  # what a progress bar shows


def test_the_builtin_sample_holds_what_the_parser_finds() -> None:
    """Docstrings by another route, for the packages whose prose is longest. Only triple-quoted ones are looked for."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    everything = "\n".join(documents_of(open_corpus("builtin").pieces()))
    found = missed = 0
    for name in ("argparse", "ast", "datetime", "decimal", "difflib", "inspect", "random", "shutil", "typing"):
        path = next(path for path in (folder / f"{name}.py", folder / f"_py{name}.py") if path.exists())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                is_there = text.strip() in everything
                found, missed = found + is_there, missed + (not is_there)
    assert found > 300
    assert missed < 0.1 * found  # those in single quotes, and those with escapes


# What is none


@pytest.mark.parametrize(
    "names, reading, said",
    [
        ([], {}, "a corpus needs a source, got none: name a file, a folder or builtin"),
        (["-", "-"], {}, "standard input can be read once, got - -"),
        (["none.txt"], {}, "got none.txt, which is not there: check the path, or write hub:none.txt"),
        (["*.txt"], {}, "*.txt must hold files, got none"),
        (["empty"], {}, "empty must hold files, got none"),
        (["x"], {"subset": "en"}, "only a Hub data set has a subset and splits (hub:NAME), got x"),
        (["x"], {"split": "test"}, "only a Hub data set has a subset and splits (hub:NAME), got x"),
        (["x"], {"documents": "word"}, "a document must be a file, a line, a paragraph, got word"),
        (["x"], {"format": "json"}, "a format must be one of text, jsonl, csv, tsv, parquet, got json"),
    ],
)
def test_names_that_open_nothing(
    names: list[str], reading: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").touch()
    (tmp_path / "x").write_text("text", encoding="utf-8")
    with pytest.raises(HalfmaskError) as caught:
        open_corpus(names, Reading(**reading))  # type: ignore[arg-type]
    assert said in str(caught.value) and "\n" not in str(caught.value)


BROKEN: dict[str, tuple[bytes, str]] = {
    "1-empty.txt": (b"", "1-empty.txt must hold text, got nothing: leave it out (--skip-broken)"),
    "2-blank.txt": (b" \n\t\n", "2-blank.txt must hold text, got nothing"),
    "3-cut.txt.gz": (gzip.compress(LINES.encode())[:-9], "3-cut.txt.gz must be sound .gz data, got a file that"),
    "4-rows.json": (b"{}", "4-rows.json must say what it holds, got the suffix .json"),
    "5-empty.parquet": (b"", "5-empty.parquet must be sound Parquet"),
    "6-column.csv": (b"id,body\n1,a\n", "6-column.csv, line 1 has no column text, got id, body"),
    "7-empty.jsonl": (b'{"text": ""}\n', "7-empty.jsonl must hold text, got nothing"),
}


def test_broken_files_are_named_or_counted(tmp_path: Path) -> None:
    for name, (data, said) in BROKEN.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(DataError) as caught:
            read(path)
        assert f"{tmp_path}/{said}" in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "0-sound.txt").write_text("sound", encoding="utf-8")
    (tmp_path / "8-sound.txt").write_text("as well", encoding="utf-8")
    corpus = open_corpus(tmp_path, Reading(skip_broken=True))
    found = [text for text in documents_of(corpus.pieces()) if text.strip()]
    assert [found[0], found[-1]] == ["sound", "as well"]
    assert corpus.tally.skipped == {"file": len(BROKEN)}
    assert corpus.tally.first_skip.startswith(f"{tmp_path}/1-empty.txt must hold text")


def test_empty_standard_input_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(DataError, match="standard input must hold text, got nothing"):
        read("-")


def test_parquet_does_not_come_through_a_pipe() -> None:
    with pytest.raises(UsageError, match="Parquet is read from a file, got standard input: save it to a file first"):
        read("-", format="parquet")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.txt").write_text("text", encoding="utf-8")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"x.txt could not be read, got Permission denied: check the file"):
        read(tmp_path / "x.txt")


def test_a_corpus_says_how_large_it_is_before_it_is_read(folder: Path) -> None:
    assert open_corpus(folder).total_bytes == sum(len(f"text of {name}") for name in ("b.txt", "a/2.txt", "a/10.txt"))
    assert open_corpus([folder, sources.BUILTIN]).total_bytes is None
