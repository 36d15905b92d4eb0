"""From the bytes of one file to the texts it holds: decompress, cut into whole lines, decode, read rows.

    chunks_of ──▶ text_blocks ──┬──▶ texts_of: plain text, cut into documents ───────────────▶ Piece
                                ├──▶ json_rows   ──┐
                                ├──▶ table_rows  ──┤ a text for each row ──▶ pieces_of ─────▶ Piece
                  parquet_rows reads its own  ─────┘

Nothing holds more than a block, or one line or document. What breaks a file is raised. What breaks one line or row
goes to `Tally.broken`, which raises it too, or counts it where the user asked to skip what is broken.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from halfmask.errors import DataError, MissingExtraError, nearest

CHUNK_BYTES = 1 << 17
BLOCK_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
FORMATS = ("text", "jsonl", "csv", "tsv", "parquet")
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
COMPRESSED = (".gz", ".zst")
UNITS = ("file", "line", "paragraph")
LONGEST_FIELD = 1 << 30  # of a CSV file; Python's own limit is 131,072 characters
LARGEST_WINDOW = 1 << 31  # of a .zst file: what `zstd --long=31` needs; the package's own limit is 1 << 27


class Piece(NamedTuple):
    """Texts of documents. The first continues the document before it unless it `begins` one; the others all begin."""

    texts: list[str]
    begins: bool


@dataclass
class Tally:
    """What reading met: bytes for a progress bar, and what was skipped."""

    skip_broken: bool = False
    num_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # "line", "row" or "file" → how many
    first_skip: str = ""

    def broken(self, kind: str, error: DataError) -> None:
        """Raise the error, or count it."""
        if not self.skip_broken:
            raise error
        self.skipped[kind] += 1
        self.first_skip = self.first_skip or f"{error.rule}, got {error.got}"


def format_of(path: Path) -> str:
    """The format that the suffixes name; what is unknown is plain text."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    last = suffixes[-1] if suffixes else ""
    if last == ".json":  # rows to some, one document to others: counting its syntax as words would be a silent error
        raise DataError(f"{path} must say what it holds", got="the suffix .json", fix="add --format jsonl or text")
    return SUFFIXES.get(last, "text")


def chunks_of(stream: IO[bytes], origin: str, tally: Tally) -> Iterator[bytes]:
    """The bytes of an open file, decompressed as its suffix says; the tally counts those before decompression."""
    chunks = _counted(stream, tally)
    match Path(origin).suffix.lower():
        case ".gz":
            return _inflate(chunks, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), zlib.error, origin)
        case ".zst":
            return _inflate(chunks, *_zstandard(origin), origin)
    return chunks


def _counted(stream: IO[bytes], tally: Tally) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK_BYTES):
        tally.num_bytes += len(chunk)
        yield chunk


def _zstandard(origin: str) -> tuple[Callable[[], Any], type[Exception]]:
    zstandard = optional("zstandard", f"reading {origin}", extra="corpus")
    decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
    return decompressor.decompressobj, zstandard.ZstdError


