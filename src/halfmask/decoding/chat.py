"""A conversation as a text to be continued: turns in plain words, and the oldest dropped where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from halfmask.data.vocabulary import Vocabulary
from halfmask.decoding.canvas import Canvas
from halfmask.decoding.decode import Decoder
from halfmask.decoding.row import Row
from halfmask.decoding.strategy import Strategy
from halfmask.decoding.texts import Stop, filled_holes
from halfmask.errors import UsageError

ASKED, ANSWERED = "User: ", "Assistant:"
STOPS = (f"\n{ASKED.strip()}", f"\n{ANSWERED}")  # the model goes on to speak for both


@dataclass
class Conversation:
    decoder: Decoder
    vocabulary: Vocabulary
    strategy: Strategy
    length: int  # of an answer, at most
    turns: list[tuple[str, str]] = field(default_factory=list)

    @property
    def stop(self) -> Stop:
        return Stop(self.vocabulary, STOPS)

    def ask(self, text: str, on_step: Callable[[Row], None] = lambda row: None) -> str:
        """The answer; both join the conversation. Samples of a conversation differ from turn to turn."""
        row, stop = self.decoder.join(self._canvas(text), self.strategy), self.stop
        try:
            while row in self.decoder.rows and not stop(row):
                self.decoder.step()
                on_step(row)
        finally:
            if row in self.decoder.rows:
                self.decoder.leave(row)
        answer = stop.cut(filled_holes(self.vocabulary, row.completion())[-1]).strip()
        self.turns.append((text, answer))
        return answer

    def _canvas(self, text: str) -> Canvas:
        while True:
            told = "".join(f"{ASKED}{asked}\n{ANSWERED} {answer}\n" for asked, answer in self.turns)
            prompt = self.vocabulary.encode([f"{told}{ASKED}{text}\n{ANSWERED}"])
            room = (self.decoder.max_length or len(prompt) + self.length) - self.length
            if len(prompt) <= room:
                return Canvas.continuation(prompt, self.length, row=len(self.turns))
            if not self.turns:
                raise UsageError(
                    f"a message must leave room for an answer: {max(0, room)} tokens are left for it",
                    got=f"{len(prompt)} tokens",
                    fix="write less, or ask for a shorter answer (--length)",
                )
            del self.turns[0]
