"""The theory's answers as records: what `halfmask theory` prints, saves and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from halfmask.errors import UsageError
from halfmask.laws import Beta, MaskLaw, Point, Window, parse_law
from halfmask.records import Record
from halfmask.theory import energy as landscape_of
from halfmask.theory import identify as identification
from halfmask.theory import mixture as mixtures
from halfmask.theory import optimum as best
from halfmask.theory.signal import SIGNAL_LIMIT, regime_shares, signal_share, window_signal_share

Progress = Callable[[int, int], None] | None
CURVE = np.linspace(0, 1, 401)  # ratios at which curves are drawn


def signal(laws: Sequence[str], ks: Sequence[int]) -> Record:
    rows = []
    for k in ks:
        for law in map(parse_law, laws):
            shares = regime_shares(law, k)
            rows.append(
                {
                    "law": str(law),
                    "k": k,
                    "mean ratio": law.mean,
                    "P_S": shares.signal,
                    "P_N": shares.noise,
                    "under-determined": shares.under_determined,
                    "non-informative": shares.non_informative,
                }
            )
    return Record(
        name="theory signal",
        title="P_S = (k+1) E[t (1-t)^k]",
        settings={"laws": list(laws), "k": list(ks)},
        rows=rows,
        notes=[f"At the best point, t = 1/(k+1), P_S falls towards 1/e = {SIGNAL_LIMIT:.4f} as k grows."],
        extra={
            "ratio": CURVE,
            "curves": {k: window_signal_share(CURVE, CURVE, k) for k in ks},
            "limit": SIGNAL_LIMIT,
        },
    )


def optimum(k: int | None, weights: mixtures.Weights | None, t0: float, width: float, concentration: float) -> Record:
    if weights is None:
        assert k is not None
        weights = best.one_dependency(k)
    found: list[tuple[str, MaskLaw]] = [
        (
            "signal: best point, 1/(k+1)" if k is not None else "signal: best point",
            best.signal_optimal(weights),
        ),
        (f"signal: best t1 for t0 = {t0:g}", _window_or_point(t0, best.best_upper_end(t0, weights))),
        (f"signal: best window of width {width:g}", best.best_window(width, weights)),
        (f"signal: best beta, a + b = {concentration:g}", best.best_beta(weights, concentration)),
        (
            f"samples: best t1 for t0 = {t0:g}",
            _window_or_point(t0, best.best_upper_end(t0, weights, "samples")),
        ),
        (f"samples: best window of width {width:g}", best.best_window(width, weights, "samples")),
        (f"samples: best beta, a + b = {concentration:g}", best.best_beta(weights, concentration, "samples")),
    ]
    if k is not None and k >= 1:
        found.insert(4, ("samples: best uniform law", best.sample_optimal(k)))
    signal_column = "P_S" if k is not None else "mean P_S"
    rows = [
        {
            "goal and family": what,
            "law": _short(law),
            "mean ratio": law.mean,
            signal_column: best.score(law, weights),
            "E[t] E[(1-t)^k]²": best.score(law, weights, "samples"),
        }
        for what, law in found
    ]
    t1 = t0 + (1 - t0) * CURVE[1:]
    return Record(
        name="theory optimum",
        title=f"Optimal laws for k = {k}" if k is not None else "Optimal laws for a mixture of orders",
        settings={"weights": dict(weights), "t0": t0, "width": width, "concentration": concentration},
        rows=rows,
        notes=_optimum_notes(k),
        extra={
            "t1": t1,
            "signal": [best.score(_window_or_point(t0, each), weights) for each in t1],
            "samples": [best.score(_window_or_point(t0, each), weights, "samples") for each in t1],
            "best signal": best.best_upper_end(t0, weights),
            "best samples": best.best_upper_end(t0, weights, "samples"),
        },
    )


def _optimum_notes(k: int | None) -> list[str]:
    notes = ["A Beta law has a best member only for a given a + b: without it the best one is a point."]
    if k == 1:
        notes.append("k = 1: every window with mean 1/3 needs equally few samples; the widest is shown.")
    return notes


def _window_or_point(t0: float, t1: float) -> MaskLaw:
    return Window(t0, t1) if t1 > t0 else Point(t0)


def _short(law: MaskLaw) -> str:
    """A law's text with its numbers to four digits, for a table."""
    if isinstance(law, Window):
        return f"{law.lo:.4g}-{law.hi:.4g}"
    if isinstance(law, Beta):
        return f"beta({law.a:.4g},{law.b:.4g})"
    return f"{law.ratio:.4g}" if isinstance(law, Point) else str(law)


