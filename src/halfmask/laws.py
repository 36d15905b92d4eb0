"""The law of the mask ratio: how much of a row is hidden.

A `MaskLaw` is a distribution of the ratio t on [0, 1]. It says four things:

    from_uniform(u)   carries uniform numbers to ratios (so equal strata of u are equal strata of the law)
    density(t)        the density of its continuous part; `atoms` holds the rest
    moment(a, b)      E[t^a (1-t)^b], the only integral the theory needs
    str(law)          a text that `parse_law` reads back

    Window(0.45, 0.55)              0.45-0.55      the paper's U[t0, t1]
    Point(0.15)                     0.15
    Beta(2, 2)                      beta(2,2)
    TruncatedNormal(0.5, 0.1)       normal(0.5,0.1)
    Histogram((1, 3, 1))            histogram(1,3,1)           equal bins over [0, 1]
    Mixture(((0.5, a), (0.5, b)))   0.5*0-1 + 0.5*0.45-0.55

Numpy and scipy only: the theory and the trainer read the same law.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import scipy  # which imports scipy.special when it is first used: that takes longer than all else here
from numpy.typing import ArrayLike, NDArray

from halfmask.errors import UsageError, nearest

FloatArray = NDArray[np.float64]


class MaskLaw(ABC):
    """A distribution of the mask ratio on [0, 1]."""

    @abstractmethod
    def from_uniform(self, u: ArrayLike) -> FloatArray:
        """Ratios for numbers u in [0, 1): uniform u gives ratios of this law."""

    @abstractmethod
    def density(self, t: ArrayLike) -> FloatArray:
        """Density of the continuous part at t."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The smallest interval that holds every ratio."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """(ratio, probability) of the ratios that have a probability of their own."""
        return ()

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where the density is not smooth: the ends of the support and whatever lies between."""
        return self.support

    def moment(self, a: int, b: int = 0) -> float:
        """E[t^a (1-t)^b], by quadrature between the breaks; a law with an infinite density brings its own."""
        total = sum(probability * ratio**a * (1 - ratio) ** b for ratio, probability in self.atoms)
        for lo, hi in pairwise(self.breaks):
            t, weight = _quadrature(lo, hi, a, b)
            total += (hi - lo) * float(np.sum(weight * self.density(t) * _power(t, a, b)))
        return total

    @property
    def mean(self) -> float:
        return self.moment(1)

    @property
    def variance(self) -> float:
        return max(0.0, self.moment(2) - self.mean**2)

    def stratified(self, num: int, u: float) -> FloatArray:
        """`num` ratios, one from each of `num` equal strata of the law, all shifted by the same u in [0, 1)."""
        return self.from_uniform((np.arange(num) + u) / num)


@dataclass(frozen=True)
class Window(MaskLaw):
    """U[lo, hi], the paper's law (Definition "Stochastic Masking")."""

    lo: float
    hi: float

    def __post_init__(self) -> None:
        if not (0 <= self.lo < self.hi <= 1):
            fix = "give two ratios such as 0.45-0.55"
            if 0 <= self.hi < self.lo <= 1:
                fix = "swap the two ends"
            elif 0 <= self.lo == self.hi <= 1:
                fix = f"write {_number(self.lo)} for the point"
            raise UsageError(
                "a mask window must satisfy 0 <= lo < hi <= 1", got=f"{_number(self.lo)}-{_number(self.hi)}", fix=fix
            )

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        t = self.lo + (self.hi - self.lo) * np.asarray(u, dtype=np.float64)
        return np.minimum(t, self.hi)  # rounding can reach beyond

    def density(self, t: ArrayLike) -> FloatArray:
        t = np.asarray(t, dtype=np.float64)
        return np.where((t >= self.lo) & (t <= self.hi), 1 / (self.hi - self.lo), 0.0)

    @property
    def support(self) -> tuple[float, float]:
        return self.lo, self.hi

    def moment(self, a: int, b: int = 0) -> float:
        t, weight = _quadrature(self.lo, self.hi, a, b)
        return float(np.sum(weight * _power(t, a, b)))

    @property
    def variance(self) -> float:
        return (self.hi - self.lo) ** 2 / 12  # the difference of moments would cancel for a narrow window

    def __str__(self) -> str:
        return f"{_number(self.lo)}-{_number(self.hi)}"


