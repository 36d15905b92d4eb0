"""What a corpus holds of each n-gram order: one small file, from which the mask window is predicted.

    measure_corpus(sources) ──▶ NGramProfile ──▶ corpus/predict.py

Besides the counts of the corpus, a profile keeps what its prediction is judged by: the counts of consecutive blocks
(for the bootstrap) and those of *variants*, the same corpus counted otherwise (for the sensitivity).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfmask import __version__
from halfmask.corpus.counts import HIGHEST_ORDER, NGramCounts, count_ngrams
from halfmask.corpus.formats import Piece
from halfmask.corpus.sources import Corpus, Reading, open_corpus
from halfmask.corpus.stream import TokenStream, token_stream
from halfmask.corpus.tokenizing import PLAIN, TokenIds, open_tokenizer
from halfmask.errors import DataError, UsageError, nearest
from halfmask.records import atomic_write

Weighting = Literal["occurrences", "distinct", "unexplained"]
WEIGHTINGS: tuple[Weighting, ...] = ("occurrences", "distinct", "unexplained")
Progress = Callable[[str, int, int], None]  # stage, done, total

KIND = "n-gram profile"  # what the file says it is
NUM_BLOCKS = 100
ENOUGH_DOCUMENTS = 20  # below this, blocks are cut inside documents
MIN_COUNTS = (2, 3, 10, 20, 50)  # variants beside the chosen one
FRACTIONS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the stream: variants
SAMPLE_CHARACTERS = 2_000_000  # tokenised otherwise: variants


@dataclass(frozen=True)
class Variant:
    """The same corpus, or a part of it, counted otherwise."""

    what: str  # "minimum count", "tokens", "text"
    value: str
    num_tokens: int
    occurrences: tuple[int, ...]  # by order


@dataclass(frozen=True)
class NGramProfile:
    """Letters: O orders from 2 to `highest`, K blocks. Only n-grams that occur `min_count` times are counted."""

    orders: tuple[int, ...]
    min_count: int
    max_order: int  # of the weights; orders above it are there for the sensitivity
    num_tokens: int
    num_documents: int
    occurrences: tuple[int, ...]
    distinct: tuple[int, ...]
    unexplained: tuple[int, ...]  # occurrences that lie in no counted occurrence of the order above
    occurrences_OK: tuple[tuple[int, ...], ...]
    unexplained_OK: tuple[tuple[int, ...], ...]
    variants: tuple[Variant, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    def weights(self, weighting: Weighting = "occurrences", *, max_order: int | None = None) -> dict[int, float]:
        """The share of each order, from 2 to `max_order`; the paper's is by occurrence."""
        if weighting not in WEIGHTINGS:
            raise UsageError(
                f"weights are by {', '.join(WEIGHTINGS)}", got=weighting, fix=nearest(weighting, WEIGHTINGS)
            )
        top = self.max_order if max_order is None else max_order
        if top not in self.orders:
            raise UsageError(f"a profile counts orders 2 to {self.orders[-1]}", got=top, fix="choose one of them")
        counts = {"occurrences": self.occurrences, "distinct": self.distinct, "unexplained": self.unexplained}
        kept = list(counts[weighting][: top - 1])
        if weighting == "unexplained":
            kept[-1] = self.occurrences[top - 2]  # nothing above the highest order explains it
        return self._shares(kept)

    def variant_weights(self, variant: Variant) -> dict[int, float]:
        return self._shares(variant.occurrences[: self.max_order - 1])

    def block_counts_OK(self, weighting: Weighting = "occurrences") -> NDArray[np.float64] | None:
        """Counts of each block, of the orders of the weights; distinct n-grams belong to no block."""
        if weighting == "distinct":
            return None
        occurrences_OK = np.array(self.occurrences_OK, dtype=np.float64)[: self.max_order - 1]
        if weighting == "occurrences":
            return occurrences_OK
        unexplained_OK = np.array(self.unexplained_OK, dtype=np.float64)[: self.max_order - 1]
        unexplained_OK[-1] = occurrences_OK[-1]
        return unexplained_OK

    def _shares(self, counts: Sequence[int]) -> dict[int, float]:
        total = sum(counts)
        if not total:
            raise DataError(
                f"a corpus must hold n-grams that occur {self.min_count} times",
                got=f"{'1 token' if self.num_tokens == 1 else f'{self.num_tokens:,} tokens'} without one",
                fix="read more text, or lower the minimum count",
            )
        return {order: count / total for order, count in zip(self.orders, counts, strict=False)}

    def save(self, path: Path | str) -> None:
        with atomic_write(Path(path)) as stream:
            json.dump({"halfmask": KIND, **asdict(self)}, stream, indent=1, ensure_ascii=False)
            stream.write("\n")

    @classmethod
    def load(cls, path: Path | str) -> NGramProfile:
        try:
            fields = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(fields, dict) or fields.pop("halfmask", None) != KIND:
                raise ValueError("a file of another kind")
            variants = tuple(Variant(**_with_tuples(each)) for each in fields.pop("variants"))
            profile = cls(**_with_tuples(fields), variants=variants)
            profile._check()
            return profile
        except OSError as error:
            raise DataError(f"{path} could not be read", got=error.strerror or error, fix="check the path") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{path} must hold an n-gram profile",
                got=str(error).partition("\n")[0],
                fix="write one with halfmask window SOURCE --out profile.json",
            ) from error

    def _check(self) -> None:
        """A file that was edited or belongs to another version must not end in wrong numbers."""
        num_orders = len(self.orders)
        counts = [self.occurrences, self.distinct, self.unexplained, *(each.occurrences for each in self.variants)]
        numbers = (self.min_count, self.max_order, self.num_tokens, self.num_documents)
        rows = [numbers, *counts, *self.occurrences_OK, *self.unexplained_OK]
        if (
            self.orders != tuple(range(2, 2 + num_orders))
            or self.max_order not in self.orders
            or {num_orders} != {*map(len, counts), len(self.occurrences_OK), len(self.unexplained_OK)}
            or len({*map(len, self.occurrences_OK), *map(len, self.unexplained_OK)}) > 1
            or not all(isinstance(count, int) and count >= 0 for row in rows for count in row)
            or not isinstance(self.provenance, dict)
        ):
            raise ValueError("counts that do not fit its orders")


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists only. What `provenance` holds stays as it is."""
    return {key: _tuples(value) if isinstance(value, list) else value for key, value in fields.items()}


def _tuples(rows: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(each) if isinstance(each, list) else each for each in rows)


def measure_corpus(
    sources: str | Path | Sequence[str | Path],
    *,
    tokens: str = "words",
    reading: Reading | None = None,
    join: bool = False,
    max_order: int = 6,
    min_count: int = 5,
    sensitivity: bool = True,
    limit: int | None = None,
    memory: int = 4 << 30,
    folder: Path | None = None,
    engine: Literal["local", "ray"] = "local",
    progress: Progress | None = None,
) -> NGramProfile:
    """Read, tokenise and count a corpus. The defaults are the paper's.

    `join` lets n-grams cross from document to document. `limit` reads that many tokens at the most. `sensitivity`
    also counts the variants, which takes longer than all the rest. `memory`, `folder` and `engine`: see
    `count_ngrams`.
    """
    if not 2 <= max_order <= HIGHEST_ORDER:
        raise UsageError(
            f"the highest order must lie between 2 and {HIGHEST_ORDER}", got=max_order, fix="the paper takes 6"
        )
    if min_count < 1:
        raise UsageError("the minimum count must be 1 or more", got=min_count, fix="the paper takes 5")
    if limit is not None and limit < 1:
        raise UsageError("the limit must be 1 token or more", got=limit, fix="leave it out to read everything")
    if folder is not None and not folder.is_dir():
        raise UsageError("the folder for spilled files must be there", got=folder, fix=f"make it: mkdir -p {folder}")
    corpus = open_corpus(sources, reading)
    tokenizer = open_tokenizer(tokens)
    sample: list[Piece] = []  # the first texts, to be tokenised otherwise

    counting = _Counting(min_count, memory, folder, engine, progress)
    pieces = _watched(corpus, sample, progress)
    with token_stream(pieces, tokenizer, join=join, memory=memory, folder=folder, limit=limit) as stream:
        higher = [each for each in MIN_COUNTS if each > min_count] if sensitivity else []
        counts = counting.count(stream.tokens_T, "counting", blocks=_block_edges(stream), also_min_counts=higher)
        if corpus.tally.skipped and not counts.num_tokens:
            raise DataError(
                "a corpus must hold text that can be read",
                got=f"nothing that was not skipped; the first skipped: {corpus.tally.first_skip}",
                fix="name another source, or --format and --column",
            )
        variants = _variants(counting, stream, counts, sample, tokens=tokens, join=join) if sensitivity else []
    return NGramProfile(
        orders=counts.orders,
        min_count=min_count,
        max_order=max_order,
        num_tokens=counts.num_tokens,
        num_documents=stream.num_documents,
        occurrences=_ints(counts.occurrences_O),
        distinct=_ints(counts.distinct_O),
        unexplained=_ints(counts.unexplained_O),
        occurrences_OK=tuple(map(_ints, counts.occurrences_OK)),
        unexplained_OK=tuple(map(_ints, counts.unexplained_OK)),
        variants=tuple(variants),
        provenance={
            "sources": corpus.names,
            "digest": corpus.digest,
            "reading": asdict(corpus.reading),
            "tokens": tokens,
            "tokenizer digest": tokenizer.digest,
            "joined": join,
            "limit": limit,
            "skipped": dict(corpus.tally.skipped),
            "first skipped": corpus.tally.first_skip,
            "version": __version__,
        },
    )


def _ints(row: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(row.tolist())


def _watched(corpus: Corpus, sample: list[Piece], progress: Progress | None) -> Iterator[Piece]:
    room = SAMPLE_CHARACTERS
    for piece in corpus.pieces():
        if room > 0:
            sample.append(piece)
            room -= sum(map(len, piece.texts))
        yield piece
        if progress is not None:
            progress("reading", corpus.tally.num_bytes, corpus.total_bytes or 0)


def _block_edges(stream: TokenStream) -> NDArray[np.int64]:
    """Edges of about equal blocks, at the starts of documents where there are enough of them."""
    length = len(stream.tokens_T)
    starts = stream.document_starts()
    wanted = np.linspace(0, length, NUM_BLOCKS + 1).astype(np.int64)
    if len(starts) < ENOUGH_DOCUMENTS:
        return np.unique(wanted) if length else np.array([0, 0])
    nearest_start = starts[np.searchsorted(starts, wanted[1:-1]).clip(max=len(starts) - 1)]
    return np.unique(np.concatenate([[0], nearest_start, [length]]))


@dataclass(frozen=True)
class _Counting:
    """How every stream of one measurement is counted."""

    min_count: int
    memory: int
    folder: Path | None
    engine: Literal["local", "ray"]
    progress: Progress | None

    def count(
        self,
        tokens_T: TokenIds,
        name: str,
        *,
        min_count: int | None = None,
        blocks: NDArray[np.int64] | None = None,
        also_min_counts: Sequence[int] = (),
    ) -> NGramCounts:
        def step(stage: str, done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(f"{name}, {stage}", done, total)

        return count_ngrams(
            tokens_T,
            max_order=HIGHEST_ORDER,
            min_count=min_count or self.min_count,
            also_min_counts=also_min_counts,
            blocks=blocks,
            memory=self.memory,
            folder=self.folder,
            engine=self.engine,
            progress=step,
        )


def _variants(
    counting: _Counting, stream: TokenStream, counts: NGramCounts, sample: list[Piece], *, tokens: str, join: bool
) -> list[Variant]:
    found = []
    by_min_count = {counts.min_count: counts.occurrences_O, **counts.occurrences_at}
    if lower := [each for each in MIN_COUNTS if each < counts.min_count]:
        least, *others = lower
        part = counting.count(stream.tokens_T, "minimum counts", min_count=least, also_min_counts=others)
        by_min_count |= {least: part.occurrences_O, **part.occurrences_at}
    for threshold, occurrences_O in sorted(by_min_count.items()):
        found.append(Variant("minimum count", str(threshold), counts.num_tokens, _ints(occurrences_O)))
    for name in dict.fromkeys((tokens, *PLAIN)):
        with token_stream(sample, open_tokenizer(name), join=join) as text:
            part = counting.count(text.tokens_T, f"tokens {name}")
        found.append(Variant("tokens", name, part.num_tokens, _ints(part.occurrences_O)))
    for fraction in FRACTIONS:
        name = f"1/{round(1 / fraction)}"
        part = counting.count(stream.tokens_T[: round(len(stream.tokens_T) * fraction)], f"{name} of the text")
        found.append(Variant("text", name, part.num_tokens, _ints(part.occurrences_O)))
    found.append(Variant("text", "all", counts.num_tokens, _ints(counts.occurrences_O)))
    return found