def identify(
    n: int,
    k: int,
    laws: Sequence[str],
    *,
    delta: float,
    samples: Sequence[int],
    trials: int,
    seed: int,
    biased: bool,
    progress: Progress = None,
) -> Record:
    rows, bounds, notes = [], {}, []
    for at, law in enumerate(map(parse_law, laws)):
        bound = identification.samples_needed(n, k, law, delta=delta)
        seen = identification.samples_needed(n, k, law, delta=delta, biased=True)
        bounds[str(law)] = used = seen if biased else bound
        sizes = list(samples) or _sizes_around(used)
        notes.append(f"{law}: bound N >= {bound:,.0f}; with the gap that the rows which hide a bit show, {seen:,.0f}")
        gap, gap_seen = (identification.visible_share(law, k, biased=each) for each in (False, True))
        if not biased and gap_seen <= gap / 2:
            notes.append(f"{law}: the proof's threshold lies beyond that gap, so it fails at every N (see --biased)")
        found = identification.simulate(
            n, k, law, sizes, trials=trials, seed=seed, biased=biased, progress=_part(progress, at, len(laws))
        )
        for rate in found:
            low, high = rate.interval
            row = {"law": str(law), "N": rate.num_samples, "N / bound": rate.num_samples / used}
            rows.append({**row, "success": rate.share, "low": low, "high": high, "trials": trials})
    return Record(
        name="theory identify",
        title=f"Identifying the secret set of ({n}, {k})-parity: share of data sets, Wilson 95 % interval",
        settings={
            "n": n,
            "k": k,
            "laws": list(laws),
            "delta": delta,
            "trials": trials,
            "seed": seed,
            "biased": biased,
        },
        rows=rows,
        notes=notes,
        extra={"bounds": bounds},
    )


def _sizes_around(bound: float) -> list[int]:
    """From a thousandth of the bound to the bound itself, kept to what a simulation can hold."""
    if bound == float("inf"):
        raise UsageError(
            "this law never shows a secret bit with the others visible",
            got="a bound of infinity",
            fix="use a law with ratios inside (0, 1)",
        )
    top = min(bound, 200_000.0)
    return sorted({max(4, round(top * share)) for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)})


def loss(
    n: int,
    k: int,
    law_text: str,
    kind: landscape_of.Loss,
    *,
    samples: Sequence[int],
    seed: int,
    progress: Progress = None,
) -> Record:
    law = parse_law(law_text)
    cases = landscape_of.all_cases(n, k, law)
    random = np.random.default_rng(seed)
    differences = []
    for _ in range(8):
        output = landscape_of.network_output(*landscape_of.random_network(n, 64, random, scale=2.0), cases)
        differences.append(
            landscape_of.training_loss(output, cases, kind) - landscape_of.effective_loss(output, cases, kind)
        )
    gaps = landscape_of.finite_gap(n, k, law, list(samples), loss=kind, seed=seed, progress=progress)
    return Record(
        name="theory loss",
        title=f"Training loss − effective loss on ({n}, {k})-parity, {kind}, law {law}",
        settings={"n": n, "k": k, "law": law_text, "loss": kind, "seed": seed},
        rows=[{"N": gap.num_samples, "gap spread": gap.spread} for gap in gaps],
        notes=[
            f"Over all {2**n} sequences and {2 ** (n + 1)} masks the difference is {differences[0]:.12f} for each of "
            f"{len(differences)} random networks, to within {np.ptp(differences):.1e}.",
            "On N drawn sequences it is constant in expectation only; the spread is over networks.",
        ],
        extra={"constant": differences[0], "range": float(np.ptp(differences)), "P_S": signal_share(law, k)},
    )


