"""TensorBoard beside the metrics, where a recipe asks for it (`tensorboard: true`, extra `tensorboard`)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfmask.errors import MissingExtraError
from halfmask.training.parallel import World
from halfmask.training.recipe import TrainRecipe

FOLDER = "tensorboard"


@dataclass
class Board:
    open_writer: Callable[[], Any] | None = None  # None: nobody watches
    writer: Any = None  # opened when there is something to show

    def log(self, line: dict[str, Any]) -> None:
        """Every number of a line of metrics, against its step."""
        if self.open_writer is None:
            return
        self.writer = self.writer or self.open_writer()
        for name, value in line.items():
            if isinstance(value, (int, float)) and name != "step":
                self.writer.add_scalar(name, value, line["step"])


@contextlib.contextmanager
def open_board(recipe: TrainRecipe, folder: Path, world: World) -> Iterator[Board]:
    if not recipe.tensorboard or not world.is_first:
        yield Board()
        return
    try:
        with warnings.catch_warnings():  # about the age of its own imports
            warnings.simplefilter("ignore")
            from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("tensorboard: true", package="tensorboard", extra="tensorboard") from error
    board = Board(lambda: SummaryWriter(str(folder / FOLDER)))
    try:
        yield board
    finally:
        if board.writer is not None:
            board.writer.close()
