"""Where counting keeps its arrays and what runs it: one contract for each kind of shelf and of engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfmask.corpus import spill
from halfmask.corpus.spill import Engine, FolderShelf, MemoryShelf, Shelf, Threads, open_engine, open_shelf
from halfmask.errors import DataError, MissingExtraError, UsageError

# Shelves


@pytest.fixture(params=[MemoryShelf, FolderShelf])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    return MemoryShelf() if request.param is MemoryShelf else FolderShelf(tmp_path)


def test_a_shelf_gives_back_what_was_put_there(shelf: Shelf) -> None:
    key, count = np.arange(5, dtype=np.int64), np.array([3, 1], dtype=np.uint32)
    shelf.put("run-2-1", key=key, count=count)
    shelf.put("run-2-11", key=key[::-1])
    shelf.put("ids-0-1", id=np.empty(0, dtype=np.uint32))
    found_count, found_key = shelf.get("run-2-1", "count", "key")
    assert found_key.tolist() == key.tolist() and found_count.tolist() == count.tolist()
    assert (found_key.dtype, found_count.dtype) == (np.int64, np.uint32)
    assert shelf.get("ids-0-1", "id")[0].tolist() == []
    shelf.drop("run-2-1")
    assert shelf.get("run-2-11", "key")[0].tolist() == [4, 3, 2, 1, 0]
    with pytest.raises((KeyError, FileNotFoundError)):
        shelf.get("run-2-1", "key")


def test_a_folder_of_arrays_is_removed_however_it_ends(tmp_path: Path) -> None:
    with open_shelf(False, tmp_path) as shelf:
        shelf.put("ids-0-0", id=np.zeros(3))
        assert len(list(tmp_path.rglob("*.npy"))) == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt), open_shelf(False, tmp_path) as shelf:
        shelf.put("ids-0-0", id=np.zeros(3))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    rule = "the folder for spilled counts must exist and be writable"
    with pytest.raises(DataError, match=f"{rule}, got {tmp_path}/nowhere"), open_shelf(False, tmp_path / "nowhere"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full, a disk that is always full")
@pytest.mark.parametrize("length", [0, 1, 1000, 100_000])
def test_a_full_disk_is_seen_however_little_is_written(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderShelf, "_path", lambda *_: Path("/dev/full"))
    with pytest.raises(OSError, match="No space left on device"):
        FolderShelf(Path()).put("ids-0-0", id=np.zeros(length, dtype=np.uint32))


# Threads


@pytest.fixture(params=["alone", "local"])
def threads(request: pytest.FixtureRequest) -> Iterator[Threads]:
    if request.param == "alone":
        yield Threads()
        return
    with open_engine("local") as engine:
        yield engine.threads  # type: ignore[attr-defined]


def test_threads_keep_the_order_and_take_a_few_at_a_time(threads: Threads) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    results = threads.map(lambda number: number * number, items())
    assert next(results) == 0
    assert len(taken) <= 2 * threads.number + 1
    assert list(results) == [number * number for number in range(1, 50)]


def test_an_error_in_a_thread_comes_out(threads: Threads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.do(lambda number: 1 // number, [1, 0])  # type: ignore[arg-type, return-value]


# Engines


def test_the_local_engine_does_jobs_in_their_order() -> None:
    done: list[int] = []
    with open_engine("local") as engine:
        results = engine.run(lambda _, a, b: a + b, [(1, 2), (3, 4), (5, 6)], done.append)
    assert (results, done) == ([3, 7, 11], [0, 1, 2])


def test_a_full_disk_says_what_to_do() -> None:
    def full(threads: Threads) -> None:
        raise OSError(28, "No space left on device")

    rule = r"the folder for spilled counts must take what is written, got No space left on device: free space on its"
    with open_engine("local") as engine, pytest.raises(DataError, match=rule):
        engine.run(full, [()], lambda _: None)


def test_engines_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"the engine must be local or ray, got lokal: did you mean local\?"):
        open_engine("lokal").__enter__()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"counting with engine='ray' needs the package ray.*halfmask\[ray\]"):
        open_engine("ray").__enter__()


def test_the_number_of_threads_is_what_the_process_may_use() -> None:
    assert 1 <= spill.number_of_threads() <= min(spill.MOST_THREADS, os.cpu_count() or 1)


class Later:
    """Ray's calls without Ray: a task runs when its result is asked for."""

    def __init__(self) -> None:
        self.cancelled: list[Any] = []

    def remote(self, work: Any) -> Any:
        class Task:
            @staticmethod
            def remote(*job: Any) -> Any:
                return lambda: work(*job)

        return Task

    def get(self, task: Any) -> Any:
        return task()

    def cancel(self, task: Any) -> None:
        self.cancelled.append(task)

    def wait(self, tasks: list[Any], *, num_returns: int) -> None:
        assert len(tasks) == num_returns > 0 and set(tasks) == set(self.cancelled)


def test_tasks_that_wait_are_cancelled_before_the_folder_goes() -> None:
    ray = Later()
    engine: Engine = spill.RayEngine(ray, cores=2)
    done: list[int] = []
    assert engine.run(lambda _, a: a * a, [(number,) for number in range(9)], done.append) == [
        number * number for number in range(9)
    ]
    assert done == list(range(9)) and not ray.cancelled

    def fail(threads: Threads, number: int) -> None:
        if number == 3:
            raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="got No space left on device"):
        engine.run(fail, [(number,) for number in range(9)], lambda _: None)
    assert len(ray.cancelled) == 4  # two running and two ready


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'halfmask[ray]'")
def test_ray_gives_the_same_profile_bit_for_bit(tmp_path: Path) -> None:
    """With workers on this machine, in several parts and ranges; a process of its own, since Ray stays in one."""
    words = np.random.default_rng(0).zipf(1.3, 150_000)
    text = [" ".join(map(str, part)) for part in np.split(words, 30)]
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps({"text": each}) for each in text), encoding="utf-8")
    common = ["window", "x.jsonl", "--brief", "--max-order", "3"]
    for name, options in {"ray.json": ["--engine", "ray", "--memory", "0", "--folder", "."], "local.json": []}.items():
        command = [sys.executable, "-m", "halfmask", *common, *options, "--out", name]
        environment = {**os.environ, "RAY_TMPDIR": tempfile.gettempdir()}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "local.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local.json", "ray.json", "x.jsonl"]