@dataclass(frozen=True)
class Point(MaskLaw):
    """Every row hides the same ratio."""

    ratio: float

    def __post_init__(self) -> None:
        if not (0 <= self.ratio <= 1):
            raise UsageError("a mask ratio must lie in [0, 1]", got=str(self), fix="give a ratio such as 0.15")

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        return np.full_like(np.asarray(u, dtype=np.float64), self.ratio)

    def density(self, t: ArrayLike) -> FloatArray:
        return np.zeros_like(np.asarray(t, dtype=np.float64))

    @property
    def support(self) -> tuple[float, float]:
        return self.ratio, self.ratio

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        return ((self.ratio, 1.0),)

    def moment(self, a: int, b: int = 0) -> float:
        return float(self.ratio**a * (1 - self.ratio) ** b)

    def __str__(self) -> str:
        return _number(self.ratio)


@dataclass(frozen=True)
class Beta(MaskLaw):
    """Beta(a, b) on [0, 1]."""

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (0 < self.a <= 1e9 and 0 < self.b <= 1e9):
            raise UsageError(
                "beta(a,b) needs a and b above 0 and at most 1e9",
                got=str(self),
                fix="give two positive numbers, such as beta(2,2)",
            )

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        u = np.maximum(np.asarray(u, dtype=np.float64), 2.0**-54)  # betaincinv may give NaN for a smaller one
        return np.asarray(scipy.special.betaincinv(self.a, self.b, u), dtype=np.float64)

    def density(self, t: ArrayLike) -> FloatArray:
        t = np.asarray(t, dtype=np.float64)
        inside = (t >= 0) & (t <= 1)
        safe = np.where(inside, t, 0.5)
        with np.errstate(divide="ignore"):  # a < 1 or b < 1: infinite at an end, and rightly so
            log_density = scipy.special.xlogy(self.a - 1, safe) + scipy.special.xlog1py(self.b - 1, -safe)
        return np.where(inside, np.exp(log_density - scipy.special.betaln(self.a, self.b)), 0.0)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, 1.0

    def moment(self, a: int, b: int = 0) -> float:
        # B(a+p, b+q) / B(a, b) as the product of (a+i)/(a+b+i) for i < p and (b+j)/(a+b+p+j) for j < q: the
        # difference of two log-gammas would lose as many digits as they have before the point.
        both = self.a + self.b
        return math.exp(_log_rising(self.a, both, a) + _log_rising(self.b, both + a, b))

    @property
    def variance(self) -> float:
        mean = self.a / (self.a + self.b)
        return mean * (1 - mean) / (self.a + self.b + 1)

    def __str__(self) -> str:
        return f"beta({_number(self.a)},{_number(self.b)})"


@dataclass(frozen=True)
class TruncatedNormal(MaskLaw):
    """A normal distribution of the given centre and width, kept to [0, 1]."""

    centre: float
    width: float

    def __post_init__(self) -> None:
        if not (0 <= self.centre <= 1 and 1e-3 <= self.width <= 100):
            raise UsageError(
                "normal(centre,width) needs a centre in [0, 1] and a width in [0.001, 100]",
                got=str(self),
                fix="write 0-1 for the uniform law" if self.width > 100 else "give for example normal(0.5,0.1)",
            )

    @cached_property
    def _cdf_ends(self) -> tuple[float, float]:
        return (
            float(scipy.special.ndtr((0 - self.centre) / self.width)),
            float(scipy.special.ndtr((1 - self.centre) / self.width)),
        )

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        lo, hi = self._cdf_ends
        z = scipy.special.ndtri(lo + (hi - lo) * np.asarray(u, dtype=np.float64))
        return np.asarray(np.clip(self.centre + self.width * z, 0.0, 1.0), dtype=np.float64)

    def density(self, t: ArrayLike) -> FloatArray:
        t = np.asarray(t, dtype=np.float64)
        lo, hi = self._cdf_ends
        z = (t - self.centre) / self.width
        bell = np.exp(-0.5 * z * z) / (self.width * math.sqrt(2 * math.pi) * (hi - lo))
        return np.where((t >= 0) & (t <= 1), bell, 0.0)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def breaks(self) -> tuple[float, ...]:
        # Nothing breaks inside, but quadrature must find a narrow bell: cut every two widths around the centre.
        cuts = {self.centre + 2 * i * self.width for i in range(-6, 7)}
        return (0.0, *sorted(c for c in cuts if 0 < c < 1), 1.0)

    def __str__(self) -> str:
        return f"normal({_number(self.centre)},{_number(self.width)})"


