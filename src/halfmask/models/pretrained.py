"""Any Hugging Face model as a `Denoiser`: masked language models as they are, causal ones made bidirectional.

What the output layer reads differs from model to model: the last hidden states, or a transform of them. So the output
layer is made to hand on what it is given, and the "logits" of the model are then the states; its weight and bias stay
where they were. Nothing else asks which model it is.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halfmask.errors import DataError, MissingExtraError, UsageError


class Pretrained(nn.Module):
    def __init__(self, model: Any, mask_id: int) -> None:
        super().__init__()
        self.model: Any = model
        self.mask_id = mask_id
        output = self.model.get_output_embeddings()
        if output is None or not hasattr(output, "weight"):
            raise UsageError(
                "a pretrained model must have output embeddings",
                got=type(model).__name__,
                fix="load it with a language-modelling head, such as AutoModelForMaskedLM",
            )
        self.vocab_size = len(output.weight)
        if not 0 <= mask_id < self.vocab_size:
            raise UsageError(
                f"the mask id must lie below this model's {self.vocab_size} tokens",
                got=mask_id,
                fix="resize its embeddings, or prepare the data with its tokenizer",
            )
        output.forward = _hand_on

    @property
    def output_weight(self) -> Tensor:
        weight: Tensor = self.model.get_output_embeddings().weight
        return weight

    @property
    def output_bias(self) -> Tensor | None:
        bias: Tensor | None = getattr(self.model.get_output_embeddings(), "bias", None)
        return bias

    def hidden(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        # A mask of four axes is taken as it is. Full of True, it also keeps a causal model from hiding what follows.
        B, T = tokens_BT.shape
        if attend_BTT is None:
            attend_BTT = torch.ones(B, T, T, dtype=torch.bool, device=tokens_BT.device)
        states: Tensor = self.model(input_ids=tokens_BT, attention_mask=attend_BTT[:, None]).logits
        return states

    def forward(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        return self.hidden(tokens_BT, attend_BTT)


def load_pretrained(name: str, *, mask_id: int, vocab_size: int, adapter: Path | None = None) -> Pretrained:
    """A folder or Hub name. The vocabulary grows where the data has more ids than the model."""
    transformers = _transformers(name)
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        kind = _kind(transformers, config)
        model = kind.from_pretrained(name, config=config, attn_implementation="sdpa")
    except Exception as error:  # the library raises kinds of its own, of the network, of files and plain ones
        raise DataError(
            f"{name} must be a language model that can be loaded",
            got=str(error).partition("\n")[0] or type(error).__name__,
            fix="check the name or folder, and the network",
        ) from error
    if len(model.get_input_embeddings().weight) < vocab_size:
        model.resize_token_embeddings(vocab_size)
    return Pretrained(model if adapter is None else with_adapter(model, adapter), mask_id)


def architecture(model: Pretrained) -> dict[str, Any]:
    """The library's configuration, from which `pretrained_of` builds the model again."""
    config: dict[str, Any] = json.loads(model.model.config.to_json_string(use_diff=False))
    return config


def pretrained_of(config: dict[str, Any], *, mask_id: int) -> Pretrained:
    """A model of this architecture whose weights are still to be filled in."""
    transformers = _transformers("this model")
    built = transformers.AutoConfig.for_model(**config)
    return Pretrained(_kind(transformers, built).from_config(built, attn_implementation="sdpa"), mask_id)


def with_adapter(model: Any, folder: Path) -> Any:
    """The model with an adapter added to its weights, so that nobody has to merge it by hand."""
    try:
        peft: Any = importlib.import_module("peft")
    except ImportError as error:
        raise MissingExtraError(f"the adapter {folder}", package="peft", extra="adapters") from error
    try:
        return peft.PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
    except Exception as error:  # of files, of shapes, of names it does not find
        raise DataError(
            f"{folder} must be an adapter of {type(model).__name__}",
            got=str(error).partition("\n")[0] or type(error).__name__,
            fix="check base_model_name_or_path in its adapter_config.json",
        ) from error


def _transformers(what: str) -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtraError(f"the model {what}", package="transformers", extra="hub") from error


def _kind(transformers: Any, config: Any) -> Any:
    """The class that loads it: masked where there is one, else causal and made bidirectional."""
    if type(config) in transformers.AutoModelForMaskedLM._model_mapping:
        return transformers.AutoModelForMaskedLM
    config.is_causal = False
    return transformers.AutoModelForCausalLM


def _hand_on(states: Tensor) -> Tensor:
    return states
