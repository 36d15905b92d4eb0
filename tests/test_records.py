"""Records and files: what is saved is what is loaded, and a file is there whole or not at all."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from halfmask.errors import DataError, UsageError
from halfmask.laws import Window
from halfmask.records import Record, atomic_write, plain


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record = Record("theory signal", "P_S", {"law": "0-1", "k": [1, 6]}, [{"a": 1, "b": 0.1 + 0.2}], ["a note"])
    (tmp_path / "record.json").write_text(record.to_json(), encoding="utf-8")
    assert Record.load(tmp_path / "record.json") == record


def test_plain_makes_everything_json() -> None:
    given = {1: np.float64(0.5), "law": Window(0, 1), "list": (np.arange(2), math.nan), "inf": math.inf, "yes": True}
    assert plain(given) == {"1": 0.5, "law": "0-1", "list": [[0, 1], None], "inf": None, "yes": True}


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', '{"unknown": 1}', "3"])
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="must hold one record as JSON"):
        Record.load(tmp_path / "x.json")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as stream:
        stream.write("old")
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), atomic_write(path) as stream:
            stream.write("half of the new")
            raise error
    with pytest.raises(DataError, match=r"could not be written, got No space"), atomic_write(path) as stream:
        raise OSError(28, "No space left on device")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "ours", "wb") as stream:
        stream.write(b"\x00")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_output_path_is_checked_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a file name"), atomic_write(tmp_path):
        pytest.fail("reached the work")
    with pytest.raises(UsageError, match="mkdir -p"), atomic_write(tmp_path / "none" / "file"):
        pytest.fail("reached the work")
