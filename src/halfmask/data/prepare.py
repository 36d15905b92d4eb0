"""From sources to a folder of tokens (see tokens.py), whatever interrupts it.

    survey       every text is read: the split of each document, a digest of the whole      texts.py
    vocabulary   opened, or trained on the training split                                   vocabulary.py
    shards       every text is read again and tokenised, shard by shard                     shards.py
    files        the shards are joined and moved into place; the manifest comes last

What is done is kept in OUT/parts: the same command goes on where it was stopped, and a folder that was begun with
other settings or other text is refused. Standard input and data sets of the Hub are copied there first. Memory holds
some shards, a byte for each document, and the hashes of the documents of sources that are held out by name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from halfmask.corpus.sources import HUB, STDIN, Reading, open_corpus
from halfmask.data import shards
from halfmask.data.texts import Origin, Progress, Survey, Texts, survey, write_copy
from halfmask.data.tokens import MANIFEST, SPLITS, TOKENIZER, TokenData, paths_of
from halfmask.data.vocabulary import Vocabulary, bpe_size, open_vocabulary, train_vocabulary
from halfmask.errors import DataError, HalfmaskError, UsageError
from halfmask.records import Record, atomic_write

PARTS, LOCK = "parts", "lock"
BEGUN = "begun.json"
TRAINED = "trained.json"
BPE_CHARACTERS = 1 << 28  # beyond that, a BPE learns from every second, third … text of the training split

Names = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class _Plan:
    """What is asked for. Equal plans and equal texts make equal folders."""

    tokens: str
    vocabulary: Vocabulary | None  # None: it is trained
    reading: Reading
    limit: int | None
    sources: dict[str, list[str]]  # of training, and of what is held out by name
    shares: dict[str, float]  # of validation and test

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "tokenizer": self.tokens if self.vocabulary is None else self.vocabulary.digest,
            **asdict(self.reading),
            "limit": self.limit,
            **{split: "sources" if split in self.sources else self.shares[split] for split in ("test", "validation")},
            "shard": shards.SHARD_CHARACTERS,
        }

    def origins(self) -> list[Origin]:
        """What is held out comes first. Of a Hub data set, validation and test are the splits of that name."""
        names = [name for each in self.sources.values() for name in each]
        if names.count(STDIN) > 1:
            raise UsageError("standard input can be read once", got=" ".join(names), fix="name - once")
        origins = []
        for split in ("test", "validation", "train"):
            if split not in self.sources:
                continue
            each, its, limit = tuple(self.sources[split]), self.reading, None
            if split == "train":
                limit = self.limit
            elif any(name.startswith(HUB) for name in each):
                its = replace(self.reading, split=split)
            else:
                its = replace(self.reading, subset=None, split=Reading.split)
            open_corpus(each, its)  # refuses what is not there before anything is made
            origins.append(Origin(split, each, its, limit))
        return origins


def prepare(
    sources: Names,
    out: Path | str,
    *,
    tokens: str = "bpe:4096",
    reading: Reading | None = None,
    limit: int | None = None,
    validation: float | Names = 0.05,
    test: float | Names = 0.0,
    progress: Progress = lambda done, total, stage: None,
) -> Record:
    """Tokenise the sources into the folder `out`. Validation and test are shares of the documents, or sources.

    `limit` stops at the end of the document that brings the training sources to so many characters.
    """
    out = Path(out)
    plan = _plan(sources, tokens, reading or Reading(), limit, {"validation": validation, "test": test})
    begun = _begun(out)
    _check_same(out, begun, plan.settings)
    origins = plan.origins()
    finished = TokenData.open(out) if (out / MANIFEST).exists() else None
    if finished and finished.sources == plan.sources and any(map(_is_of_hub, origins)):
        shutil.rmtree(out / PARTS, ignore_errors=True)
        return _as_it_was(finished)  # to find that nothing changed, all would have to be fetched again

    with _parts(out) as parts:
        texts = Texts([_local(origin, parts, progress) for origin in origins], progress)
        found = survey(texts, plan.shares)
        settings = {**plan.settings, "text": texts.digest}
        _check_same(out, begun, settings)
        if finished is None:
            _check_splits(found, plan)
            _write(parts / BEGUN, json.dumps(settings))
            _make(plan, texts, found, out, settings)
    shutil.rmtree(out / PARTS)
    return _as_it_was(finished) if finished else TokenData.open(out).record("prepare")


def _as_it_was(data: TokenData) -> Record:
    return data.record("prepare", [f"{data.folder} held this already: nothing was done"])


def _make(plan: _Plan, texts: Texts, found: Survey, out: Path, settings: dict[str, Any]) -> None:
    parts = out / PARTS
    vocabulary = plan.vocabulary or _trained(texts, found, plan.tokens, parts / TRAINED)
    paths = shards.write_shards(texts.parts("tokenising"), found.split_D, vocabulary, parts)
    splits = shards.assemble(paths, found.documents, parts, texts.progress)
    made = [path.name for split in splits for path in paths_of(parts, split)]
    if (text := vocabulary.to_json()) is not None:
        _write(parts / TOKENIZER, text)
        made.append(TOKENIZER)
    data = TokenData(
        folder=out,
        vocab_size=vocabulary.size,
        mask_id=vocabulary.mask_id,
        end_id=vocabulary.end_id,
        pad_id=vocabulary.pad_id,
        tokenizer={"name": plan.tokens, "digest": vocabulary.digest},
        splits=splits,
        settings=settings,
        left_out=found.left_out,
        skipped=texts.skipped,
        sources=plan.sources,
    )
    data.save(parts / MANIFEST)
    for name in [*made, MANIFEST]:
        (parts / name).replace(out / name)


def _plan(
    sources: Names, tokens: str, reading: Reading, limit: int | None, held: Mapping[str, float | Names]
) -> _Plan:
    if limit is not None and limit < 1:
        raise UsageError("the limit must be 1 character or more", got=limit, fix="leave it out to read everything")
    shares = {split: float(share) for split, share in held.items() if isinstance(share, (int, float))}
    named = {split: _listed(names) for split, names in held.items() if not isinstance(names, (int, float))}
    if not all(0 <= share < 1 for share in shares.values()) or sum(shares.values()) >= 1:
        raise UsageError(
            "the shares of validation and test must lie in [0, 1) and leave some for training",
            got=", ".join(f"{split} {share:g}" for split, share in shares.items()),
            fix="give for example --validation 0.05",
        )
    vocabulary = None if bpe_size(tokens) else open_vocabulary(tokens)
    everything = {"train": _listed(sources), **named}
    return _Plan(tokens, vocabulary, reading, limit, everything, {"validation": 0.0, "test": 0.0, **shares})


def _listed(names: Names) -> list[str]:
    return [str(names)] if isinstance(names, (str, Path)) else [str(name) for name in names]


def _begun(out: Path) -> dict[str, Any] | None:
    """The settings that the folder was begun with; none where it is new."""
    if (out / MANIFEST).exists():
        return TokenData.open(out).settings
    if (out / PARTS / BEGUN).exists():
        try:
            return dict(json.loads((out / PARTS / BEGUN).read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            got = str(error).partition("\n")[0]
            fix = f"remove {out} and begin again"
            raise DataError(f"{out / PARTS / BEGUN} must hold settings", got=got, fix=fix) from error
    if out.exists() and not out.is_dir():
        raise UsageError("tokens are written to a folder", got=f"the file {out}", fix="name a folder (--out)")
    others = sorted(path.name for path in out.iterdir() if path.name != PARTS) if out.exists() else []
    if others:
        raise UsageError(
            f"{out} must be new, empty, or a folder that this command began",
            got=f"one that holds {', '.join(others[:3])}",
            fix="write to another (--out)",
        )
    return None


def _check_same(out: Path, begun: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if begun is not None and begun.get(key) != value:
            raise UsageError(
                f"{out} was begun with other text"
                if key == "text"
                else f"{out} was begun with {key} {begun.get(key)}",
                got=f"the digest {value}" if key == "text" else f"{key} {value}",
                fix="remove the folder, or write to another (--out)",
            )


@contextlib.contextmanager
def _parts(out: Path) -> Iterator[Path]:
    """The folder of what is done, for one process at a time. An error leaves none that holds nothing of worth."""
    parts, is_new = out / PARTS, not out.exists()
    try:
        parts.mkdir(parents=True, exist_ok=True)
        lock = (parts / LOCK).open("w")
    except OSError as error:
        raise DataError(
            f"{out} must be a folder for tokens", got=error.strerror, fix="choose another --out"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"one process at a time prepares {out}", got="a second", fix="wait for it, or choose another --out"
            ) from error
        try:
            yield parts
        except HalfmaskError:
            if not (parts / BEGUN).exists() and not any(parts.glob(_copy_name("*"))):
                shutil.rmtree(parts)
                if is_new:
                    out.rmdir()
            raise


def _local(origin: Origin, parts: Path, progress: Progress) -> Origin:
    """Texts are read more than once; what cannot be, or has to be fetched, is copied."""
    if STDIN in origin.sources:
        copy = parts / "standard-input"
    elif _is_of_hub(origin):
        copy = parts / _copy_name(hashlib.blake2b(repr(origin).encode(), digest_size=8).hexdigest())
    else:
        return origin
    if STDIN in origin.sources or not copy.exists():
        write_copy(origin, copy, progress)
    return replace(origin, copy=copy)


def _is_of_hub(origin: Origin) -> bool:
    return any(name.startswith(HUB) for name in origin.sources)


def _copy_name(digest: str) -> str:
    return f"copy-{digest}"


def _check_splits(found: Survey, plan: _Plan) -> None:
    num = sum(found.documents.values())
    if num == 1 and any(plan.shares.values()):
        raise DataError(
            "shares of the documents need more than one document",
            got="one",
            fix="cut it (--documents line or paragraph), name sources to hold out (--validation-from, --test-from), "
            "or train on all of it (--validation 0)",
        )
    for split in SPLITS:
        if split not in found.documents and (split in plan.sources or plan.shares[split]):
            raise DataError(
                f"the split {split} must hold documents",
                got=f"none of {num:,}"
                + (f" ({found.left_out[split]:,} are held out)" if split in found.left_out else ""),
                fix="read more, cut smaller documents (--documents line or paragraph), or change the shares",
            )


def _trained(texts: Texts, found: Survey, tokens: str, path: Path) -> Vocabulary:
    """A BPE of the training split; it is kept, so that a run that goes on need not train it again."""
    if path.exists():
        return open_vocabulary(path)
    size = bpe_size(tokens)
    assert size is not None
    vocabulary = train_vocabulary(_training_texts(texts, found), size)
    _write(path, str(vocabulary.to_json()))
    return vocabulary


def _training_texts(texts: Texts, found: Survey) -> Iterator[str]:
    stride = 1 + texts.num_characters // BPE_CHARACTERS
    train = SPLITS.index("train")
    for number, part in enumerate(texts.parts("training the tokenizer")):
        if found.split_D[part.document] == train and number % stride == 0:
            yield part.text


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as stream:
        stream.write(text)
