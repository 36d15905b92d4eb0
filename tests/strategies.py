"""Laws for the tests: one list that names every kind, and hypothesis strategies that draw from all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from halfmask.laws import Beta, Histogram, MaskLaw, Mixture, Point, TruncatedNormal, Window

# Every kind of law, plain and at its edges. A new law is tested by standing here (and must: see test_laws.py).
LAWS: list[MaskLaw] = [
    Window(0, 1),
    Window(0.45, 0.55),
    Window(0.3, 0.3 + 1e-9),
    Window(0, 1e-5),
    Point(0),
    Point(0.15),
    Point(1),
    Beta(2, 2),
    Beta(2.5, 40),
    Beta(0.5, 0.5),
    Beta(0.3, 3),
    Beta(3, 0.3),
    Beta(1e6, 3e6),
    TruncatedNormal(0.5, 0.1),
    TruncatedNormal(0.9, 0.3),
    TruncatedNormal(0, 0.001),
    TruncatedNormal(0.4, 100),
    Histogram((1, 3, 1)),
    Histogram((0, 0.1 + 0.2, 0, 7, 0)),
    Mixture(((0.5, Window(0, 1)), (0.5, Window(0.45, 0.55)))),
    Mixture(((1, Point(0.2)), (2, Beta(0.5, 2)), (0, Point(0.9)), (3, TruncatedNormal(0.5, 0.02)))),
    Mixture(((0.25, Mixture(((0.5, Point(0)), (0.5, Histogram((1, 2)))))), (0.75, Window(0.1, 0.1 + 0.2)))),
]

ratios = st.floats(0, 1)


ends = st.tuples(ratios, ratios).map(sorted)
any_windows = ends.filter(lambda lo_hi: lo_hi[0] < lo_hi[1]).map(lambda lo_hi: Window(*lo_hi))
windows = ends.filter(lambda lo_hi: lo_hi[1] - lo_hi[0] > 1e-9).map(lambda lo_hi: Window(*lo_hi))
shapes = st.floats(0.05, 1e4)
weights = st.lists(st.floats(0, 1e3), min_size=1, max_size=4).filter(lambda values: sum(values) > 1e-3)
histograms = st.builds(Histogram, weights.map(tuple))
normals = st.builds(TruncatedNormal, ratios, st.floats(1e-3, 100))
simple_laws: st.SearchStrategy[MaskLaw] = st.one_of(
    windows, st.builds(Point, ratios), st.builds(Beta, shapes, shapes), normals, histograms
)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    parts = [(weight, draw(simple_laws)) for weight in draw(weights)]
    return Mixture(tuple(parts))


laws: st.SearchStrategy[MaskLaw] = st.one_of(simple_laws, mixtures())


@st.composite
def order_weights(draw: st.DrawFn) -> dict[int, float]:
    """Weights of n-gram orders, orders anywhere from 2 to 40."""
    orders = draw(st.lists(st.integers(2, 40), min_size=1, max_size=5, unique=True))
    return {order: draw(st.floats(0.01, 1)) for order in orders}
