"""Everything that a run of the laboratory is a function of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from halfmask.errors import UsageError, nearest
from halfmask.parity.losses import LossName
from halfmask.parity.masks import Masks
from halfmask.parity.task import ParityTask

ModelName = Literal["mlp", "one-layer", "gpt"]
Attention = Literal["softmax", "uniform"]
Precision = Literal["bf16", "fp32"]


@dataclass(frozen=True)
class ParityRecipe:
    """The defaults are the paper's experiment with uniform attention (Appendix "Learning Dynamics …").

    `recipe_for` gives those of another model.
    """

    n: int = 20
    k: int = 6
    train: int = 5000  # sequences, N
    held_out: int = 2000
    mask: str = "0-0.2"  # plain, a law, a curriculum, or signal of LAW
    loss: LossName = "squared"
    model: ModelName = "mlp"
    attention: Attention | None = None  # one-layer alone; None: softmax
    width: int = 2560
    layers: int | None = None  # gpt alone; None: 1
    heads: int | None = None  # gpt alone; None: 4
    init: float = 1.0  # of mlp and one-layer the size of the first features, of gpt the gain of its matrices
    rows: int | None = None  # of a step, drawn with replacement; None: the whole training set
    lr: float = 1e-3
    weight_decay: float = 0.0
    beta2: float = 0.999
    warmup: int = 0  # steps
    clip: float = 0.0  # of the gradient's norm; 0 leaves it
    steps: int = 10_000
    until: float | None = None  # stop when held-out accuracy reaches it
    evaluate_every: int = 100
    seed: int = 0
    precision: Precision = "bf16"

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("layers", 1), ("heads", 1), ("rows", 1), ("steps", 1)):
            _at_least(name, getattr(self, name), least)
        for name in ("held_out", "evaluate_every"):
            _at_least(name, getattr(self, name), 1)
        for name, fine in (
            ("lr", self.lr > 0),
            ("init", self.init > 0),
            ("weight_decay", self.weight_decay >= 0),
            ("beta2", 0 <= self.beta2 < 1),
            ("warmup", self.warmup >= 0),
            ("clip", self.clip >= 0),
            ("until", self.until is None or 0.5 < self.until <= 1),
        ):
            if not fine:
                raise UsageError(
                    f"{name} is outside its range", got=getattr(self, name), fix="see halfmask parity train --help"
                )
        for name, allowed in (
            ("model", get_args(ModelName)),
            ("loss", get_args(LossName)),
            ("precision", get_args(Precision)),
            ("attention", (None, *get_args(Attention))),
        ):
            if getattr(self, name) not in allowed:
                names = [each for each in allowed if each]
                raise UsageError(
                    f"{name} must be {' or '.join(names)}",
                    got=getattr(self, name),
                    fix=nearest(str(getattr(self, name)), names),
                )
        for name, users in (("attention", ("one-layer",)), ("layers", ("gpt",)), ("heads", ("gpt",))):  # fmt: skip
            if getattr(self, name) is not None and self.model not in users:
                raise UsageError(
                    f"{name} is for the model {' or '.join(users)}",
                    got=f"the model {self.model}",
                    fix=f"leave {name} out, or change the model",
                )
        _ = self.task, self.masks  # complain now

    @property
    def task(self) -> ParityTask:
        return ParityTask(self.n, self.k, self.train, self.held_out, self.seed)

    @property
    def masks(self) -> Masks:
        return Masks.parse(self.mask)


# What differs from the defaults, by model. nanoGPT-like: the loss and decay of Section "Experiments on k-parity".
MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"init": 0.33},
    "one-layer": {"width": 512, "rows": 1000, "init": 0.33},
    "gpt": {
        "loss": "cross-entropy",
        "weight_decay": 0.1,
        "width": 128,
        "rows": 512,
        "init": 1.6,
        "beta2": 0.98,
        "warmup": 100,
        "clip": 1.0,
    },
}


def recipe_for(model: str = "mlp", **given: Any) -> ParityRecipe:
    """The model's defaults, and what is given."""
    if model not in MODELS:
        raise UsageError(f"a model is one of {', '.join(MODELS)}", got=model, fix=nearest(model, MODELS))
    return ParityRecipe(**{"model": model, **MODELS[model], **given})


def _at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{name} must be {least} or more", got=value, fix="choose a larger one")
