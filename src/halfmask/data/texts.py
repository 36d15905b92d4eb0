"""The texts of all sources in one order, as often as asked, and the split of each document.

    Texts(origins).parts() ──▶ Part, Part, …      again and again: reading is cheap beside tokenising
    survey(texts, shares)  ──▶ Survey             one byte for each document

A split is a function of the document's content: of its hash where splits are shares, and where sources are held out
by name, of whether they hold the document too. So equal documents are never on both sides.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from halfmask.corpus.formats import Piece
from halfmask.corpus.sources import Reading, open_corpus
from halfmask.data.tokens import SPLITS
from halfmask.errors import DataError

Progress = Callable[[int, int, str], None]  # done, total, stage
LEFT_OUT = len(SPLITS)
SHOWN_CHARACTERS = 1 << 18  # read between two calls of `progress`
BEFORE = {"test": (), "validation": ("test",), "train": ("test", "validation")}  # read first, and not to be repeated


@dataclass(frozen=True)
class Origin:
    """Where documents come from: "train" is what shares cut, the others are held out by name."""

    name: str
    sources: tuple[str, ...]
    reading: Reading


class Part(NamedTuple):
    """A text that is a document, or goes on with the document before it."""

    origin: str
    document: int  # counted over all origins
    text: str
    begins: bool
    digest: bytes | None  # of the whole document, with its last part


@dataclass
class Texts:
    origins: list[Origin]  # in the order of BEFORE
    progress: Progress
    num_characters: int = 0  # known after the first reading, as is the digest
    digest: str = ""
    skipped: list[str] = field(default_factory=list)

    def parts(self, stage: str) -> Iterator[Part]:
        """Read everything once; what was read before must be the same."""
        corpora = [open_corpus(origin.sources, origin.reading) for origin in self.origins]
        sizes = [corpus.total_bytes for corpus in corpora]
        total_bytes = 0 if None in sizes else sum(size or 0 for size in sizes)
        document = -1
        num_characters = shown = 0
        whole = hashlib.blake2b(digest_size=16)
        for origin, corpus in zip(self.origins, corpora, strict=True):
            whole.update(origin.name.encode())
            for text, begins, ends in _marked(corpus.pieces()):
                if begins:
                    document += 1
                    one = hashlib.blake2b(digest_size=8)
                one.update(text.encode())
                if ends:
                    whole.update(one.digest())
                yield Part(origin.name, document, text, begins, one.digest() if ends else None)
                num_characters += len(text)
                if num_characters - shown >= SHOWN_CHARACTERS:
                    shown = num_characters
                    num_bytes = sum(each.tally.num_bytes for each in corpora)
                    done = (shown, self.num_characters) if self.digest else (num_bytes, total_bytes)
                    self.progress(*done, stage)
        if self.digest not in ("", whole.hexdigest()):
            raise DataError(
                "the sources must not change while they are read",
                got="other text than before",
                fix="run the command again when they are at rest",
            )
        self.num_characters, self.digest = num_characters, whole.hexdigest()
        self.skipped = [
            f"skipped {', '.join(f'{num:,} {kind}s' for kind, num in corpus.tally.skipped.items())} "
            f"of {' '.join(origin.sources)}; the first: {corpus.tally.first_skip}"
            for origin, corpus in zip(self.origins, corpora, strict=True)
            if corpus.tally.skipped
        ]


def _marked(pieces: Iterable[Piece]) -> Iterator[tuple[str, bool, bool]]:
    """Each text, with whether it begins a document and whether it ends one."""
    held: tuple[str, bool] | None = None
    for piece in pieces:
        for index, text in enumerate(piece.texts):
            begins = held is None or index > 0 or piece.begins
            if held is not None:
                yield *held, begins
            held = text, begins
    if held is not None:
        yield *held, True


@dataclass(frozen=True)
class Survey:
    split_D: bytearray  # of each document: its place in SPLITS, or LEFT_OUT
    left_out: dict[str, int]  # documents of an origin that are held out by another, by that origin

    @property
    def documents(self) -> dict[str, int]:
        """How many each split has; splits without any are not there."""
        counts = Counter(self.split_D)
        return {split: counts[place] for place, split in enumerate(SPLITS) if counts[place]}


def survey(texts: Texts, shares: Mapping[str, float]) -> Survey:
    """Read every document and find its split; `shares` are those of validation and test."""
    split_D = bytearray()
    left_out: Counter[str] = Counter()
    held: dict[str, set[bytes]] = {"test": set(), "validation": set()}
    for part in texts.parts("reading"):
        if part.digest is None:
            continue
        if any(part.digest in held[before] for before in BEFORE[part.origin]):
            left_out[part.origin] += 1
            split_D.append(LEFT_OUT)
        elif part.origin == "train":
            split_D.append(SPLITS.index(split_of(part.digest, shares)))
        else:
            held[part.origin].add(part.digest)
            split_D.append(SPLITS.index(part.origin))
    return Survey(split_D, dict(left_out))


def split_of(digest: bytes, shares: Mapping[str, float]) -> str:
    """Where the document of this hash goes."""
    place = int.from_bytes(digest, "big") / 2 ** (8 * len(digest))
    if place < shares["test"]:
        return "test"
    return "validation" if place < shares["test"] + shares["validation"] else "train"
