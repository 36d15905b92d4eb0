"""What the tests share: the data folder, where there is one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the tests already run on every core, one each

import pytest
from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored

settings.register_profile("halfmask", deadline=None)  # other work on the machine is no failure
settings.load_profile("halfmask")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def data_folder() -> Path:
    """Real data sets: the folder that HALFMASK_DATA names, or `../shared/data` beside the project."""
    folder = Path(os.environ.get("HALFMASK_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data here: set HALFMASK_DATA to a folder that holds wikitext-2/ and the others")
    return folder
