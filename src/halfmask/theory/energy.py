"""Effective loss and energy landscape of the two-layer network, exact on small n.

Everything is a sum over *cases*: a sequence x' together with a mask m. `all_cases` enumerates all 2^n sequences and
all 2^(n+1) masks; `cases_of` takes the sequences of a finite data set instead. A case carries

    probability   P(x') · E_t[P(m | t)]
    weight        P(x') · E_t[P(m | t) / 2t], the factor of the training loss, exact because 1/t cancels against t^|M|

so that P_S E_S[ |M|/2t · g ] is the plain sum of weight · |M| · g over signal cases, and likewise for noise.

    cases ── training_loss, effective_loss     Theorem "Effective Loss Decomposition" and its cross-entropy form
          └─ landscape                         c(W), Σ(W) and E(W) = c^T Σ^+ c, Theorem "Energy Landscape"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from halfmask.errors import UsageError
from halfmask.laws import FloatArray, MaskLaw
from halfmask.theory.signal import Regime, check_parity, classify

Loss = Literal["squared", "cross-entropy"]
MAX_N = 8  # 2^8 sequences × 2^9 masks: 131,072 cases


@dataclass(frozen=True)
class Cases:
    """C cases of a task over T = n + 1 positions; the secret set is fixed."""

    secret: tuple[int, ...]  # S', the parity bit's position last
    sequence_CT: NDArray[np.int8]  # x', entries -1 and 1
    hidden_CT: NDArray[np.bool_]  # m
    probability_C: FloatArray
    weight_C: FloatArray  # 0 where nothing is hidden: such a case has no loss
    regime_C: NDArray[np.int8]

    @property
    def num_hidden_C(self) -> NDArray[np.int64]:  # |M|
        return np.asarray(self.hidden_CT.sum(axis=1), dtype=np.int64)

    @property
    def target_C(self) -> FloatArray:
        """f* = x'_j / |M| on signal cases (j the hidden secret position), 0 on noise."""
        hidden_secret_CK = self.hidden_CT[:, self.secret]
        bit_C = (self.sequence_CT[:, self.secret] * hidden_secret_CK).sum(axis=1)
        is_signal = self.regime_C == Regime.SIGNAL
        return np.where(is_signal, bit_C / np.maximum(self.num_hidden_C, 1), 0.0)

    @property
    def z_CE(self) -> FloatArray:
        """z̃: the sum over positions of the one-hot embedding e_{n'b+j} of value b (0 where hidden) at position j."""
        value_CT = np.where(self.hidden_CT, 0, self.sequence_CT) % 3  # -1 → 2: the paper's index is cyclic
        return np.concatenate([value_CT == value for value in range(3)], axis=1).astype(np.float64)


def parity_sequences(n: int, secret: tuple[int, ...]) -> NDArray[np.int8]:
    """All 2^n sequences x' = (x, y): bits -1 and 1, and their product over the secret input bits."""
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    x = (1 - 2 * bits).astype(np.int8)
    return np.concatenate([x, x[:, list(secret)].prod(axis=1, keepdims=True)], axis=1).astype(np.int8)


def all_cases(n: int, k: int, law: MaskLaw) -> Cases:
    """Every sequence and every mask of the (n, k) task; the first k input bits are the secret ones."""
    _check_enumerable(n, k)
    return cases_of(parity_sequences(n, tuple(range(k))), (*range(k), n), law)


def _check_enumerable(n: int, k: int) -> None:
    check_parity(n, k)
    if n > MAX_N:
        raise UsageError(
            f"exact enumeration is for n <= {MAX_N}",
            got=f"n = {n}",
            fix="use a smaller n, such as --n 6 --k 3",
        )


