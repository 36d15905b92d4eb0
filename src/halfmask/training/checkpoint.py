"""Checkpoints: whole or not there, checked when read, readable by another number of processes.

    checkpoints/step-00000500/
        *.distcp, .metadata     weights, optimiser and averages, by torch.distributed.checkpoint
        manifest.json           step, and size and checksum of every file; written last

A checkpoint is written under another name and renamed when it is complete, so a kill leaves the one before. Nothing of
data order or noise is in it: both are functions of the step.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors

from halfmask.errors import DataError
from halfmask.models.load import one_process_is_fine
from halfmask.records import atomic_write
from halfmask.training.optim import Averaged
from halfmask.training.parallel import World

MANIFEST = "manifest.json"
Warn = Callable[[str], None]


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    averaged: Averaged | None

    def save(self, folder: Path, step: int, world: World, keep: int) -> None:
        """After `step` steps. Of the checkpoints before, the last `keep` - 1 stay."""
        final = folder / f"step-{step:08d}"
        partial = folder / f".partial-{step:08d}"
        try:
            if world.is_first:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
            world.wait()
            with one_process_is_fine():
                save_tensors(self._tensors(), checkpoint_id=partial, no_dist=world.size == 1)
            world.wait()
            if world.is_first:
                _seal(partial, step)
                shutil.rmtree(final, ignore_errors=True)
                partial.rename(final)
                for old in checkpoints(folder)[:-keep]:
                    shutil.rmtree(old)
        except Exception as error:  # torch wraps a full disk in an exception of its own
            shutil.rmtree(partial, ignore_errors=True)
            reason = _disk_error(error)
            if reason is None:
                raise
            raise DataError(
                f"the checkpoint of step {step} could not be written",
                got=reason,
                fix=f"free space below {folder} and add --resume: the checkpoint before is whole",
            ) from error
        world.wait()

    def load(self, folder: Path, world: World, warn: Warn) -> int:
        """The newest checkpoint that is whole; returns its step, or 0 where there is none."""
        for path in reversed(checkpoints(folder)):
            if problem := _problem(path):
                warn(f"{path} is left out: {problem}")
                continue
            tensors = self._tensors()
            with one_process_is_fine():
                load_tensors(tensors, checkpoint_id=path, no_dist=world.size == 1)
            set_state_dict(
                self.model,
                self.optimizer,
                model_state_dict=tensors["model"],
                optim_state_dict=tensors["optimizer"],
            )
            return int(json.loads((path / MANIFEST).read_text(encoding="utf-8"))["step"])
        return 0

    def _tensors(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "averaged": self.averaged.weights if self.averaged is not None else {},
        }


def checkpoints(folder: Path) -> list[Path]:
    """Complete ones, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / MANIFEST).exists())


def _seal(folder: Path, step: int) -> None:
    files = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps({"step": step, "files": files}, indent=1), encoding="utf-8")


def _problem(folder: Path) -> str | None:
    """Why a checkpoint cannot be trusted, or None."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError) as error:
        return f"its {MANIFEST} is broken ({error})"
    for name, (size, checksum) in files.items():
        path = folder / name
        if not path.exists():
            return f"{name} is missing"
        if path.stat().st_size != size or _checksum(path) != checksum:
            return f"{name} is not what was written"
    return None


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 24):
            value = zlib.crc32(block, value)
    return value


def _disk_error(error: BaseException) -> str | None:
    """What the system said, where an error came from writing."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return seen.strerror or str(seen)
        if "No space left" in str(seen) or "PytorchStreamWriter failed" in str(seen):
            return "No space left on device"
        seen = seen.__cause__ or seen.__context__
    return None


def save_card(path: Path, card: dict[str, Any], tokenizer: Path | None) -> None:
    """What a model is, and its tokenizer: with them its weights can be used, those of a checkpoint too."""
    path.mkdir(parents=True, exist_ok=True)
    with atomic_write(path / "config.json") as stream:
        json.dump(card, stream, indent=1)
    if tokenizer is not None:
        shutil.copyfile(tokenizer, path / tokenizer.name)


def save_model(model: nn.Module, path: Path, world: World) -> None:
    """The whole weights as one safetensors file, beside the card, for use outside training."""
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = cast("dict[str, Tensor]", get_model_state_dict(model, options=options))
    if world.is_first:
        seen: dict[int, str] = {}
        unique = {
            name: tensor.contiguous()
            for name, tensor in weights.items()
            if seen.setdefault(tensor.data_ptr(), name) == name  # tied weights are stored once
        }
        save_file(unique, path / "model.safetensors.partial")
        (path / "model.safetensors.partial").replace(path / "model.safetensors")
    world.wait()
