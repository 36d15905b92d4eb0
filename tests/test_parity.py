"""The parity laboratory: task, masks, models, loss and step, each against something that knows nothing of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from halfmask.errors import UsageError
from halfmask.laws import Point, Window, parse_law
from halfmask.models.denoiser import head
from halfmask.noise import Noise
from halfmask.parity.lab import Lab, steps_of
from halfmask.parity.landscape import training_cases
from halfmask.parity.losses import LossName, Rows, effective_parts, training_loss
from halfmask.parity.masks import HiddenRows, Masks, coins, given_signal, hidden_rows, hide_parity
from halfmask.parity.models import NanoGpt, OneLayer, TwoLayer, embedding_sum, own_ids
from halfmask.parity.recipe import ParityRecipe
from halfmask.parity.task import HIDDEN, ParityTask, values
from halfmask.theory import energy as theory
from halfmask.theory.signal import signal_share

TINY = ParityRecipe(n=6, k=3, train=40, held_out=20, width=16, steps=6, evaluate_every=3)
MODELS = {
    "mlp": TINY,
    "one-layer": replace(TINY, model="one-layer", mask="0-1"),
    "gpt": replace(TINY, model="gpt", width=8, heads=2, rows=12, loss="cross-entropy", mask="0.3 until 2 then 0-1"),
}


# The task


def test_sequences_are_the_task() -> None:
    task = ParityTask(n=9, k=4, num_train=200, num_held_out=312, seed=5)
    everything = np.concatenate([task.train_NT, task.held_out_NT])
    assert len(np.unique(everything, axis=0)) == 512  # all 2^9 inputs, each once: held-out ones are not trained on
    assert len(set(task.secret)) == 5 and task.secret[-1] == 9
    bits = values(everything)
    assert set(np.unique(bits)) == {-1, 1}
    assert (bits[:, task.secret].prod(axis=1) == 1).all()
    others = [j for j in range(9) if j not in task.secret]
    assert abs(bits[:, others].mean(axis=0)).max() == 0
    again = ParityTask(n=9, k=4, num_train=200, num_held_out=312, seed=5)
    assert (again.train_NT == task.train_NT).all() and again.secret == task.secret
    assert len({ParityTask(9, 4, 1, 1, seed).secret for seed in range(20)}) > 10


@pytest.mark.parametrize(
    "change, said",
    [
        ({"k": 7}, "1 <= k < n, got n = 6, k = 7"),
        ({"train": 60}, r"share the 2\^6 = 64 inputs, got 60 \+ 20: take fewer"),
        ({"train": 0}, "1 sequence or more"),
        ({"n": 61}, "at most 60 input bits"),
        ({"mask": "0.6-0.3"}, "swap the two ends"),
        ({"mask": "0-1.2"}, "0 <= lo < hi <= 1"),
        ({"mask": "plian"}, "a mask law must be"),
        ({"layers": 2}, "layers is for the model gpt, got the model mlp"),
        ({"attention": "uniform"}, "attention is for the model one-layer"),
        ({"until": 0.4}, "until is outside its range, got 0.4"),
        ({"lr": 0.0}, "lr is outside its range"),
        ({"rows": 0}, "rows must be 1 or more"),
    ],
)
def test_a_recipe_outside_its_rules_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(TINY, **change)  # type: ignore[arg-type]


# Masks


def test_coins_hide_with_the_chance_of_their_row() -> None:
    ratio_B = np.repeat([0.0, 2.0**-40, 0.15, 0.7, 1.0], 4000)
    hidden_BT = coins(Noise(1), 3, ratio_B, 21)
    share = hidden_BT.reshape(5, -1).mean(axis=1)
    assert share[0] == 0 and share[1] < 1e-3 and share[4] == 1
    assert share[2:4] == pytest.approx([0.15, 0.7], abs=4 * math.sqrt(0.25 / 84_000))
    each_T = hidden_BT[8000:12_000].mean(axis=0)
    assert each_T == pytest.approx(0.15, abs=5 * math.sqrt(0.15 * 0.85 / 4000))
    together = np.corrcoef(hidden_BT[8000:12_000].T)[np.triu_indices(21, 1)]
    assert abs(together).max() < 5 / math.sqrt(4000)


@pytest.mark.parametrize("mask", ["0-0.2", "0.15", "beta(2,8)", "0.2 until 5 then 0-1"])
def test_the_share_of_signal_rows_is_the_theorys(mask: str) -> None:
    task, masks = ParityTask(n=12, k=4, num_train=2000, num_held_out=1), Masks.parse(mask)
    for step in (2, 7):
        share = np.mean(masks.hide(task.train_NT, task, Noise(0), step).num_secret_B == 1)
        assert share == pytest.approx(masks.signal_share(step, 4), abs=5 * math.sqrt(0.25 / 2000))


@pytest.mark.parametrize("mask", ["0-0.4", "0.3", "beta(2,5)"])
def test_signal_masks_are_the_laws_own(mask: str) -> None:
    """How many tokens a signal mask hides: drawn directly, and drawn from the law and then picked."""
    task = ParityTask(n=8, k=3, num_train=200, num_held_out=1)
    drawn: dict[str, np.ndarray] = {}
    for kind in ("", "signal of "):
        masks = Masks.parse(kind + mask)
        rows = [masks.hide(task.train_NT, task, Noise(0), step) for step in range(60)]
        num = np.concatenate([np.bincount(each.row_N, minlength=200) for each in rows])
        secret = np.concatenate([each.num_secret_B for each in rows])
        weight = np.concatenate([each.weight_B for each in rows])
        assert (secret == 1).all() or not kind
        drawn[kind] = np.stack([num, weight])[:, secret == 1]
    for direct, picked in zip(drawn["signal of "], drawn[""], strict=True):
        error = math.sqrt(picked.var() / len(picked) + direct.var() / len(direct))
        assert direct.mean() == pytest.approx(picked.mean(), abs=5 * error + 1e-12)
    with pytest.raises(UsageError, match="signal masks need a point inside"):
        given_signal(Point(1), 3)


def test_hidden_rows_know_what_follows() -> None:
    task = ParityTask(n=4, k=2, num_train=8, num_held_out=8)
    rows = hide_parity(task.train_NT, task)
    assert (rows.position_N == np.arange(8) * 5 + 4).all() and rows.known_N.all()
    assert (rows.value_N == values(task.train_NT)[:, -1]).all()
    assert (rows.tokens_BT[:, -1] == HIDDEN).all() and (rows.tokens_BT[:, :-1] == task.train_NT[:, :-1]).all()
    assert rows.weight_B == pytest.approx(0.5)
    nothing = hidden_rows(task.train_NT, np.zeros((8, 5), dtype=bool), np.zeros(8), task)
    assert not nothing.position_N.size and not nothing.weight_B.any()


# Models


def drawn_rows(num: int = 40, n: int = 6, k: int = 3) -> tuple[ParityTask, HiddenRows]:
    task = ParityTask(n, k, num, 1, seed=2)
    return task, Masks.parse("0-0.9").hide(task.train_NT, task, Noise(4), 0)


def test_two_layers_are_one_layer_with_uniform_attention() -> None:
    _, hidden = drawn_rows()
    rows = Rows.of(hidden, torch.float64)
    mlp, one = TwoLayer(7, 32, seed=0).double(), OneLayer(7, 32, seed=0, uniform=True).double()
    with torch.no_grad():
        one.W_DE.copy_(mlp.W_DE * 7)  # the mean over positions where z̃ is a sum: "we absorb the constant"
    outputs = [model.outputs(rows.tokens_BT, rows.position_N) for model in (mlp, one)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-14)
    for f_N in outputs:
        training_loss(f_N, rows, "squared").backward()  # type: ignore[no-untyped-call]
    assert mlp.W_DE.grad is not None and one.W_DE.grad is not None
    torch.testing.assert_close(mlp.W_DE.grad, one.W_DE.grad * 7, rtol=0, atol=1e-13)
    torch.testing.assert_close(mlp.v_D.grad, one.v_D.grad, rtol=0, atol=1e-13)


def test_the_two_layer_network_is_the_theorys() -> None:
    cases = theory.all_cases(4, 2, Window(0, 1))
    model = TwoLayer(5, 24, seed=3).double()
    tokens = torch.from_numpy(np.where(cases.hidden_CT, HIDDEN, cases.sequence_CT.astype(np.int64) % 3))
    assert (embedding_sum(tokens).double().numpy() == cases.z_CE).all()
    v_D, W_DE = (each.detach().numpy() for each in (model.v_D, model.W_DE))
    ours = model.row_outputs(embedding_sum(tokens)).detach().numpy()
    assert ours == pytest.approx(theory.network_output(v_D, W_DE, cases), abs=1e-12)


def test_the_two_layer_gradient_is_autograds() -> None:
    model = TwoLayer(7, 32, seed=0).double()
    z_BE = (torch.rand(50, 21, generator=torch.Generator().manual_seed(0)) < 0.4).double()
    target_B = torch.linspace(-1, 1, 50, dtype=torch.float64)
    ((model.row_outputs(z_BE) - target_B) ** 2).sum().backward()
    v_D, W_DE = (each.detach().clone().requires_grad_() for each in (model.v_D, model.W_DE))
    ((torch.relu(z_BE @ W_DE.T) @ v_D - target_B) ** 2).sum().backward()
    assert model.W_DE.grad is not None and W_DE.grad is not None
    torch.testing.assert_close(model.W_DE.grad, W_DE.grad)
    torch.testing.assert_close(model.v_D.grad, v_D.grad)


def test_one_layer_is_the_papers_formula() -> None:
    """v^T ReLU(W X softmax(X^T A X)), with X written out as one-hot columns, row by row."""
    _, hidden = drawn_rows(10)
    model = OneLayer(7, 16, seed=1).double()
    assert model.A_EE is not None
    with torch.no_grad():
        model.A_EE.normal_(generator=torch.Generator().manual_seed(0))
    found = model.outputs(torch.from_numpy(hidden.tokens_BT), torch.from_numpy(hidden.position_N)).detach().numpy()
    A, W, v = (each.detach().numpy() for each in (model.A_EE, model.W_DE, model.v_D))
    expected = []
    for row, position in product(range(10), range(7)):
        if row * 7 + position not in hidden.position_N:
            continue
        X = np.zeros((21, 7))
        for j, token in enumerate(hidden.tokens_BT[row]):
            X[token * 7 + j, j] = 1  # e_{n'b + j}, the index cyclic
        scores = X.T @ A @ X
        weights = np.exp(scores) / np.exp(scores).sum(axis=0)
        expected.append((v @ np.maximum(W @ X @ weights, 0))[position])
    assert found == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_nano_gpt_is_the_engines_transformer(layers: int) -> None:
    """Tables, cut last block and written-out attention, against the whole transformer; outputs and gradients."""
    _, hidden = drawn_rows(10)
    rows = Rows.of(hidden)
    found = []
    for engine in (False, True):
        model = NanoGpt(7, width=16, layers=layers, heads=4, seed=1)
        if engine:
            states = model.transformer.hidden(own_ids(rows.tokens_BT)).reshape(70, 16)[rows.position_N]
            logits = head(model.transformer, states)
            column_N = rows.position_N % 7
            number_N = torch.arange(len(column_N))
            f_N = logits[number_N, 7 + column_N] - logits[number_N, 14 + column_N]
        else:
            f_N = model.outputs(rows.tokens_BT, rows.position_N)
        training_loss(f_N, rows, "squared").backward()  # type: ignore[no-untyped-call]
        found.append([f_N, *(parameter.grad for parameter in model.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert found[0][0].std() > 1e-3


# The average loss, laboratory against theory


def exact_averages(model: TwoLayer, n: int, k: int, law: Window, loss: LossName) -> tuple[float, float, float]:
    """The laboratory's loss and its parts over every sequence, mask and ratio: quadrature over t, sums over the rest.

    On these polynomials (1/2t times at most the 2k+…-th power of t) 24 nodes are exact.
    """
    task = ParityTask(n, k, 2**n - 1, 1)
    clean = np.concatenate([task.train_NT, task.held_out_NT])
    masks = np.array(list(product([False, True], repeat=n + 1)))
    sequence_BT = np.repeat(clean, len(masks), axis=0)
    hidden_BT = np.tile(masks, (len(clean), 1))
    size_B = hidden_BT.sum(axis=1)
    x, w = np.polynomial.legendre.leggauss(24)
    total = np.zeros(3)
    for node, weight in zip(law.lo + (law.hi - law.lo) * (x + 1) / 2, w / 2, strict=True):
        hidden = hidden_rows(sequence_BT, hidden_BT, np.full(len(size_B), node), task)
        rows = Rows.of(hidden, torch.float64)
        chance_B = node**size_B * (1 - node) ** (n + 1 - size_B) * len(masks)
        rows = replace(rows, factor_N=rows.factor_N * torch.from_numpy(chance_B)[rows.row_N])
        with torch.no_grad():
            f_N = model.outputs(rows.tokens_BT, rows.position_N)
            parts = effective_parts(f_N, rows, loss, one_output=True)
            total += weight * np.array([training_loss(f_N, rows, loss), *parts])
    return float(total[0]), float(total[1]), float(total[2])


@pytest.mark.parametrize("n, k", [(4, 2), (6, 3)])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_the_average_loss_is_the_theorys(n: int, k: int, loss: LossName) -> None:
    law = Window(0.05, 0.6)
    model = TwoLayer(n + 1, 16, seed=n).double()
    ours = exact_averages(model, n, k, law, loss)
    task = ParityTask(n, k, 2**n - 1, 1)
    sequences = values(np.concatenate([task.train_NT, task.held_out_NT])).astype(np.int8)
    cases = theory.cases_of(sequences, task.secret, law)
    output_C = theory.network_output(model.v_D.detach().numpy(), model.W_DE.detach().numpy(), cases)
    expected = [
        theory.training_loss(output_C, cases, loss),
        *theory.effective_loss_parts(output_C, cases, loss),
    ]
    assert ours == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("mask", ["0-0.6", "0.3", "beta(3,5)"])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_the_steps_average_to_the_theorys_loss(mask: str, loss: LossName) -> None:
    """Drawn masks, as a run draws them, on a finite training set."""
    recipe = replace(TINY, mask=mask, loss=loss, precision="fp32")
    lab, law = Lab(recipe), parse_law(mask)
    assert isinstance(lab.module, TwoLayer)
    found = []
    for step in range(1500):
        rows = Rows.of(lab.hidden(step))
        with torch.no_grad():
            f_N = lab.model.outputs(rows.tokens_BT, rows.position_N)
            parts = effective_parts(f_N, rows, loss, one_output=True)
            found.append([float(training_loss(f_N, rows, loss)), *map(float, parts)])
    cases = training_cases(lab.task, law)
    output_C = theory.network_output(
        lab.module.v_D.detach().double().numpy(), lab.module.W_DE.detach().double().numpy(), cases
    )
    expected = [theory.training_loss(output_C, cases, loss), *theory.effective_loss_parts(output_C, cases, loss)]
    error = np.std(found, axis=0) / math.sqrt(len(found))
    assert np.abs(np.mean(found, axis=0) - expected).max() < 5 * error.max()


def test_the_parts_of_a_transformer_add_up_to_the_loss() -> None:
    """Where outputs differ within a row, loss minus effective loss is what no parameter changes: in expectation
    over the hidden bits that do not follow, by enumeration of their values."""
    _, hidden = drawn_rows(6, n=4, k=2)
    rows = Rows.of(hidden, torch.float64)
    f_N = torch.linspace(-2, 2, len(rows.position_N), dtype=torch.float64)
    for name in ("squared", "cross-entropy"):
        both = []
        for sign in (1.0, -1.0):  # each unknown bit is as likely 1 as -1
            value_N = torch.where(rows.known_N, rows.value_N, sign)
            both.append(training_loss(f_N, replace(rows, value_N=value_N), name))
        effective = sum(effective_parts(f_N, rows, name, one_output=False))
        unknown = float((rows.factor_N * ~rows.known_N).sum())
        constant = unknown * (1.0 if name == "squared" else math.log(2))
        assert float(sum(both)) / 2 - float(effective) == pytest.approx(constant, abs=1e-12)


def test_cross_entropy_is_torchs() -> None:
    _, hidden = drawn_rows()
    rows = Rows.of(hidden)
    f_N = torch.linspace(-3, 3, len(rows.position_N))
    expected = binary_cross_entropy_with_logits(f_N, (rows.value_N + 1) / 2, weight=rows.factor_N, reduction="sum")
    torch.testing.assert_close(training_loss(f_N, rows, "cross-entropy"), expected)


# The laboratory


@pytest.mark.parametrize("recipe", MODELS.values(), ids=MODELS)
def test_a_resumed_run_equals_an_unbroken_one(recipe: ParityRecipe) -> None:
    unbroken = list(steps_of(Lab(recipe)))
    first = Lab(recipe)
    before = [measures for _, measures in zip(range(2), steps_of(first), strict=False)]
    second = Lab(recipe)
    second.load(first.state())
    assert before + list(steps_of(second)) == unbroken
    assert [measures["step"] for measures in unbroken] == [1, 2, 3, 4, 5, 6]
    assert ["held-out accuracy" in measures for measures in unbroken] == [False, False, True] * 2


def test_another_seed_is_another_run() -> None:
    runs = [next(steps_of(Lab(replace(TINY, seed=seed))))["loss"] for seed in range(4)]
    assert len(set(runs)) == 4


def test_low_precision_follows_high_precision() -> None:
    """Forty steps at a rate that learns: the two losses part by far less than the loss moves between steps."""
    recipe = replace(TINY, width=128, lr=1e-2, steps=40)
    low, high = (
        np.array([measures["loss"] for measures in steps_of(Lab(replace(recipe, precision=precision)))])
        for precision in ("bf16", "fp32")
    )
    assert np.abs(low - high).max() < 0.1 * np.abs(np.diff(high)).mean()
    assert np.abs(low - high).max() > 0


def test_a_small_task_is_learnt_and_the_run_stops() -> None:
    """(8, 2) under U[0, 0.5]: held-out accuracy from chance to 95 %; plain supervision knows its training set."""
    recipe = ParityRecipe(
        n=8, k=2, train=128, held_out=128, mask="0-0.5", width=128, lr=1e-2, steps=3000, until=0.95, evaluate_every=50
    )
    *_, last = steps_of(Lab(recipe))
    assert last["held-out accuracy"] >= 0.95 and last["step"] < 3000
    *_, plain = steps_of(Lab(replace(recipe, mask="plain", train=32, steps=300, until=None)))
    assert plain["train accuracy"] == 1.0
    assert plain["signal share"] == 1.0 and plain["noise loss"] == 0.0


def test_energy_is_measured_where_it_can_be() -> None:
    lab = Lab(TINY)
    found = lab.evaluate()
    cases = training_cases(lab.task, Window(0, 0.2))
    assert isinstance(lab.module, TwoLayer)
    expected = theory.landscape(lab.module.W_DE.detach().double().numpy(), cases)
    assert found["energy share"] == pytest.approx(expected.energy / expected.constant)
    assert 0 < found["energy share"] < 1 and found["energy gradient"] > 0
    small = replace(TINY, n=4, k=2, train=12, held_out=4, width=160)
    signal, both = (Lab(replace(small, mask=mask)).evaluate() for mask in ("signal of 0-0.2", "0-0.2"))
    assert signal["energy share"] == pytest.approx(1.0)
    assert signal["energy gradient"] < 1e-6 * both["energy gradient"]
    assert "energy share" not in Lab(replace(TINY, n=7)).evaluate()
    assert "energy share" not in Lab(MODELS["gpt"]).evaluate()
    assert signal_share(Window(0, 0.2), 3) < 1
