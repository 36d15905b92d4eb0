"""What every law of the mask ratio must be: one contract, run over all of them; then how laws are read and written."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import halfmask
from halfmask.errors import UsageError
from halfmask.laws import NAMED, Beta, Histogram, MaskLaw, Mixture, Point, TruncatedNormal, Window, parse_law
from strategies import LAWS, any_windows, laws, mixtures

each_law = pytest.mark.parametrize("law", LAWS, ids=str)
MIDPOINTS = (np.arange(200_000) + 0.5) / 200_000
POWERS = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 6), (0, 7), (3, 4), (30, 2)]


def kinds(of: type[MaskLaw] = MaskLaw) -> Iterator[type[MaskLaw]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_kind_of_law_is_in_the_list() -> None:
    for module in pkgutil.iter_modules(halfmask.__path__, "halfmask."):
        if module.name not in ("halfmask.__main__", "halfmask.cli"):
            importlib.import_module(module.name)
    concrete = {kind for kind in kinds() if not kind.__abstractmethods__ and kind.__module__.startswith("halfmask")}
    assert concrete == {type(law) for law in LAWS}


def integral(law: MaskLaw, a: int, b: int) -> float:
    """E[t^a (1-t)^b] by adaptive quadrature of the density, plus the atoms.

    Written apart from the law's own: quad's weight `alg` takes a Beta's ends out of the integrand, a mixture goes
    part by part, and a narrow hump is found because the pieces end where the law's bulk does.
    """
    if isinstance(law, Mixture):
        return sum(weight * integral(part, a, b) for weight, part in law.parts)
    if isinstance(law, Beta):
        # t^(a+α-1) (1-t)^(b+β-1) is integrated over the bulk and over what is left and right of it.
        lo, hi = law.from_uniform([1e-12, 1 - 1e-12])
        middle = float(law.from_uniform(0.5))
        inside = quad(lambda t: float(law.density(t)) * t**a * (1 - t) ** b, middle, hi, limit=500)[0]
        inside += quad(lambda t: float(law.density(t)) * t**a * (1 - t) ** b, lo, middle, limit=500)[0]
        return float(inside)
    total = sum(p * t**a * (1 - t) ** b for t, p in law.atoms)
    for lo, hi in pairwise(law.breaks):
        total += quad(lambda t: float(law.density(t)) * t**a * (1 - t) ** b, lo, hi, epsabs=1e-14, limit=200)[0]
    return float(total)


@each_law
def test_density_and_atoms_hold_all_probability(law: MaskLaw) -> None:
    assert sum(p for _, p in law.atoms) <= 1 + 1e-12
    assert integral(law, 0, 0) == pytest.approx(1, abs=1e-8)
    lo, hi = law.support
    outside = np.array([-0.5, lo - 1e-6, hi + 1e-6, 1.5])
    assert np.all(law.density(outside) == 0)
    assert all(lo <= t <= hi for t, _ in law.atoms)


@each_law
def test_moments_are_the_integrals_of_the_density(law: MaskLaw) -> None:
    for a, b in POWERS:
        assert law.moment(a, b) == pytest.approx(integral(law, a, b), rel=1e-7, abs=1e-11), (a, b)
    assert law.mean == pytest.approx(integral(law, 1, 0), rel=1e-7, abs=1e-11)
    spread = integral(law, 2, 0) - integral(law, 1, 0) ** 2
    assert law.variance == pytest.approx(spread, rel=1e-6, abs=1e-9)


@each_law
def test_samples_have_the_moments_and_lie_in_the_support(law: MaskLaw) -> None:
    t = law.from_uniform(MIDPOINTS)
    lo, hi = law.support
    assert t.shape == MIDPOINTS.shape and t.dtype == np.float64
    assert np.all((t >= lo) & (t <= hi))
    for a, b in POWERS:
        assert np.mean(t**a * (1 - t) ** b) == pytest.approx(law.moment(a, b), abs=3e-5), (a, b)
    assert np.var(t) == pytest.approx(law.variance, abs=3e-5)
    ends = law.from_uniform(np.array([0.0, 1e-300, 2.0**-53, 1 - 1e-12, np.nextafter(1, 0)]))
    assert np.all((ends >= lo) & (ends <= hi))


@each_law
def test_samples_rise_with_the_uniform_numbers(law: MaskLaw) -> None:
    t = law.from_uniform(MIDPOINTS[::50])
    parts = law.parts if isinstance(law, Mixture) else ((1.0, law),)
    part_of = np.searchsorted(np.cumsum([weight for weight, _ in parts])[:-1], MIDPOINTS[::50], side="right")
    for i in range(len(parts)):  # a mixture rises within each part
        assert np.all(np.diff(t[part_of == i]) >= 0)


@each_law
def test_strata_are_strata_of_the_law(law: MaskLaw) -> None:
    t = law.stratified(64, 0.25)
    assert np.array_equal(t, law.from_uniform((np.arange(64) + 0.25) / 64))
    assert np.mean(t) == pytest.approx(law.mean, abs=1 / 64)


@given(laws, st.floats(0, 1, exclude_max=True))
def test_any_law_keeps_to_its_support_and_its_text(law: MaskLaw, u: float) -> None:
    lo, hi = law.support
    assert 0 <= lo <= float(law.from_uniform(u)) <= hi <= 1
    assert parse_law(str(law)) == law


@settings(deadline=None)
@given(laws)
def test_any_law_has_ordered_moments(law: MaskLaw) -> None:
    """1 = E[1] >= E[t] >= E[t²], E[t] + E[1-t] = 1, and Pascal's rule one step down, for every k."""
    assert law.moment(0, 0) == pytest.approx(1, abs=1e-9)
    assert law.moment(1) + law.moment(0, 1) == pytest.approx(1, abs=1e-9)
    for a, b in [(0, 0), (1, 5), (4, 0), (2, 99), (0, 1000), (700, 300), (1, 100_000)]:
        split = law.moment(a + 1, b) + law.moment(a, b + 1)
        assert law.moment(a, b) == pytest.approx(split, rel=1e-8, abs=1e-14), (a, b)
    assert 0 <= law.variance <= law.mean * (1 - law.mean) + 1e-12


