"""From bytes to texts: whatever the sizes of chunks and blocks, the same documents; what is broken is named."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from halfmask.corpus import formats
from halfmask.corpus.formats import (
    UNITS,
    Piece,
    Tally,
    chunks_of,
    format_of,
    json_rows,
    parquet_rows,
    pieces_of,
    table_rows,
    text_blocks,
    texts_of,
)
from halfmask.errors import DataError, MissingExtraError

COMPRESSIONS = ("", ".gz", ".zst")
# Line ends of three systems, what str.splitlines would take for one, letters of one to four bytes, and the space.
characters = st.sampled_from("ab \t\n\n\n\r\x0b\x0c\x1c\x85\u2028é語🙂,\"'")
sizes = st.integers(1, 40)


@contextmanager
def sizes_of(block: int, chunk: int) -> Iterator[None]:
    with patch.multiple(formats, BLOCK_BYTES=block, CHUNK_BYTES=chunk):
        yield


def compressed(parts: Iterable[bytes], suffix: str) -> bytes:
    """Each part a member of its own."""
    if suffix == ".gz":
        return b"".join(map(gzip.compress, parts))
    if suffix == ".zst":
        return b"".join(map(zstandard.compress, parts))
    return b"".join(parts)


def documents_of(pieces: Iterable[Piece]) -> list[str]:
    found: list[str] = []
    for texts, begins in pieces:
        for index, text in enumerate(texts):
            if found and index == 0 and not begins:
                found[-1] += text
            else:
                found.append(text)
    return found


def read(data: bytes, unit: str = "file", *, name: str = "corpus.txt", tally: Tally | None = None) -> list[str]:
    tally = tally or Tally()
    blocks = text_blocks(chunks_of(io.BytesIO(data), name, tally), name, tally, whole_lines=unit != "file")
    return documents_of(texts_of(blocks, unit))


def wanted(text: str, unit: str) -> list[str]:
    """Documents by another route: the whole text at hand, line by line."""
    lines = re.sub("\r\n|\r", "\n", text).split("\n")
    if unit == "file":
        return ["\n".join(lines)] if text else []
    if unit == "line":
        return [line for line in lines if line.strip()]
    groups = itertools.groupby(lines, key=lambda line: bool(line.strip()))
    return ["\n".join(group) for has_text, group in groups if has_text]


# Plain text


@given(
    st.text(characters, max_size=120),
    st.sampled_from(UNITS),
    st.sampled_from(COMPRESSIONS),
    st.lists(st.integers(0, 200), max_size=3),
    st.tuples(sizes, sizes),
)
@example("a\r\n\r\nb\r\r\rc", "paragraph", "", [], (1, 1))
@example("\ufeffa", "line", ".gz", [0, 2], (1, 1))
def test_the_sizes_of_blocks_and_chunks_do_not_matter(
    text: str, unit: str, suffix: str, cuts: list[int], block_and_chunk: tuple[int, int]
) -> None:
    data = text.encode()
    edges = [0, *sorted(cuts), len(data)]
    parts = [data[start:end] for start, end in itertools.pairwise(edges)]
    with sizes_of(*block_and_chunk):
        found = read(compressed(parts, suffix), unit, name=f"corpus.txt{suffix}")
    expected = wanted(text.removeprefix("\ufeff"), unit)
    if unit == "paragraph":  # white space at its end is of no interest
        found, expected = [each.rstrip() for each in found], [each.rstrip() for each in expected]
    assert found == expected


@given(st.lists(st.text(characters, max_size=5), max_size=40), st.integers(1, 10))
def test_rows_come_in_pieces_of_about_a_block(texts: list[str], block: int) -> None:
    with sizes_of(block, 1):
        pieces = list(pieces_of(texts))
    assert [text for piece in pieces for text in piece.texts] == texts
    assert all(piece.begins for piece in pieces)
    assert all(sum(map(len, piece.texts[:-1])) < block for piece in pieces)


def test_one_line_of_any_length_is_read_in_blocks() -> None:
    data = b"word " * 100_000
    with sizes_of(1000, 100):
        blocks = list(text_blocks(chunks_of(io.BytesIO(data), "x", Tally()), "x", Tally(), whole_lines=False))
    assert max(len(block.text) for block in blocks) < 2100
    assert "".join(block.text for block in blocks) == data.decode()


@given(st.text(characters, max_size=120), st.booleans(), sizes, sizes)
def test_blocks_do_not_depend_on_how_bytes_come(text: str, whole_lines: bool, block: int, chunk: int) -> None:
    """As from a file and from its compressed copy: some tokenisers see where a block ends."""
    data = text.encode()
    chunks = [data[start : start + chunk] for start in range(0, len(data), chunk)]
    with sizes_of(block, chunk):
        one, many = (list(text_blocks(each, "x", Tally(), whole_lines=whole_lines)) for each in ([data], chunks))
    assert one == many
    assert all(block.text.endswith(("\n", " ")) for block in one[:-1])


def test_bytes_are_counted_as_they_lie_on_the_disk() -> None:
    data = gzip.compress(b"line\n" * 10_000)
    tally = Tally()
    read(data, name="x.gz", tally=tally)
    assert tally.num_bytes == len(data)


# Broken text


@given(
    st.text(characters, max_size=60), st.text(characters, max_size=60), st.sampled_from([b"\xff", b"\xe9", b"\xc3"])
)
@example("a\r\n\r", "", b"\xff")
@example("ab " * 20, "", b"\xff")
def test_the_line_and_byte_of_bad_utf8_are_named(before: str, after: str, bad: bytes) -> None:
    data = before.encode() + bad + b"\n" + after.encode()
    *earlier, line = re.split("\r\n|\r|\n", before)
    place = f"corpus.txt, line {len(earlier) + 1}, byte {len(line.encode()) + 1} of the line: text must be UTF-8, got "
    for block, chunk in ((1 << 20, 1 << 17), (10, 3)):
        for unit in ("file", "line"):
            with sizes_of(block, chunk), pytest.raises(DataError) as caught:
                read(data, unit)
            assert str(caught.value).startswith(f"{place}the byte 0x{bad.hex()}: convert it")


@given(st.lists(st.tuples(st.text(st.sampled_from("abé "), max_size=5), st.booleans()), max_size=20), sizes)
def test_skipped_lines_are_counted_and_the_others_stay(lines: list[tuple[str, bool]], block: int) -> None:
    data = b"".join(text.encode() + b"\xff" * broken + b"\n" for text, broken in lines)
    tally = Tally(skip_broken=True)
    with sizes_of(block, 7):
        found = read(data, "line", tally=tally)
    assert found == [text for text, broken in lines if text.strip() and not broken]
    assert tally.skipped["line"] == sum(broken for _, broken in lines)
    if tally.skipped:
        first = next(number for number, (_, broken) in enumerate(lines, start=1) if broken)
        assert tally.first_skip.startswith(f"corpus.txt, line {first}, byte ")


@pytest.mark.parametrize(
    "data", ["語".encode("utf-16"), "ab".encode("utf-16-le"), b"\x89PNG\0", b"\xef\xbb\xbfa\0", "a".encode("utf-32")]
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"corpus.txt must be UTF-8 text, got UTF-16, or no text at all: convert it"):
        read(data)


# Compression


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_cut_off_anywhere_is_refused(suffix: str) -> None:
    """And what came before the cut is right. Only between two members does nobody see a cut."""
    parts = [b"one line\nand another\n", b"a third\n" * 50]
    whole, first = compressed(parts, suffix), compressed(parts[:1], suffix)
    for end in range(len(whole)):
        chunks = chunks_of(io.BytesIO(whole[:end]), f"x{suffix}", Tally())
        if end == len(first):
            assert b"".join(chunks) == parts[0]
            continue
        found = b""
        with pytest.raises(DataError, match=rf"x{suffix} must be sound {suffix} data, got a file that breaks off"):
            for chunk in chunks:
                found += chunk
        assert b"".join(parts).startswith(found)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 17])
def test_padding_between_and_behind_members(suffix: str, chunk: int) -> None:
    parts = [b"one\n", b"two\n"]
    data = b"".join(compressed([part], suffix) + b"\0" * 10 for part in parts)
    with sizes_of(1, chunk):
        assert b"".join(chunks_of(io.BytesIO(data), f"x{suffix}", Tally())) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damage_inside_or_behind_a_file_is_refused(suffix: str) -> None:
    sound = compressed([b"some text\n" * 20], suffix)
    checked = gzip.compress(b"some text\n" * 20) if suffix == ".gz" else zstandard_with_checksum(b"some text\n" * 20)
    flipped = checked[:-6] + bytes([checked[-6] ^ 1]) + checked[-5:]
    for data in (sound + b"rubbish", b"plain text", flipped):
        with pytest.raises(DataError, match=rf"x{suffix} must be sound {suffix} data"):
            list(chunks_of(io.BytesIO(data), f"x{suffix}", Tally()))


def zstandard_with_checksum(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def test_a_zst_file_may_ask_for_a_wide_window_and_hold_frames_to_skip() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    data = compressor.compress(b"text\n") + compressor.flush()
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert b"".join(chunks_of(io.BytesIO(skippable + data), "x.zst", Tally())) == b"text\n"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"reading x.zst needs the package zstandard, .*halfmask\[corpus\]"):
        chunks_of(io.BytesIO(b""), "x.zst", Tally())


# Formats by suffix


@pytest.mark.parametrize(
    "name, form",
    [
        ("x.txt", "text"),
        ("wiki.train.tokens.gz", "text"),
        ("README", "text"),
        ("x.jsonl", "jsonl"),
        ("x.NDJSON.GZ", "jsonl"),
        ("x.csv.zst", "csv"),
        ("x.tsv", "tsv"),
        ("a.b.parquet", "parquet"),
        ("x.parquet.txt", "text"),
    ],
)
def test_the_suffix_names_the_format(name: str, form: str) -> None:
    assert format_of(Path(name)) == form


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_json_must_say_what_it_is(name: str) -> None:
    with pytest.raises(DataError, match=rf"{name} must say what it holds, got the suffix .json: add --format jsonl"):
        format_of(Path(name))


# Rows of JSON


def rows_of_json(data: bytes, column: str = "text", tally: Tally | None = None) -> list[str]:
    tally = tally or Tally()
    return list(json_rows(text_blocks([data], "x.jsonl", tally), "x.jsonl", column, tally))


@given(st.lists(st.text(characters, max_size=10), max_size=10), st.booleans(), st.sampled_from(["\n", "\r\n"]), sizes)
def test_json_lines_keep_every_character(texts: list[str], ascii_only: bool, newline: str, block: int) -> None:
    data = "".join(json.dumps({"text": text}, ensure_ascii=ascii_only) + newline for text in texts).encode()
    with sizes_of(block, block):
        assert rows_of_json(data) == [text for text in texts if text]


@pytest.mark.parametrize(
    "line, said",
    [
        (b'{"text": "cut off', "line 3, character 10: rows must be JSON, got Unterminated string"),
        (b"[" * 100_000, "line 3: rows must be JSON, got maximum recursion depth exceeded"),
        (b'{"text": ' + b"1" * 5000 + b"}", "line 3: rows must be JSON, got Exceeds the limit"),
        (b'["text"]', "line 3 must be a JSON object, got list"),
        (b'{"txt": "a"}', "line 3 has no column text, got txt: did you mean txt? (--column NAME)"),
        (b"{}", "line 3 has no column text, got no columns: check the file"),
        (b'{"text": null}', "line 3: the column text must hold text, got an empty field: name another column"),
        (b'{"text": ["a"]}', "line 3: the column text must hold text, got a value of type list"),
        (b'{"text": "\\ud83d"}', "line 3: the column text must hold text, got half of a surrogate pair"),
        (b'{"text": "\xff"}', "line 3, byte 11 of the line: text must be UTF-8, got the byte 0xff"),
    ],
)
def test_a_broken_row_is_named_or_counted(line: bytes, said: str) -> None:
    data = b'{"text": "one"}\n\n' + line + b'\n{"text": "two"}\n'
    with pytest.raises(DataError) as caught:
        rows_of_json(data)
    assert f"x.jsonl, {said}" in str(caught.value)
    assert "\n" not in str(caught.value)
    tally = Tally(skip_broken=True)
    assert rows_of_json(data, tally=tally) == ["one", "two"]
    assert sum(tally.skipped.values()) == 1
    assert tally.first_skip.startswith("x.jsonl, line 3")


def test_the_column_can_be_chosen_and_empty_texts_are_left_out() -> None:
    assert rows_of_json(b'{"a": "", "b": "x"}\n{"a": "y", "b": "z"}', "a") == ["y"]


# Tables


def rows_of_table(data: bytes, column: str = "text", delimiter: str = ",", tally: Tally | None = None) -> list[str]:
    tally = tally or Tally()
    return list(table_rows(text_blocks([data], "x.csv", tally), "x.csv", column, tally, delimiter=delimiter))


@given(
    st.lists(st.lists(st.text(characters, max_size=8), min_size=2, max_size=2), max_size=10),
    st.sampled_from([",", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    sizes,
)
def test_tables_keep_quotes_commas_and_newlines(
    rows: list[list[str]], delimiter: str, newline: str, block: int
) -> None:
    stream = io.StringIO()
    quoting = (
        csv.QUOTE_ALL if any("\r" in text for row in rows for text in row) else csv.QUOTE_MINIMAL
    )  # which leaves a lone \r bare
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerows([("id", "text"), *rows])
    with sizes_of(block, block):
        found = rows_of_table(stream.getvalue().encode(), delimiter=delimiter)
    assert found == [re.sub("\r\n|\r", "\n", text) for _, text in rows if text]


def test_a_field_may_be_longer_than_python_allows_by_itself() -> None:
    assert rows_of_table(b"text\n" + b"a" * 200_000) == ["a" * 200_000]


@pytest.mark.parametrize(
    "row, said",
    [
        (b'4,"a" b', "line 5 must begin a sound row, got ',' expected after '\"'"),
        (b"4,one, two", "line 5 must have 2 fields, as the header has, got 3"),
        (b"4", "line 5 must have 2 fields, as the header has, got 1"),
        (b"4,\xff", "line 5, byte 3 of the line: text must be UTF-8"),
    ],
)
def test_a_broken_row_of_a_table_is_named_or_counted(row: bytes, said: str) -> None:
    data = b'id,text\n1,"two\nlines"\n\n' + row + b"\n5,last\n"
    with pytest.raises(DataError) as caught:
        rows_of_table(data)
    assert f"x.csv, {said}" in str(caught.value)
    tally = Tally(skip_broken=True)
    assert rows_of_table(data, tally=tally) == ["two\nlines", "last"]
    assert sum(tally.skipped.values()) == 1


def test_a_quote_that_never_closes_is_named_where_it_opens() -> None:
    with pytest.raises(DataError, match="line 3 must begin a sound row, got unexpected end of data"):
        rows_of_table(b'text\none\n"two\nthree\nfour\n')


@pytest.mark.parametrize("rows", [b"", b"\n1,a\n"])
def test_a_table_without_the_column_is_refused_at_its_header(rows: bytes) -> None:
    for tally in (Tally(), Tally(skip_broken=True)):  # no row can be read, so it is the file that is broken
        with pytest.raises(DataError, match=r"x.csv, line 1 has no column txt, got id, text: did you mean text\?"):
            rows_of_table(b"id,text" + rows, "txt", tally=tally)
        assert not tally.skipped


# Parquet


def write_parquet(path: Path, **columns: list[object]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=300)
    return path


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(700)]
    path = write_parquet(tmp_path / "x.parquet", id=list(range(700)), text=[*texts, ""][:700])
    tally = Tally()
    assert list(parquet_rows(path, "text", tally)) == texts
    assert 0.9 * path.stat().st_size < tally.num_bytes <= path.stat().st_size


def test_rows_of_parquet_without_text_are_named_or_counted(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", text=["a", None, "b", None], number=[1, 2, 3, 4])
    with pytest.raises(DataError, match=r"x.parquet, row 2: the column text must hold text, got an empty field"):
        list(parquet_rows(path, "text", Tally()))
    tally = Tally(skip_broken=True)
    assert list(parquet_rows(path, "text", tally)) == ["a", "b"]
    assert tally.skipped == {"row": 2}
    with pytest.raises(DataError, match=r"row 1: the column number must hold text, got a value of type int"):
        list(parquet_rows(path, "number", Tally()))
    with pytest.raises(DataError, match=r"x.parquet has no column txt, got text, number: did you mean text\?"):
        list(parquet_rows(path, "txt", Tally()))


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_what_is_no_parquet_is_refused(cut: int, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", text=["some text"] * 50)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"x.parquet must be sound Parquet, got .*: fetch or write the file again"):
        list(parquet_rows(path, "text", Tally()))


def test_damage_inside_a_parquet_file_is_read_or_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", text=[f"text é {number}" for number in range(100)])
    sound = path.read_bytes()
    refused = 0
    for place in range(4, len(sound), 7):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 0xFF]) + sound[place + 1 :])
        try:
            list(parquet_rows(path, "text", Tally(skip_broken=True)))
        except DataError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 20
