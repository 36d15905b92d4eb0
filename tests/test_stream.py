"""A corpus as one row of ids: documents, boundaries, limits, and the same row in memory and in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfmask.corpus import stream as stream_module
from halfmask.corpus.counts import BOUNDARY
from halfmask.corpus.formats import Piece
from halfmask.corpus.stream import token_stream
from halfmask.corpus.tokenizing import open_tokenizer
from halfmask.errors import DataError

Document = list[str]  # its parts, as pieces bring them; a byte is a token
parts = st.text("ab", max_size=4)
documents = st.lists(st.lists(parts, min_size=1, max_size=3), max_size=6)


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Document], list[Piece]]:
    """Documents, and the pieces of a reader: parts of one document go on in the next piece, whole ones share one."""
    pieces: list[Piece] = []
    found = draw(documents)
    for document in found:
        first, *others = document
        last = pieces[-1] if pieces else None
        if last is not None and draw(st.booleans()):
            last.texts.append(first)
        else:
            pieces.append(Piece([first], begins=True))
        pieces += [Piece([part], begins=False) for part in others]
        if draw(st.booleans()):
            pieces.append(Piece([], begins=True))  # as a block without a row
    return found, pieces


def row_of(found: list[Document], *, join: bool, limit: int | None) -> list[int]:
    row: list[int] = []
    num_tokens = 0
    for index, document in enumerate(found):
        if limit is not None and num_tokens >= limit:
            break
        if index and not join:
            row.append(BOUNDARY)
        text = "".join(document).encode()[: None if limit is None else limit - num_tokens]
        row += text
        num_tokens += len(text)
    return row


@given(corpora(), st.booleans(), st.none() | st.integers(1, 20), st.sampled_from([0, 64, 1 << 30]))
def test_the_row(corpus: tuple[list[Document], list[Piece]], join: bool, limit: int | None, memory: int) -> None:
    found, pieces = corpus
    with token_stream(pieces, open_tokenizer("bytes"), join=join, limit=limit, memory=memory) as stream:
        row = stream.tokens_T.tolist()
        starts = stream.document_starts()
    expected = row_of(found, join=join, limit=limit)
    if limit is not None:  # a boundary may stand behind the last token that was asked for, or empty documents
        row, expected = (_without_last_boundaries(each) for each in (row, expected))
    assert row == expected
    assert stream.tokens_T.dtype == np.int32
    if limit is None:
        assert stream.num_documents == len(found)
        assert len(starts) == (0 if join else max(len(found) - 1, 0))
    for start in starts:
        assert join is False and (start == len(row) or start >= 1)


def _without_last_boundaries(row: list[int]) -> list[int]:
    while row and row[-1] == BOUNDARY:
        row = row[:-1]
    return row


def test_document_starts_are_behind_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    with token_stream([Piece(["ab", "", "c"], begins=True)], open_tokenizer("bytes")) as stream:
        assert stream.tokens_T.tolist() == [97, 98, BOUNDARY, BOUNDARY, 99]
        assert stream.document_starts().tolist() == [3, 4]


def spilled(pieces: list[Piece], folder: Path | None) -> list[Path]:
    with token_stream(pieces, open_tokenizer("bytes"), memory=0, folder=folder) as stream:
        files = list(folder.rglob("tokens")) if folder else []
        assert files and files[0].stat().st_size == 4 * len(stream.tokens_T)
        return files


def test_a_spilled_row_is_removed_however_it_ends(tmp_path: Path) -> None:
    spilled([Piece(["some text"], begins=True)], tmp_path)
    assert not list(tmp_path.iterdir())

    def interrupted() -> object:
        yield Piece(["some text"], begins=True)
        assert list(tmp_path.rglob("tokens"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spilled(interrupted(), tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    rule = r"the folder for spilled tokens must take what is written, got .+: free space on its disk, name another fol"
    with pytest.raises(DataError, match=rule):
        spilled([Piece(["some text"], begins=True)], tmp_path / "nowhere")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full, a disk that is always full")
@pytest.mark.parametrize("length", [1, 500, 10_000])
def test_a_full_disk_is_seen_however_little_is_written(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_new_file", lambda *_: Path("/dev/full"))
    with pytest.raises(DataError, match="must take what is written, got No space left on device"):
        spilled([Piece(["a" * length], begins=True)], None)