@pytest.mark.parametrize("k", [10, 1_000, 100_000])
def test_high_degrees_against_closed_forms(k: int) -> None:
    """Where quadrature is hard: t (1-t)^k is a hump of width 1/k at 1/k."""
    assert Window(0, 1).moment(1, k) == pytest.approx(1 / ((k + 1) * (k + 2)), rel=1e-11)
    assert Window(0, 1).moment(k, 1) == pytest.approx(1 / ((k + 1) * (k + 2)), rel=1e-9)
    assert Window(0, 1).moment(0, k) == pytest.approx(1 / (k + 1), rel=1e-11)
    t1 = 1 / k
    whole = 1 - (1 - t1) ** (k + 1) * (1 + (k + 1) * t1)  # of ∫ t (1-t)^k dt = -(1-t)^(k+1) (1 + (k+1) t) / …
    assert Window(0, t1).moment(1, k) * t1 == pytest.approx(whole / ((k + 1) * (k + 2)), rel=1e-9)
    assert Histogram((1, 1, 1)).moment(1, k) == pytest.approx(1 / ((k + 1) * (k + 2)), rel=1e-11)
    assert Beta(1, 1).moment(1, k) == pytest.approx(1 / ((k + 1) * (k + 2)), rel=1e-11)
    assert Beta(2, 2).moment(1, k) == pytest.approx(12 / ((k + 2) * (k + 3) * (k + 4)), rel=1e-11)
    assert Mixture(((1, Window(0, 1)), (3, Point(0)))).moment(0, k) == pytest.approx(0.75 + 0.25 / (k + 1), rel=1e-11)
    bell = TruncatedNormal(0, 0.001)  # against a sum over a fine grid
    t = (np.arange(2_000_000) + 0.5) / 2_000_000 * 0.02
    by_sum = np.sum(t * np.exp(k * np.log1p(-t) - t**2 / 2e-6)) / np.sum(np.exp(-(t**2) / 2e-6))
    assert bell.moment(1, k) == pytest.approx(by_sum, rel=1e-6)


@pytest.mark.parametrize("a, b", [(0.5, 0.5), (0.2, 4), (4, 0.2), (1e-6, 1e-6), (1e9, 1e9)])
def test_beta_moments_are_products_of_rational_numbers(a: float, b: float) -> None:
    law = Beta(a, b)
    assert law.mean == pytest.approx(a / (a + b), rel=1e-13)
    assert law.moment(2) == pytest.approx(a * (a + 1) / ((a + b) * (a + b + 1)), rel=1e-13)
    assert law.moment(1, 2) == pytest.approx(a * b * (b + 1) / ((a + b) * (a + b + 1) * (a + b + 2)), rel=1e-13)


def test_a_narrow_window_is_nearly_a_point() -> None:
    narrow = Window(0.3, 0.3 + 1e-12)
    assert narrow.moment(1, 50) == pytest.approx(Point(0.3).moment(1, 50), rel=1e-9)
    assert narrow.variance == pytest.approx(1e-24 / 12, rel=1e-3)
    assert Mixture(((0.5, Point(0)), (0.5, Point(1)))).variance == 0.25


# Reading and writing


@each_law
def test_text_and_back(law: MaskLaw) -> None:
    assert parse_law(str(law)) == law
    assert parse_law(f"  {law} ") == law


