"""The texts of all sources in one order, as often as asked, and the split of each document.

    Texts(origins).parts() ──▶ Part, Part, …      again and again: reading is cheap beside tokenising
    survey(texts, shares)  ──▶ Survey             one byte for each document
    write_copy(origin, …)  ──▶ Copy               of what can be read but once, or slowly

A split is a function of the document's content: of its hash where splits are shares, and where sources are held out
by name, of whether they hold the document too. So equal documents are never on both sides, nor are those that differ
in the white space around them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from halfmask.corpus.formats import Piece, Tally
from halfmask.corpus.sources import Corpus, Reading, open_corpus
from halfmask.data.tokens import SPLITS
from halfmask.errors import DataError
from halfmask.records import atomic_write

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
    limit: int | None = None  # no document begins after so many characters
    copy: Path | None = None  # read instead of the sources

    def open(self) -> Corpus | Copy:
        return open_corpus(self.sources, self.reading) if self.copy is None else Copy(self.copy)


class Part(NamedTuple):
    """A text that is a document, or goes on with the document before it."""

    origin: str
    document: int  # counted over all origins
    text: str
    begins: bool
    digest: bytes | None  # of the whole document without the white space around it, with its last part


@dataclass
class Texts:
    origins: list[Origin]  # in the order of BEFORE
    progress: Progress
    num_characters: int = 0  # known after the first reading, as are the next two
    num_documents: int = 0
    digest: str = ""
    skipped: list[str] = field(default_factory=list)

    def parts(self, stage: str) -> Iterator[Part]:
        """Read everything once; what was read before must be the same."""
        corpora = [origin.open() for origin in self.origins]
        sizes = [corpus.total_bytes for corpus in corpora]
        total_bytes = 0 if None in sizes else sum(size or 0 for size in sizes)
        document = -1
        num_characters = shown = 0
        whole = hashlib.blake2b(digest_size=16)
        for origin, corpus in zip(self.origins, corpora, strict=True):
            whole.update(origin.name.encode())
            for text, begins, ends in _limited(_marked(corpus.pieces()), None if origin.copy else origin.limit):
                if begins:
                    document += 1
                    if self.digest and document == self.num_documents:
                        raise _changed()
                    one = hashlib.blake2b(digest_size=8)
                trimmed = text.lstrip() if begins else text
                one.update((trimmed.rstrip() if ends else trimmed).encode())
                whole.update(len(text).to_bytes(8))
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
            raise _changed()
        self.num_characters, self.num_documents, self.digest = num_characters, document + 1, whole.hexdigest()
        notes = [_skipped(origin, corpus) for origin, corpus in zip(self.origins, corpora, strict=True)]
        self.skipped = [note for note in notes if note]


def _changed() -> DataError:
    return DataError(
        "the sources must not change while they are read",
        got="other text than before",
        fix="remove the folder, and run the command again when they are at rest",
    )


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


def _limited(marked: Iterable[tuple[str, bool, bool]], limit: int | None) -> Iterator[tuple[str, bool, bool]]:
    """Whole documents, until they have so many characters."""
    num_characters = 0
    for text, begins, ends in marked:
        yield text, begins, ends
        num_characters += len(text)
        if ends and limit is not None and num_characters >= limit:
            return


def _skipped(origin: Origin, corpus: Corpus | Copy) -> str:
    """What was left out because it was broken; nothing to say where all was sound."""
    if isinstance(corpus, Copy):
        return corpus.skipped
    if not corpus.tally.skipped:
        return ""
    what = ", ".join(f"{num:,} {kind}s" for kind, num in corpus.tally.skipped.items())
    return f"skipped {what} of {' '.join(origin.sources)}; the first: {corpus.tally.first_skip}"


@dataclass
class Copy:
    """The texts of an origin, in JSON Lines: [begins, text] for each, and at last what was skipped."""

    path: Path
    tally: Tally = field(default_factory=Tally)
    skipped: str = ""

    @property
    def total_bytes(self) -> int:
        return self.path.stat().st_size

    def pieces(self) -> Iterator[Piece]:
        with self.path.open("rb") as lines:
            for line in lines:
                self.tally.num_bytes += len(line)
                match json.loads(line):
                    case [begins, text]:
                        yield Piece([text], begins)
                    case skipped:
                        self.skipped = skipped


def write_copy(origin: Origin, path: Path, progress: Progress) -> None:
    corpus = origin.open()
    num_characters = shown = 0
    with atomic_write(path) as stream:
        for text, begins, _ in _limited(_marked(corpus.pieces()), origin.limit):
            stream.write(json.dumps([begins, text], ensure_ascii=False) + "\n")
            num_characters += len(text)
            if num_characters - shown >= SHOWN_CHARACTERS:
                shown = num_characters
                progress(corpus.tally.num_bytes, corpus.total_bytes or 0, "copying")
        stream.write(json.dumps(_skipped(origin, corpus)) + "\n")


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
