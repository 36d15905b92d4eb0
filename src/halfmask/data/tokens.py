"""A folder of tokens, as `halfmask prepare` leaves it: opened, checked, memory-mapped.

    manifest.json           what is in the folder, and what it was made from; written last
    tokenizer.json          not for bytes
    SPLIT.tokens            train, validation, test: little-endian uint16, or uint32 above 65,536 ids
    SPLIT.documents.npy     where each document begins, int64

Opening checks that everything is there and as long as it must be; `verify` reads it all and checks the digests.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfmask.errors import DataError, UsageError, nearest

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
    sources: dict[str, list[str]]

    @classmethod
    def open(cls, folder: Path | str) -> TokenData:
        folder = Path(folder)
        path = folder / MANIFEST
        prepare = f"halfmask prepare SOURCE --out {folder}"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            kind, form = fields.pop("halfmask"), fields.pop("format")
            del fields["version"]
            if (kind, form) != (KIND, FORMAT):
                raise ValueError(f"{kind}, format {form}, where {KIND}, format {FORMAT} is read")
            splits = {name: Split(**split) for name, split in fields.pop("splits").items()}
            data = cls(folder=folder, splits=splits, **fields)
        except OSError as error:
            raise DataError(
                f"{folder} must be a folder of tokens",
                got="no manifest.json in it" if folder.is_dir() else error.strerror or error,
                fix=f"make one: {prepare} (the same command goes on where it was stopped)",
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path} must be the manifest of a folder of tokens",
                got=str(error).partition("\n")[0],
                fix=f"remove the folder and make it again: {prepare}",
            ) from error
        for name in splits:
            data.split(name)
        if data.tokenizer_file is not None and not data.tokenizer_file.is_file():
            raise data._broken(data.tokenizer_file, "must be there", "nothing")
        return data

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
        try:
            if (size := tokens.stat().st_size) != wanted:
                raise self._broken(tokens, f"must hold {wanted:,} bytes ({split.tokens:,} tokens)", f"{size:,}")
            starts_D = np.load(documents, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as error:
            raise self._broken(Path(error.filename), "must be there", "nothing") from error
        except (ValueError, EOFError) as error:
            raise self._broken(documents, "must be a sound .npy file", str(error).partition("\n")[0]) from error
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


def dtype_of(vocab_size: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def paths_of(folder: Path, split: str) -> tuple[Path, Path]:
    return folder / f"{split}.tokens", folder / f"{split}.documents.npy"


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