@settings(max_examples=300)
@given(any_windows | mixtures())
@example(Window(1e-17, 0.1 + 0.2))
@example(Window(0, 5e-324))
@example(Window(-0.0, 1e-10))
@example(Mixture(((1e-17, Window(1e-17, 1e-5)), (1e22, Point(1e-9)))))
@example(Mixture(((0.1 + 0.2, Beta(1e-7, 2.5e8)), (0.7, Histogram((1e22, 1e-300))))))
def test_awkward_numbers_survive(law: MaskLaw) -> None:
    assert parse_law(str(law)) == law


@pytest.mark.parametrize(
    "text, law",
    [
        ("0.45-0.55", Window(0.45, 0.55)),
        ("1e-3 - 2e-3", Window(0.001, 0.002)),
        ("1e-17-1E-3", Window(1e-17, 0.001)),
        (".5-1.", Window(0.5, 1)),
        ("1e-3", Point(0.001)),
        ("0", Point(0)),
        ("beta( 2, 0.5 )", Beta(2, 0.5)),
        ("normal(0.5,1e-2)", TruncatedNormal(0.5, 0.01)),
        ("histogram(1,3e+0,1)", Histogram((1, 3, 1))),
        ("0.5*0-1+0.5*uniform", Mixture(((0.5, Window(0, 1)), (0.5, Window(0, 1))))),
        ("1e+0*0.2 + 3 * generation", Mixture(((0.25, Point(0.2)), (0.75, Window(0.5, 1))))),
        *NAMED.items(),
    ],
)
def test_what_can_be_written(text: str, law: MaskLaw) -> None:
    assert parse_law(text) == law


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "a mask law must be"),
        ("  ", "a mask law must be"),
        ("nan", "a mask law must be"),
        ("inf", "a mask law must be"),
        ("nonsense", "a mask law must be"),
        ("-", "a mask law must be"),
        ("-0.3", "a mask law must be"),
        ("0.3-", "a mask law must be"),
        ("1e-", "a mask law must be"),
        ("0-nan", "a mask law must be"),
        ("likelyhood", "did you mean likelihood?"),
        ("1e999", "must lie in [0, 1], got inf"),
        ("1.5", "must lie in [0, 1], got 1.5"),
        ("0.6-0.3", "got 0.6-0.3: swap the two ends"),
        ("0.3-0.3", "got 0.3-0.3: write 0.3 for the point"),
        ("0.30000000000000004-0.3", "got 0.30000000000000004-0.3"),
        ("45-55", "0 <= lo < hi <= 1, got 45-55"),
        ("beta(2)", "takes 2 numbers"),
        ("beta(2,)", "takes 2 numbers"),
        ("beta(nan,2)", "takes 2 numbers"),
        ("beta(inf,2)", "got beta(inf,2)"),
        ("beta(0,2)", "above 0"),
        ("beta(-1,2)", "above 0"),
        ("bata(2,2)", "did you mean beta?"),
        ("normal(0.5,0)", "a width in [0.001, 100]"),
        ("normal(0.5,1e9)", "write 0-1 for the uniform law"),
        ("normal(2,0.1)", "a centre in [0, 1]"),
        ("histogram()", "takes numbers"),
        ("histogram(0,0)", "not all zero"),
        ("histogram(1,-1)", "non-negative"),
        ("histogram(1,inf)", "finite"),
        ("histogram(1e308,1e308)", "finite"),
        ("0.5*0-1 +", "every part of a mixture needs a weight"),
        ("0-1 + 0.5*0.2", "every part of a mixture needs a weight"),
        ("0*0-1 + 0*0.5", "not all zero"),
        ("1e999*0-1 + 1*0.5", "finite"),
        ("0.5*nonsense + 0.5*0-1", "a mask law must be"),
        ("0.5*0.5*0-1", "a mask law must be"),
    ],
)
def test_nonsense_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_law(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.1, 1.1])
def test_no_law_takes_a_number_that_is_no_ratio(bad: float) -> None:
    for make in (
        lambda: Point(bad),
        lambda: Window(bad, 0.5),
        lambda: Window(0.5, bad),
        lambda: TruncatedNormal(bad, 0.1),
        lambda: Beta(2, -abs(bad)),
        lambda: Histogram((1, -abs(bad))),
        lambda: Mixture(((-abs(bad), Point(0.5)), (1, Point(0.1)))),
    ):
        with pytest.raises(UsageError):
            make()
    for make in (lambda: Histogram(()), lambda: Mixture(())):
        with pytest.raises(UsageError):
            make()


def test_mixtures_are_normalised_and_flat() -> None:
    inner = Mixture(((1, Point(0.1)), (3, Point(0.2))))
    assert inner.parts == ((0.25, Point(0.1)), (0.75, Point(0.2)))
    assert Mixture(((0.5, inner), (0.5, Point(0.3)))).parts == (
        (0.125, Point(0.1)),
        (0.375, Point(0.2)),
        (0.5, Point(0.3)),
    )
