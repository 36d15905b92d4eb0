"""For those who have a trainer already: masked diffusion in `transformers.Trainer`, by two calls.

    model.loss_function = masked_loss_function
    Trainer(model, TrainingArguments(…, remove_unused_columns=False), train_dataset=rows,
            data_collator=MaskingCollator(mask_id=…, law="0.45-0.55"))

The collator hides tokens and puts the weight of each hidden one beside it; the loss function reads both. Labels keep
the original token at every position that may be hidden: the Trainer divides by their number, which is the normaliser
of `objective.py`, whatever the accumulation and the number of devices. The model must not be causal (`is_causal=False`
in its configuration) and must hand its keyword arguments to its loss function, as Llama and Qwen do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfmask.errors import UsageError
from halfmask.masking.corrupt import Batch, Draws, Hiding, Masking, WeightName
from halfmask.masking.schedules import parse_schedule
from halfmask.noise import Noise

IGNORED = -100  # the label of what is never hidden


@dataclass
class MaskingCollator:
    """Rows of `input_ids` (and of `maskable`, where some tokens must stay visible) to a noisy batch.

    What is hidden is a function of the seed, the epoch and the rows themselves, so it does not depend on the number of
    workers and is the same after a resume. Set `epoch` when a new one begins, or rows meet the same noise again.
    """

    mask_id: int
    law: str = "0-1"
    weight: WeightName = "1/t"
    draws: Draws = "stratified"  # over the rows of one call
    hiding: Hiding = "coins"
    pad_id: int = 0
    seed: int = 0
    epoch: int = 0
    masking: Masking = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.masking = Masking(parse_schedule(self.law), self.weight, self.draws, self.hiding)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        num_rows, length = len(rows), max(len(row["input_ids"]) for row in rows)
        tokens_BT = np.full((num_rows, length), self.pad_id, dtype=np.int64)
        maskable_BT = np.zeros((num_rows, length), dtype=np.bool_)
        attention_BT = np.zeros((num_rows, length), dtype=np.int64)
        for b, row in enumerate(rows):
            ids = np.asarray(row["input_ids"])
            tokens_BT[b, : len(ids)] = ids
            maskable_BT[b, : len(ids)] = _maskable(row, len(ids))
            attention_BT[b, : len(ids)] = 1
        batch = Batch(self._key(tokens_BT), np.arange(num_rows), num_rows, tokens_BT, maskable_BT)
        noisy = self.masking.noisy(batch, Noise(self.seed), self.mask_id)
        labels_BT = torch.from_numpy(np.where(maskable_BT, tokens_BT, IGNORED))
        return {
            "input_ids": torch.from_numpy(noisy.tokens_BT),
            "attention_mask": torch.from_numpy(attention_BT),
            "labels": labels_BT,
            "shift_labels": labels_BT,  # says that nothing is shifted: else the Trainer leaves out the first column
            "weights": torch.from_numpy((noisy.hidden_BT * noisy.weight_B[:, None]).astype(np.float32)),
        }

    def _key(self, tokens_BT: np.ndarray[Any, Any]) -> int:
        """What stands for the step: the rows, and how often they have been seen."""
        digest = hashlib.blake2b(tokens_BT.tobytes(), digest_size=8, salt=self.epoch.to_bytes(8, "little")).digest()
        return int.from_bytes(digest, "little")


def _maskable(row: Mapping[str, Any], length: int) -> Any:
    maskable = row.get("maskable", True)
    if maskable is not True and len(maskable) != length:
        raise UsageError(
            "a row says of each of its tokens whether it may be hidden",
            got=f"{len(maskable)} of {length} in `maskable`",
            fix="give one value for each of input_ids",
        )
    return maskable


def masked_loss_function(
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    *,
    weights: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    **others: Any,
) -> Tensor:
    """Σ weight · -log p over the number of labels: of the whole step, where the Trainer says how many."""
    nll_N = torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocab_size).float(), labels.reshape(-1), ignore_index=IGNORED, reduction="none"
    )
    total = (labels != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
    loss: Tensor = (nll_N * weights.reshape(-1).to(nll_N)).sum() / total
    return loss