def optional(module: str, what: str, *, extra: str) -> Any:
    """A module that only an extra installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, package=module.partition(".")[0], extra=extra) from error


def _inflate(
    chunks: Iterator[bytes], make: Callable[[], Any], failure: type[Exception], origin: str
) -> Iterator[bytes]:
    """Both formats may hold several members one after another, each with its own end."""
    member = make()
    for each in chunks:
        chunk = each
        while chunk := chunk.lstrip(b"\0") if member.eof else chunk:  # zeros pad what tape drives wrote
            if member.eof:
                member = make()
            try:
                data = member.decompress(chunk)
            except failure as error:
                raise _unsound(origin, error) from error
            if data:
                yield data
            chunk = member.unused_data
    if not member.eof:
        raise _unsound(origin, "a file that breaks off before its end")


def _unsound(origin: str, got: object) -> DataError:
    rule = f"{origin} must be sound {Path(origin).suffix} data"
    return DataError(rule, got=got, fix="fetch or compress the file again")


class Block(NamedTuple):
    first_line: int  # its number in the file, from 1
    text: str


def text_blocks(chunks: Iterable[bytes], origin: str, tally: Tally, *, whole_lines: bool = True) -> Iterator[Block]:
    """Blocks of whole lines; every line ends in a plain newline. Else, a line that is too long is cut at a space."""
    line, column = 1, 0
    for index, lines in enumerate(_cut(chunks, whole_lines)):
        data = lines
        if index == 0:
            data = data.removeprefix(BYTE_ORDER_MARK)
            if b"\0" in data[:8192] or data.startswith(UTF_16_MARKS):  # git calls it a binary file
                raise DataError(
                    f"{origin} must be UTF-8 text",
                    got="UTF-16, or no text at all",
                    fix="convert it (iconv -f UTF-16 -t UTF-8), unpack it, or skip what is broken (--skip-broken)",
                )
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield Block(line, _decoded(data, origin, line, column, tally))
        num_lines, last_line = data.count(b"\n"), len(data) - data.rfind(b"\n") - 1
        line, column = line + num_lines, last_line if num_lines else column + last_line


def _cut(chunks: Iterable[bytes], whole_lines: bool) -> Iterator[bytes]:
    """Behind the first newline from BLOCK_BYTES on; or the first space from twice as many on, where lines may be cut.

    So the text alone decides, not how its bytes come: some tokenizers see where a block ends.
    """
    held = bytearray()
    searched = BLOCK_BYTES - 1  # no place to cut before here
    for chunk in chunks:
        held += chunk
        while searched < len(held):
            places = [held.find(b"\n", searched)]
            if not whole_lines:
                places.append(held.find(b" ", max(searched, 2 * BLOCK_BYTES - 1)))
            end = min((place + 1 for place in places if place >= 0), default=0)
            if end:
                yield bytes(held[:end])
                del held[:end]
            searched = BLOCK_BYTES - 1 if end else len(held)
    if held:
        yield bytes(held)


def _decoded(data: bytes, origin: str, line: int, column: int, tally: Tally) -> str:
    """The text of lines; the first is number `line`, from its byte `column` on.

    A line that is skipped leaves an empty one, so that the count of lines stays true.
    """
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode()
    texts = []
    for number, each in enumerate(data.split(b"\n"), start=line):
        try:
            texts.append(each.decode())
        except UnicodeDecodeError as error:
            texts.append("")
            byte = error.start + 1 + (column if number == line else 0)
            tally.broken(
                "line",
                DataError(
                    f"{origin}, line {number}, byte {byte} of the line: text must be UTF-8",
                    got=f"the byte 0x{each[error.start]:02x}",
                    fix="convert it (iconv -f LATIN1 -t UTF-8), or skip what is broken (--skip-broken)",
                ),
            )
    return "\n".join(texts)


_BLANK_LINES = re.compile(r"(?:^[^\S\n]*\n)+", re.MULTILINE)


def texts_of(blocks: Iterable[Block], unit: str) -> Iterator[Piece]:
    """Plain text as documents: the whole file is one, or each line, or each paragraph (blank lines part them)."""
    if unit == "file":
        for index, block in enumerate(blocks):
            yield Piece([block.text], begins=index == 0)
    elif unit == "line":
        for block in blocks:
            yield Piece([line for line in block.text.split("\n") if line.strip()], begins=True)
    else:
        unfinished: list[str] = []  # of the paragraph that goes on
        for block in blocks:
            *ended, last = _BLANK_LINES.split(block.text)
            if ended:
                ended[0] = "".join([*unfinished, ended[0]])
                unfinished = []
            unfinished.append(last)
            yield Piece([each for each in ended if each], begins=True)
        last = "".join(unfinished)
        yield Piece([last] if last.strip() else [], begins=True)


def pieces_of(texts: Iterable[str]) -> Iterator[Piece]:
    """Whole documents, about a block of them in each piece."""
    held: list[str] = []
    room = BLOCK_BYTES
    for text in texts:
        held.append(text)
        room -= len(text)
        if room <= 0:
            yield Piece(held, begins=True)
            held, room = [], BLOCK_BYTES
    yield Piece(held, begins=True)


def json_rows(blocks: Iterable[Block], origin: str, column: str, tally: Tally) -> Iterator[str]:
    for block in blocks:
        for number, line in enumerate(block.text.split("\n"), start=block.first_line):
            if not line or line.isspace():
                continue
            where = f"{origin}, line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                tally.broken("row", _bad_row(f"{where}, character {error.colno}: rows must be JSON", error.msg))
                continue
            except (ValueError, RecursionError) as error:  # a number of 5,000 digits, brackets 100,000 deep
                tally.broken("row", _bad_row(f"{where}: rows must be JSON", str(error)))
                continue
            if not isinstance(row, dict):
                tally.broken("row", _bad_row(f"{where} must be a JSON object", type(row).__name__))
                continue
            yield from text_of(row, column, where, tally)


def table_rows(blocks: Iterable[Block], origin: str, column: str, tally: Tally, *, delimiter: str) -> Iterator[str]:
    """CSV with a header. Rows may span lines, so it is one reader over all lines; a row is named by its first."""
    csv.field_size_limit(LONGEST_FIELD)
    lines = (f"{line}\n" for block in blocks for line in block.text.removesuffix("\n").split("\n"))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        where = f"{origin}, line {reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            tally.broken("row", _bad_row(f"{where} must begin a sound row", str(error)))
            continue
        if not row:  # an empty line
            continue
        if not header:
            header = row
            if column not in header:
                raise _no_column(where, column, header)
        elif len(row) != len(header):
            tally.broken("row", _bad_row(f"{where} must have {len(header)} fields, as the header has", str(len(row))))
        else:
            yield from text_of(dict(zip(header, row, strict=True)), column, where, tally)


def parquet_rows(path: Path, column: str, tally: Tally) -> Iterator[str]:
    parquet = optional("pyarrow.parquet", f"reading {path}", extra="corpus")
    pyarrow = importlib.import_module("pyarrow")
    try:
        size = path.stat().st_size
        with parquet.ParquetFile(path) as file:
            if column not in file.schema_arrow.names:
                raise _no_column(str(path), column, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(batch_size=256, columns=[column]):
                tally.num_bytes += size * len(batch) // file.metadata.num_rows
                for value in batch.column(0).to_pylist():
                    number += 1
                    yield from text_of({column: value}, column, f"{path}, row {number}", tally)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} must be sound Parquet", got=str(error).partition("\n")[0], fix="fetch or write the file again"
        ) from error


def text_of(row: dict[str, Any], column: str, where: str, tally: Tally) -> Iterator[str]:
    """The text of a row, or nothing where it is empty or skipped."""
    if column not in row:
        tally.broken("row", _no_column(where, column, row))
    elif not isinstance(text := row[column], str):
        got = "an empty field" if text is None else f"a value of type {type(text).__name__}"
        tally.broken("row", _bad_field(where, column, got))
    elif not _is_unicode(text):
        tally.broken("row", _bad_field(where, column, "half of a surrogate pair"))
    elif text:
        yield text


def _is_unicode(text: str) -> bool:
    """Not so where JSON's \\ud83d stands alone, as in a text that was cut inside an emoji."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bad_row(rule: str, got: str) -> DataError:
    return DataError(rule, got=got, fix="mend it, or skip what is broken (--skip-broken)")


def _bad_field(where: str, column: str, got: str) -> DataError:
    return DataError(
        f"{where}: the column {column} must hold text",
        got=got,
        fix="name another column (--column NAME), or skip what is broken (--skip-broken)",
    )


def _no_column(where: str, column: str, columns: Iterable[str]) -> DataError:
    names = list(columns)
    return DataError(
        f"{where} has no column {column}",
        got=", ".join(names) or "no columns",
        fix=f"{nearest(column, names) if names else 'check the file'} (--column NAME)",
    )
