"""Between tokens and text while a row is not full yet: what each token adds, and texts that end it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfmask.data.vocabulary import Vocabulary
from halfmask.decoding.row import Completion, Row

BROKEN = "\N{REPLACEMENT CHARACTER}"


def pieces(vocabulary: Vocabulary, ids: ArrayLike) -> list[str]:
    """The text that each token adds to those before it; a character of several tokens comes with the last of them."""
    row = np.asarray(ids)
    found, start, end = [], 0, 0  # what is decoded again for its context, and what has been told
    for at in range(1, len(row) + 1):
        before, now = vocabulary.decode(row[start:end]), vocabulary.decode(row[start:at])
        if now.endswith(BROKEN) and at < len(row):
            found.append("")
        else:
            found.append(now[len(before) :])
            start, end = end, at
    return found


@dataclass(frozen=True)
class Stop:
    """Texts that end a continuation, which is cut before the first of them."""

    vocabulary: Vocabulary
    texts: tuple[str, ...]

    def __call__(self, row: Row) -> bool:
        """Whether one stands in what is written without a gap."""
        ids = row.tokens_T[row.canvas.open_from : row.uncovered]
        return len(self.cut(text := self.vocabulary.decode(ids))) < len(text)

    def cut(self, text: str) -> str:
        return text[: min((at for each in self.texts if (at := text.find(each)) >= 0), default=len(text))]


def whole_text(vocabulary: Vocabulary, done: Completion) -> str:
    return vocabulary.decode(done.tokens_T[: done.length])


def filled_holes(vocabulary: Vocabulary, done: Completion) -> list[str]:
    """What was written in each hole, in their order; a hole behind the end of the text is empty."""
    hidden_T = done.canvas.hidden_T
    edges = np.flatnonzero(np.diff(hidden_T, prepend=False, append=False)).reshape(-1, 2)
    return [vocabulary.decode(done.tokens_T[start : min(end, done.length)]) for start, end in edges]
