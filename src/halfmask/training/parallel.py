"""One process or many: torchrun's environment, DDP or FSDP2 around the model, sums over processes.

There is no launcher and no sharding of our own: `torchrun --nproc-per-node 8 -m halfmask train recipe.yaml`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor

from halfmask.errors import UsageError
from halfmask.models.transformer import Block
from halfmask.training.recipe import StepRecipe


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """Over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def total(self, count: int) -> int:
        """Of a number that each process holds."""
        if self.size == 1:
            return count
        return int(self.sum(torch.tensor(count, dtype=torch.int64, device=self.device)))

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def open_world(device: str | None = None) -> Iterator[World]:
    """The process group that torchrun describes, or this process alone."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise UsageError("device cuda needs a CUDA device", got="none", fix="choose --device cpu")
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(0, 1, chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(rank, size, chosen)
    finally:
        dist.destroy_process_group()


def parallelise(module: nn.Module, recipe: StepRecipe, world: World) -> nn.Module:
    """The module that the loop calls. Gradients come out as means over processes (see `Step`)."""
    if world.size == 1:
        return module
    if recipe.parallel == "ddp":
        ids = [world.device.index] if world.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(module, device_ids=ids)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    policy = MixedPrecisionPolicy()
    if recipe.precision == "bf16" and world.device.type == "cuda":  # weights travel in bfloat16, gradients in float32
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for child in module.modules():
        if isinstance(child, Block):
            fully_shard(child, mesh=mesh, mp_policy=policy)
    fully_shard(module, mesh=mesh, mp_policy=policy)
    return module


def assign_shard(parameter: Tensor, whole: Tensor) -> None:
    """Keep this process's part of a weight that every process has computed."""
    assert isinstance(parameter, DTensor)
    whole = whole.to(parameter.device)
    parameter.copy_(distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None))


def let_go(module: nn.Module) -> None:
    """After a forward pass without a backward one, FSDP2 still holds the gathered weights of its root."""
    for child in module.modules():
        if isinstance(child, FSDPModule):
            child.reshard()


@contextlib.contextmanager
def only_last_syncs(module: nn.Module, *, is_last: bool) -> Iterator[None]:
    """Gradients of accumulation steps are added up here; only the last step's backward pass talks to others."""
    if isinstance(module, nn.parallel.DistributedDataParallel) and not is_last:
        with module.no_sync():
            yield
        return
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(is_last)
    yield
