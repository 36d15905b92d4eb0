"""The passes over parts of a token stream and ranges of keys from which `counts` builds exact n-gram counts.

A part is a slice of the stream. At order n it has an id for each of its positions: that of the frequent n-gram which
starts there, or NONE. One order up takes three passes, each a function of what is on the shelf:

    propose   the part's ids of order n - 1 → its run: the distinct keys of its n-grams, sorted, how often each occurs
              and where
    merge     one range of the keys of all runs → which are frequent in the whole stream, and their new ids
    assign    the part's run and those ids → the part's ids of order n

Positions never leave their part; only distinct keys are brought together. What a pass writes depends on nothing but
the stream, so passes can be repeated and run anywhere in any order.

A pass works chunk by chunk, since numpy is several times faster on what stays in the cache, and the chunks in threads.
Letters: T positions of a part, G distinct keys of a run, E entries of all runs in a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfmask.corpus.spill import Shelf, Threads

BOUNDARY = -1  # stands between documents; no n-gram crosses it
NONE = np.uint32(0xFFFFFFFF)  # the bits of BOUNDARY: a token is an id of order 0
HIGHEST_ORDER = 8
CHUNK = 1 << 18  # items: short enough for the caches, long enough that threads seldom wait for the lock
WORD_BITS = 63  # of the words that are sorted: a key, and below it where it stands

Ints = NDArray[np.int64]
SmallInts = NDArray[np.uint32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    number: int
    start: int  # of the slice, in tokens of the stream
    size: int  # never 0
    block_edges_K: Ints  # the edges of the blocks, in tokens from `start`, cut to the slice
    tail: SmallInts  # the ids of the tokens behind it, as many as an n-gram that starts in it can reach


@dataclass(frozen=True)
class Level:
    order: int
    thresholds: Sequence[int]  # the minimum count, then higher ones
    num_parts: int
    vocabulary: int  # how many tokens are frequent; of no meaning at order 1
    space: int  # what all keys are below
    is_dense: bool  # a table of all keys is much smaller than a part: then nothing need be sorted


@dataclass(frozen=True)
class KeyRange:
    number: int
    lo: int
    hi: int  # exclusive


@dataclass(frozen=True)
class Merged:
    distinct_M: list[int]  # by threshold: how many n-grams reach it
    occurrences_M: list[int]  # and how often they occur together


@dataclass(frozen=True)
class Live:
    """The positions of a part where a frequent n-gram starts."""

    occurrences_K: Ints  # how many, by block
    ends_K: Ints  # by block, the positions p where one starts at p - 1 and none at p, both in the part
    head: SmallInts  # the ids at the first positions
    last: np.uint32  # the id at the last position


class Candidates:
    """The n-grams of a part that can be frequent: a frequent prefix, and at the next position a frequent suffix.

    The id of the prefix and that of the last token make an exact key. At order 1 every token is its own key.
    """

    def __init__(self, shelf: Shelf, level: Level, part: Part) -> None:
        self.level = level
        self.size = part.size
        (self.ids_T,) = shelf.get(f"ids-{level.order - 1}-{part.number}", "id")
        if level.order == 1:
            self.next_id = part.tail[:1]
            return
        (self.tokens_T,) = shelf.get(f"ids-1-{part.number}", "id")
        self.tail = part.tail
        # The id of the suffix at the position behind the part is not known; that of its last token will do. It lets
        # through what is not frequent, which costs nothing, and never keeps out what is.
        self.next_id = part.tail[level.order - 2 : level.order - 1]

    def count(self, chunk: slice) -> int:
        return int(np.count_nonzero(self._are_here(chunk)))

    def keys(self, chunk: slice) -> tuple[Ints, Ints]:
        """Where the candidates of a chunk start, from the start of the chunk, and their keys."""
        where = np.flatnonzero(self._are_here(chunk))
        # `take` with mode="clip" is the fastest way to gather: it need not look for an index that is out of bounds.
        keys = self.ids_T[chunk].take(where, mode="clip").astype(np.int64)
        if self.level.order > 1:
            reach = self.level.order - 1
            last_tokens = _extended(self.tokens_T, self.tail, chunk.start + reach, chunk.stop + reach)
            keys *= self.level.vocabulary
            keys += last_tokens.take(where, mode="clip")
        return where, keys

    def slots(self, chunk: slice) -> NDArray[Any]:
        """The key of every position of a chunk, `space` where no candidate starts."""
        if self.level.order == 1:
            return np.asarray(np.minimum(self.ids_T[chunk], np.uint32(self.level.space)))
        slots = np.full(chunk.stop - chunk.start, self.level.space)
        where, keys = self.keys(chunk)
        slots[where] = keys
        return slots

    def _are_here(self, chunk: slice) -> Bools:
        is_live: Bools = _extended(self.ids_T, self.next_id, chunk.start, chunk.stop + 1) != NONE
        return is_live[:-1] if self.level.order == 1 else is_live[:-1] & is_live[1:]


def _extended(part_T: SmallInts, tail: SmallInts, lo: int, hi: int) -> SmallInts:
    """`part_T` and the tail behind it, from lo to hi."""
    if hi <= len(part_T):
        return part_T[lo:hi]
    return np.concatenate((part_T[lo:], tail[max(lo - len(part_T), 0) : hi - len(part_T)]))


def propose(threads: Threads, shelf: Shelf, level: Level, part: Part) -> int:
    """Returns how many keys the run has."""
    candidates = Candidates(shelf, level, part)
    # A lone part leaves out what is rare in it; of several, each may hold a share of something frequent.
    least = level.thresholds[0] if level.num_parts == 1 else 1
    run = _tabulated(threads, candidates, least) if level.is_dense else _sorted(threads, candidates, least)
    shelf.put(f"run-{level.order}-{part.number}", **run)
    return len(run["key"])


def _tabulated(threads: Threads, candidates: Candidates, least: int) -> dict[str, NDArray[Any]]:
    space = candidates.level.space

    def tabulate(chunk: slice) -> Ints:
        return np.bincount(candidates.slots(chunk), minlength=space + 1)

    count_S = np.zeros(space + 1, dtype=np.int64)
    for some_S in threads.map(tabulate, _chunks(candidates.size, max(CHUNK, space))):
        count_S += some_S
    key_G = np.flatnonzero(count_S[:-1] >= least)
    return {"key": key_G, "count": count_S[key_G].astype(np.uint32)}


def _sorted(threads: Threads, candidates: Candidates, least: int) -> dict[str, NDArray[Any]]:
    """Key and position share a word, so that one plain sort brings equal keys together and their positions along."""
    chunks = _chunks(candidates.size, CHUNK)
    edges = np.cumsum([0, *threads.map(candidates.count, chunks)]).tolist()
    words = np.empty(edges[-1], dtype=np.int64)
    bits = (candidates.size - 1).bit_length()
    is_wide = (candidates.level.space - 1).bit_length() + bits > WORD_BITS

    def write(place: tuple[slice, int, int]) -> None:
        chunk, lo, hi = place
        where, keys = candidates.keys(chunk)
        if is_wide:
            words[lo:hi] = keys
            return
        keys <<= bits
        keys |= where
        np.add(keys, chunk.start, out=words[lo:hi])

    threads.do(write, zip(chunks, edges[:-1], edges[1:], strict=True))
    if is_wide:  # slow, and rare: what stands in the word is the key's place among the distinct ones
        position_of = np.concatenate([candidates.keys(chunk)[0] + chunk.start for chunk in chunks])
        order = np.argsort(words)
        words = words[order]
        are_new = _are_new(words)
        distinct = words[are_new]
        words = np.cumsum(are_new) - 1
        words <<= bits
        words |= position_of[order]
        del order, position_of
    else:
        sort(threads, words)

    def group(some: Ints) -> tuple[NDArray[Any], ...]:
        if least > 1:
            some = some.take(np.flatnonzero(_in_long_runs(some >> bits, least)), mode="clip")
        keys = some >> bits
        starts = np.flatnonzero(_are_new(keys))
        counts = np.diff(starts, append=len(keys)).astype(np.uint32)
        positions = some.astype(np.uint32)
        positions &= np.uint32((1 << bits) - 1)
        return keys.take(starts, mode="clip"), counts, positions

    # A chunk is prolonged to where its last key ends, behind the largest word that this key can have.
    cuts = np.unique(np.searchsorted(words, words[CHUNK - 1 :: CHUNK] | ((1 << bits) - 1), side="right"))
    run: dict[str, NDArray[Any]] = {
        "key": np.empty(len(words), dtype=np.int64),  # memory that is never written to is never taken
        "count": np.empty(len(words), dtype=np.uint32),
        "position": np.empty(len(words), dtype=np.uint32),
    }
    lengths = dict.fromkeys(run, 0)
    for columns in threads.map(group, np.split(words, cuts)):
        for name, column in zip(run, columns, strict=True):
            run[name][lengths[name] : lengths[name] + len(column)] = column
            lengths[name] += len(column)
    run = {name: run[name][: lengths[name]] for name in run}
    if is_wide:
        run["key"] = distinct[run["key"]]
    return run


def _in_long_runs(values: Ints, length: int) -> Bools:
    """Which values stand in a run of at least `length` equal ones; equal ones stand together."""
    inside = np.zeros(len(values), dtype=bool)
    if len(values) < length:
        return inside
    num_starts = len(values) - length + 1
    np.equal(values[length - 1 :], values[:num_starts], out=inside[:num_starts])
    marked = 1  # of the values of a run, counted from each that begins so many
    while marked < length:
        step = min(marked, length - marked)
        inside[step:] |= inside[:-step]
        marked += step
    return inside


def _are_new(values: Ints) -> Bools:
    """Which values differ from the one before."""
    are_new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=are_new[1:])
    return are_new


def merge(threads: Threads, shelf: Shelf, level: Level, keys_in: KeyRange) -> Merged:
    """Those keys of a range that occur at least `thresholds[0]` times get ids, counted from 0 in every range."""
    key_runs, count_runs = [], []
    for number in range(level.num_parts):
        keys, counts = shelf.get(f"run-{level.order}-{number}", "key", "count")
        inside = slice(*np.searchsorted(keys, (keys_in.lo, keys_in.hi)))
        key_runs.append(keys[inside])
        count_runs.append(counts[inside])
    if level.num_parts == 1:
        number_E: Any = slice(None)
        count = count_runs[0]
    else:
        number_E = _numbered(threads, np.concatenate(key_runs) - keys_in.lo, keys_in.hi - keys_in.lo)
        count = np.bincount(number_E, weights=np.concatenate(count_runs)).astype(np.int64)  # exact below 2**53
    are_frequent = count >= level.thresholds[0]
    id_of = np.where(are_frequent, np.cumsum(are_frequent, dtype=np.uint32) - np.uint32(1), NONE)
    edges = np.cumsum([0, *map(len, key_runs)])  # where the entries of each run begin
    shelf.put(f"merged-{level.order}-{keys_in.number}", id=id_of[number_E], edge=edges)
    reached = [count >= threshold for threshold in level.thresholds]
    return Merged(
        distinct_M=[int(np.count_nonzero(each)) for each in reached],
        occurrences_M=[int(count[each].sum(dtype=np.int64)) for each in reached],
    )


def _numbered(threads: Threads, keys: Ints, space: int) -> Ints:
    """The place of each key among the distinct ones, in their order."""
    bits = len(keys).bit_length()
    if (space - 1).bit_length() + bits > WORD_BITS:
        return np.unique(keys, return_inverse=True)[1]
    words = keys << bits
    words |= np.arange(len(words))
    sort(threads, words)
    number = np.empty(len(words), dtype=np.int64)
    number[words & ((1 << bits) - 1)] = np.cumsum(_are_new(words >> bits)) - 1
    return number


def assign(threads: Threads, shelf: Shelf, level: Level, part: Part, first_ids: Sequence[int]) -> Live:
    """`first_ids` are what the ids of each range are counted from in the whole stream."""
    key_G, count_G = shelf.get(f"run-{level.order}-{part.number}", "key", "count")
    id_G = np.full(len(key_G), NONE)
    done = 0
    for number, first_id in enumerate(first_ids):
        id_E, edges = shelf.get(f"merged-{level.order}-{number}", "id", "edge")
        ids = id_E[edges[part.number] : edges[part.number + 1]]
        np.add(ids, np.uint32(first_id), out=id_G[done : done + len(ids)], where=ids != NONE)
        done += len(ids)
    ids_T = np.empty(part.size, dtype=np.uint32)
    chunks = _chunks(part.size, CHUNK)
    if level.is_dense:
        candidates = Candidates(shelf, level, part)
        id_S = np.full(level.space + 1, NONE)
        id_S[key_G] = id_G

        def look_up(chunk: slice) -> None:
            id_S.take(candidates.slots(chunk), mode="clip", out=ids_T[chunk])

        threads.do(look_up, chunks)
    else:
        (position,) = shelf.get(f"run-{level.order}-{part.number}", "position")
        edge_G = np.zeros(len(key_G) + 1, dtype=np.int64)  # where the positions of each key begin
        np.cumsum(count_G, out=edge_G[1:])

        def place(groups: slice) -> None:
            ids, counts = id_G[groups], count_G[groups]
            positions = position[edge_G[groups.start] : edge_G[groups.stop]].astype(np.int64)
            if level.num_parts > 1:
                are_frequent = ids != NONE
                positions = positions.take(np.flatnonzero(np.repeat(are_frequent, counts)), mode="clip")
                ids, counts = ids[are_frequent], counts[are_frequent]
            ids_T[positions] = np.repeat(ids, counts)

        cuts = np.searchsorted(edge_G, [*range(0, len(position), CHUNK), len(position)])
        threads.do(lambda chunk: ids_T[chunk].fill(NONE), chunks)
        threads.do(place, [slice(*pair) for pair in pairwise(np.unique(cuts).tolist())])
    shelf.put(f"ids-{level.order}-{part.number}", id=ids_T)
    return _live(threads, part, ids_T)


def _live(threads: Threads, part: Part, ids_T: SmallInts) -> Live:
    inner_edges = part.block_edges_K[(part.block_edges_K > 0) & (part.block_edges_K < part.size)]
    edges = np.unique([*range(0, part.size, CHUNK), *inner_edges.tolist(), part.size])  # no piece crosses a block

    def tally(piece: tuple[int, int]) -> tuple[int, int]:
        lo, hi = piece
        is_live = ids_T[max(lo - 1, 0) : hi] != NONE
        return int(np.count_nonzero(is_live[min(lo, 1) :])), int(np.count_nonzero(is_live[:-1] & ~is_live[1:]))

    tallies = np.array(list(threads.map(tally, pairwise(edges.tolist()))))
    block = np.searchsorted(part.block_edges_K, edges[:-1], side="right") - 1
    counts_K2 = np.zeros((len(part.block_edges_K) - 1, 2), dtype=np.int64)
    np.add.at(counts_K2, block, tallies)
    return Live(counts_K2[:, 0], counts_K2[:, 1], ids_T[: HIGHEST_ORDER - 1].copy(), ids_T[-1])


def sort(threads: Threads, words: Ints) -> None:
    """In place. To part them first costs little, and each thread sorts a part."""
    if threads.number > 1 and len(words) > CHUNK:
        cuts = [len(words) * number // threads.number for number in range(1, threads.number)]
        words.partition(cuts)
        threads.do(np.ndarray.sort, np.split(words, cuts))
    else:
        words.sort()


def _chunks(size: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]
