"""Masked diffusion in somebody else's trainer: two calls, and the loss is ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halfmask.errors import UsageError
from halfmask.masking.corrupt import Batch, Masking
from halfmask.masking.schedules import parse_schedule
from halfmask.models.pretrained import Pretrained
from halfmask.noise import Noise
from halfmask.objective import masked_loss, on_device
from halfmask.training.trainer import IGNORED, MaskingCollator, masked_loss_function

transformers = pytest.importorskip("transformers")
MASK = 31


def tiny_llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        is_causal=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.LlamaForCausalLM(config)
    model.loss_function = masked_loss_function
    return model


def rows(num: int = 8, length: int = 12) -> list[dict[str, Any]]:
    tokens = np.random.default_rng(0).integers(3, MASK, (num, length))
    return [{"input_ids": row.tolist()} for row in tokens]


def test_the_loss_is_that_of_our_own_step() -> None:
    collator, some = MaskingCollator(MASK, law="0.3-0.7"), rows()
    batch = collator(some)
    model = tiny_llama()
    theirs = model(**batch).loss
    tokens_BT = np.array([row["input_ids"] for row in some])
    clean = Batch(collator._key(tokens_BT), np.arange(8), 8, tokens_BT, np.ones(tokens_BT.shape, dtype=bool))
    hidden = on_device(Masking(parse_schedule("0.3-0.7")).noisy(clean, Noise(0), MASK), torch.device("cpu"))
    assert torch.equal(hidden.tokens_BT, batch["input_ids"])
    ours = masked_loss(Pretrained(tiny_llama(), MASK), hidden, hidden.num_maskable)
    assert float(theirs.detach()) == pytest.approx(float(ours.loss.detach()), rel=1e-5)


def test_padding_and_prompts_stay_visible() -> None:
    some = [
        {"input_ids": [3, 4, 5, 6, 7, 8], "maskable": [False, False, True, True, True, True]},
        {"input_ids": [9, 10, 11]},
    ]
    batch = MaskingCollator(MASK, law="1")(some)
    assert batch["input_ids"].tolist() == [[3, 4, MASK, MASK, MASK, MASK], [MASK, MASK, MASK, 0, 0, 0]]
    assert batch["labels"].tolist() == [[IGNORED, IGNORED, 5, 6, 7, 8], [9, 10, 11, IGNORED, IGNORED, IGNORED]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1, 1, 1, 0, 0, 0]]
    assert batch["weights"].tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
    with pytest.raises(UsageError, match="2 of 3 in `maskable`"):
        MaskingCollator(MASK)([{"input_ids": [1, 2, 3], "maskable": [True, False]}])


def test_noise_is_a_function_of_seed_epoch_and_rows() -> None:
    some = rows()
    first, second = MaskingCollator(MASK), MaskingCollator(MASK)
    second(rows(num=3))  # what a worker did before does not matter
    assert torch.equal(first(some)["input_ids"], second(some)["input_ids"])
    for other in (MaskingCollator(MASK, seed=1), MaskingCollator(MASK, epoch=1)):
        assert not torch.equal(first(some)["input_ids"], other(some)["input_ids"])


@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_trainer_trains(tmp_path: Path, accumulation: int) -> None:
    """Accumulating or not, the gradient is that of one batch: labels are counted over the whole step."""
    model = tiny_llama()
    before = model.state_dict()["lm_head.weight"].clone()
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8 // accumulation,
        gradient_accumulation_steps=accumulation,
        max_steps=1,
        learning_rate=0.5,
        optim="sgd",
        max_grad_norm=0,
        lr_scheduler_type="constant",
        remove_unused_columns=False,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        seed=0,
    )
    # A point at 1 hides everything, so every cut of the batch has the same noise.
    collator = MaskingCollator(MASK, law="1")
    trainer = transformers.Trainer(model, arguments, train_dataset=rows(), data_collator=collator)
    trainer.train()
    reference = tiny_llama()
    reference(**collator(rows())).loss.backward()
    expected = before - 0.5 * reference.lm_head.weight.grad
    assert torch.allclose(model.state_dict()["lm_head.weight"], expected, atol=1e-6)
    assert not torch.allclose(before, expected, atol=1e-4)