def cases_of(sequence_NT: NDArray[np.int8], secret: tuple[int, ...], law: MaskLaw) -> Cases:
    """The given sequences, equally likely, under every mask."""
    num_rows, T = sequence_NT.shape
    mask_MT = ((np.arange(2**T)[:, None] >> np.arange(T)) & 1).astype(bool)
    size_M = mask_MT.sum(axis=1)
    # P(m | t) = t^|M| (1-t)^(T-|M|): both factors are moments of the law.
    probability = np.array([law.moment(size, T - size) for size in range(T + 1)])
    weight = np.array([0.0] + [law.moment(size - 1, T - size) / 2 for size in range(1, T + 1)])
    # At t = 0 itself nothing is hidden and there is no loss, but t^0 in the moment counts it.
    weight[1] -= sum(share for ratio, share in law.atoms if ratio == 0) / 2
    return Cases(
        secret=secret,
        sequence_CT=np.repeat(sequence_NT, len(mask_MT), axis=0),
        hidden_CT=np.tile(mask_MT, (num_rows, 1)),
        probability_C=np.tile(probability[size_M] / num_rows, num_rows),
        weight_C=np.tile(weight[size_M] / num_rows, num_rows),
        regime_C=np.tile(classify(mask_MT, secret), num_rows),
    )


def signal_only(cases: Cases) -> Cases:
    """The pure signal regime: the same cases given that the mask is signal, so that P_N = 0."""
    keep = cases.regime_C == Regime.SIGNAL
    share = cases.probability_C[keep].sum()
    if share <= 0:
        raise UsageError("these cases hold no signal masks", got="P_S = 0", fix="use a law with ratios inside (0, 1)")
    return replace(
        cases,
        sequence_CT=cases.sequence_CT[keep],
        hidden_CT=cases.hidden_CT[keep],
        probability_C=cases.probability_C[keep] / share,
        weight_C=cases.weight_C[keep] / share,
        regime_C=cases.regime_C[keep],
    )


def training_loss(output_C: FloatArray, cases: Cases, loss: Loss = "squared") -> float:
    """E[ 1/2t Σ_{j in M} loss(f, x'_j) ] (eq. "original loss"), summed bit by bit."""
    output_C1 = output_C[:, None]
    if loss == "squared":
        per_bit_CT = (output_C1 - cases.sequence_CT) ** 2
    else:  # the output is a logit and the bits are 0 and 1
        bit_CT = (cases.sequence_CT + 1) / 2
        per_bit_CT = np.logaddexp(0.0, output_C1) - bit_CT * output_C1
    return float(np.sum(cases.weight_C * (per_bit_CT * cases.hidden_CT).sum(axis=1)))


def effective_loss_parts(output_C: FloatArray, cases: Cases, loss: Loss = "squared") -> tuple[float, float]:
    """The signal and the noise part of L_eff (eq. "eff loss"); for cross-entropy, of its KL form."""
    if loss == "squared":
        distance_C = (output_C - cases.target_C) ** 2
    else:
        # f*_S = (x'_j + (|M|-1)/2) / |M| with bits 0 and 1, which is (f* + 1)/2 in bits ±1; f*_N = 1/2 likewise.
        distance_C = _kl_to_logit((cases.target_C + 1) / 2, output_C)
    term_C = cases.weight_C * cases.num_hidden_C * distance_C
    is_signal = cases.regime_C == Regime.SIGNAL
    return float(term_C[is_signal].sum()), float(term_C[~is_signal].sum())


def effective_loss(output_C: FloatArray, cases: Cases, loss: Loss = "squared") -> float:
    return sum(effective_loss_parts(output_C, cases, loss))


def _kl_to_logit(p: FloatArray, logit: FloatArray) -> FloatArray:
    """D_KL(p || sigmoid(logit)) = BCE(p, sigmoid) - H(p)."""
    less_entropy = scipy.special.xlogy(p, p) + scipy.special.xlogy(1 - p, 1 - p)
    return np.asarray(np.logaddexp(0.0, logit) - p * logit + less_entropy, dtype=np.float64)


def features(W_DE: FloatArray, cases: Cases) -> FloatArray:
    """h(z̃) = ReLU(W z̃), a row for each case."""
    return np.maximum(cases.z_CE @ W_DE.T, 0.0)


def network_output(v_D: FloatArray, W_DE: FloatArray, cases: Cases) -> FloatArray:
    """f(z̃) = v^T ReLU(W z̃), the reduced model."""
    return features(W_DE, cases) @ v_D


