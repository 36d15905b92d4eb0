"""What a computation found, in the one form that is printed, saved, plotted and committed.

A `Record` is plain data: the settings that made it, rows of numbers, and notes for the reader. Tables, `--json` and
figures are all made from it, so a figure can be redrawn from its record without computing anything again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from halfmask import __version__
from halfmask.errors import DataError, UsageError

Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    name: str  # the command or experiment, for instance "theory signal"
    title: str
    settings: dict[str, Any]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)  # further rows, by their title
    extra: dict[str, Any] = field(default_factory=dict)  # what a figure needs beyond the rows, such as a curve
    version: str = __version__

    def to_json(self) -> str:
        return json.dumps(plain(asdict(self)), indent=2, ensure_ascii=False)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read a record that `--json` printed."""
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return cls(**fields)
        except OSError as error:
            raise DataError(f"{path} could not be read", got=error.strerror or error, fix="check the path") from error
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path} must hold one record as JSON",
                got=str(error).partition("\n")[0],
                fix="write it with --json, as in: halfmask theory signal --json > signal.json",
            ) from error


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays become lists, laws their text, and numbers that are not finite null."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that appears under its name whole or not at all."""
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise DataError(
            f"{path} could not be written",
            got=error.strerror or error,
            fix="free space or choose another path",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Complain before the work, not after it."""
    if path.is_dir():
        raise UsageError("an output file is needed", got=f"the folder {path}", fix="add a file name")
    if not path.parent.is_dir():
        raise UsageError(
            "the folder of an output file must exist", got=path, fix=f"make it first: mkdir -p {path.parent}"
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError("the folder of an output file must be writable", got=path, fix="choose another folder")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
