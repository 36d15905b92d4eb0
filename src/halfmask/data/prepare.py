"""From sources to a folder of tokens (see tokens.py), whatever interrupts it.

    survey       every text is read: the split of each document, a digest of the whole      texts.py
    vocabulary   opened, or trained on the training split                                   vocabulary.py
    shards       every text is read again and tokenised, shard by shard                     shards.py
    files        the shards are joined; the manifest comes last

What is done is kept in OUT/parts: the same command goes on where it was stopped, and a folder that was begun with
other settings or other text is refused. Memory holds a shard, a byte for each document, and the hashes of the
documents of sources that are held out by name.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from halfmask import __version__
from halfmask.corpus.sources import HUB, STDIN, Reading, open_corpus
from halfmask.data import shards
from halfmask.data.texts import Origin, Progress, Survey, Texts, survey
from halfmask.data.tokens import FORMAT, KIND, MANIFEST, SPLITS, TOKENIZER, TokenData, paths_of
from halfmask.data.vocabulary import Vocabulary, bpe_size, open_vocabulary, train_vocabulary
from halfmask.errors import DataError, UsageError
from halfmask.records import Record, atomic_write

PARTS = "parts"
BEGUN = "begun.json"
BPE_CHARACTERS = 1 << 28  # beyond that, a BPE learns from every second, third … text of the training split


Names = str | Path | Sequence[str | Path]


def prepare(
    sources: Names,
    out: Path | str,
    *,
    tokens: str = "bpe:4096",
    reading: Reading | None = None,
    validation: float | Names = 0.05,
    test: float | Names = 0.0,
    progress: Progress = lambda done, total, stage: None,
) -> Record:
    """Tokenise the sources into the folder `out`. Validation and test are shares of the documents, or sources."""
    out, reading = Path(out), reading or Reading()
    held = {"test": test, "validation": validation}
    shares = {split: float(share) for split, share in held.items() if isinstance(share, (int, float))}
    named = {split: _listed(names) for split, names in held.items() if not isinstance(names, (int, float))}
    _check_shares(shares)
    vocabulary = None if bpe_size(tokens) else open_vocabulary(tokens)
    settings = {
        "tokenizer": tokens if vocabulary is None else vocabulary.digest,
        **asdict(reading),
        **{split: shares.get(split, "sources") for split in held},
        "shard": shards.SHARD_CHARACTERS,
    }
    begun = _begun(out)
    _check_same(out, begun, settings)
    origins = _origins({**named, "train": _listed(sources)}, reading)

    parts = out / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    texts = Texts([_with_copied_input(origin, parts) for origin in origins], progress)
    found = survey(texts, {"test": 0.0, "validation": 0.0, **shares})
    settings["text"] = texts.digest
    _check_same(out, begun, settings)
    if (out / MANIFEST).exists():
        shutil.rmtree(parts)
        return record_of(TokenData.open(out), [f"{out} held this already: nothing was done"])
    _check_splits(found, shares, named)
    _write(parts / BEGUN, json.dumps(settings))

    vocabulary = vocabulary or _trained(texts, found, tokens, parts / TOKENIZER)
    paths = shards.write_shards(texts.parts("tokenising"), found.split_D, vocabulary, parts)
    splits = shards.assemble(paths, found.documents, parts)
    if (text := vocabulary.to_json()) is not None:
        _write(out / TOKENIZER, text)
    for path in (path for split in splits for path in paths_of(parts, split)):
        path.replace(out / path.name)
    manifest = {
        "halfmask": KIND,
        "format": FORMAT,
        "version": __version__,
        "tokenizer": {"name": tokens, "digest": vocabulary.digest},
        "vocab_size": vocabulary.size,
        "mask_id": vocabulary.mask_id,
        "end_id": vocabulary.end_id,
        "pad_id": vocabulary.pad_id,
        "splits": {name: asdict(split) for name, split in splits.items()},
        "left_out": found.left_out,
        "sources": {"train": _listed(sources), **named},
        "settings": settings,
    }
    _write(out / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))
    shutil.rmtree(parts)
    return record_of(TokenData.open(out), texts.skipped)


def _listed(names: Names) -> list[str]:
    return [str(names)] if isinstance(names, (str, Path)) else [str(name) for name in names]


def _check_shares(shares: Mapping[str, float]) -> None:
    if not all(0 <= share < 1 for share in shares.values()) or sum(shares.values()) >= 1:
        raise UsageError(
            "the shares of validation and test must lie in [0, 1) and leave some for training",
            got=", ".join(f"{split} {share:g}" for split, share in shares.items()),
            fix="give for example --validation 0.05",
        )


def _begun(out: Path) -> dict[str, Any] | None:
    """The settings that the folder was begun with; none where it is new."""
    if (out / MANIFEST).exists():
        return TokenData.open(out).settings
    if (out / PARTS / BEGUN).exists():
        begun: dict[str, Any] = json.loads((out / PARTS / BEGUN).read_text(encoding="utf-8"))
        return begun
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


def _origins(sources: Mapping[str, Sequence[str]], reading: Reading) -> list[Origin]:
    """What is held out comes first. Of a Hub data set, validation and test are the splits of that name."""
    names = [name for each in sources.values() for name in each]
    if names.count(STDIN) > 1:
        raise UsageError("standard input can be read once", got=" ".join(names), fix="name - once")
    origins = []
    for split, each in sources.items():
        if split == "train":
            its = reading
        elif any(name.startswith(HUB) for name in each):
            its = replace(reading, split=split)
        else:
            its = replace(reading, subset=None, split=Reading.split)
        open_corpus(each, its)  # refuses what is not there before anything is made
        origins.append(Origin(split, tuple(each), its))
    return origins


def _with_copied_input(origin: Origin, parts: Path) -> Origin:
    """Texts are read more than once, which standard input cannot be."""
    if STDIN not in origin.sources:
        return origin
    copy = parts / "standard-input"
    with atomic_write(copy, "wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
    return replace(origin, sources=tuple(str(copy) if name == STDIN else name for name in origin.sources))


def _check_splits(found: Survey, shares: Mapping[str, float], named: Mapping[str, object]) -> None:
    num = sum(found.documents.values())
    if num == 1 and any(shares.values()):
        raise DataError(
            "shares of the documents need more than one document",
            got="one",
            fix="cut it (--documents line or paragraph), name sources to hold out (--validation-from, --test-from), "
            "or train on all of it (--validation 0)",
        )
    for split in SPLITS:
        if split not in found.documents and (split == "train" or split in named or shares[split]):
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


def record_of(data: TokenData, notes: Sequence[str] = ()) -> Record:
    rows = [
        {
            "split": name,
            "documents": split.documents,
            "tokens": split.tokens,
            "tokens per character": split.tokens / max(split.characters, 1),
            "tokens per byte": split.tokens / max(split.bytes, 1),
        }
        for name, split in data.splits.items()
    ]
    left_out = [f"left out of {name}: {num:,} documents that are held out" for name, num in data.left_out.items()]
    ids = f"{data.vocab_size:,} ids; {data.end_id} ends a document, {data.mask_id} is a hidden token"
    return Record(
        name="prepare",
        title=f"Tokens in {data.folder}",
        settings={"tokenizer": data.tokenizer["name"], "sources": data.sources, **data.settings},
        rows=rows,
        notes=[ids, *left_out, *notes],
        extra={"vocab_size": data.vocab_size, "mask_id": data.mask_id, "end_id": data.end_id, "pad_id": data.pad_id},
    )
