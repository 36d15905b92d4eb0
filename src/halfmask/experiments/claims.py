"""Every claim of the paper that a computer can test, with its numbers, and the experiment that tests it.

An experiment that is named here and not in `EXPERIMENTS` has not been built: its claims are "not run".
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from halfmask.errors import UsageError, nearest
from halfmask.experiments.experiment import Experiment, Finding, Verdict
from halfmask.records import Record, Row

# name → module; imported when it is asked for.
EXPERIMENTS = {
    "optimal-laws": "halfmask.experiments.optimal_laws",
    "ngram-optimum": "halfmask.experiments.ngram_optimum",
    "effective-loss": "halfmask.experiments.effective_loss",
    "sample-complexity": "halfmask.experiments.sample_complexity",
    "signal-collapse": "halfmask.experiments.signal_collapse",
    "parity-windows": "halfmask.experiments.parity_windows",
    "parity-grokking": "halfmask.experiments.parity_grokking",
    "parity-uniform-attention": "halfmask.experiments.parity_uniform_attention",
    "parity-scaling": "halfmask.experiments.parity_scaling",  # these two go beyond the paper: no claims
    "parity-laws": "halfmask.experiments.parity_laws",
}


@dataclass(frozen=True)
class Claim:
    key: str
    experiment: str
    where: str  # in the paper
    statement: str
    paper: str  # the paper's number


def experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        planned = {claim.experiment for claim in CLAIMS}
        what = "has not been built yet" if name in planned else "is no experiment of the paper"
        raise UsageError(f"{name} {what}", got=name, fix=nearest(name, EXPERIMENTS))
    found: Experiment = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    return found


def all_claims(results: Path) -> Record:
    """Every claim with its verdict, from the largest scale of its experiment that has run."""
    found: dict[str, tuple[str, Finding]] = {}
    for name in EXPERIMENTS:
        chosen = experiment(name)
        if scale := chosen.largest_run(results):
            found.update({each.claim: (scale, each) for each in chosen.findings(results, scale)})
    rows: list[Row] = []
    for claim in CLAIMS:
        scale, finding = found.get(claim.key, (None, None))
        rows.append(
            {
                "experiment": claim.experiment,
                "verdict": str(finding.verdict if finding else Verdict.NOT_RUN),
                "scale": scale,
                "claim": claim.statement,
                "paper": claim.paper,
                "ours": finding.ours if finding else None,
                "n": finding.n if finding else None,
            }
        )
    note = f"Records are read from {results}/; halfmask paper run EXPERIMENT makes them."
    return Record("paper list", "The paper's claims", {"results": str(results)}, rows, [note])


def checked(name: str, findings: list[Finding], scale: str) -> Record:
    """The findings of one experiment beside what the paper says."""
    claims = {claim.key: claim for claim in CLAIMS}
    rows: list[Row] = [
        {
            "verdict": str(each.verdict),
            "claim": claims[each.claim].statement,
            "where": claims[each.claim].where,
            "paper": claims[each.claim].paper,
            "ours": each.ours,
            "n": each.n,
        }
        for each in findings
    ]
    return Record("paper check", f"{name} at scale {scale}", {"experiment": name, "scale": scale}, rows)


CLAIMS = [
    Claim(
        "signal-point",
        "optimal-laws",
        "Corollary 'Signal-Optimal Masking Rate'",
        "P_S is largest at the point 1/(k+1), where it falls to 1/e as k grows",
        "1/(k+1), 1/e",
    ),
    Claim(
        "signal-window",
        "optimal-laws",
        "Section 'Experiments on k-parity'",
        "for k = 6 and t0 = 0 the signal-optimal window is U[0, 0.246]",
        "0.246",
    ),
    Claim(
        "sample-window",
        "optimal-laws",
        "Corollary 'Sample Complexity-Optimal Masking Rate'",
        "for k > 1 the bound on N is least for t0 = 0 and t1 the root of the polynomial; for k = 1 any mean of 1/3",
        "root in (0, 1)",
    ),
    Claim(
        "ngram-weights",
        "ngram-optimum",
        "Appendix 'Why Does the Optimum Fall Near t ≈ 0.5?'",
        "the weights of orders 2 to 6 on WikiText",
        "0.7427, 0.2063, 0.0401, 0.0084, 0.0024",
    ),
    Claim(
        "ngram-ratio",
        "ngram-optimum",
        "Appendix 'Why Does the Optimum Fall Near t ≈ 0.5?'",
        "Signal(t) is largest at t* ≈ 0.46",
        "0.46",
    ),
    Claim(
        "ngram-quadratic",
        "ngram-optimum",
        "Appendix 'Why Does the Optimum Fall Near t ≈ 0.5?'",
        "with a quadratic signal, at t* ≈ 0.48",
        "0.48",
    ),
    Claim(
        "effective-loss",
        "effective-loss",
        "Theorem 'Effective Loss Decomposition'",
        "training loss and effective loss differ by a constant, for squared and cross-entropy loss",
        "constant",
    ),
    Claim(
        "sample-complexity",
        "sample-complexity",
        "Theorem 'Information-Theoretic Identifiability'",
        "4 log(4n/δ) / (E[t] E[(1-t)^k]²) samples identify the secret set with probability 1 - δ",
        "the bound",
    ),
    Claim(
        "collapse",
        "signal-collapse",
        "Corollary 'Feature Learning Collapse in Pure Signal Regime'",
        "with signal masks alone the energy is constant and its gradient vanishes",
        "∇E = 0",
    ),
    Claim(
        "parity-memorises",
        "parity-windows",
        "Section 'Experiments on k-parity'",
        "plain supervision reaches 100 % on the training set while held-out accuracy stays at chance",
        "100 %, 50 %",
    ),
    Claim(
        "parity-generalises",
        "parity-windows",
        "Section 'Experiments on k-parity'",
        "masked diffusion generalises together with training",
        "no delay",
    ),
    Claim(
        "parity-fastest",
        "parity-windows",
        "Section 'Experiments on k-parity'",
        "U[0, 0.2] and U[0, 0.3] learn fastest; U[0, 0.1] and U[0, 0.4] are slower or unstable",
        "near 0.246",
    ),
    Claim(
        "parity-grokking",
        "parity-grokking",
        "Appendix 'Learning parity by output supervision'",
        "plain supervision reaches 100 % held out in the end, after a far longer time",
        "100 %",
    ),
    Claim(
        "parity-uniform-attention",
        "parity-uniform-attention",
        "Appendix 'Learning Dynamics with Uniform Attention'",
        "with uniform attention the model still generalises without a plateau",
        "near 100 %",
    ),
    Claim(
        "sweep-u-shape",
        "window-sweep",
        "Section 'Locating the Signal-Rich Window'",
        "test loss against the middle of a window of width 0.1 is U-shaped, the ends worse than U[0, 1]",
        "U shape",
    ),
    Claim(
        "sweep-gain",
        "window-sweep",
        "Section 'Locating the Signal-Rich Window'",
        "the best windows, [0.4, 0.5] and [0.5, 0.6], beat U[0, 1] on the full interval",
        "3.62 against 3.88",
    ),
    Claim(
        "pretraining-loss",
        "llada-pretraining",
        "Section 'Pretraining'",
        "LLaDA-8B trained in [0.45, 0.55] has a lower held-out loss than under U[0, 1] over 15,000 steps",
        "lower",
    ),
    Claim(
        "pretraining-tasks",
        "llada-pretraining",
        "Table 'Downstream Task Evaluation (Pre-training)'",
        "and is better on HellaSwag and ARC-Easy",
        "0.400 against 0.354, 0.430 against 0.342",
    ),
    Claim(
        "sft-knowledge",
        "llada-sft",
        "Table 'Downstream Task Evaluation on PPL-based Discriminative Tasks (SFT)'",
        "fine-tuning in [0.45, 0.55] beats U[0, 1] on MMLU, MMLU-stem, ARC-Challenge and GPQA",
        "0.669, 0.635, 0.480, 0.402 against 0.659, 0.621, 0.468, 0.344",
    ),
    Claim(
        "sft-generation",
        "llada-sft",
        "Table 'Generative Task Performance vs. Masking Range'",
        "on GSM8K and MATH [0.5, 1] is best, and [0.45, 0.55] is no better than U[0, 1] on GSM8K",
        "0.785 and 0.375 against 0.768 and 0.341",
    ),
]
