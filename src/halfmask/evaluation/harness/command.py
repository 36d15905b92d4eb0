"""lm-evaluation-harness's own command line with our model in it, which it has no other way to learn of."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from halfmask.errors import UsageError
from halfmask.evaluation.harness.local import stand_in
from halfmask.evaluation.harness.tasks import GROUPS, require_lm_eval

PATHS = ("--output_path", "-o", "--use_cache", "-c", "--config", "-C", "--include_path")


def lm_eval_command(words: Sequence[str], local: Path | None) -> int:
    require_lm_eval()
    if not words or words[0].startswith("-"):
        raise UsageError(
            "lm-eval needs one of its words: run, ls, validate",
            got=" ".join(words) or "nothing",
            fix="write for example: halfmask lm-eval run --model halfmask --model_args path=run --tasks arc_easy",
        )
    from lm_eval.__main__ import cli_evaluate

    from halfmask.evaluation.harness.model import register

    register()
    words = _standing(words)
    if "--include_path" not in words and "--help" not in words:
        words = [*words, "--include_path", str(GROUPS)]
    before = sys.argv
    sys.argv = ["lm-eval", *words]
    try:
        with stand_in(local):
            cli_evaluate()
    except SystemExit as done:
        return int(done.code or 0) if not isinstance(done.code, str) else 2
    finally:
        sys.argv = before
    return 0


def _standing(words: Sequence[str]) -> list[str]:
    """Paths as they are from here: the folder changes under them where local files stand in for the Hub."""
    found = []
    for at, word in enumerate(words):
        if at > 0 and words[at - 1] in PATHS:
            found.append(str(Path(word).absolute()))
        else:
            found.append(re.sub(r"(?<![^,])path=([^,]+)", _absolute, word))
    return found


def _absolute(match: re.Match[str]) -> str:
    path = Path(match[1])
    return f"path={path.absolute()}" if path.exists() else match[0]
