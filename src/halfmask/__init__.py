"""Halfmask: how much to mask, for masked diffusion language models.

The names below are the public ones; each is loaded when it is first used, so `import halfmask` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfmask.corpus.predict import Prediction, predict
    from halfmask.corpus.profile import NGramProfile, measure_corpus
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
    "NGramProfile",
    "Point",
    "Prediction",
    "TruncatedNormal",
    "Window",
    "measure_corpus",
    "optimal_ratio",
    "parse_law",
    "predict",
    "signal_share",
    "signal_window",
]

_HOME = {
    "HalfmaskError": "halfmask.errors",
    "NGramProfile": "halfmask.corpus.profile",
    "Prediction": "halfmask.corpus.predict",
    "measure_corpus": "halfmask.corpus.profile",
    "optimal_ratio": "halfmask.theory.mixture",
    "predict": "halfmask.corpus.predict",
    "signal_share": "halfmask.theory.signal",
    "signal_window": "halfmask.theory.mixture",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'halfmask' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME.get(name, "halfmask.laws")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
