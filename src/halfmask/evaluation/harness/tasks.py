"""Run tasks of lm-evaluation-harness on one of our models: names in, a record out."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from halfmask.errors import DataError, HalfmaskError, MissingExtraError, UsageError, nearest
from halfmask.evaluation.harness.local import stand_in
from halfmask.records import Record, Row

GROUPS = Path(__file__).parent / "groups"
# The folders of lm-eval's tasks that the paper's groups need: an index of these alone is there at once, that of all
# its thousands takes many seconds.
USUAL = ("arc", "hellaswag", "mmlu/default", "gpqa", "gsm8k", "minerva_math")


@dataclass(frozen=True)
class TaskRun:
    """What to run and how; what the model takes stands in `model` (`model.py`)."""

    tasks: tuple[str, ...]
    model: dict[str, Any]
    local: Path | None = None
    limit: float | None = None
    num_fewshot: int | None = None
    cache: str | None = None

    def run(self) -> Record | None:
        """The record on the first process, None on the others."""
        require_lm_eval()
        from lm_eval import simple_evaluate

        from halfmask.evaluation.harness.model import HalfmaskLM

        with _quiet():
            manager = task_manager(self.tasks)
        model = HalfmaskLM(**self.model)
        cache = None if self.cache is None else str(Path(self.cache).absolute())  # the folder changes under it
        with stand_in(self.local) as mirrored, _quiet(), _told_of(self, mirrored):
            found = simple_evaluate(
                model=model,
                tasks=list(self.tasks),
                task_manager=manager,
                limit=self.limit,
                num_fewshot=self.num_fewshot,
                use_cache=cache,
                bootstrap_iters=1000,
                log_samples=False,
            )
        return None if found is None else _record(self, dict(found))


def task_manager(tasks: Sequence[str]) -> Any:
    """Of lm-eval, with the paper's groups."""
    require_lm_eval()
    import lm_eval.tasks

    usual = [str(Path(lm_eval.tasks.__file__).parent / name) for name in USUAL]
    manager = lm_eval.tasks.TaskManager(include_path=[*usual, str(GROUPS)], include_defaults=False)
    if all(task in manager.all_tasks for task in tasks):
        return manager
    manager = lm_eval.tasks.TaskManager(include_path=str(GROUPS))
    for task in tasks:
        if task not in manager.all_tasks:
            raise UsageError("lm-eval has no such task", got=task, fix=nearest_task(task, manager.all_tasks))
    return manager


def nearest_task(task: str, known: Sequence[str]) -> str:
    close = nearest(task, known)
    return close if close.startswith("did you mean") else "list them with: halfmask lm-eval ls tasks"


def require_lm_eval() -> Any:
    try:
        return importlib.import_module("lm_eval")
    except ImportError as error:
        raise MissingExtraError("lm-evaluation-harness", package="lm-eval", extra="eval") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """lm-eval and datasets report every step, and lm-eval asks git about the working directory: errors are enough."""
    import datasets
    import lm_eval.api.task
    import lm_eval.evaluator

    with contextlib.ExitStack() as stack:
        for name in ("lm_eval", "datasets"):
            stack.callback(logging.getLogger(name).setLevel, logging.getLogger(name).level)
            logging.getLogger(name).setLevel(logging.ERROR)
        stack.callback(datasets.enable_progress_bars)
        datasets.disable_progress_bars()
        for module, name, silent in (
            (lm_eval.evaluator, "get_git_commit_hash", lambda: None),
            (lm_eval.api.task, "tqdm", lambda each, **options: each),
        ):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, silent)
        yield


@contextlib.contextmanager
def _told_of(run: TaskRun, mirrored: Sequence[str]) -> Iterator[None]:
    """What goes wrong with a data set, in one line."""
    try:
        yield
    except HalfmaskError:
        raise
    except Exception as error:  # of the hub, of files, of lm-eval itself: kinds of many libraries
        local = f" (local: {', '.join(mirrored)})" if mirrored else ""
        raise DataError(
            f"the tasks {', '.join(run.tasks)} must find their data sets and run{local}",
            got=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            fix="check --local, the network, or show all of it with --debug",
        ) from error


def _record(run: TaskRun, found: dict[str, Any]) -> Record:
    rows: list[Row] = []
    shown = {**found.get("groups", {}), **found["results"]}
    for task, values in shown.items():
        counts = found["n-samples"].get(task)
        for key, value in values.items():
            metric, _, kind = key.partition(",")
            if not kind or metric.endswith("_stderr") or not isinstance(value, (int, float)):
                continue
            error = values.get(f"{metric}_stderr,{kind}")
            rows.append(
                {
                    "task": task,
                    "metric": metric if kind == "none" else f"{metric} ({kind})",
                    "value": float(value),
                    "±": float(error) if isinstance(error, (int, float)) else None,
                    "questions": None if counts is None else counts["effective"],
                    "shots": found["n-shot"].get(task),
                }
            )
    limited = f" The first {run.limit:g} of each alone." if run.limit else ""
    return Record(
        name="eval tasks",
        title=f"Tasks of lm-evaluation-harness {version('lm_eval')}",
        settings={
            "tasks": list(run.tasks),
            "model": run.model,
            "local": None if run.local is None else str(run.local),
            "limit": run.limit,
            "shots": run.num_fewshot,
        },
        rows=rows,
        notes=[f"± is the standard error over questions.{limited}"],
        extra={"versions": found.get("versions", {})},
    )
