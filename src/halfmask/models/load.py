"""A trained model from where it lies: the one way in for all that uses a model.

    open_model("run")                      a run's folder, its model/ or one of its checkpoints/step-…
    open_model("folder"), ("hub:NAME")     a Hugging Face model whose tokenizer has a mask token
    open_model("folder of an adapter")     LoRA and its kin: added to the weights of the model they name

A model comes with its tokenizer, whose ids are checked against it: a mask id that the model never saw, or a tokenizer
of another model, would give numbers that mean nothing.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from halfmask.data.tokens import TOKENIZER
from halfmask.data.vocabulary import BYTES, Vocabulary, open_vocabulary
from halfmask.errors import DataError, UsageError
from halfmask.models.denoiser import Denoiser
from halfmask.models.pretrained import Pretrained, load_pretrained, pretrained_of, with_adapter
from halfmask.models.transformer import Transformer, TransformerConfig

MUST_BE = "must be a run's folder, its model or one of its checkpoints, or a Hugging Face model"
HUB = "hub:"
CARD, WEIGHTS, ADAPTER = "config.json", "model.safetensors", "adapter_config.json"


@dataclass(frozen=True)
class Loaded:
    """A model, ready to be asked; `denoiser` is a `torch.nn.Module` in evaluation mode on `device`."""

    name: str  # as it was asked for
    denoiser: Denoiser
    vocabulary: Vocabulary
    max_length: int | None  # tokens of a row; None: the model does not say
    device: torch.device
    card: dict[str, Any]  # what our own training wrote beside the weights: law, weight, data, steps

    @property
    def module(self) -> nn.Module:
        return cast("nn.Module", self.denoiser)


def open_model(path: Path | str, *, device: str | None = None, dtype: torch.dtype | None = None) -> Loaded:
    """`dtype` of the weights: None leaves them as they were saved."""
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda needs a CUDA device", got="none", fix="choose cpu")
    found = _open(str(path), chosen)
    _check_ids(found)
    found.module.to(device=chosen, dtype=dtype).eval()
    return found


def _open(name: str, device: torch.device) -> Loaded:
    path = Path(name)
    if (path / ADAPTER).is_file():
        return _open_adapter(path, device)
    if (own := _own(path)) is not None:
        return _open_own(name, own, device)
    if not name.startswith(HUB) and not (path / CARD).is_file():
        got = "a file" if path.is_file() else "a folder without a model" if path.exists() else "nothing there"
        raise DataError(f"{path} {MUST_BE}", got=got, fix="name the --out of halfmask train, or hub:NAME")
    return _open_pretrained(name, device)


def _own(path: Path) -> _Own | None:
    """Where a model that we trained has its parts; None where the path names no such model."""
    if not path.exists():
        return None
    places = [(path, path / WEIGHTS), (path / "model", path / "model" / WEIGHTS)]
    if path.name.startswith("step-"):
        places.append((path.parent.parent / "model", path))
    for folder, weights in places:
        card = _read_card(folder / CARD)
        if card.get("halfmask") == "model":
            return _Own(folder, weights, card)
    return None


@dataclass(frozen=True)
class _Own:
    folder: Path
    weights: Path  # a file, or the folder of a checkpoint
    card: dict[str, Any]


def _open_own(name: str, own: _Own, device: torch.device) -> Loaded:
    if not own.weights.exists():
        saved = sorted((own.folder.parent / "checkpoints").glob("step-*"))
        raise DataError(
            f"{name} must hold the weights of its model",
            got="a run that has not come to its end",
            fix=f"name its checkpoint {saved[-1]}" if saved else "go on with it: halfmask train --resume",
        )
    vocabulary, config = _own_vocabulary(own), own.card["config"]
    model: Transformer | Pretrained
    try:
        if "pretrained" in config:
            model = pretrained_of(config["architecture"], mask_id=vocabulary.mask_id)
        else:
            with torch.device("meta"):
                model = Transformer(TransformerConfig(**config))
        _fill(model, _read_weights(model, own.weights))
    except Exception as error:  # safetensors, torch and the checkpoint reader raise kinds of their own
        raise DataError(
            f"{own.weights} must hold the weights that {own.folder / CARD} describes",
            got=str(error).strip().partition("\n")[0] or type(error).__name__,
            fix="copy the model again, or train it again",
        ) from error
    return Loaded(name, model, vocabulary, _longest(model), device, own.card)


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def _own_vocabulary(own: _Own) -> Vocabulary:
    if own.card.get("tokenizer", {}).get("name") == BYTES:
        return open_vocabulary(BYTES)
    for place in (own.folder, Path(own.card.get("data", ""))):  # before it travelled with the model: with the data
        if (place / TOKENIZER).is_file():
            return open_vocabulary(place / TOKENIZER)
    raise DataError(
        f"{own.folder} must hold the model's {TOKENIZER}", got="none", fix=f"copy it from {own.card.get('data')}"
    )


def _read_weights(model: nn.Module, path: Path) -> dict[str, Tensor]:
    if path.is_file():
        from safetensors.torch import load_file

        return load_file(path)
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load as load_tensors

    reader = FileSystemReader(path)
    saved = reader.read_metadata().state_dict_metadata
    part = "averaged" if any(key.startswith("averaged.") for key in saved) else "model"
    weights = {
        name: torch.empty_like(tensor, device="cpu")
        for name, tensor in model.state_dict().items()
        if f"{part}.{name}" in saved
    }
    with one_process_is_fine():
        load_tensors({part: weights}, storage_reader=reader, no_dist=True)
    return weights


@contextlib.contextmanager
def one_process_is_fine() -> Iterator[None]:
    """torch.distributed.checkpoint warns of a single process even where it is told that there is one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.distributed is disabled")
        yield


