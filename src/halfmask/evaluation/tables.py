"""What evaluation found as records: what `halfmask eval` prints, saves and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfmask.evaluation.bound import Bound
from halfmask.evaluation.exact import LONGEST, enumerate_bound, order_nll
from halfmask.evaluation.held_out import HeldOut, measure
from halfmask.evaluation.likelihood import Answer
from halfmask.evaluation.signal import GradientSignal
from halfmask.masking.corrupt import Batch
from halfmask.models.load import Loaded
from halfmask.records import Record, Row
from halfmask.theory.mixture import Weights, optimal_ratio, signal_curve

Z = 1.96  # of a 95 % interval
CURVE = np.linspace(0, 1, 401)

# One line of what errors mean stands under every table of bounds.
ERRORS = (
    "± is the standard error over rows, what other text of this kind would change; noise, what another seed would."
)


def bound(models: Sequence[Loaded], bounds: Sequence[Bound], held_out: HeldOut, settings: dict[str, Any]) -> Record:
    rows = []
    for model, found in zip(models, bounds, strict=True):
        mean = found.mean
        rows.append(
            {
                "model": model.name,
                "law": model.card.get("law"),
                "nats per token": mean.value,
                "±": mean.standard_error,
                "noise": mean.noise_error,
                "bits per token": mean.value / math.log(2),
                "bits per byte": mean.value / math.log(2) / held_out.bytes_per_token,
                "perplexity": math.exp(mean.value),
            }
        )
    return Record(
        name="eval bound",
        title=f"Full-interval bound on {_text(held_out, settings)}",
        settings=settings,
        rows=rows,
        notes=[ERRORS, "All are upper bounds: of the negative log-likelihood, and of the perplexity."],
        extra=_curves(models, bounds),
    )


def ratios(models: Sequence[Loaded], bounds: Sequence[Bound], held_out: HeldOut, settings: dict[str, Any]) -> Record:
    names = _distinct([model.name for model in models])
    curves = [each.curve for each in bounds]
    rows: list[Row] = []
    for at, ratio in enumerate(curves[0].ratio_B):
        half = 0.5 / len(curves[0].ratio_B)
        row: Row = {"ratio": f"{ratio - half:.3g}-{ratio + half:.3g}"}
        for name, curve in zip(names, curves, strict=True):
            row |= {name: float(curve.loss_B[at]), f"± {name}": float(curve.error_B[at])}
        rows.append(row)
    whole: Row = {"ratio": "0-1"}
    for name, mean in zip(names, [each.mean for each in bounds], strict=True):
        whole |= {name: mean.value, f"± {name}": mean.standard_error}
    rows.append(whole)
    return Record(
        name="eval ratios",
        title=f"Loss of hidden tokens by ratio on {_text(held_out, settings)}, nats",
        settings=settings,
        rows=rows,
        notes=["The last row is the bound: the mean over all ratios.", ERRORS],
        extra=_curves(models, bounds),
    )


def _curves(models: Sequence[Loaded], bounds: Sequence[Bound]) -> dict[str, Any]:
    curves = [each.curve for each in bounds]
    return {
        "ratio": curves[0].ratio_B,
        "names": _distinct([model.name for model in models]),
        "laws": [model.card.get("law") for model in models],
        "loss": [curve.loss_B for curve in curves],
        "error": [curve.error_B for curve in curves],
    }


def _distinct(names: Sequence[str]) -> list[str]:
    """Two models may be asked for by one name."""
    return [f"{name} ({at + 1})" if names.count(name) > 1 else name for at, name in enumerate(names)]


def _text(held_out: HeldOut, settings: dict[str, Any]) -> str:
    per = "documents cut to" if settings["per"] == "document" else "windows of"
    return f"{held_out.name}: {settings['rows']:,} rows, {per} {settings['length']} tokens"


def compare(models: Sequence[Loaded], bounds: Sequence[Bound], held_out: HeldOut, settings: dict[str, Any]) -> Record:
    names = _distinct([model.name for model in models])
    differences = [each.minus(bounds[0]) for each in bounds[1:]]
    rows = []
    for name, found in zip(names[1:], differences, strict=True):
        mean = found.mean
        decided = abs(mean.value) > Z * mean.standard_error
        rows.append(
            {
                "model": name,
                "nats per token": float(mean.value),
                "±": mean.standard_error,
                "noise": mean.noise_error,
                "better": (name if mean.value < 0 else names[0]) if decided else "not decided",
                "rows that decide": _needed(len(found.length_R), mean.standard_error, mean.value),
                "draws that decide": _needed(found.num_draws, mean.noise_error, mean.value),
            }
        )
    return Record(
        name="eval compare",
        title=f"Bound less that of {names[0]}, same noise, on {_text(held_out, settings)}",
        settings=settings,
        rows=rows,
        notes=[
            ERRORS,
            f"Rows that decide: as many, of {settings['draws']} draws each, give a difference of this size a 95 % "
            "interval without 0; draws that decide: of each of these rows, were they all the text that counts.",
        ],
        extra={"baseline": names[0], **_curves(models[1:], differences)},
    )


def _needed(num: int, error: float, difference: float) -> int | None:
    if difference == 0 or not math.isfinite(error):
        return None
    return max(1, math.ceil(num * (Z * error / difference) ** 2))


def exact(model: Loaded, rows: Batch, *, num_orders: int, num_draws: int, settings: dict[str, Any]) -> Record:
    """The bound of short rows by three routes."""
    sampled = measure(model, rows, num_draws=num_draws, seed=settings["seed"])
    random = np.random.default_rng(settings["seed"])
    found = []
    for at, tokens_T in enumerate(rows.tokens_BT):
        nll = [order_nll(model.denoiser, tokens_T, random.permutation(len(tokens_T))) for _ in range(num_orders)]
        found.append(
            {
                "row": at,
                "every set": enumerate_bound(model.denoiser, tokens_T),
                "chain rule": np.mean(nll) / len(tokens_T),
                "±": np.std(nll, ddof=1) / math.sqrt(num_orders) / len(tokens_T),
                "draws": float(sampled.estimate_RG[at].mean()),
            }
        )
    mean = sampled.mean
    return Record(
        name="eval exact",
        title=f"The bound of {len(found)} rows by three routes, nats per token",
        settings=settings,
        rows=found,
        notes=[
            f"Every set of hidden tokens, for rows of at most {LONGEST}; the mean over {num_orders} random orders of "
            f"the chain rule; {num_draws} draws, as eval bound takes them.",
            f"Mean over rows: {np.mean([row['every set'] for row in found]):.6f} exact, {mean.value:.6f} ± "
            f"{mean.noise_error:.6f} by draws.",
        ],
    )


def likelihood(
    questions: Sequence[dict[str, Any]], answers: Sequence[Answer], num_tokens: Sequence[Sequence[int]], settings: Any
) -> Record:
    rows = [
        {
            "question": number,
            "option": option,
            "tokens": tokens,
            "log p": float(log_p),
            "± noise": float(error),
            "per token": float(log_p) / tokens,
            "best": bool(place == int(np.argmax(answer.log_p_O))),
            "right": question.get("gold") == place if "gold" in question else None,
        }
        for number, (question, answer, sizes) in enumerate(zip(questions, answers, num_tokens, strict=True))
        for place, (option, log_p, error, tokens) in enumerate(
            zip(question["options"], answer.log_p_O, answer.error_O, sizes, strict=True)
        )
    ]
    notes = ["log p is what the bound grants the whole option, in nats; ± is 0 where every set was tried."]
    judged = [(question, answer) for question, answer in zip(questions, answers, strict=True) if "gold" in question]
    if judged:
        right = np.array([int(np.argmax(answer.log_p_O)) == question["gold"] for question, answer in judged])
        error = math.sqrt(right.mean() * (1 - right.mean()) / len(right))
        notes.append(f"{right.sum()} of {len(right)} questions right: {right.mean():.3f} ± {error:.3f}.")
    return Record("eval likelihood", "How likely each option is after its prompt", settings, rows, notes)


def signal(model: Loaded, found: GradientSignal, weights: Weights, source: str, settings: dict[str, Any]) -> Record:
    theory_B = signal_curve(found.ratio_B, weights)
    half = 0.5 / len(found.ratio_B)
    rows = [
        {
            "ratio": f"{ratio - half:.3g}-{ratio + half:.3g}",
            "signal to noise": float(found.snr_B[at]),
            "±": float(found.error_B[at]),
            "|E g|²": float(found.signal_B[at]),
            "noise of a row": float(found.noise_B[at]),
            "loss": float(found.loss_B[at]),
            "± ": float(found.loss_error_B[at]),
            "Signal(t)": float(theory_B[at] / theory_B.max()),
        }
        for at, ratio in enumerate(found.ratio_B)
    ]
    best = int(np.argmax(found.snr_B))
    return Record(
        name="eval signal",
        title=f"Gradient signal-to-noise of one row by ratio: {model.name}",
        settings=settings,
        rows=rows,
        notes=[
            "|E g|² / E|g − E g|² of the training loss at that ratio; ± by the jackknife over blocks of rows.",
            f"Highest at {rows[best]['ratio']}; Signal(t), relative to its highest bin, is that of {source}, whose t* "
            f"is {optimal_ratio(weights):.3f}.",
        ],
        extra={
            "ratio": found.ratio_B,
            "snr": found.snr_B,
            "error": found.error_B,
            "loss": found.loss_B,
            "loss error": found.loss_error_B,
            "curve ratio": CURVE,
            "curve": signal_curve(CURVE, weights),
            "t*": optimal_ratio(weights),
            "law": model.card.get("law"),
        },
    )