def random_network(
    n: int, width: int, random: np.random.Generator, *, scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """v and W with independent normal entries; z̃ has n' ones, so the features are of order `scale`."""
    num_positions = n + 1
    W_DE = random.standard_normal((width, 3 * num_positions)) * scale / np.sqrt(num_positions)
    return random.standard_normal(width) / np.sqrt(width), W_DE


@dataclass(frozen=True)
class Landscape:
    """Σ(W), c(W) and what follows from them, at one W."""

    correlation_D: FloatArray  # c(W) = P_S E_S[ |M|/2t f* h ]
    covariance_DD: FloatArray  # Σ(W) = E[ |M|/2t h h^T ]
    readout_D: FloatArray  # v* = Σ^+ c, the minimum-norm optimum
    energy: float  # E(W) = c^T Σ^+ c
    constant: float  # P_S E_S[ |M|/2t f*² ]: min over v of L_eff is constant - energy
    gradient_DE: FloatArray  # ∇_W E(W)


def landscape(W_DE: FloatArray, cases: Cases) -> Landscape:
    """E(W) and its gradient (Theorem "Energy Landscape").

    With r = f* - v*·h the residual at the optimum, ∂E = 2 v*·∂c - v*^T ∂Σ v* gives
    ∇_W E = 2 Σ_cases weight |M| r (v* ⊙ h') z̃^T: where the optimum leaves no residual, the landscape is flat.
    """
    h_CD, target_C = features(W_DE, cases), cases.target_C
    scale_C = cases.weight_C * cases.num_hidden_C
    correlation_D = h_CD.T @ (scale_C * target_C)
    covariance_DD = (h_CD * scale_C[:, None]).T @ h_CD
    readout_D = np.linalg.pinv(covariance_DD, rcond=1e-12, hermitian=True) @ correlation_D
    residual_C = target_C - h_CD @ readout_D
    gradient_DE = 2 * readout_D[:, None] * (((scale_C * residual_C)[:, None] * (h_CD > 0)).T @ cases.z_CE)
    return Landscape(
        correlation_D=correlation_D,
        covariance_DD=covariance_DD,
        readout_D=readout_D,
        energy=float(correlation_D @ readout_D),
        constant=float(np.sum(scale_C * target_C**2)),
        gradient_DE=gradient_DE,
    )


@dataclass(frozen=True)
class Gap:
    """How far training loss minus effective loss is from a constant, on data sets of one size."""

    num_samples: int
    spread: float  # root mean square over data sets of the standard deviation over networks


def finite_gap(
    n: int,
    k: int,
    law: MaskLaw,
    num_samples: list[int],
    *,
    loss: Loss = "squared",
    datasets: int = 32,
    networks: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Gap]:
    """The theorem is exact over all inputs; on N drawn rows the difference moves with the parameters. By how much?"""
    _check_enumerable(n, k)
    if not num_samples or min(num_samples) < 1:
        raise UsageError("data sets need at least one row", got=num_samples, fix="give for example --samples 16 64")
    if datasets < 1 or networks < 2:
        raise UsageError(
            "a spread over networks needs at least one data set and two networks",
            got=f"datasets {datasets}, networks {networks}",
            fix="leave both at their defaults",
        )
    sequence_NT = parity_sequences(n, tuple(range(k)))
    gaps = []
    for at, size in enumerate(num_samples):
        random = np.random.default_rng([seed, n, k, size])
        variances = []
        for _ in range(datasets):
            cases = cases_of(sequence_NT[random.integers(0, len(sequence_NT), size)], (*range(k), n), law)
            outputs = [network_output(*random_network(n, 32, random), cases) for _ in range(networks)]
            variances.append(
                np.var([training_loss(f, cases, loss) - effective_loss(f, cases, loss) for f in outputs], ddof=1)
            )
        gaps.append(Gap(size, float(np.sqrt(np.mean(variances)))))
        if progress is not None:
            progress(at + 1, len(num_samples))
    return gaps