def _fill(model: Transformer | Pretrained, weights: dict[str, Tensor]) -> None:
    """Tied weights are stored once: the output layer is then the embedding, under either name."""
    missing, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    if isinstance(model, Transformer) and model.config.tied:
        tied = model.embedding if "embedding.weight" in weights else model.output
        model.embedding.weight = model.output.weight = tied.weight
        missing = [name for name in missing if name not in ("embedding.weight", "output.weight")]
    elif isinstance(model, Pretrained):
        model.model.tie_weights()
        tied_names = getattr(model.model, "_tied_weights_keys", None) or {}
        missing = [name for name in missing if name.removeprefix("model.") not in tied_names]
    if missing or unexpected:
        what = f"no {missing[0]}" if missing else f"an unknown {unexpected[0]}"
        raise ValueError(f"{what} ({len(missing) + len(unexpected)} such)")


def _open_pretrained(name: str, device: torch.device, adapter: Path | None = None) -> Loaded:
    """A folder, or a name on the Hub with or without hub: before it."""
    place = name.removeprefix(HUB)
    tokenizer = place if Path(place).exists() else HUB + place
    if adapter is not None and (adapter / TOKENIZER).is_file():
        tokenizer = str(adapter)
    try:
        vocabulary = open_vocabulary(tokenizer)
    except DataError as error:
        raise DataError(
            f"{name} {MUST_BE}, with its tokenizer", got=error.got, fix="check the name, and the network"
        ) from error
    if vocabulary.mask_is_added:
        raise DataError(
            f"{name} must have a mask token, which its tokenizer calls [MASK], <mask>, <|mask|> or <|mdm_mask|>",
            got="a tokenizer without one",
            fix="train it with halfmask train model.pretrained=…, and name the run",
        )
    model = load_pretrained(place, mask_id=vocabulary.mask_id, vocab_size=0, adapter=adapter)
    return Loaded(name, model, vocabulary, _longest(model), device, {})


def _open_adapter(path: Path, device: torch.device) -> Loaded:
    base = _read_card(path / ADAPTER).get("base_model_name_or_path")
    if not base:
        raise DataError(
            f"{path / ADAPTER} must name the model it adapts", got="no base_model_name_or_path", fix="add its path"
        )
    if (own := _own(Path(base))) is None:
        return replace(_open_pretrained(base, device, path), name=str(path))
    found = _open_own(base, own, device)
    return replace(found, name=str(path), denoiser=with_adapter(found.denoiser, path))


def _longest(model: Transformer | Pretrained) -> int | None:
    if isinstance(model, Transformer):
        return model.config.max_length
    length: int | None = getattr(model.model.config, "max_position_embeddings", None)
    return length


def _check_ids(found: Loaded) -> None:
    own, theirs = found.denoiser, found.vocabulary
    if theirs.size > own.vocab_size or theirs.mask_id != own.mask_id:
        raise DataError(
            f"the tokenizer of {found.name} must fit its {own.vocab_size:,} ids, of which {own.mask_id} is hidden",
            got=f"a tokenizer of {theirs.size:,} ids with the mask id {theirs.mask_id}",
            fix="put the tokenizer.json it was trained with beside the weights",
        )
