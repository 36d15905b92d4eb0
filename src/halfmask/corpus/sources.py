"""What a person names as a corpus, as a stream of document texts.

    a file                 text, JSON Lines, CSV, TSV or Parquet by its suffix; .gz and .zst are decompressed
    a folder, a pattern    every file in it, in the order of their names
    -                      standard input
    hub:NAME               a Hugging Face data set by name, streamed; or a folder that holds one
    builtin                the documentation inside Python's own standard library

`open_corpus` resolves the names and says how large the whole is; `Corpus.pieces` reads it, once.
"""

from __future__ import annotations

import glob
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Any

from halfmask.corpus.formats import (
    FORMATS,
    UNITS,
    Piece,
    Tally,
    chunks_of,
    format_of,
    json_rows,
    optional,
    parquet_rows,
    pieces_of,
    table_rows,
    text_blocks,
    text_of,
    texts_of,
)
from halfmask.errors import DataError, UsageError, nearest

BUILTIN = "builtin"
HUB = "hub:"
STDIN = "-"


@dataclass(frozen=True)
class Reading:
    """How the named sources are read. Rows of JSON Lines, tables and data sets are a document each."""

    documents: str = "file"  # what a document is in plain text: the file, a line or a paragraph
    format: str | None = None  # None: by the suffix
    column: str = "text"
    subset: str | None = None  # of a Hub data set: its configuration
    split: str = "train"
    skip_broken: bool = False

    def __post_init__(self) -> None:
        if self.documents not in UNITS:
            raise UsageError(
                f"a document must be a {', a '.join(UNITS)}", got=self.documents, fix=nearest(self.documents, UNITS)
            )
        if self.format is not None and self.format not in FORMATS:
            raise UsageError(
                f"a format must be one of {', '.join(FORMATS)}", got=self.format, fix=nearest(self.format, FORMATS)
            )


@dataclass
class Corpus:
    """Sources that were found. Reading counts into `tally` and hashes what was read."""

    names: list[str]
    sources: list[str | Path]
    reading: Reading
    tally: Tally
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @cached_property
    def total_bytes(self) -> int | None:
        """What the tally's bytes will reach; None where nobody knows before reading."""
        if not all(isinstance(source, Path) for source in self.sources):
            return None
        return sum(source.stat().st_size for source in self.sources if isinstance(source, Path))

    def pieces(self) -> Iterator[Piece]:
        for source in self.sources:
            origin = "standard input" if source == STDIN else str(source)
            has_files = isinstance(source, Path) or source == STDIN  # whose bytes are counted as they are read
            try:
                empty = True
                for piece in self._pieces_of(source):
                    for text in piece.texts:
                        data = text.encode()
                        self._hash.update(data)
                        self.tally.num_bytes += 0 if has_files else len(data)
                    empty = empty and not any(text and not text.isspace() for text in piece.texts)
                    yield piece
                if empty:
                    raise DataError(f"{origin} must hold text", got="nothing", fix="leave it out (--skip-broken)")
            except DataError as error:
                self.tally.broken("file", error)

    @property
    def digest(self) -> str:
        """Of all texts read so far."""
        return str(self._hash.hexdigest())

    def _pieces_of(self, source: str | Path) -> Iterator[Piece]:
        if source == BUILTIN:
            yield from _standard_library()
        elif source == STDIN:
            form = self.reading.format or "text"
            if form == "parquet":
                raise UsageError("Parquet is read from a file", got="standard input", fix="save it to a file first")
            yield from self._rows(chunks_of(sys.stdin.buffer, "standard input", self.tally), "standard input", form)
        elif isinstance(source, str):
            yield from pieces_of(_hub_rows(source.removeprefix(HUB), self.reading, self.tally))
        elif (form := self.reading.format or format_of(source)) == "parquet":
            yield from pieces_of(parquet_rows(source, self.reading.column, self.tally))
        else:
            try:
                with source.open("rb") as stream:
                    yield from self._rows(chunks_of(stream, str(source), self.tally), str(source), form)
            except OSError as error:
                raise DataError(
                    f"{source} could not be read", got=error.strerror or error, fix="check the file"
                ) from error

    def _rows(self, chunks: Iterator[bytes], origin: str, form: str) -> Iterator[Piece]:
        one_text = form == "text" and self.reading.documents == "file"
        blocks = text_blocks(chunks, origin, self.tally, whole_lines=not one_text)
        if form == "text":
            return texts_of(blocks, self.reading.documents)
        if form == "jsonl":
            return pieces_of(json_rows(blocks, origin, self.reading.column, self.tally))
        delimiter = {"csv": ",", "tsv": "\t"}[form]
        return pieces_of(table_rows(blocks, origin, self.reading.column, self.tally, delimiter=delimiter))


