"""A canvas: one row of tokens with holes anywhere. Continuation and infilling differ in nothing else.

Canvas.continuation(prompt, 64)           a prompt and an open end of 64 tokens
Canvas.with_holes([ids, 3, ids, 1, ids])  texts and the lengths of the holes between them
split_holes("The [mask:3] sat.")          the same parts, from what a person writes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfmask.errors import UsageError

Ids = NDArray[np.int64]
Bools = NDArray[np.bool_]

HOLE = re.compile(r"\[mask(:[^\]]*)?\]")


@dataclass(frozen=True)
class Canvas:
    """Letters: T positions."""

    tokens_T: Ids  # what stands in a hole is never read
    hidden_T: Bools
    open_end: bool = False  # the text may end inside the last hole, which reaches the end of the row
    row: int = 0  # tells samples of one canvas apart: their noise is that of (seed, row)

    def __post_init__(self) -> None:
        if self.tokens_T.shape != self.hidden_T.shape or self.tokens_T.ndim != 1:
            got = f"{self.tokens_T.shape} tokens and {self.hidden_T.shape} marks"
            raise UsageError("a canvas needs one mark for each of its tokens", got=got, fix="make them alike")
        if not self.hidden_T.any():
            raise UsageError("a canvas must have a hole", got="none", fix="write [mask] where a token is wanted")
        assert not self.open_end or self.hidden_T[-1], "an open end is a hole"

    @classmethod
    def continuation(cls, prompt: ArrayLike, length: int, row: int = 0) -> Canvas:
        """`length` tokens after the prompt, or fewer where the text ends before."""
        if length < 1:
            raise UsageError("a continuation must have 1 token or more", got=length, fix="give for example 64")
        prompt_P = np.asarray(prompt, dtype=np.int64)
        tokens_T = np.concatenate([prompt_P, np.zeros(length, dtype=np.int64)])
        return cls(tokens_T, np.arange(len(tokens_T)) >= len(prompt_P), open_end=True, row=row)

    @classmethod
    def with_holes(cls, parts: Sequence[ArrayLike | int], row: int = 0) -> Canvas:
        """Ids stand, numbers are holes of so many tokens."""
        tokens = [np.zeros(each, np.int64) if isinstance(each, int) else np.asarray(each, np.int64) for each in parts]
        hidden = [np.full(len(ids), isinstance(each, int)) for ids, each in zip(tokens, parts, strict=True)]
        return cls(np.concatenate(tokens), np.concatenate(hidden), row=row)

    @property
    def num_holes(self) -> int:
        """Positions to be filled."""
        return int(self.hidden_T.sum())

    @property
    def open_from(self) -> int:
        """Where the open end begins; behind the row where there is none."""
        visible = np.flatnonzero(~self.hidden_T)
        return (int(visible[-1]) + 1 if len(visible) else 0) if self.open_end else len(self.tokens_T)


def split_holes(text: str) -> list[str | int]:
    """Texts and lengths of holes: [mask] is one token, [mask:5] are five."""
    parts: list[str | int] = []
    end = 0
    for match in HOLE.finditer(text):
        length = match[1][1:] if match[1] else "1"
        if not length.isdecimal() or int(length) < 1:
            raise UsageError(
                "a hole is written [mask] or [mask:N] with N of 1 or more",
                got=match[0],
                fix="write for example [mask:5]",
            )
        parts += [text[end : match.start()], int(length)]
        end = match.end()
    parts.append(text[end:])
    if len(parts) == 1:
        raise UsageError(
            "the text must have a hole", got=repr(text), fix="write [mask] or [mask:5] where one is wanted"
        )
    return [part for part in parts if part != ""]
