"""From a profile to the mask window that the paper's theory predicts, and how much to believe it.

    t* = argmax Signal(t), Signal(t) ∝ Σ_i w_i t (1-t)^(i-1)     (Appendix "Why Does the Optimum Fall Near t ≈ 0.5?")

The bootstrap draws blocks of the corpus with replacement. It says how well this much text of this kind fixes t*. It
does not say how far t* is from the ratio that trains best, nor does it hold for more text: the weight of the higher
orders grows with the amount read, because more n-grams reach the minimum count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfmask.corpus.profile import WEIGHTINGS, NGramProfile, Variant, Weighting
from halfmask.errors import UsageError
from halfmask.laws import FloatArray, Window
from halfmask.records import Record, Row
from halfmask.theory.mixture import FORMS, signal_curve

NUM_RESAMPLES = 1000
CURVE = np.linspace(0, 1, 401)  # ratios at which Signal(t) is drawn


@dataclass(frozen=True)
class Prediction:
    """What a profile predicts. `record()` holds all of it as tables."""

    ratio: float  # t*, linear and without the factor, as the paper writes it
    interval: tuple[float, float] | None  # 95 % of the bootstrap; None where the weights have no blocks
    window: Window
    forms: dict[str, float]  # t* in every form of Signal(t)
    weights: dict[int, float]
    weighting: Weighting
    profile: NGramProfile

    def __str__(self) -> str:
        between = f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})" if self.interval else ""
        return f"window {self.window}; t* = {self.ratio:.3f}{between}"

    def record(self) -> Record:
        profile, weighting = self.profile, self.weighting
        growth = _growth(profile)
        columns = zip(profile.orders, profile.occurrences, profile.distinct, profile.unexplained, strict=True)
        return Record(
            name="window",
            title=f"How much to mask: {self}",
            settings={
                **profile.provenance,
                "min count": profile.min_count,
                "max order": profile.max_order,
                "weighting": weighting,
            },
            rows=[
                {
                    "order": order,
                    "weight": self.weights[order],
                    "occurrences": occurrences,
                    "distinct": distinct,
                    "unexplained": unexplained,
                }
                for order, occurrences, distinct, unexplained in columns
                if order in self.weights
            ],
            tables={
                "t* in each form of Signal(t)": [{"form": form, "t*": ratio} for form, ratio in self.forms.items()],
                "t* if one choice were made otherwise": _sensitivity(profile, weighting),
                **({"t* against the amount of text": growth} if growth else {}),
            },
            notes=self._notes(),
            extra={
                "ratio": CURVE,
                "signal": signal_curve(CURVE, self.weights),
                "t*": self.ratio,
                "interval": self.interval,
                "window": [self.window.lo, self.window.hi],
                "law": str(self.window),
                "growth": growth,
            },
        )

    def _notes(self) -> list[str]:
        profile = self.profile
        documents = "1 document" if profile.num_documents == 1 else f"{profile.num_documents:,} documents"
        found = [f"{profile.num_tokens:,} tokens, {documents}; weights by {self.weighting}."]
        if skipped := profile.provenance.get("skipped"):
            counted = ", ".join(f"{num} {kind}{'s' if num > 1 else ''}" for kind, num in skipped.items())
            found.append(f"Skipped as broken: {counted}; the first: {profile.provenance['first skipped']}.")
        if self.interval:
            found.append("The interval is a 95 % bootstrap over blocks of this corpus: how well this text fixes t*.")
        elif self.weighting == "distinct":
            found.append("No interval: a distinct n-gram belongs to no one block of the corpus.")
        if profile.variants and self.weighting != "occurrences":
            found.append("Minimum counts, tokens and amounts of text are compared by occurrences.")
        if any(self._is_other_text(each) for each in profile.variants):
            found.append("Tokens are compared on a sample of the text, so compare them with each other only.")
        found.append("t* is not scale-free: the amount of text decides which long n-grams reach the minimum count.")
        return found

    def _is_other_text(self, variant: Variant) -> bool:
        """Whether the chosen tokens were counted on another amount of text, to be compared with others."""
        is_chosen = variant.what == "tokens" and variant.value == self.profile.provenance.get("tokens")
        return is_chosen and variant.num_tokens != self.profile.num_tokens


def predict(profile: NGramProfile, *, weighting: Weighting = "occurrences", width: float = 0.1) -> Prediction:
    """The window of the given width around t*, moved inside [0, 1] where it would reach out."""
    check_width(width)
    weights = profile.weights(weighting)
    forms = {form: _optimal_ratio(weights, **options) for form, options in FORMS.items()}
    ratio = forms["linear"]
    digits = max(2, 1 + math.ceil(-math.log10(width)))  # of the window's ends: a tenth of the width, 0.01 at most
    lo = min(max(round(ratio - width / 2, digits), 0.0), 1.0 - width)
    return Prediction(
        ratio=ratio,
        interval=_bootstrap(profile, weighting),
        window=Window(round(lo, digits + 2), round(lo + width, digits + 2)),
        forms=forms,
        weights=weights,
        weighting=weighting,
        profile=profile,
    )


def check_width(width: float) -> None:
    if not 0 < width <= 1:
        raise UsageError("the width of a window must lie in (0, 1]", got=width, fix="give for example 0.1")


def _bootstrap(profile: NGramProfile, weighting: Weighting) -> tuple[float, float] | None:
    counts_OK = profile.block_counts_OK(weighting)
    if counts_OK is None or counts_OK.shape[1] < 2:
        return None
    num_blocks = counts_OK.shape[1]
    random = np.random.default_rng(0)  # the same profile gives the same interval
    times_RK = random.multinomial(num_blocks, np.full(num_blocks, 1 / num_blocks), size=NUM_RESAMPLES)
    counts_RO = times_RK @ counts_OK.T
    filled_RO = counts_RO[counts_RO.sum(axis=1) > 0]
    lo, hi = np.quantile(_optimal_ratios(filled_RO), [0.025, 0.975])
    return float(lo), float(hi)


def _optimal_ratio(weights: Mapping[int, float], *, power: int = 1, factor: bool = False) -> float:
    return float(_optimal_ratios(np.array([list(weights.values())]), power=power, factor=factor)[0])


def _optimal_ratios(weights_RO: NDArray[Any], *, power: int = 1, factor: bool = False) -> FloatArray:
    """`theory.mixture.optimal_ratio` of many mixtures of orders 2, 3, … at once, to six digits: what tables show.

    The top of a grid, and of the parabola through it and its neighbours.
    """
    t = np.linspace(0, 1, 2001)
    orders = range(2, 2 + weights_RO.shape[1])
    curves_OT = np.stack([signal_curve(t, {order: 1.0}, power=power, factor=factor) for order in orders])
    signal_RT = weights_RO @ curves_OT
    at = signal_RT.argmax(axis=1).clip(1, len(t) - 2)
    left, middle, right = (signal_RT[np.arange(len(at)), at + shift] for shift in (-1, 0, 1))
    return np.asarray(t[at] + 0.5 * (left - right) / (left - 2 * middle + right) * (t[1] - t[0]))


def _sensitivity(profile: NGramProfile, weighting: Weighting) -> list[Row]:
    """t* when one choice is made otherwise."""
    rows: list[Row] = []

    def add(what: str, value: str, num_tokens: int, weights: dict[int, float], *, chosen: bool) -> None:
        rows.append(
            {
                "choice": what,
                "value": value,
                "chosen": chosen,
                "tokens read": num_tokens,
                "t*": _optimal_ratio(weights),
                "quadratic t*": _optimal_ratio(weights, power=2),
            }
        )

    for kind in WEIGHTINGS:
        add("weighting", kind, profile.num_tokens, profile.weights(kind), chosen=kind == weighting)
    for top in profile.orders:
        weights = profile.weights(weighting, max_order=top)
        add("highest order", str(top), profile.num_tokens, weights, chosen=top == profile.max_order)
    chosen = {"minimum count": str(profile.min_count), "tokens": profile.provenance.get("tokens")}
    for variant in _counted(profile, *chosen):
        weights = profile.variant_weights(variant)
        is_chosen = variant.value == chosen[variant.what]
        add(variant.what, variant.value, variant.num_tokens, weights, chosen=is_chosen)
    return rows


def _growth(profile: NGramProfile) -> list[Row]:
    """t* against the amount of text."""
    return [
        {
            "text": variant.value,
            "tokens read": variant.num_tokens,
            "t*": _optimal_ratio(profile.variant_weights(variant)),
        }
        for variant in _counted(profile, "text")
    ]


def _counted(profile: NGramProfile, *kinds: str) -> Iterator[Variant]:
    """The variants of these kinds in which something is frequent."""
    for variant in profile.variants:
        if variant.what in kinds and any(variant.occurrences[: profile.max_order - 1]):
            yield variant
