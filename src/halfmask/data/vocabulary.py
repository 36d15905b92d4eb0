"""A tokenizer with what training needs beyond it: an id that ends documents, and the id of a hidden token.

    open_vocabulary("bytes", a tokenizer.json, its folder, hub:NAME) ──┐
    train_vocabulary(texts, size): a byte-level BPE                  ──┴──▶ Vocabulary ──▶ encode, decode, to_json

Ids that the tokenizer has of its own are used; those it lacks are added after its last one. Text never turns into
them: `<|endoftext|>` written in a document is encoded like any other characters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfmask.corpus.formats import optional
from halfmask.corpus.tokenizing import ByteTokenizer, PretrainedTokenizer, TokenIds, open_tokenizer
from halfmask.errors import DataError, UsageError

BYTES = "bytes"
BPE = re.compile(r"bpe:(.*)")
SMALLEST_BPE, LARGEST_BPE = 256, 1 << 20
END = ("<|endoftext|>", "</s>", "<eos>", "<|eos|>", "<|end_of_text|>", "[EOS]")
MASK = ("[MASK]", "<mask>", "<|mdm_mask|>", "<|mask|>")
PAD = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>")


@dataclass(frozen=True)
class Vocabulary:
    tokenizer: ByteTokenizer | PretrainedTokenizer
    size: int  # every id is below it
    end_id: int  # follows every document
    mask_id: int  # of a hidden token
    pad_id: int | None
    mask_is_added: bool = False  # the tokenizer has none of its own

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """One row: the ids of each text, BOUNDARY between texts."""
        row = self.tokenizer.encode(texts)
        if np.any(row == self.mask_id):  # only where the mask token is a plain word of the tokenizer
            raise DataError(
                "the text must not hold the tokenizer's own mask token",
                got=f"a text with the id {self.mask_id}",
                fix="leave it out of the text, or take another tokenizer",
            )
        return row

    def decode(self, ids: ArrayLike) -> str:
        """The text, without the end of documents, hidden tokens and padding."""
        left_out = {self.end_id, self.mask_id, self.pad_id}
        kept = [each for each in np.asarray(ids).tolist() if each not in left_out]
        if isinstance(self.tokenizer, ByteTokenizer):
            return bytes(kept).decode(errors="replace")
        return str(self.tokenizer.tokenizer.decode(kept))

    def to_json(self) -> str | None:
        """What a tokenizer.json holds; bytes need none."""
        if isinstance(self.tokenizer, ByteTokenizer):
            return None
        return str(self.tokenizer.tokenizer.to_str(pretty=True))

    @property
    def digest(self) -> str:
        return hashlib.blake2b((self.to_json() or BYTES).encode(), digest_size=16).hexdigest()


def open_vocabulary(name: str | Path) -> Vocabulary:
    name = str(name)
    if name in ("words", "whitespace"):
        raise UsageError(
            "a model needs a closed vocabulary: bytes, bpe:N, a tokenizer.json, its folder or hub:NAME",
            got=f"{name}, where any text may bring a word without an id",
            fix="take bpe:4096",
        )
    tokenizer = open_tokenizer(name)
    if isinstance(tokenizer, ByteTokenizer):
        return Vocabulary(tokenizer, size=258, end_id=256, mask_id=257, pad_id=None)
    assert isinstance(tokenizer, PretrainedTokenizer)
    return _with_special_ids(tokenizer.tokenizer, name)


def bpe_size(name: str) -> int | None:
    """N of `bpe:N`; None for any other tokenizer."""
    match = BPE.fullmatch(name)
    if match is None:
        return None
    if not match[1].isdecimal() or not SMALLEST_BPE <= int(match[1]) <= LARGEST_BPE:
        raise UsageError(
            f"bpe:N takes a number of tokens from {SMALLEST_BPE} (the bytes) to {LARGEST_BPE}",
            got=name,
            fix="write for example bpe:4096",
        )
    return int(match[1])


def train_vocabulary(texts: Iterable[str], size: int) -> Vocabulary:
    """A byte-level BPE of `size` tokens, cut into words as GPT-2 does; short texts give fewer tokens."""
    tokenizers = optional("tokenizers", "training a BPE", extra="corpus")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(iter(texts), trainer)
    return _with_special_ids(tokenizer, f"bpe:{size}")


def _with_special_ids(tokenizer: Any, name: str) -> Vocabulary:
    own = dict(tokenizer.get_vocab())
    end = next((token for token in END if token in own), END[0])
    mask = next((token for token in MASK if token in own), MASK[-1])
    pad = next((token for token in PAD if token in own), None)
    tokenizer.add_special_tokens([token for token in (end, mask, pad) if token is not None])
    tokenizer.encode_special_tokens = True  # as plain text
    ids = dict(tokenizer.get_vocab())
    taken = set(own.values())
    if any(ids[token] in taken for token in (end, mask) if token not in own):
        raise DataError(
            f"{name} must leave room for the ids {end} and {mask}",
            got="ids with gaps",
            fix="add both to the tokenizer by hand",
        )
    return Vocabulary(
        PretrainedTokenizer(tokenizer),
        size=max(ids.values()) + 1,
        end_id=ids[end],
        mask_id=ids[mask],
        pad_id=None if pad is None else ids[pad],
        mask_is_added=mask not in own,
    )
