"""The bound: exact by three routes on a tiny vocabulary; the sampled form against it: unbiased, its errors right."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

from halfmask.errors import UsageError
from halfmask.evaluation.bound import Bound, Mean, model_losses
from halfmask.evaluation.draws import Draws, Losses
from halfmask.evaluation.exact import all_sets, enumerate_bound, hidden_nll, order_nll, set_weights
from halfmask.laws import FloatArray
from halfmask.masking.corrupt import Batch, Noisy
from halfmask.models.transformer import Transformer, TransformerConfig
from halfmask.objective import MaskedLoss

VOCABULARY, MASK, LENGTH = 3, 3, 5


@cache
def model() -> Transformer:
    """Random, in float64, and far from uniform."""
    made = Transformer(TransformerConfig(VOCABULARY + 1, MASK, width=8, layers=1, heads=2, max_length=LENGTH))
    made.initialise(0)
    made = made.double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(12.0 if parameter.ndim == 2 else 1.0)
    return made


ROWS = np.array(list(itertools.product(range(VOCABULARY), repeat=LENGTH)))


@cache
def table() -> FloatArray:
    """(row, set, position): -log p of every hidden token of every row under every set."""
    return np.stack([hidden_nll(model(), row, all_sets(LENGTH)) for row in ROWS])


@cache
def exact() -> FloatArray:
    sets = all_sets(LENGTH)
    weight = set_weights(sets.sum(axis=1), LENGTH) / sets.sum(axis=1)
    return np.einsum("rst,s->r", table(), weight)


def batch(tokens_RT: np.ndarray, first: int = 0) -> Batch:
    rows = np.arange(first, first + len(tokens_RT))
    return Batch(0, rows, len(rows), tokens_RT, np.ones(tokens_RT.shape, dtype=bool))


def by_table(numbers_R: np.ndarray) -> Losses:
    """Losses of the rows with these numbers in ROWS, looked up."""

    def losses(noisy: Noisy) -> FloatArray:
        sets = noisy.hidden_BT @ (1 << np.arange(LENGTH)) - 1
        return np.asarray(table()[numbers_R, sets][noisy.hidden_BT])

    return losses


def measured(numbers_R: np.ndarray, num_draws: int, seed: int, num_bins: int = 5) -> Bound:
    draws = Draws(batch(ROWS[numbers_R]), num_draws, seed)
    found = draws.found(by_table(numbers_R), np.arange(len(numbers_R)), MASK)
    return Bound.of(draws, found, num_bins)


@pytest.mark.parametrize("number", [0, 17, 100, 242])
def test_three_exact_routes_agree(number: int) -> None:
    row = ROWS[number]
    enumerated = enumerate_bound(model(), row, batch_rows=7)
    orders = [order_nll(model(), row, order) for order in itertools.permutations(range(LENGTH))]
    assert abs(enumerated - np.mean(orders) / LENGTH) < 1e-9
    assert enumerated > 0.3 and np.std(orders) > 0.02  # not a model that knows nothing
    # ∫ 1/t E[Σ hidden] dt / T with coins: P(set | t) = t^l (1-t)^(T-l), and ∫ t^(l-1) (1-t)^(T-l) dt is a Beta
    coins = sum(
        math.gamma(len(at)) * math.gamma(LENGTH - len(at) + 1) / math.gamma(LENGTH + 1) * nll.sum() / LENGTH
        for at, nll in ((np.flatnonzero(one), nll) for one, nll in zip(all_sets(LENGTH), table()[number], strict=True))
    )
    assert abs(enumerated - coins) < 1e-9
    assert abs(enumerated - exact()[number]) < 1e-9


def test_enumeration_is_for_short_rows() -> None:
    with pytest.raises(UsageError, match="at most 14 tokens, got 15"):
        all_sets(15)


def test_the_model_is_asked_as_in_training() -> None:
    """Through MaskedLoss, which has chunks and float32 totals, as through the plain formula."""
    rows = batch(ROWS[40:60])
    draws, at = Draws(rows, 6), np.arange(20)
    asked = draws.found(model_losses(MaskedLoss(model()), torch.device("cpu")), at, MASK)
    assert np.allclose(asked, draws.found(by_table(np.arange(40, 60)), at, MASK), atol=1e-5)


@pytest.mark.parametrize("num_draws", [1, 2, 4, 8])
def test_the_sampled_form_is_unbiased(num_draws: int) -> None:
    numbers = np.arange(0, 243, 31)
    values = [measured(numbers, num_draws, seed).mean.value for seed in range(600)]
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - exact()[numbers].mean()) < 3.5 * error
    assert error < 0.03


def test_a_single_row_is_unbiased() -> None:
    values = [measured(np.array([77]), 4, seed).mean.value for seed in range(1000)]
    assert abs(np.mean(values) - exact()[77]) < 3.5 * np.std(values) / math.sqrt(1000)


def cover(intervals: list[tuple[float, float]], truth: float) -> float:
    return float(np.mean([abs(value - truth) <= 1.96 * error for value, error in intervals]))


@pytest.mark.parametrize("num_draws", [4, 8])
def test_the_noise_error_covers_the_exact_bound_of_these_rows(num_draws: int) -> None:
    numbers = np.random.default_rng(0).integers(0, 243, 60)
    found = [measured(numbers, num_draws, seed).mean for seed in range(800)]
    assert 0.93 <= cover([(mean.value, mean.noise_error) for mean in found], exact()[numbers].mean()) <= 0.97


@pytest.mark.parametrize("num_draws", [1, 2, 8])
def test_the_standard_error_covers_the_exact_bound_of_all_rows(num_draws: int) -> None:
    """Rows drawn from a distribution, of which the exact bound is the mean over all 243 rows."""
    share = np.random.default_rng(1).dirichlet(np.full(243, 0.3))
    found = []
    for seed in range(800):
        numbers = np.random.default_rng([2, seed]).choice(243, 80, p=share)
        found.append(measured(numbers, num_draws, seed).mean)
    assert 0.93 <= cover([(mean.value, mean.standard_error) for mean in found], float(share @ exact())) <= 0.97


def test_the_loss_by_ratio_is_that_of_each_count() -> None:
    """Five bins of rows of five: the exact mean loss with 1, 2, … 5 tokens hidden."""
    numbers = np.arange(243)
    sets = all_sets(LENGTH)
    curve = Bound.of(
        draws := Draws(batch(ROWS), 200), draws.found(by_table(numbers), np.arange(243), MASK), num_bins=5
    ).curve
    for count in range(1, 6):
        some = sets.sum(axis=1) == count
        assert abs(curve.loss_B[count - 1] - table()[:, some].sum() / (243 * some.sum() * count)) < 0.02
    assert np.allclose(curve.ratio_B, [0.1, 0.3, 0.5, 0.7, 0.9])
    assert (curve.error_B > 0).all()


def test_every_set_of_a_size_is_as_likely() -> None:
    """Whichever draw of a row it is: the sets lie side by side on a random order."""
    draws = Draws(batch(np.zeros((6000, 4), dtype=np.int64)), 4)
    for draw, sets_RT in enumerate(draws.sets(np.arange(6000))):
        found = Counter(map(tuple, sets_RT.astype(int).tolist()))
        assert sum(found.values()) == 6000 and (sets_RT.sum(axis=1) == draws.count_RK[:, draw]).all()
        for size in (1, 2, 3):
            counts = [found[each] for each in itertools.product((0, 1), repeat=4) if sum(each) == size]
            if (total := sum(counts)) > 600:
                expected = total / len(counts)
                assert sum((count - expected) ** 2 / expected for count in counts) < 25  # chi square, 5 degrees


@pytest.mark.parametrize("length", [1, 7, 128])
def test_weights_undo_the_preference_for_small_counts(length: int) -> None:
    draws = Draws(batch(np.zeros((4000, length), dtype=np.int64)), 4)
    assert draws.count_RK.min() >= 1 and draws.count_RK.max() <= length
    assert np.allclose(draws.weight_RK.mean(), 1, atol=0.02)
    assert np.allclose((draws.weight_RK * draws.count_RK).mean(), (length + 1) / 2, rtol=0.02)


def test_a_row_meets_the_same_noise_alone_among_others_and_padded() -> None:
    rows = batch(ROWS[:9], first=4)
    draws = Draws(rows, 8)
    together = draws.found(by_table(np.arange(9)), np.arange(9), MASK)
    alone = draws.found(by_table(np.array([5])), np.array([5]), MASK)
    assert np.array_equal(together[5:6], alone)
    padded = Batch(
        0, rows.rows_B, 9, np.pad(rows.tokens_BT, ((0, 0), (0, 3))), np.pad(rows.maskable_BT, ((0, 0), (0, 3)))
    )
    for ours, theirs in zip(draws.sets(np.arange(9)), Draws(padded, 8).sets(np.arange(9)), strict=True):
        assert np.array_equal(ours, theirs[:, :LENGTH]) and not theirs[:, LENGTH:].any()


def test_rows_count_by_their_tokens() -> None:
    """A row of one token weighs a fifth of a row of five."""
    tokens = np.zeros((2, 5), dtype=np.int64)
    maskable = np.array([[True] * 5, [True] + [False] * 4])
    draws = Draws(Batch(0, np.arange(2), 2, tokens, maskable), 4)
    found = np.ones((2, 4, 2))
    found[1, :, 0] = 7.0
    bound = Bound.of(draws, found)
    assert np.allclose(bound.length_R, [5, 1])
    assert math.isclose(Mean.of(np.array([[1.0], [7.0]]), bound.length_R).value, 2.0)


def test_two_models_on_the_same_noise() -> None:
    """The paired difference of a model and a slightly worse one is known far better than either bound."""
    numbers = np.random.default_rng(3).integers(0, 243, 60)
    draws = Draws(batch(ROWS[numbers]), 8)
    found = draws.found(by_table(numbers), np.arange(60), MASK)
    worse = found + np.array([0.01, 0.0])
    first, second = Bound.of(draws, found, num_bins=5), Bound.of(draws, worse, num_bins=5)
    assert first.minus(first).mean.value == 0
    difference = second.minus(first).mean
    assert abs(difference.value - 0.01) < 1e-3
    assert difference.standard_error < first.mean.standard_error / 20
    assert np.allclose(second.minus(first).curve.loss_B, 0.01, atol=1e-3)


def test_one_row_and_one_draw_know_no_error() -> None:
    mean = measured(np.array([3]), 1, seed=0).mean
    assert math.isfinite(mean.value) and math.isnan(mean.standard_error) and math.isnan(mean.noise_error)
    with pytest.raises(UsageError, match="1 draw or more"):
        Draws(batch(ROWS[:2]), 0)
