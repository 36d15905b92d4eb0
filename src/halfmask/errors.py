"""Every error a user can cause, in one style: the rule, what was given, what to do.

    HalfmaskError            the base: shown in one line, exit status 2
    ├── UsageError           a value outside its rule            (also a ValueError)
    ├── DataError            a file that is missing or broken    (also a ValueError)
    └── MissingExtraError    an optional package is not there    (also an ImportError)

Broken invariants of our own are `assert`s, never one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HalfmaskError(Exception):
    """`rule` says what is wrong and what is allowed, `got` what was given, `fix` what to do."""

    def __init__(self, rule: str, *, got: object, fix: str) -> None:
        super().__init__(f"{rule}, got {got}: {fix}")
        self.rule = rule
        self.got = got
        self.fix = fix


class UsageError(HalfmaskError, ValueError):
    """A value outside its rule."""


class DataError(HalfmaskError, ValueError):
    """A file that is missing, broken or not what it should be."""


class MissingExtraError(HalfmaskError, ImportError):
    """A package that only an extra installs."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}",
            got="an environment without it",
            fix=f"pip install 'halfmask[{extra}]'",
        )


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The remedy for a misspelt name: the nearest allowed one, or all of them."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names)}"
