"""What generation requests need of decoding: one function over prompts."""

from __future__ import annotations

from collections.abc import Sequence

from halfmask.decoding.canvas import Canvas
from halfmask.decoding.decode import Decoder, decode
from halfmask.decoding.strategy import Strategy
from halfmask.evaluation.continuations import Ids
from halfmask.models.load import Loaded


def fill_in(model: Loaded, prompts: Sequence[Ids], *, num_tokens: int, steps: int, temperature: float) -> list[Ids]:
    """What follows each prompt: `num_tokens` tokens or, where the text ends before, fewer; the surest tokens first."""
    canvases = [Canvas.continuation(prompt, num_tokens, row=number) for number, prompt in enumerate(prompts)]
    filled = decode(Decoder.of(model), canvases, Strategy(steps=steps, temperature=temperature))
    return [completion.written for completion in filled]