@dataclass(frozen=True)
class Mixture(MaskLaw):
    """Laws drawn with given probabilities; the weights are normalised to one, and a mixture of mixtures is flat."""

    parts: tuple[tuple[float, MaskLaw], ...]

    def __post_init__(self) -> None:
        weights = [weight for weight, _ in self.parts]
        if not _can_be_shares(weights):
            raise UsageError(
                "the weights of a mixture must be non-negative, finite and not all zero",
                got=weights,
                fix="write for example 0.5*0-1 + 0.5*0.45-0.55",
            )
        total = sum(weights)
        if math.isclose(total, 1.0, rel_tol=1e-12):  # weights that sum to one stay as they were written
            total = 1.0
        flat: list[tuple[float, MaskLaw]] = []
        for weight, law in self.parts:
            inner = law.parts if isinstance(law, Mixture) else ((1.0, law),)
            flat.extend((weight / total * share, part) for share, part in inner)
        object.__setattr__(self, "parts", tuple(flat))

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        # Not monotone, but measure-preserving: each part owns an interval of u as long as its weight.
        u = np.asarray(u, dtype=np.float64)
        ends = np.cumsum([weight for weight, _ in self.parts])
        part_of_u = np.minimum(np.searchsorted(ends, u, side="right"), len(self.parts) - 1)
        t = np.empty_like(u)
        for i, (weight, law) in enumerate(self.parts):
            mine = part_of_u == i
            if weight > 0 and np.any(mine):
                within = (u[mine] - (ends[i] - weight)) / weight
                t[mine] = law.from_uniform(np.clip(within, 0.0, np.nextafter(1.0, 0.0)))
        return t

    def density(self, t: ArrayLike) -> FloatArray:
        return np.asarray(sum(weight * law.density(t) for weight, law in self.parts), dtype=np.float64)

    @property
    def support(self) -> tuple[float, float]:
        supports = [law.support for weight, law in self.parts if weight > 0]
        return min(lo for lo, _ in supports), max(hi for _, hi in supports)

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        return tuple((t, weight * p) for weight, law in self.parts for t, p in law.atoms if weight > 0)

    @property
    def breaks(self) -> tuple[float, ...]:
        return tuple(sorted({t for weight, law in self.parts if weight > 0 for t in law.breaks}))

    def moment(self, a: int, b: int = 0) -> float:
        return sum(weight * law.moment(a, b) for weight, law in self.parts)

    @property
    def variance(self) -> float:
        return sum(weight * (law.variance + (law.mean - self.mean) ** 2) for weight, law in self.parts)

    def __str__(self) -> str:
        return " + ".join(f"{_number(weight)}*{law}" for weight, law in self.parts)


@dataclass(frozen=True)
class Histogram(MaskLaw):
    """Equal bins over [0, 1] with the given heights (any curve, such as Signal(t), can be a law this way)."""

    heights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not _can_be_shares(self.heights):
            raise UsageError(
                "the heights of a histogram must be non-negative, finite and not all zero",
                got=list(self.heights),
                fix="write for example histogram(1,3,1)",
            )

    @cached_property
    def _cdf(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self.heights) / np.sum(self.heights)])

    def from_uniform(self, u: ArrayLike) -> FloatArray:
        u = np.asarray(u, dtype=np.float64)
        filled = np.flatnonzero(np.asarray(self.heights) > 0)  # an empty bin is never landed in
        bin_of_u = filled[np.searchsorted(self._cdf[filled + 1], u, side="right").clip(max=len(filled) - 1)]
        lo, hi = self._cdf[bin_of_u], self._cdf[bin_of_u + 1]
        within = np.clip((u - lo) / (hi - lo), 0.0, 1.0)
        return np.asarray((bin_of_u + within) / len(self.heights), dtype=np.float64)

    def density(self, t: ArrayLike) -> FloatArray:
        t = np.asarray(t, dtype=np.float64)
        num_bins = len(self.heights)
        heights = np.asarray(self.heights) * num_bins / np.sum(self.heights)
        bin_of_t = np.clip((t * num_bins).astype(np.int64), 0, num_bins - 1)
        return np.where((t >= 0) & (t <= 1), heights[bin_of_t], 0.0)

    @property
    def support(self) -> tuple[float, float]:
        filled = np.flatnonzero(np.asarray(self.heights) > 0)
        return float(filled[0] / len(self.heights)), float((filled[-1] + 1) / len(self.heights))

    @property
    def breaks(self) -> tuple[float, ...]:
        return tuple(i / len(self.heights) for i in range(len(self.heights) + 1))

    def __str__(self) -> str:
        return f"histogram({','.join(_number(h) for h in self.heights)})"


# Windows that carry a name: the paper's best one for likelihood tasks and for generation (its Tables 2 to 4).
NAMED: dict[str, MaskLaw] = {
    "uniform": Window(0, 1),
    "likelihood": Window(0.45, 0.55),
    "generation": Window(0.5, 1),
}

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def parse_law(text: str) -> MaskLaw:
    """The law that a text names; `parse_law(str(law)) == law` for every law."""
    parts = [part.strip() for part in re.split(r"(?<![0-9.][eE])\+", text.strip())]
    weighted = [_split_weight(part) for part in parts]
    if len(parts) == 1 and weighted[0][0] is None:
        return _parse_one(parts[0], text)
    if any(weight is None for weight, _ in weighted):
        raise UsageError(
            "every part of a mixture needs a weight",
            got=repr(text),
            fix="write for example 0.5*0-1 + 0.5*0.45-0.55",
        )
    return Mixture(tuple((weight or 0.0, _parse_one(law, text)) for weight, law in weighted))


