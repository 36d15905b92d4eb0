"""What generation requests need of decoding: one function over prompts."""

from __future__ import annotations

from collections.abc import Sequence

from halfmask.errors import HalfmaskError
from halfmask.evaluation.continuations import Ids
from halfmask.models.load import Loaded


def fill_in(model: Loaded, prompts: Sequence[Ids], *, num_tokens: int, steps: int, temperature: float) -> list[Ids]:
    """`num_tokens` ids after each prompt, filled in by `steps` steps of decoding."""
    raise HalfmaskError(
        "generation requests need decoding, which the harness does not call yet",
        got=f"{len(prompts)} of them",
        fix="choose tasks that ask for likelihoods, such as arc_easy",
    )
