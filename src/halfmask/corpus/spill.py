"""Where the passes of a count keep their arrays, and what runs them: in memory or in files, here or as Ray tasks."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfmask.errors import DataError, MissingExtraError, UsageError, nearest

MOST_THREADS = 8  # they share the interpreter's lock, and each holds some chunks

Item = TypeVar("Item")
Returned = TypeVar("Returned")


class Shelf(Protocol):
    """Named groups of named arrays, which nobody changes once they are here."""

    def put(self, name: str, **arrays: NDArray[Any]) -> None: ...

    def get(self, name: str, *fields: str) -> list[NDArray[Any]]: ...

    def drop(self, name: str) -> None: ...


@dataclass(frozen=True)
class MemoryShelf:
    groups: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)

    def put(self, name: str, **arrays: NDArray[Any]) -> None:
        self.groups[name] = arrays

    def get(self, name: str, *fields: str) -> list[NDArray[Any]]:
        return [self.groups[name][each] for each in fields]

    def drop(self, name: str) -> None:
        del self.groups[name]


@dataclass(frozen=True)
class FolderShelf:
    folder: Path  # for Ray on several machines: one that all of them see

    def put(self, name: str, **arrays: NDArray[Any]) -> None:
        for key, array in arrays.items():
            with self._path(name, key).open("wb") as stream:  # not `np.save`: on a full disk it can lose the end
                header = np.lib.format.header_data_from_array_1_0(array)
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(np.ascontiguousarray(array).data)

    def get(self, name: str, *fields: str) -> list[NDArray[Any]]:
        """Mapped, so that a slice reads only what it touches."""
        return [np.asarray(np.load(self._path(name, key), mmap_mode="r")) for key in fields]

    def drop(self, name: str) -> None:
        for path in self.folder.glob(f"{name}.*.npy"):
            path.unlink()

    def _path(self, name: str, key: str) -> Path:
        return self.folder / f"{name}.{key}.npy"


@contextlib.contextmanager
def open_shelf(in_memory: bool, folder: Path | None) -> Iterator[Shelf]:
    """In files: a fresh subfolder of `folder`, removed in the end, however that comes."""
    if in_memory:
        yield MemoryShelf()
        return
    try:
        spill = tempfile.TemporaryDirectory(prefix="halfmask-ngrams-", dir=folder)
    except OSError as error:
        raise DataError(
            "the folder for spilled counts must exist and be writable",
            got=folder or tempfile.gettempdir(),
            fix="name another folder",
        ) from error
    with spill as path:
        yield FolderShelf(Path(path))


@dataclass(frozen=True)
class Threads:
    """Does one thing to many items; numpy lets go of the interpreter's lock while it works on an array."""

    number: int = 1
    pool: ThreadPoolExecutor | None = None

    def map(self, work: Callable[[Item], Returned], items: Iterable[Item]) -> Iterator[Returned]:
        """The results, in the order of the items; few wait to be taken, since they may be large."""
        if self.pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[Returned]] = deque()
        for item in items:
            waiting.append(self.pool.submit(work, item))
            if len(waiting) > 2 * self.number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def do(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        deque(self.map(work, items), maxlen=0)


class Engine(Protocol):
    def run(
        self, work: Callable[..., Returned], jobs: Iterable[tuple[Any, ...]], done: Callable[[int], None]
    ) -> list[Returned]:
        """`work(threads, *job)` for every job, results in the order of the jobs; `done(number)` after each."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """One job after the other, each with all threads."""

    threads: Threads

    def run(
        self, work: Callable[..., Returned], jobs: Iterable[tuple[Any, ...]], done: Callable[[int], None]
    ) -> list[Returned]:
        results = []
        for number, job in enumerate(jobs):
            try:
                results.append(work(self.threads, *job))
            except OSError as error:
                raise _no_room(error) from error
            done(number)
        return results


@dataclass(frozen=True)
class RayEngine:
    """Jobs as tasks of a Ray cluster, each with one core."""

    ray: Any
    cores: int

    def run(
        self, work: Callable[..., Returned], jobs: Iterable[tuple[Any, ...]], done: Callable[[int], None]
    ) -> list[Returned]:
        task = self.ray.remote(work)
        waiting: deque[Any] = deque()
        results: list[Returned] = []

        def take_first() -> None:
            try:
                results.append(self.ray.get(waiting[0]))
            except OSError as error:
                raise _no_room(error) from error
            waiting.popleft()
            done(len(results) - 1)

        try:
            for job in jobs:
                waiting.append(task.remote(Threads(), *job))
                if len(waiting) >= 2 * self.cores:  # one running and one ready for each
                    take_first()
            while waiting:
                take_first()
        finally:  # a task that still writes would fill the folder that is being removed
            for each in waiting:
                self.ray.cancel(each)
            if waiting:
                self.ray.wait(list(waiting), num_returns=len(waiting))
        return results


def _no_room(error: OSError) -> DataError:
    return DataError(
        "the folder for spilled counts must take what is written",
        got=error.strerror or error,
        fix="free space on its disk, name another folder, or raise the memory",
    )


def number_of_threads() -> int:
    """One for each core that this process may use, up to a few."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


@contextlib.contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    if name == "local":
        number = number_of_threads()
        with ThreadPoolExecutor(number) as pool:
            yield LocalEngine(Threads(number, pool) if number > 1 else Threads())
    elif name == "ray":
        yield from _open_ray()
    else:
        raise UsageError("the engine must be local or ray", got=name, fix=nearest(name, ("local", "ray")))


def _open_ray() -> Iterator[Engine]:
    """On the cluster that is running, or on one started on this machine and stopped in the end."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("counting with engine='ray'", package="ray", extra="ray") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield RayEngine(ray, max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        if is_ours:
            ray.shutdown()
