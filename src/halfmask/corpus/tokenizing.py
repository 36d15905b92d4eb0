"""From texts to token ids: the paper's words, white space, bytes, or any Hugging Face tokenizer.

    words         lower-cased \\w+, what the paper counts
    whitespace    what stands between white space
    bytes         UTF-8
    FILE.json     a tokenizer.json
    FOLDER        one that holds tokenizer.json, or GPT-2's encoder.json and vocab.bpe (or vocab.json and merges.txt)
    hub:NAME      the tokenizer of a model on the Hub

`open_tokenizer` reads such a name.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfmask.corpus.counts import BOUNDARY
from halfmask.corpus.formats import optional
from halfmask.errors import DataError, UsageError, nearest

TokenIds = NDArray[np.int32]
PLAIN = ("words", "whitespace", "bytes")
PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))


class Tokenizer(ABC):
    """Ids mean the same in every call of one tokenizer, and nothing outside it."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> TokenIds:
        """One row: the ids of each text, BOUNDARY between texts."""

    @property
    def digest(self) -> str:
        """Of what the name alone does not say; empty where it says all."""
        return ""


class Splitter(Tokenizer):
    """Ids are given to words as they come."""

    END = " "  # no word, so its id can be BOUNDARY

    def __init__(self, split: Callable[[str], list[str]]) -> None:
        self.split = split
        self.id_of: defaultdict[str, int] = defaultdict()
        self.id_of.default_factory = lambda: len(self.id_of) - 1  # without END
        self.id_of[self.END] = BOUNDARY

    def encode(self, texts: Sequence[str]) -> TokenIds:
        words: list[str] = []
        for index, text in enumerate(texts):
            if index > 0:
                words.append(self.END)
            words += self.split(text)
        return np.fromiter(map(self.id_of.__getitem__, words), dtype=np.int32, count=len(words))


class ByteTokenizer(Tokenizer):
    def encode(self, texts: Sequence[str]) -> TokenIds:
        return _joined([np.frombuffer(text.encode(), dtype=np.uint8) for text in texts])


class PretrainedTokenizer(Tokenizer):
    """A tokenizer of the `tokenizers` package, without what it would add or cut off for a model's input."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> TokenIds:
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return _joined([np.array(encoding.ids, dtype=np.int32) for encoding in encodings])

    @property
    def digest(self) -> str:
        return hashlib.blake2b(self.tokenizer.to_str().encode(), digest_size=16).hexdigest()


def _joined(rows: list[NDArray[Any]]) -> TokenIds:
    boundary = np.array([BOUNDARY], dtype=np.int32)
    parts = [part for row in rows for part in (boundary, row.astype(np.int32, copy=False))]
    return np.concatenate(parts[1:]) if parts else np.empty(0, dtype=np.int32)


def open_tokenizer(name: str) -> Tokenizer:
    if name == "words":
        find_words = re.compile(r"\w+").findall
        return Splitter(lambda text: find_words(text.lower()))
    if name == "whitespace":
        return Splitter(str.split)
    if name == "bytes":
        return ByteTokenizer()
    return PretrainedTokenizer(_pretrained(name))


def _pretrained(name: str) -> Any:
    path = Path(name)
    if not name.startswith("hub:") and not path.exists():
        raise UsageError(
            f"tokens must be {', '.join(PLAIN)}, a tokenizer.json, a folder that holds one, or hub:NAME",
            got=name,
            fix=f"{nearest(name, PLAIN)} (hub:{name} if it is on the Hub)",
        )
    tokenizers = optional("tokenizers", f"the tokenizer {name}", extra="corpus")
    try:
        if name.startswith("hub:"):
            return tokenizers.Tokenizer.from_pretrained(name.removeprefix("hub:"))
        if path.is_dir() and not (path / "tokenizer.json").exists():
            return _byte_level(tokenizers, path)
        return tokenizers.Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
    except DataError:
        raise
    except Exception as error:  # the package raises plain Exceptions, also those of the network
        raise DataError(
            f"{name} must be a tokenizer",
            got=str(error).partition("\n")[0].rstrip(".") or type(error).__name__,
            fix="name a tokenizer.json, or check the name and the network",
        ) from error


def _byte_level(tokenizers: Any, folder: Path) -> Any:
    """GPT-2's tokenizer from its two files."""
    for vocabulary, merges in PAIRS:
        if (folder / vocabulary).exists() and (folder / merges).exists():
            model = tokenizers.models.BPE.from_file(str(folder / vocabulary), str(folder / merges))
            tokenizer = tokenizers.Tokenizer(model)
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = tokenizers.decoders.ByteLevel()
            return tokenizer
    raise DataError(
        f"{folder} must hold tokenizer.json, or {' or '.join(' and '.join(pair) for pair in PAIRS)}",
        got=", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "an empty folder",
        fix="name the folder of a tokenizer",
    )