def open_corpus(names: str | Path | Sequence[str | Path], reading: Reading | None = None) -> Corpus:
    """Find the files behind the names; whatever can be refused before reading is."""
    listed = [str(name) for name in ([names] if isinstance(names, (str, Path)) else names)]
    if not listed:
        raise UsageError("a corpus needs a source", got="none", fix=f"name a file, a folder or {BUILTIN}")
    if listed.count(STDIN) > 1:
        raise UsageError("standard input can be read once", got=" ".join(listed), fix="name - once")
    reading = reading or Reading()
    if (reading.subset or reading.split != Reading.split) and not any(name.startswith(HUB) for name in listed):
        raise UsageError(
            f"only a Hub data set has a subset and splits ({HUB}NAME)",
            got=" ".join(listed),
            fix="leave --subset and --split out, or name the file of the split",
        )
    sources = [source for name in listed for source in _find(name)]
    return Corpus(listed, sources, reading, Tally(reading.skip_broken))


def _find(name: str) -> list[str | Path]:
    path = Path(name)
    if name in (BUILTIN, STDIN) or name.startswith(HUB):
        return [name]
    if path.is_dir():
        return _not_empty(sorted(each for each in path.rglob("*") if _is_plain(each, path)), name)
    if path.exists():
        return [path]
    if any(mark in name for mark in "*?["):
        found = (Path(each) for each in glob.glob(name, recursive=True))  # noqa: PTH207 (Path.glob wants a base)
        return _not_empty(sorted(path for path in found if path.is_file()), name)
    raise DataError(
        "a source must be a file, a folder, a pattern, -, builtin or hub:NAME",
        got=f"{name}, which is not there",
        fix=f"check the path, or write {HUB}{name} if it is a data set of the Hub",
    )


def _is_plain(path: Path, folder: Path) -> bool:
    """A file that is not hidden, nor in a hidden folder."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _not_empty(paths: list[Path], name: str) -> list[str | Path]:
    if not paths:
        raise DataError(f"{name} must hold files", got="none", fix="check the folder or the pattern")
    return list(paths)


def _hub_rows(name: str, reading: Reading, tally: Tally) -> Iterator[str]:
    datasets = optional("datasets", f"reading {HUB}{name}", extra="hub")
    try:
        rows = datasets.load_dataset(name, reading.subset, split=reading.split, streaming=True)
        for number, row in enumerate(rows, start=1):
            yield from text_of(row, reading.column, f"{HUB}{name}, row {number}", tally)
    except DataError:
        raise
    except Exception as error:  # the library raises kinds of its own, of the network, of files and plain ValueErrors
        raise DataError(
            f"{HUB}{name} must be a data set that can be read, its subset and split named if need be",
            got=str(error).partition("\n")[0].rstrip(".") or type(error).__name__,
            fix="check the name, --subset and --split, and the network",
        ) from error


# String literals and comments in the order they stand, so that a quote inside one never opens another.
_LITERAL = re.compile(
    r"""\#[^\n]*                                                     # a comment
      | (?P<lead>^[^\S\n]*)?[rRuUbBfF]{0,2}                           # a literal; `lead` where it begins its line
        (?:\"\"\"(?P<double>[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*)\"\"\"
         | '''(?P<single>[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*)'''
         | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*')""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


def _standard_library() -> Iterator[Piece]:
    """Docstrings of every module but the tests, and the topics of `help()`, a document for each module.

    A docstring is a triple-quoted literal that begins its line: all but what the parser would say, five times as fast.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "dist-packages", "test", "tests", "pydoc_data"}
    for path in sorted(folder.rglob("*.py")):
        if left_out & set(path.relative_to(folder).parts):
            continue
        source = path.read_text(encoding="utf-8", errors="replace")
        found = (match for match in _LITERAL.finditer(source) if match["lead"] is not None)
        texts = [cleandoc(match["double"] or match["single"] or "") for match in found]
        if text := "\n\n".join(each for each in texts if each):
            yield Piece([text], begins=True)
    from pydoc_data.topics import topics

    yield Piece([cleandoc(topics[name]) for name in sorted(topics)], begins=True)
