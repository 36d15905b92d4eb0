"""What the tests of the theory compare with: slow, plain, written apart from the code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from halfmask.errors import UsageError
from halfmask.laws import MaskLaw
from halfmask.theory.signal import Regime
from test_laws import integral

Mask = tuple[bool, ...]


def all_masks(num_positions: int) -> list[Mask]:
    return list(itertools.product([False, True], repeat=num_positions))


def regime_of(mask: Mask, secret: tuple[int, ...]) -> Regime:
    num_hidden = 0
    for position in set(secret):
        if mask[position]:
            num_hidden += 1
    return {0: Regime.NON_INFORMATIVE, 1: Regime.SIGNAL}.get(num_hidden, Regime.UNDER_DETERMINED)


@cache
def mask_chance(law: MaskLaw, num_hidden: int, num_positions: int) -> float:
    """P(m) of one mask of that size: the density integrated against t^|M| (1-t)^(n'-|M|)."""
    return integral(law, num_hidden, num_positions - num_hidden)


def drawn_masks(law: MaskLaw, num: int, num_positions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ratios, and masks that hide each position with that probability."""
    random = np.random.default_rng(seed)
    t = law.from_uniform(random.random(num))
    return t, random.random((num, num_positions)) < t[:, None]


@contextmanager
def refused(said: str = "") -> Iterator[None]:
    """What happens inside raises a UsageError of four parts, in one line."""
    with pytest.raises(UsageError) as caught:
        yield
    error = caught.value
    text = str(error)
    assert text == f"{error.rule}, got {error.got}: {error.fix}"
    assert error.rule and str(error.got) and error.fix and "\n" not in text
    assert said in text
