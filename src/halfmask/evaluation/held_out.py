"""What models are measured on, and measuring them: text or a folder of tokens → rows → Bound.

    open_tokens(folder, split) ──┐
    encode_texts(sources, …)   ──┴──▶ HeldOut ──rows_of──▶ Batch ──measure──▶ Bound

A row is a window of the text, whatever documents it crosses, or one document: longer ones are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from halfmask.corpus.sources import Reading
from halfmask.data.batches import held_out_rows
from halfmask.data.texts import Origin, Texts
from halfmask.data.tokens import TokenData, TokenFile
from halfmask.errors import DataError, UsageError
from halfmask.evaluation.bound import Bound, model_losses
from halfmask.evaluation.draws import EVALUATION_SEED, Draws
from halfmask.masking.corrupt import PADDING, Batch
from halfmask.models.load import Loaded
from halfmask.objective import MaskedLoss

Per = Literal["window", "document"]
Progress = Callable[[int, int, str], None]
LONGEST = 1024  # tokens of a row, where nobody asks for more
BATCH_TOKENS = 1 << 14  # of one forward pass


@dataclass(frozen=True)
class HeldOut:
    name: str
    file: TokenFile
    num_bytes: int  # of the whole text
    digest: str  # of its tokenizer

    @property
    def bytes_per_token(self) -> float:
        return self.num_bytes / len(self.file.tokens_N)


def open_tokens(folder: Path | str, split: str = "validation") -> HeldOut:
    data = TokenData.open(folder)
    file = data.split(split)
    return HeldOut(f"{folder} ({split})", file, data.splits[split].bytes, data.tokenizer["digest"])


def encode_texts(sources: Sequence[str], model: Loaded, reading: Reading, progress: Progress) -> HeldOut:
    """Any text in the tokens of a model; every document ends with its end id, as in training."""
    texts = Texts([Origin("test", tuple(sources), reading)], progress)
    parts, starts, num_tokens, num_bytes = [], [], 0, 0
    for part in texts.parts("reading"):
        ids = model.vocabulary.encode([part.text])
        if part.begins:
            starts.append(num_tokens)
        if part.digest is not None:
            ids = np.append(ids, np.int32(model.vocabulary.end_id))
        parts.append(ids)
        num_tokens += len(ids)
        num_bytes += len(part.text.encode())
    name = " ".join(sources)
    tokens_N = np.concatenate(parts).astype(np.uint32)
    return HeldOut(name, TokenFile(name, tokens_N, np.array(starts)), num_bytes, model.vocabulary.digest)


def check_fits(held_out: HeldOut, model: Loaded) -> None:
    if held_out.digest != model.vocabulary.digest:
        raise DataError(
            f"{held_out.name} must hold tokens of the tokenizer of {model.name}",
            got="those of another tokenizer",
            fix="give the text itself with --text, or prepare it with the model's tokenizer.json",
        )


def rows_of(held_out: HeldOut, *, length: int | None, limit: int | None, per: Per, models: Sequence[Loaded]) -> Batch:
    """The first `limit` rows (or documents) of at most `length` tokens; None: what the models take."""
    longest = min([model.max_length for model in models if model.max_length is not None], default=None)
    if length is None:
        length = min(longest or LONGEST, LONGEST, len(held_out.file.tokens_N))
    if length < 1 or (longest is not None and length > longest):
        raise UsageError(f"a row must have 1 to {longest} tokens", got=length, fix="shorten it, or leave --length out")
    if limit is not None and limit < 1:
        raise UsageError("1 row or more is needed", got=limit, fix="give for example --rows 128")
    if per == "window":
        return held_out_rows(held_out.file, length=length, limit=limit)
    return document_rows(held_out.file, length, limit)


def document_rows(file: TokenFile, length: int, limit: int | None) -> Batch:
    """A row for every `length` tokens of a document, the rest of the row padding."""
    ends_D = np.append(file.starts_D, len(file.tokens_N))[1:][:limit]
    spans = [
        (at, min(at + length, end))
        for start, end in zip(file.starts_D[:limit], ends_D, strict=True)
        for at in range(int(start), int(end), length)
    ]
    if not spans:
        raise DataError(f"{file.name} must hold a document", got="none", fix="name another split or source")
    shape = len(spans), max(stop - start for start, stop in spans)
    tokens_RT, maskable_RT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    for row, (start, stop) in enumerate(spans):
        tokens_RT[row, : stop - start] = file.tokens_N[start:stop]
        maskable_RT[row, : stop - start] = True
    documents_RT = np.where(maskable_RT, 0, PADDING).astype(np.int32)
    return Batch(0, np.arange(len(spans)), len(spans), tokens_RT, maskable_RT, documents_RT)


def measure(
    model: Loaded,
    rows: Batch,
    *,
    num_draws: int,
    seed: int = EVALUATION_SEED,
    num_bins: int = 8,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress = lambda done, total, stage: None,
) -> Bound:
    draws = Draws(rows, num_draws, seed)
    losses = model_losses(MaskedLoss(model.module), model.device)
    found = np.empty((len(rows.rows_B), num_draws, 2))
    done = 0
    for index in batches_by_length(draws.length_R, batch_tokens):
        found[index] = draws.found(losses, index, model.denoiser.mask_id)
        done += len(index)
        progress(done, len(found), f"measuring {model.name}")
    return Bound.of(draws, found, num_bins)


def batches_by_length(length_R: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Rows of like length together, so that little is padded."""
    batches: list[list[int]] = [[]]
    for row in np.argsort(length_R, kind="stable"):
        if batches[-1] and (len(batches[-1]) + 1) * length_R[row] > batch_tokens:
            batches.append([])
        batches[-1].append(int(row))
    return [np.array(batch) for batch in batches]
