"""Questions with options from text: a file of them, and their tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from halfmask.data.vocabulary import Vocabulary
from halfmask.errors import DataError
from halfmask.evaluation.continuations import Ids
from halfmask.evaluation.likelihood import Question


def read_questions(path: Path | str) -> list[dict[str, Any]]:
    """JSON Lines of {"prompt", "options", and if it is known "gold"}; ARC's "query" and "choices" are read as well."""
    found = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} could not be read", got=got or error, fix="check the path") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            if "query" in fields:  # as in ARC: the answer begins a line of its own
                prompt, options = f"{fields['query']}\nAnswer:", [f" {each}" for each in fields["choices"]]
            else:
                prompt, options = fields["prompt"], fields["options"]
            question: dict[str, Any] = {"prompt": str(prompt), "options": [str(each) for each in options]}
            if "gold" in fields:
                question["gold"] = range(len(options))[int(fields["gold"])]
            found.append(question)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise DataError(
                f"{path}, line {number}, must hold a question",
                got=f"{type(error).__name__}: {error}",
                fix='write {"prompt": "…", "options": ["…", "…"], "gold": 0}',
            ) from error
    if not found:
        raise DataError(f"{path} must hold a question", got="none", fix="write one in every line")
    return found


def as_question(fields: dict[str, Any], vocabulary: Vocabulary, key: int) -> Question:
    pairs = [encode_pair(vocabulary, fields["prompt"], option) for option in fields["options"]]
    return Question(pairs[0][0], tuple(tokens for _, tokens in pairs), key)


def encode_pair(vocabulary: Vocabulary, prompt: str, continuation: str) -> tuple[Ids, Ids]:
    """The prompt's tokens, and what follows them in those of both; spaces between the two belong to the second."""
    kept = prompt.rstrip()
    continuation, prompt = prompt[len(kept) :] + continuation, kept
    before = vocabulary.encode([prompt]).astype(np.int64) if prompt else np.empty(0, dtype=np.int64)
    after = vocabulary.encode([prompt + continuation]).astype(np.int64)[len(before) :]
    return before, after if len(after) else vocabulary.encode([continuation]).astype(np.int64)