def _split_weight(part: str) -> tuple[float | None, str]:
    match = re.fullmatch(rf"({_NUMBER})\s*\*\s*(.+)", part)
    return (float(match[1]), match[2].strip()) if match else (None, part)


def _parse_one(text: str, whole: str) -> MaskLaw:
    if text in NAMED:
        return NAMED[text]
    if re.fullmatch(_NUMBER, text):
        return Point(float(text))
    if match := re.fullmatch(rf"({_NUMBER})\s*-\s*({_NUMBER})", text):
        return Window(float(match[1]), float(match[2]))
    if match := re.fullmatch(r"([a-z]+)\((.*)\)", text):
        return _parse_call(match[1], match[2], whole)
    raise UsageError(
        "a mask law must be a window, a point, beta(a,b), normal(c,w), histogram(…), a mixture or a name",
        got=repr(whole),
        fix=nearest(text, [*NAMED, "0.45-0.55", "beta(2,2)"]),
    )


def _parse_call(name: str, inside: str, whole: str) -> MaskLaw:
    makers = {"beta": (Beta, 2), "normal": (TruncatedNormal, 2), "histogram": (None, None)}
    if name not in makers:
        raise UsageError("a mask law is called beta, normal or histogram", got=repr(whole), fix=nearest(name, makers))
    try:
        numbers = tuple(float(number) for number in inside.split(","))
    except ValueError:
        numbers = ()
    maker, arity = makers[name]
    if not numbers or any(math.isnan(x) for x in numbers) or (arity is not None and len(numbers) != arity):
        wanted = f"{arity} numbers" if arity else "numbers"
        raise UsageError(
            f"{name}(…) takes {wanted} separated by commas", got=repr(whole), fix=f"write {_EXAMPLE[name]}"
        )
    return maker(*numbers) if maker is not None else Histogram(numbers)


_EXAMPLE = {"beta": "beta(2,2)", "normal": "normal(0.5,0.1)", "histogram": "histogram(1,3,1)"}


def _number(x: float) -> str:
    return f"{float(x) + 0.0!r}".removesuffix(".0")  # + 0.0: a zero has no sign


def _can_be_shares(values: Sequence[float]) -> bool:
    return all(0 <= value < math.inf for value in values) and 0 < sum(values) < math.inf


def _power(t: FloatArray, a: int, b: int) -> FloatArray:
    """t^a (1-t)^b, where 1 - t would round away a small t that b then multiplies."""
    return np.asarray(np.exp(scipy.special.xlogy(a, t) + scipy.special.xlog1py(b, -t)), dtype=np.float64)


def _quadrature(lo: float, hi: float, a: int, b: int) -> tuple[FloatArray, FloatArray]:
    """Ratios, and weights that sum to one, for the mean over [lo, hi] of t^a (1-t)^b times something smooth.

    One panel of 64 Gauss-Legendre nodes is exact up to degree 127. A higher degree makes a narrow hump: panels then
    double in length away from its top, from the shortest length over which t^a (1-t)^b changes there.
    """
    cuts = np.array([lo, hi])
    degree = a + b
    if degree > 100:
        top = min(max(a / degree, lo), hi)
        # The slope of the logarithm there; nearer an end of [0, 1] it is the degree itself, or the power is 0.
        slope = abs(a - degree * top) / (top * (1 - top)) if 1e-9 < top < 1 - 1e-9 else 0.0
        finest = 1 / max(degree, slope)
        steps = finest * 2.0 ** np.arange(max(0, math.ceil(math.log2((hi - lo) / finest))))
        cuts = np.unique(np.clip(np.concatenate([[lo, top, hi], top - steps, top + steps]), lo, hi))
    x, w = _legendre()
    length = np.diff(cuts)[:, None]
    return (cuts[:-1, None] + length * x).ravel(), (length / (hi - lo) * w).ravel()


@lru_cache(maxsize=1)
def _legendre() -> tuple[FloatArray, FloatArray]:
    x, w = np.polynomial.legendre.leggauss(64)
    return (x + 1) / 2, w / 2


def _log_rising(over: float, under: float, num: int) -> float:
    """Σ_{i < num} log((over + i) / (under + i)), in blocks that fit in memory."""
    blocks = (np.arange(start, min(start + 2**20, num)) for start in range(0, num, 2**20))
    return float(sum(np.sum(np.log((over + i) / (under + i))) for i in blocks))
