"""Halfmask: how much to mask, for masked diffusion language models.

The names below are the public ones; each is loaded when it is first used, so `import halfmask` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfmask.errors import HalfmaskError
    from halfmask.laws import Beta, Histogram, MaskLaw, Mixture, Point, TruncatedNormal, Window, parse_law
    from halfmask.theory.mixture import optimal_ratio, signal_window
    from halfmask.theory.signal import signal_share

__version__ = "0.1.0"

__all__ = [
    "Beta",
    "HalfmaskError",
    "Histogram",
    "MaskLaw",
    "Mixture",
    "Point",
    "TruncatedNormal",
    "Window",
    "optimal_ratio",
    "parse_law",
    "signal_share",
    "signal_window",
]

_HOME = {
    "HalfmaskError": "halfmask.errors",
    "optimal_ratio": "halfmask.theory.mixture",
    "signal_share": "halfmask.theory.signal",
    "signal_window": "halfmask.theory.mixture",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'halfmask' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME.get(name, "halfmask.laws")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
