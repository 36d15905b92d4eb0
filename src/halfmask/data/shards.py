"""The work that is worth keeping: texts tokenised shard by shard, then joined into the files of the splits.

write_shards(texts, …) ──▶ 000000.npz, 000001.npz, …   whole or not there; those that are there are not made again
assemble(shards, …)    ──▶ SPLIT.tokens, SPLIT.documents.npy

The tokenizers package spreads the texts of a shard over all cores. Meanwhile the next is read, and where there are
many cores some are on their way at once, so that what Python does with the ids keeps none of them waiting.
"""

from __future__ import annotations

import os
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfmask.corpus.counts import BOUNDARY
from halfmask.data.texts import Part, Progress
from halfmask.data.tokens import SPLITS, Split, digest_of, dtype_of, paths_of
from halfmask.data.vocabulary import Vocabulary
from halfmask.errors import DataError
from halfmask.records import atomic_write

SHARD_CHARACTERS = 1 << 22  # tokenised in one call: about 200 MB of memory, a second of work
NUM_THREADS = max(1, min(8, (os.cpu_count() or 1) // 4))  # shards on their way at once, beside the reading

Arrays = dict[str, NDArray[Any]]


def write_shards(parts: Iterable[Part], split_D: bytearray, vocabulary: Vocabulary, folder: Path) -> list[Path]:
    paths: list[Path] = []
    waiting: deque[tuple[Path, Future[Arrays]]] = deque()
    pool = ThreadPoolExecutor(NUM_THREADS)
    try:
        for number, shard in enumerate(_shards(parts)):
            paths.append(folder / f"{number:06}.npz")
            if not paths[-1].exists():
                waiting.append((paths[-1], pool.submit(tokenised, shard, split_D, vocabulary)))
            if len(waiting) > NUM_THREADS:
                _write(*waiting.popleft())
        while waiting:
            _write(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)
    return paths


def _write(path: Path, arrays: Future[Arrays]) -> None:
    with atomic_write(path, "wb") as stream:
        np.savez(stream, **arrays.result())  # type: ignore[arg-type]  # its names never meet those of savez itself


def _shards(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Cut by their characters, so alike in every run."""
    held: list[Part] = []
    room = SHARD_CHARACTERS
    for part in parts:
        held.append(part)
        room -= len(part.text) + 1
        if room <= 0:
            yield held
            held, room = [], SHARD_CHARACTERS
    if held:
        yield held


def tokenised(shard: list[Part], split_D: bytearray, vocabulary: Vocabulary) -> Arrays:
    """Of each split: its tokens, where its documents begin in them, and how many characters and bytes they were.

    Letters: P parts, N tokens of the row, with an edge after each part. An edge becomes the end id where a document
    ends; others vanish.
    """
    split_P = np.array([split_D[part.document] for part in shard])
    begins_P = np.array([part.begins for part in shard])
    ends_P = np.array([part.digest is not None for part in shard])
    size_P2 = np.array([(len(part.text), len(part.text.encode())) for part in shard])
    row_N = np.append(vocabulary.encode([part.text for part in shard]), np.int32(BOUNDARY))
    edge_N = row_N == BOUNDARY
    part_N = np.cumsum(edge_N) - edge_N
    row_N[edge_N] = np.where(ends_P, vocabulary.end_id, BOUNDARY)
    arrays = {}
    for place in np.unique(split_P[split_P < len(SPLITS)]):
        kept_N = (split_P[part_N] == place) & (row_N != BOUNDARY)
        length_P = np.bincount(part_N[kept_N], minlength=len(shard))
        start_P = np.cumsum(length_P) - length_P
        here_P = split_P == place
        arrays[f"{SPLITS[place]}.tokens"] = row_N[kept_N].astype(dtype_of(vocabulary.size))
        arrays[f"{SPLITS[place]}.starts"] = start_P[begins_P & here_P]
        arrays[f"{SPLITS[place]}.size"] = size_P2[here_P].sum(axis=0)
    return arrays


def assemble(shards: list[Path], documents: Mapping[str, int], folder: Path, progress: Progress) -> dict[str, Split]:
    """Join the shards in their order; `documents` says how many each split has."""
    splits = {}
    for place, (split, num) in enumerate(documents.items()):
        progress(place, len(documents), "joining")
        splits[split] = _join(shards, split, num, folder)
    return splits


def _join(shards: list[Path], split: str, num_documents: int, folder: Path) -> Split:
    tokens_path, documents_path = paths_of(folder, split)
    num_tokens = num_starts = 0
    size = np.zeros(2, dtype=np.int64)
    header = {"descr": "<i8", "fortran_order": False, "shape": (num_documents,)}
    with atomic_write(tokens_path, "wb") as tokens, atomic_write(documents_path, "wb") as documents:
        np.lib.format.write_array_header_1_0(documents, header)
        for path in shards:
            arrays = _read(path, split)
            if arrays is None:
                continue
            ids_N, starts_D, its_size = arrays
            tokens.write(ids_N.tobytes())
            documents.write((starts_D + num_tokens).astype("<i8").tobytes())
            num_tokens += len(ids_N)
            num_starts += len(starts_D)
            size += its_size
    assert num_starts == num_documents, "the shards and the survey differ"
    return Split(
        tokens=num_tokens,
        documents=num_documents,
        characters=int(size[0]),
        bytes=int(size[1]),
        digest=digest_of(tokens_path),
        documents_digest=digest_of(documents_path),
    )


def _read(path: Path, split: str) -> list[NDArray[Any]] | None:
    """What a shard has of a split, if anything."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as shard:
            names = [f"{split}.{name}" for name in ("tokens", "starts", "size")]
            return [shard[name] for name in names] if names[0] in shard else None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        fix = "remove it, and run the same command again: it makes what is missing"
        raise DataError(f"{path} must be a sound .npz file", got=str(error).partition("\n")[0], fix=fix) from error
