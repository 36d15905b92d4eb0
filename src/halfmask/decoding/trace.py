"""What happened in which step, as lines of JSON.

{"halfmask": "trace", …}                                    what was decoded, and how
{"canvas": 0, "tokens": [[id, text], …], "holes": [3, …]}   each canvas as it came
{"canvas": 0, "step": 7, "exact": true, "committed": [{"at": 3, "id": 17, "text": "…", "confidence": 0.93,
 "others": [[17, "…", 0.93], …]}], "hidden again": []}      each step
{"canvas": 0, "steps": 20, "passes": 4, "finish": "length", "text": "…"}    each canvas when it is full
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

import numpy as np

from halfmask.data.vocabulary import Vocabulary
from halfmask.decoding.canvas import Canvas
from halfmask.decoding.decode import Step
from halfmask.decoding.row import Completion
from halfmask.decoding.strategy import Strategy
from halfmask.decoding.texts import pieces

FORMAT = 1


def settings(strategy: Strategy) -> dict[str, Any]:
    return {**asdict(strategy), "rule": str(strategy.rule)}


class Trace:
    def __init__(self, stream: IO[str], vocabulary: Vocabulary, *, model: str, strategy: Strategy) -> None:
        self.stream, self.vocabulary = stream, vocabulary
        self.texts: dict[int, str] = {}
        self._write({"halfmask": "trace", "format": FORMAT, "model": model, "strategy": settings(strategy)})

    def begin(self, canvases: Sequence[Canvas]) -> None:
        for number, canvas in enumerate(canvases):
            given = np.where(canvas.hidden_T, self.vocabulary.mask_id, canvas.tokens_T)
            told = zip(given.tolist(), pieces(self.vocabulary, given), strict=True)
            holes = np.flatnonzero(canvas.hidden_T)
            self._write({"canvas": number, "tokens": [list(each) for each in told], "holes": holes.tolist()})

    def step(self, number: int, step: Step) -> None:
        columns = (step.position_N, step.token_N, step.confidence_N, step.other_NA, step.chance_NA)
        committed = [
            {
                "at": at,
                "id": token,
                "text": self._text(token),
                "confidence": round(confidence, 6),
                "others": [
                    [other, self._text(other), round(chance, 6)] for other, chance in zip(others, chances, strict=True)
                ],
            }
            for at, token, confidence, others, chances in zip(*(each.tolist() for each in columns), strict=True)
        ]
        line = {"canvas": number, "step": step.number, "exact": step.is_exact, "committed": committed}
        self._write({**line, "hidden again": step.reopened_R.tolist()})

    def end(self, completions: Sequence[Completion]) -> None:
        for number, done in enumerate(completions):
            text = self.vocabulary.decode(done.tokens_T[: done.length])
            line = {"canvas": number, "steps": done.num_steps, "passes": done.num_passes}
            self._write({**line, "finish": done.finish, "text": text})

    def _text(self, token: int) -> str:
        if token not in self.texts:
            self.texts[token] = self.vocabulary.decode([token])
        return self.texts[token]

    def _write(self, line: dict[str, Any]) -> None:
        self.stream.write(json.dumps(line, ensure_ascii=False) + "\n")