def energy(
    n: int,
    k: int,
    law_text: str,
    widths: Sequence[int],
    *,
    draws: int = 4,
    seed: int = 0,
    progress: Progress = None,
) -> Record:
    law = parse_law(law_text)
    if min(widths) < 1 or draws < 1:
        raise UsageError(
            "widths and draws must be 1 or more",
            got=f"widths {list(widths)}, draws {draws}",
            fix="give for example --width 32 128 256 --draws 4",
        )
    mixture = landscape_of.all_cases(n, k, law)
    if signal_share(law, k) <= 0:
        raise UsageError("this law has no signal masks", got=law_text, fix="use a law with ratios inside (0, 1)")
    kinds = {"signal and noise": mixture, "signal only": landscape_of.signal_only(mixture)}
    num_inputs = {masks: len(np.unique(cases.z_CE[cases.weight_C > 0], axis=0)) for masks, cases in kinds.items()}
    rows = []
    for at, width in enumerate(widths):
        random = np.random.default_rng([seed, width])
        draws_of_W = [landscape_of.random_network(n, width, random)[1] for _ in range(draws)]
        for masks, cases in kinds.items():
            found = [landscape_of.landscape(W, cases) for W in draws_of_W]
            energies = np.array([each.energy for each in found])
            rows.append(
                {
                    "width": width,
                    "masks": masks,
                    "E": energies.mean(),
                    "range over W": np.ptp(energies),
                    "ceiling": found[0].constant,
                    "E / ceiling": energies.mean() / found[0].constant,
                    "|∇E|": np.mean([np.linalg.norm(each.gradient_DE) for each in found]),
                    "distinct inputs": num_inputs[masks],
                }
            )
        if progress is not None:
            progress(at + 1, len(widths))
    return Record(
        name="theory energy",
        title=f"E(W) = c^T Σ^+ c on ({n}, {k})-parity, law {law}, over {draws} random W of each width",
        settings={"n": n, "k": k, "law": law_text, "widths": list(widths), "draws": draws, "seed": seed},
        rows=rows,
        notes=[
            f"P_S = {signal_share(law, k):.4f}. Minimised over v, the effective loss is ceiling − E.",
            "Where E reaches its ceiling it no longer depends on W: the landscape is flat and feature learning stops.",
            "Noise masks raise the width at which that happens; one that fits every input is flat with them too.",
        ],
    )


def mixture(weights: mixtures.Weights, share: float) -> Record:
    rows, curves = [], []
    for form, options in mixtures.FORMS.items():
        lo, hi = mixtures.signal_window(weights, share=share, **options)
        rows.append(
            {
                "form": form,
                "t*": mixtures.optimal_ratio(weights, **options),
                "window from": lo,
                "window to": hi,
            }
        )
        curve = mixtures.signal_curve(CURVE, weights, **options)
        curves.append(curve / curve.max())
    return Record(
        name="theory mixture",
        title="Signal(t) = Σ w_i t (1-t)^(i-1)",
        settings={"weights": dict(weights), "share": share},
        rows=rows,
        notes=[f"The window holds every ratio whose Signal is at least {share:g} of the maximum."],
        extra={"ratio": CURVE, "curves": curves},
    )


def _part(progress: Progress, at: int, parts: int) -> Progress:
    """The progress of one part of several."""
    if progress is None:
        return None
    return lambda done, total: progress(at * total + done, parts * total)
