"""A folder of tokens, as `halfmask prepare` leaves it: opened, checked, memory-mapped.

    manifest.json           what is in the folder, and what it was made from; written last
    tokenizer.json          not for bytes
    SPLIT.tokens            train, validation, test: little-endian uint16, or uint32 above 65,536 ids
    SPLIT.documents.npy     where each document begins, int64

Opening checks that everything is there and as long as it must be; `verify` reads it all and checks the digests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfmask import __version__
from halfmask.errors import DataError, UsageError, nearest
from halfmask.records import Record, atomic_write

if TYPE_CHECKING:
    from halfmask.data.vocabulary import Vocabulary

SPLITS = ("train", "validation", "test")
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
KIND, FORMAT = "tokens", 1


@dataclass(frozen=True)
class Split:
    """What the manifest says of one."""

    tokens: int
    documents: int
    characters: int
    bytes: int  # of its text in UTF-8
    digest: str
    documents_digest: str


@dataclass(frozen=True)
class TokenFile:
    """One split. Letters: N tokens, D documents. Every document ends with the end id."""

    name: str  # for messages
    tokens_N: NDArray[np.unsignedinteger[Any]]
    starts_D: NDArray[np.int64]


@dataclass(frozen=True)
class TokenData:
    folder: Path
    vocab_size: int  # every id is below it
    mask_id: int
    end_id: int
    pad_id: int | None
    tokenizer: dict[str, str]  # its name and digest
    splits: dict[str, Split]
    settings: dict[str, Any]  # that made it
    left_out: dict[str, int]  # documents of a split that are held out in another
    skipped: list[str]  # what was broken, in words
    sources: dict[str, list[str]]

    @classmethod
    def open(cls, folder: Path | str) -> TokenData:
        folder = Path(folder)
        path = folder / MANIFEST
        prepare = f"halfmask prepare SOURCE --out {folder}"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(fields, dict):
                raise ValueError(f"a {type(fields).__name__}")
            kind, form, digest = (fields.pop(key) for key in ("halfmask", "format", "digest"))
            if (kind, form) != (KIND, FORMAT):
                raise ValueError(f"{kind}, format {form}, where {KIND}, format {FORMAT} is read")
            if digest != _digest(fields):
                raise ValueError("one that was changed after it was written")
        except OSError as error:
            raise DataError(
                f"{folder} must be a folder of tokens",
                got="no manifest.json in it" if folder.is_dir() else error.strerror or error,
                fix=f"make one: {prepare} (the same command goes on where it was stopped)",
            ) from error
        except (ValueError, KeyError) as error:
            raise DataError(
                f"{path} must be the manifest of a folder of tokens",
                got=f"no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0],
                fix=f"remove the folder and make it again: {prepare}",
            ) from error
        del fields["version"]  # for people
        splits = {name: Split(**split) for name, split in fields.pop("splits").items()}
        data = cls(folder=folder, splits=splits, **fields)
        for name in splits:
            data.split(name)
        if data.tokenizer_file is not None and not data.tokenizer_file.is_file():
            raise data._broken(data.tokenizer_file, "must be there", "nothing")
        return data

    def save(self, path: Path) -> None:
        """The manifest; the digest says that nobody changed it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["folder"]
        fields |= {"version": __version__, "splits": {name: asdict(split) for name, split in self.splits.items()}}
        sealed = {"halfmask": KIND, "format": FORMAT, "digest": _digest(fields), **fields}
        with atomic_write(path) as stream:
            json.dump(sealed, stream, indent=1, ensure_ascii=False)

    def record(self, name: str, notes: Sequence[str] = ()) -> Record:
        rows = [
            {
                "split": split,
                "documents": each.documents,
                "tokens": each.tokens,
                "tokens per character": each.tokens / max(each.characters, 1),
                "tokens per byte": each.tokens / max(each.bytes, 1),
            }
            for split, each in self.splits.items()
        ]
        ids = f"{self.vocab_size:,} ids; {self.end_id} ends a document, {self.mask_id} is a hidden token"
        left_out = [
            f"left out of {split}: {num:,} documents that are held out" for split, num in self.left_out.items()
        ]
        return Record(
            name=name,
            title=f"Tokens in {self.folder}",
            settings={"tokenizer": self.tokenizer["name"], "sources": self.sources, **self.settings},
            rows=rows,
            notes=[ids, *left_out, *self.skipped, *notes],
            extra={key: getattr(self, key) for key in ("vocab_size", "mask_id", "end_id", "pad_id")},
        )

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        return dtype_of(self.vocab_size)

    @property
    def tokenizer_file(self) -> Path | None:
        return None if self.tokenizer["name"] == "bytes" else self.folder / TOKENIZER

    def split(self, name: str) -> TokenFile:
        if name not in self.splits:
            raise UsageError(
                f"{self.folder} holds the splits {', '.join(self.splits)}", got=name, fix=nearest(name, self.splits)
            )
        split = self.splits[name]
        tokens, documents = paths_of(self.folder, name)
        wanted = split.tokens * self.dtype.itemsize
        size = tokens.stat().st_size if tokens.is_file() else None
        if size != wanted:
            got = "nothing" if size is None else f"{size:,}"
            raise self._broken(tokens, f"must hold {wanted:,} bytes ({split.tokens:,} tokens)", got)
        try:
            starts_D = np.lib.format.open_memmap(documents, mode="r")
        except (OSError, ValueError) as error:
            got = "nothing" if isinstance(error, FileNotFoundError) else str(error).partition("\n")[0]
            raise self._broken(documents, "must be a sound .npy file", got) from error
        if starts_D.shape != (split.documents,) or starts_D.dtype != np.dtype("<i8"):
            got = f"{starts_D.dtype} of shape {starts_D.shape}"
            raise self._broken(documents, f"must hold {split.documents:,} starts as int64", got)
        tokens_N = np.memmap(tokens, dtype=self.dtype, mode="r")
        return TokenFile(f"{self.folder} ({name})", tokens_N, starts_D)

    def verify(self) -> None:
        """Read everything and compare its digests with those of the manifest."""
        files = [(self.tokenizer_file, self.tokenizer["digest"])]
        for name, split in self.splits.items():
            files += zip(paths_of(self.folder, name), (split.digest, split.documents_digest), strict=True)
        for path, digest in files:
            if path is not None and (found := digest_of(path)) != digest:
                raise self._broken(path, f"must have the digest {digest}", found)

    def encode(self, text: str) -> NDArray[np.int64]:
        return self.vocabulary.encode([text]).astype(np.int64)

    def decode(self, ids: ArrayLike) -> str:
        """The text, without the end of documents, hidden tokens and padding."""
        return self.vocabulary.decode(ids)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from halfmask.data.vocabulary import open_vocabulary

        vocabulary = open_vocabulary(self.tokenizer_file or "bytes")
        ids = (vocabulary.size, vocabulary.mask_id, vocabulary.end_id)
        if self.tokenizer_file is not None and ids != (self.vocab_size, self.mask_id, self.end_id):
            raise self._broken(self.tokenizer_file, "must have the ids of the manifest", f"{ids}")
        return vocabulary

    def _broken(self, path: Path, rule: str, got: str) -> DataError:
        return DataError(f"{path} {rule}", got=got, fix=f"remove {self.folder} and run halfmask prepare again")


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def dtype_of(vocab_size: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def paths_of(folder: Path, split: str) -> tuple[Path, Path]:
    return folder / f"{split}.tokens", folder / f"{split}.documents.npy"


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
