"""P_S over 200 × 200 windows for ten values of k: whole arrays in closed form, against one window at a time."""

from __future__ import annotations

import argparse

import numpy as np
from scipy.integrate import quad

from bench import Result, best_time, main
from halfmask.theory.signal import window_signal_share

KS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 50)
SIDE = 200
LIMIT_S = 1.0  # what the whole grid may take


def measure(arguments: argparse.Namespace) -> list[Result]:
    t0, width = np.meshgrid(np.linspace(0, 0.999, SIDE), np.linspace(0.001, 1, SIDE), indexing="ij")
    t1 = np.minimum(t0 + width, 1.0)

    def grid() -> list[np.ndarray]:
        return [window_signal_share(t0, t1, k) for k in KS]

    shares = grid()
    ours_s = best_time(grid, repeats=5)

    some = np.random.default_rng(0).choice(SIDE * SIDE, size=200, replace=False)  # a sample: the loop is slow

    def one_by_one() -> list[list[float]]:
        return [[_by_quadrature(t0.flat[i], t1.flat[i], k) for i in some] for k in KS]

    worst = max(
        float(np.max(np.abs(np.array(slow) - fast.flat[some])))
        for slow, fast in zip(one_by_one(), shares, strict=True)
    )
    assert worst < 1e-9, f"the two routes differ by {worst}"
    loop_s = best_time(one_by_one, repeats=1) * t0.size / len(some)
    return [
        Result(
            "the whole grid against a second",
            f"{ours_s * 1e3:.1f} ms",
            f"{LIMIT_S:g} s",
            LIMIT_S / ours_s,
            1.0,
        ),
        Result(
            "closed form against scipy's quad, window by window",
            f"{ours_s * 1e3:.1f} ms",
            f"{loop_s:.0f} s (scaled up from {len(some)} windows)",
            loop_s / ours_s,
            20.0,
        ),
    ]


def _by_quadrature(t0: float, t1: float, k: int) -> float:
    integral, _ = quad(lambda t: t * (1 - t) ** k, t0, t1)
    return float((k + 1) * integral / (t1 - t0))


if __name__ == "__main__":
    main(measure, __doc__)
