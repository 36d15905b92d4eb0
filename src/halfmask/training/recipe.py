"""Everything that a training run is a function of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from halfmask.errors import UsageError
from halfmask.masking.corrupt import Draws, Hiding, Masking, WeightName
from halfmask.masking.schedules import parse_schedule


@dataclass(frozen=True)
class DataRecipe:
    folder: str  # of halfmask prepare
    length: int = 128  # tokens of a row
    packing: Literal["concatenate", "documents"] = "concatenate"  # documents: attention stays inside each

    def __post_init__(self) -> None:
        _at_least("data.length", self.length, 2)


@dataclass(frozen=True)
class ModelRecipe:
    """A preset, or a Hugging Face model; whatever else is given overrides the preset."""

    preset: str = "1m"
    pretrained: str | None = None  # a folder or Hub name; the other keys are then left alone
    width: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    feed_forward: int | None = None
    norm: Literal["rms", "layer"] | None = None
    activation: Literal["swiglu", "gelu"] | None = None
    positions: Literal["rotary", "learned"] | None = None
    rotary_base: float | None = None
    tied: bool | None = None


@dataclass(frozen=True)
class MaskRecipe:
    law: str = "0-1"  # a law, a curriculum, or predicted:profile.json
    weight: WeightName = "1/t"
    draws: Draws = "stratified"
    hiding: Hiding = "coins"

    def masking(self) -> Masking:
        return Masking(parse_schedule(self.law), self.weight, self.draws, self.hiding)

    def explained(self) -> str:
        """The law as it was written and, where that is a name, what it stands for."""
        meant = str(self.masking().schedule)
        return f"law {self.law}" if meant == self.law else f"law {self.law}, which is {meant}"


@dataclass(frozen=True)
class OptimizerRecipe:
    lr: float = 1e-3
    min_lr: float = 0.1  # share of lr at the end of a cosine
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: int = 100  # steps
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1  # of matrices
    clip: float = 1.0  # of the gradient's norm; 0 leaves it
    ema: float = 0.0  # decay of the averaged weights; 0 keeps none

    def __post_init__(self) -> None:
        for name, value, fine in (
            ("lr", self.lr, self.lr > 0),
            ("min_lr", self.min_lr, 0 <= self.min_lr <= 1),
            ("ema", self.ema, 0 <= self.ema < 1),
            ("clip", self.clip, self.clip >= 0),
            ("weight_decay", self.weight_decay, self.weight_decay >= 0),
            ("betas", self.betas, all(0 <= beta < 1 for beta in self.betas)),
            ("warmup", self.warmup, self.warmup >= 0),
        ):
            if not fine:
                raise UsageError(f"optimizer.{name} is outside its range", got=value, fix="see halfmask recipe show")


@dataclass(frozen=True)
class StepRecipe:
    rows: int = 32  # of the global batch
    micro_rows: int | None = None  # of one forward pass on one device; None: as many as the device has of a step
    precision: Literal["bf16", "fp32"] = "bf16"
    head: Literal["chunked", "plain"] = "chunked"
    compile: bool = False
    checkpointing: bool = False  # recompute activations: less memory, a third more work
    parallel: Literal["ddp", "fsdp"] = "ddp"  # with more than one process

    def __post_init__(self) -> None:
        _at_least("step.rows", self.rows, 1)
        if self.micro_rows is not None:
            _at_least("step.micro_rows", self.micro_rows, 1)


@dataclass(frozen=True)
class EvaluateRecipe:
    every: int = 0  # steps; 0: at the end alone
    rows: int = 64  # of the validation split
    ratios: int = 8  # draws of every row, and bins of the loss by ratio


@dataclass(frozen=True)
class TrainRecipe:
    data: DataRecipe
    steps: int = 1000
    seed: int = 0
    model: ModelRecipe = field(default_factory=ModelRecipe)
    mask: MaskRecipe = field(default_factory=MaskRecipe)
    optimizer: OptimizerRecipe = field(default_factory=OptimizerRecipe)
    step: StepRecipe = field(default_factory=StepRecipe)
    evaluate: EvaluateRecipe = field(default_factory=EvaluateRecipe)
    save_every: int = 500  # steps
    keep: int = 2  # checkpoints
    log_every: int = 10
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _at_least("steps", self.steps, 1)
        _at_least("save_every", self.save_every, 1)
        _at_least("keep", self.keep, 1)
        _at_least("log_every", self.log_every, 1)
        self.mask.masking()  # complains now if the law cannot be read


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"{name} must be {least} or more", got=value, fix="change it in the recipe")
