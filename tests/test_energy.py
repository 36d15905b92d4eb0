"""Effective loss and energy: the theorem to the last digits, against loops over its definition and drawn masks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize

from halfmask.laws import Beta, Histogram, MaskLaw, Mixture, Point, TruncatedNormal, Window
from halfmask.theory.energy import (
    Cases,
    Loss,
    all_cases,
    cases_of,
    effective_loss,
    effective_loss_parts,
    features,
    finite_gap,
    landscape,
    network_output,
    parity_sequences,
    random_network,
    signal_only,
    training_loss,
)
from halfmask.theory.signal import Regime, classify, noise_share, signal_share
from reference import Mask, all_masks, drawn_masks, mask_chance, refused, regime_of

Network = tuple[np.ndarray, np.ndarray]  # v and W
LOSSES: list[Loss] = ["squared", "cross-entropy"]
each_loss = pytest.mark.parametrize("loss", LOSSES)
TASKS = [(4, 2), (5, 3), (6, 3)]
each_task = pytest.mark.parametrize("n, k", TASKS)
LAWS = [
    Window(0, 1),
    Window(0.1, 0.3),
    Point(0.3),
    Point(1),
    Beta(2, 5),
    Beta(0.5, 0.5),
    TruncatedNormal(0.5, 0.1),
    Histogram((1, 3, 1)),
    Mixture(((0.5, Window(0, 1)), (0.3, Point(0.15)), (0.2, Beta(2, 2)))),
    Mixture(((0.4, Point(0)), (0.6, Window(0.2, 0.6)))),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=str)


# Loops over the definitions


def nodes(law: MaskLaw) -> list[tuple[float, float]]:
    """(t, probability) that integrate powers of t exactly."""
    if isinstance(law, Mixture):
        return [(t, weight * p) for weight, part in law.parts for t, p in nodes(part)]
    x, w = np.polynomial.legendre.leggauss(40)
    found = list(law.atoms)
    for lo, hi in pairwise(law.breaks) if not law.atoms else ():
        t = lo + (hi - lo) * (x + 1) / 2
        found += zip(t.tolist(), (law.density(t) * w * (hi - lo) / 2).tolist(), strict=True)
    return found


def sequences(n: int, k: int) -> list[tuple[int, ...]]:
    return [(*bits, math.prod(bits[:k])) for bits in product([1, -1], repeat=n)]


def embed(sequence: tuple[int, ...], mask: Mask) -> np.ndarray:
    """z̃ = Σ_j e_{n'b+j} with b the visible value or 0, positions counted from 1, the index cyclic."""
    num = len(sequence)
    z = np.zeros(3 * num)
    for j, (value, hidden) in enumerate(zip(sequence, mask, strict=True), start=1):
        b = 0 if hidden else value
        z[(num * b + j) % (3 * num) - 1] += 1
    return z


def each_case(n: int, k: int, law: MaskLaw) -> Iterator[tuple[tuple[int, ...], Mask, float, float]]:
    """(x', m, probability, E_t[P(x', m, t) / 2t])."""
    for mask in all_masks(n + 1):
        size = sum(mask)
        chances = [(t, p * t**size * (1 - t) ** (n + 1 - size)) for t, p in nodes(law)]
        probability = sum(chance for _, chance in chances)
        # Where nothing is hidden nothing is lost; at t = 0 nothing ever is.
        factor = sum(chance / (2 * t) for t, chance in chances if t > 0) if size else 0.0
        for sequence in sequences(n, k):
            yield sequence, mask, probability / 2**n, factor / 2**n


def bce(p: float, q: float) -> float:
    return -p * math.log(q) - (1 - p) * math.log(1 - q)


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def losses_by_loops(n: int, k: int, law: MaskLaw, loss: Loss, network: Network) -> dict[str, float]:
    """Training loss, and both parts of the effective loss as the theorem writes them: P_R · E[… | R]."""
    secret = (*range(k), n)
    training = 0.0
    share, total = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
    for sequence, mask, probability, factor in each_case(n, k, law):
        v, W = network
        f = float(v @ np.maximum(W @ embed(sequence, mask), 0))
        hidden = [j for j in range(n + 1) if mask[j]]
        bits = [(sequence[j] + 1) / 2 for j in hidden]
        is_signal = regime_of(mask, secret) == Regime.SIGNAL
        share[is_signal] += probability
        if not hidden:
            continue
        known = [sequence[j] for j in hidden if j in secret]
        if loss == "squared":
            training += factor * sum((f - sequence[j]) ** 2 for j in hidden)
            distance = (f - known[0] / len(hidden)) ** 2 if is_signal else f**2
        else:
            training += factor * sum(bce(bit, sigmoid(f)) for bit in bits)
            target = ((known[0] + 1) / 2 + (len(hidden) - 1) / 2) / len(hidden) if is_signal else 0.5
            entropy = bce(target, target) if 0 < target < 1 else 0.0
            distance = bce(target, sigmoid(f)) - entropy
        total[is_signal] += factor * len(hidden) * distance
    conditional = {which: total[which] / share[which] if share[which] > 0 else 0.0 for which in share}
    return {
        "training": training,
        "signal": signal_share(law, k) * conditional[True],
        "noise": noise_share(law, k) * conditional[False],
    }


def drawn_network(n: int, width: int, seed: int) -> Network:
    return random_network(n, width, np.random.default_rng(seed))


# Cases


@each_task
def test_cases_are_all_sequences_under_all_masks(n: int, k: int) -> None:
    law = Beta(2, 5)
    cases = all_cases(n, k, law)
    secret = (*range(k), n)
    assert cases.secret == secret
    found = {}
    for i in range(len(cases.probability_C)):
        key = tuple(cases.sequence_CT[i].tolist()), tuple(cases.hidden_CT[i].tolist())
        found[key] = cases.probability_C[i], cases.weight_C[i]
        assert cases.regime_C[i] == regime_of(key[1], secret)
    wanted = {(x, m): (probability, factor) for x, m, probability, factor in each_case(n, k, law)}
    assert found.keys() == wanted.keys() and len(found) == len(cases.probability_C) == 2 ** (2 * n + 1)
    for key, values in wanted.items():
        assert found[key] == pytest.approx(values, rel=1e-9)


@each_law
def test_probabilities_of_cases_are_those_of_masks(law: MaskLaw) -> None:
    n, k = 4, 2
    cases = all_cases(n, k, law)
    assert cases.probability_C.sum() == pytest.approx(1, rel=1e-9)
    signal = cases.probability_C[cases.regime_C == Regime.SIGNAL].sum()
    assert signal == pytest.approx(signal_share(law, k), rel=1e-9, abs=1e-15)
    for size in range(n + 2):
        of_size = cases.probability_C[cases.num_hidden_C == size]
        assert of_size == pytest.approx(mask_chance(law, size, n + 1) / 2**n, rel=1e-6, abs=1e-12)
    assert np.all(cases.weight_C >= 0) and np.all(cases.weight_C[cases.num_hidden_C == 0] == 0)
    # E[|M| / 2t] = n'/2 of the rows whose ratio is above 0; rows at 0 hide nothing and cannot be lost on.
    above_0 = 1 - sum(p for t, p in law.atoms if t == 0)
    assert (cases.weight_C * cases.num_hidden_C).sum() == pytest.approx(above_0 * (n + 1) / 2, rel=1e-9)


def test_targets_and_embeddings_are_those_of_the_paper() -> None:
    cases = all_cases(4, 2, Window(0, 0.5))
    target_C, z_CE = cases.target_C, cases.z_CE
    assert z_CE.shape == (512, 15)
    for i in range(len(target_C)):
        sequence, mask = tuple(cases.sequence_CT[i].tolist()), tuple(cases.hidden_CT[i].tolist())
        assert np.array_equal(z_CE[i], embed(sequence, mask))
        known = [sequence[j] for j in (0, 1, 4) if mask[j]]
        assert target_C[i] == pytest.approx(known[0] / sum(mask) if len(known) == 1 else 0)


def test_sequences_hold_each_input_once_and_its_parity() -> None:
    found = parity_sequences(5, (1, 3, 4))
    assert found.shape == (32, 6) and found.dtype == np.int8
    assert set(map(tuple, found[:, :5].tolist())) == set(product([-1, 1], repeat=5))
    for x in found.tolist():
        assert x[5] == x[1] * x[3] * x[4]


# The theorem: training loss minus effective loss does not depend on the parameters


@each_task
@each_law
@each_loss
def test_the_difference_is_a_constant(n: int, k: int, law: MaskLaw, loss: Loss) -> None:
    cases = all_cases(n, k, law)
    _, which_input, num = np.unique(cases.z_CE, axis=0, return_inverse=True, return_counts=True)
    random = np.random.default_rng([n, k])
    outputs = [np.zeros(len(which_input))]
    outputs += [network_output(*random_network(n, 16, random, scale=scale), cases) for scale in (0.1, 1.0, 2.0)]
    outputs += [random.standard_normal(len(num))[which_input] for _ in range(2)]  # any function of what is visible
    losses = np.array([training_loss(f, cases, loss) for f in outputs])
    differences = losses - [effective_loss(f, cases, loss) for f in outputs]
    assert np.ptp(losses) > 1e-2 and np.ptp(differences) <= 1e-12 * max(1, losses.max())
    scale_C = cases.weight_C * cases.num_hidden_C
    if loss == "squared":
        # Σ_j x'_j² = |M|, less |M| f*², which is what f = f* would still lose of the loss's own constant
        constant = np.sum(scale_C * (1 - cases.target_C**2))
    else:
        p = np.clip((cases.target_C + 1) / 2, 1e-300, 1)
        q = np.clip(1 - p, 1e-300, 1)
        constant = -np.sum(scale_C * (p * np.log(p) + q * np.log(q)))  # the entropy of the targets
    assert differences == pytest.approx(constant, rel=1e-12, abs=1e-12)


@each_loss
def test_an_output_that_sees_a_hidden_bit_breaks_it(loss: Loss) -> None:
    cases = all_cases(4, 2, Window(0.1, 0.5))
    peeking = cases.sequence_CT[:, 0].astype(float)
    constant = training_loss(0 * peeking, cases, loss) - effective_loss(0 * peeking, cases, loss)
    assert abs(training_loss(peeking, cases, loss) - effective_loss(peeking, cases, loss) - constant) > 1e-3


# Without the law of infinite density, which `nodes` do not integrate.
@pytest.mark.parametrize("law", [law for law in LAWS if law != Beta(0.5, 0.5)], ids=str)
@each_loss
def test_losses_are_those_of_loops_over_the_definition(law: MaskLaw, loss: Loss) -> None:
    n, k = 3, 2
    v, W = drawn_network(n, 6, seed=3)
    cases = all_cases(n, k, law)
    output = network_output(v, W, cases)
    wanted = losses_by_loops(n, k, law, loss, (v, W))
    signal, noise = effective_loss_parts(output, cases, loss)
    assert training_loss(output, cases, loss) == pytest.approx(wanted["training"], rel=1e-9, abs=1e-13)
    assert (signal, noise) == pytest.approx((wanted["signal"], wanted["noise"]), rel=1e-9, abs=1e-13)
    assert effective_loss(output, cases, loss) == pytest.approx(wanted["signal"] + wanted["noise"], rel=1e-9)


@each_loss
@pytest.mark.parametrize("law", [Window(0.1, 0.5), Point(0.3), Beta(4, 6), LAWS[-1]], ids=str)
def test_losses_are_those_of_drawn_masks(law: MaskLaw, loss: Loss) -> None:
    n, k, num = 4, 2, 100_000
    v, W = drawn_network(n, 6, seed=4)
    t, hidden = drawn_masks(law, num, n + 1, seed=5)
    x = np.random.default_rng(6).choice([-1, 1], (num, n))
    x = np.concatenate([x, x[:, :k].prod(axis=1, keepdims=True)], axis=1)
    table = np.eye(3 * (n + 1))
    z = sum(table[np.where(hidden[:, j], j, np.where(x[:, j] == 1, n + 1 + j, 2 * (n + 1) + j))] for j in range(n + 1))
    f = np.maximum(z @ W.T, 0) @ v
    size, secret = hidden.sum(axis=1), [*range(k), n]
    is_signal = hidden[:, secret].sum(axis=1) == 1
    known = np.where(is_signal, (x * hidden)[:, secret].sum(axis=1), 0) / np.maximum(size, 1)
    if loss == "squared":
        per_bit, distance = (f[:, None] - x) ** 2, (f - known) ** 2
    else:
        log_p, log_q = -np.log1p(np.exp(-f)), -np.log1p(np.exp(f))
        per_bit = -np.where(x == 1, log_p[:, None], log_q[:, None])
        p = np.clip((known + 1) / 2, 1e-300, 1)
        q = np.clip((1 - known) / 2, 1e-300, 1)
        distance = p * (np.log(p) - log_p) + q * (np.log(q) - log_q)
    factor = np.divide(1, 2 * t, out=np.zeros(num), where=t > 0)
    cases = all_cases(n, k, law)
    output = network_output(v, W, cases)
    signal, noise = effective_loss_parts(output, cases, loss)
    for drawn, exact in [
        (factor * (per_bit * hidden).sum(axis=1), training_loss(output, cases, loss)),
        (factor * size * distance * is_signal, signal),
        (factor * size * distance * ~is_signal, noise),
    ]:
        assert abs(drawn.mean() - exact) <= 4.5 * drawn.std() / math.sqrt(num)
    # As the theorem writes them: a share times a mean over the masks of the regime.
    for mine, part, share in [(is_signal, signal, signal_share(law, k)), (~is_signal, noise, noise_share(law, k))]:
        within = (factor * size * distance)[mine]
        assert abs(share * within.mean() - part) <= 4.5 * share * within.std() / math.sqrt(len(within))


def test_finite_data_by_hand() -> None:
    """Cases of a few rows: each under every mask, as likely as any other; a row drawn twice counts twice."""
    rows = parity_sequences(4, (0, 1))[[3, 5, 5, 9]]
    cases, everything = cases_of(rows, (0, 1, 4), Window(0, 0.5)), all_cases(4, 2, Window(0, 0.5))
    v, W = drawn_network(4, 8, seed=0)
    loss_of = [
        training_loss(network_output(v, W, one), one)
        for one in (cases_of(rows[[i]], (0, 1, 4), Window(0, 0.5)) for i in range(4))
    ]
    assert training_loss(network_output(v, W, cases), cases) == pytest.approx(np.mean(loss_of), rel=1e-12)
    again = cases_of(parity_sequences(4, (0, 1)), (0, 1, 4), Window(0, 0.5))
    assert np.array_equal(again.weight_C, everything.weight_C)


@each_loss
def test_on_drawn_rows_the_gap_falls_as_one_over_root_n(loss: Loss) -> None:
    law, steps = Window(0.1, 0.5), []
    sizes = [16, 64, 256]
    gaps = finite_gap(
        4, 2, law, sizes, loss=loss, datasets=24, progress=lambda done, total: steps.append((done, total))
    )
    assert [gap.num_samples for gap in gaps] == sizes and steps == [(1, 3), (2, 3), (3, 3)]
    for one, next_one in pairwise(gaps):
        assert 1.5 < one.spread / next_one.spread < 2.7
    assert 3 < gaps[0].spread / gaps[2].spread < 5.3
    assert finite_gap(4, 2, law, [64], loss=loss, datasets=24) == [gaps[1]]  # adding a size changes no other
    assert finite_gap(4, 2, law, [64], loss=loss, datasets=24, seed=1) != [gaps[1]]


def test_the_gap_of_drawn_rows_by_hand() -> None:
    """The difference moves by -2 f Σ_j (x'_j - f*), whose mean over all rows is 0: over N rows, as means do."""
    law = Window(0.1, 0.5)
    cases = all_cases(4, 2, law)
    variances = []
    for seed in range(240):
        f = network_output(*drawn_network(4, 32, seed), cases)
        per_case = (
            -2
            * cases.weight_C
            * f
            * ((cases.sequence_CT * cases.hidden_CT).sum(axis=1) - cases.num_hidden_C * cases.target_C)
        )
        per_row = per_case.reshape(16, 32).sum(axis=1) * 16
        assert per_row.mean() == pytest.approx(0, abs=1e-12)
        variances.append(np.var(per_row))
    wanted = math.sqrt(np.mean(variances) / 64)
    [gap] = finite_gap(4, 2, law, [64], datasets=200, networks=2)
    assert gap.spread == pytest.approx(wanted, rel=0.15)


# Energy


def test_correlation_and_covariance_are_their_definitions() -> None:
    n, k, law = 3, 2, Beta(2, 5)
    _, W = drawn_network(n, 5, seed=1)
    c, covariance, constant = np.zeros(5), np.zeros((5, 5)), 0.0
    for sequence, mask, _, factor in each_case(n, k, law):
        h = np.maximum(W @ embed(sequence, mask), 0)
        covariance += factor * sum(mask) * np.outer(h, h)
        if regime_of(mask, (0, 1, 3)) == Regime.SIGNAL:
            target = sum(sequence[j] for j in (0, 1, 3) if mask[j]) / sum(mask)
            c += factor * sum(mask) * target * h
            constant += factor * sum(mask) * target**2
    found = landscape(W, all_cases(n, k, law))
    assert found.correlation_D == pytest.approx(c, rel=1e-9)
    assert found.covariance_DD == pytest.approx(covariance, rel=1e-9)
    assert found.constant == pytest.approx(constant, rel=1e-9)
    readout = np.linalg.solve(covariance, c)
    assert found.readout_D == pytest.approx(readout, rel=1e-7)
    assert found.energy == pytest.approx(c @ readout, rel=1e-9)


@pytest.mark.parametrize("n, k, width", [(3, 2, 5), (4, 2, 40), (4, 2, 300), (5, 3, 60)])
@pytest.mark.parametrize("law", [Window(0, 0.5), Point(0.3), LAWS[-2]], ids=str)
def test_the_least_effective_loss_is_the_constant_less_the_energy(n: int, k: int, width: int, law: MaskLaw) -> None:
    """Against least squares; where Σ is singular too (300 features of fewer inputs), and then of least norm."""
    cases = all_cases(n, k, law)
    _, W = drawn_network(n, width, seed=2)
    found = landscape(W, cases)
    root_C = np.sqrt(cases.weight_C * cases.num_hidden_C)
    h, target = root_C[:, None] * features(W, cases), root_C * cases.target_C
    v, *_ = np.linalg.lstsq(h, target, rcond=1e-9)
    least = effective_loss(network_output(v, W, cases), cases)
    assert least == pytest.approx(np.sum((h @ v - target) ** 2), abs=1e-12)
    assert found.constant - found.energy == pytest.approx(least, abs=1e-9 * found.constant)
    assert effective_loss(network_output(found.readout_D, W, cases), cases) == pytest.approx(least, abs=1e-9)
    assert 0 < found.energy <= found.constant * (1 + 1e-9)
    assert found.readout_D == pytest.approx(v, rel=1e-3, abs=1e-4 * np.abs(v).max())
    random = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        other = found.readout_D + size * random.standard_normal(width)
        assert effective_loss(network_output(other, W, cases), cases) >= least - 1e-9
    assert effective_loss(np.zeros(len(root_C)), cases) == pytest.approx(found.constant, rel=1e-12)


def test_a_general_minimiser_finds_the_same() -> None:
    cases = all_cases(4, 2, Window(0.1, 0.5))
    _, W = drawn_network(4, 4, seed=5)
    found = landscape(W, cases)
    search = minimize(
        lambda v: effective_loss(network_output(v, W, cases), cases), np.zeros(4), method="BFGS", tol=1e-9
    )
    assert search.fun == pytest.approx(found.constant - found.energy, rel=1e-8)
    assert search.x == pytest.approx(found.readout_D, rel=1e-3)


@pytest.mark.parametrize("n, k, width", [(3, 2, 4), (4, 2, 12)])
@pytest.mark.parametrize("pure", [False, True])
def test_the_gradient_is_that_of_finite_differences(n: int, k: int, width: int, pure: bool) -> None:
    cases = all_cases(n, k, Window(0, 0.6))
    cases = signal_only(cases) if pure else cases
    _, W = drawn_network(n, width, seed=8)
    step = 1e-6
    assert np.abs(cases.z_CE @ W.T).min() > 10 * step  # no kink of the ReLU within reach
    gradient = landscape(W, cases).gradient_DE
    assert gradient.shape == W.shape
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = step
        slope = (landscape(W + move, cases).energy - landscape(W - move, cases).energy) / (2 * step)
        assert gradient[at] == pytest.approx(slope, rel=1e-5, abs=1e-6 * np.abs(gradient).max())


def test_collapse_with_signal_masks_alone() -> None:
    """Wide enough to fit the 108 inputs of signal masks, too narrow for all: E is flat only without noise."""
    mixed = all_cases(4, 2, Window(0, 0.5))
    pure = signal_only(mixed)
    inputs = {each: len(np.unique(cases.z_CE, axis=0)) for each, cases in (("mixed", mixed), ("pure", pure))}
    assert inputs["pure"] == 108 and inputs["mixed"] > 150
    energies: dict[str, list[float]] = {"mixed": [], "pure": []}
    for seed in range(3):
        _, W = drawn_network(4, 150, seed)
        with_noise, without = landscape(W, mixed), landscape(W, pure)
        assert without.energy == pytest.approx(without.constant, rel=1e-6)
        assert np.linalg.norm(with_noise.gradient_DE) > 0.1
        assert np.linalg.norm(without.gradient_DE) < 1e-6 * np.linalg.norm(with_noise.gradient_DE)
        assert with_noise.energy < 0.99 * with_noise.constant
        energies["mixed"].append(with_noise.energy)
        energies["pure"].append(without.energy)
    assert np.ptp(energies["pure"]) < 1e-6 * np.mean(energies["pure"])
    assert np.ptp(energies["mixed"]) > 1e-3 * np.mean(energies["mixed"])
    _, narrow = drawn_network(4, 40, seed=0)  # not expressive enough: the landscape has a slope without noise too
    assert np.linalg.norm(landscape(narrow, pure).gradient_DE) > 0.1


@each_law
def test_signal_only_is_the_law_given_signal(law: MaskLaw) -> None:
    cases = all_cases(4, 2, law)
    share = signal_share(law, 2)
    if share == 0:
        with refused("hold no signal masks, got P_S = 0"):
            signal_only(cases)
        return
    pure = signal_only(cases)
    assert np.all(pure.regime_C == Regime.SIGNAL) and np.array_equal(
        pure.regime_C, classify(pure.hidden_CT, pure.secret)
    )
    assert pure.probability_C.sum() == pytest.approx(1, rel=1e-12)
    v, W = drawn_network(4, 7, seed=0)
    signal, noise = effective_loss_parts(network_output(v, W, pure), pure)
    wanted, _ = effective_loss_parts(network_output(v, W, cases), cases)
    assert noise == 0
    assert share * signal == pytest.approx(wanted, rel=1e-9)  # P_S E_S[…], and here E_S[…]
    assert share * landscape(W, pure).correlation_D == pytest.approx(landscape(W, cases).correlation_D, rel=1e-9)
    again: Cases = signal_only(pure)
    assert again.weight_C == pytest.approx(pure.weight_C, rel=1e-12)


# Networks


def test_random_networks_have_features_of_the_given_scale() -> None:
    cases = all_cases(5, 2, Window(0, 1))
    for scale in (0.5, 2.0):
        v, W = random_network(5, 4_000, np.random.default_rng(0), scale=scale)
        assert (v.shape, W.shape) == ((4_000,), (4_000, 18))
        before = cases.z_CE[::97] @ W.T
        assert before.std() == pytest.approx(scale, rel=0.05)
        assert v.std() * math.sqrt(4_000) == pytest.approx(1, rel=0.05)
        assert np.allclose(features(W, cases)[::97], np.where(before > 0, before, 0), rtol=0, atol=1e-12)
        assert network_output(v, W, cases) == pytest.approx(features(W, cases) @ v)
    assert np.array_equal(drawn_network(5, 9, seed=1)[1], drawn_network(5, 9, seed=1)[1])


# Mistakes


@pytest.mark.parametrize("n, k", [(4, 0), (4, 4), (4, 5), (4, -1), (float("nan"), 2), (4, float("nan"))])
def test_a_task_needs_secret_bits_and_others(n: int, k: int) -> None:
    with refused("1 <= k < n"):
        all_cases(n, k, Window(0, 1))
    with refused("1 <= k < n"):
        finite_gap(n, k, Window(0, 1), [4])


def test_other_mistakes() -> None:
    with refused("exact enumeration is for n <= 8, got n = 9"):
        all_cases(9, 2, Window(0, 1))
    with refused("exact enumeration is for n <= 8, got n = 9"):
        finite_gap(9, 2, Window(0, 1), [4])
    for sizes in ([], [0], [4, -1]):
        with refused("at least one row"):
            finite_gap(4, 2, Window(0, 1), sizes)
    for options in ({"datasets": 0}, {"networks": 1}):
        with refused("at least one data set and two networks"):
            finite_gap(4, 2, Window(0, 1), [4], **options)
    for secret in ((), (0, 5), (-1, 4)):
        with refused("secret positions"):
            cases_of(parity_sequences(4, (0, 1)), secret, Window(0, 1))
