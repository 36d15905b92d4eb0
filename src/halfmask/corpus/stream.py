"""A corpus as one row of token ids, BOUNDARY between documents: in memory, or beyond a budget in a file.

Corpus.pieces ──▶ Tokenizer.encode ──▶ TokenStream
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfmask.corpus.counts import BOUNDARY
from halfmask.corpus.formats import Piece
from halfmask.corpus.tokenizing import TokenIds, Tokenizer
from halfmask.errors import DataError

BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class TokenStream:
    tokens_T: TokenIds  # an array or a memory map
    num_documents: int

    def document_starts(self) -> NDArray[np.int64]:
        """Where each document after the first begins; none where documents were joined."""
        step = 1 << 24
        found = [
            np.flatnonzero(self.tokens_T[start : start + step] == BOUNDARY) + start + 1
            for start in range(0, len(self.tokens_T), step)
        ]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])


@contextlib.contextmanager
def token_stream(
    pieces: Iterable[Piece],
    tokenizer: Tokenizer,
    *,
    join: bool = False,
    memory: int = 4 << 30,
    folder: Path | None = None,
    limit: int | None = None,
) -> Iterator[TokenStream]:
    """Tokenise a corpus; the stream lives as long as the context.

    `join` lets n-grams cross from document to document. Beyond an eighth of `memory` the ids go to a temporary file
    in `folder`. `limit` stops after that many tokens.
    """
    rows: list[TokenIds] = []
    length = num_tokens = num_documents = 0
    with contextlib.ExitStack() as stack:
        spill = None
        for piece in pieces:
            row = tokenizer.encode(piece.texts)
            if piece.begins and piece.texts and num_documents:
                row = np.concatenate([np.array([BOUNDARY], dtype=np.int32), row])
            if limit is not None:
                row = _cut(row, limit - num_tokens)
            num_boundaries = int(np.count_nonzero(row == BOUNDARY))
            num_tokens += len(row) - num_boundaries
            num_documents += num_boundaries + bool(piece.texts and not num_documents)
            if join:
                row = row[row != BOUNDARY]
            length += len(row)
            if spill is None and length * BYTES_PER_TOKEN > memory // 8:
                spill = _new_file(stack, folder)
                _write(spill, rows)
                rows.clear()
            rows.append(row) if spill is None else _write(spill, [row])
            if limit is not None and num_tokens >= limit:
                break
        if spill is not None:
            tokens_T: TokenIds = np.asarray(np.memmap(spill, dtype=np.int32, mode="r", shape=(length,)))
        else:
            tokens_T = np.concatenate([np.empty(0, dtype=np.int32), *rows])
            rows.clear()
        yield TokenStream(tokens_T, num_documents)


def _cut(row: TokenIds, room: int) -> TokenIds:
    """As much of the row as holds `room` tokens."""
    position = np.flatnonzero(row != BOUNDARY)
    return row if len(position) <= room else row[: position[room - 1] + 1]


def _new_file(stack: contextlib.ExitStack, folder: Path | None) -> Path:
    with _blaming_the_folder():
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="halfmask-tokens-", dir=folder))) / "tokens"


def _write(path: Path, rows: list[TokenIds]) -> None:
    with _blaming_the_folder(), path.open("ab") as stream:
        for row in rows:
            stream.write(row.data)  # `tofile` can lose the end of a small row on a full disk, and say nothing


@contextlib.contextmanager
def _blaming_the_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            "the folder for spilled tokens must take what is written",
            got=error.strerror or error,
            fix="free space on its disk, name another folder (--folder), or raise the memory (--memory)",
        ) from error
