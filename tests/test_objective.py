"""The loss: unbiased for every law, weight and hiding rule; the chunked head equals the plain one; no NaN."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfmask import objective
from halfmask.laws import MaskLaw, parse_law
from halfmask.masking.corrupt import Batch, Masking
from halfmask.masking.schedules import Always, parse_schedule
from halfmask.models.denoiser import head
from halfmask.models.transformer import Transformer, preset
from halfmask.noise import Noise
from halfmask.objective import HiddenTokens, MaskedLoss, masked_loss, on_device, plain_nll

CPU = torch.device("cpu")
VOCABULARY, MASK, LENGTH = 3, 3, 4


class Lookup(nn.Module):
    """A denoiser whose state at a position is a fixed random function of the whole noisy row."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.table = torch.randn((VOCABULARY + 1) ** LENGTH, LENGTH, 5, generator=random, dtype=torch.float64)
        self.weight = torch.randn(VOCABULARY + 1, 5, generator=random, dtype=torch.float64)
        self.mask_id, self.vocab_size = MASK, VOCABULARY + 1

    def hidden(self, tokens_BT: Tensor, attend_BTT: Tensor | None = None) -> Tensor:
        place = (VOCABULARY + 1) ** torch.arange(LENGTH)
        return self.table[(tokens_BT * place).sum(dim=1)]

    @property
    def output_weight(self) -> Tensor:
        return self.weight

    @property
    def output_bias(self) -> None:
        return None


def loss_by_mask(row: list[int]) -> dict[tuple[bool, ...], float]:
    """Σ over hidden positions of -log p, for every mask, by one forward pass each."""
    model, found = Lookup(), {}
    for mask in itertools.product([False, True], repeat=LENGTH):
        noisy = [MASK if hidden else token for token, hidden in zip(row, mask, strict=True)]
        log_p = head(model, model.hidden(torch.tensor([noisy]))).log_softmax(dim=-1)[0]  # type: ignore[arg-type]
        found[mask] = -sum(float(log_p[j, row[j]]) for j in range(LENGTH) if mask[j])
    return found


def exact_loss(row: list[int], law: MaskLaw, weight: str) -> float:
    """E_t E_mask[w(t) Σ -log p] / T with independent coins: every expectation over t is a moment of the law.

    Exact-count hiding has other masks, so it is integrated over t below.
    """
    total = 0.0
    for mask, loss in loss_by_mask(row).items():
        num = sum(mask)
        if num == 0:
            continue
        if weight == "flat":
            share = law.moment(num, LENGTH - num) / law.mean
        elif weight == "1/t":
            share = law.moment(num - 1, LENGTH - num)
        else:  # ∫ over the support of t^(m-1) (1-t)^(T-m) dt
            lo, hi = law.support
            t = lo + (hi - lo) * (np.arange(20_000) + 0.5) / 20_000
            share = float(np.mean(t ** (num - 1) * (1 - t) ** (LENGTH - num)) * (hi - lo))
        total += share * loss
    return total / LENGTH


def exact_loss_of_counts(row: list[int], law: MaskLaw, weight: str) -> float:
    """The same when a row hides floor(t T + u) of its tokens, all choices alike."""
    by_count = [[loss for mask, loss in loss_by_mask(row).items() if sum(mask) == num] for num in range(LENGTH + 1)]
    mean_by_count = np.array([np.mean(each) for each in by_count])
    t = law.from_uniform((np.arange(200_000) + 0.5) / 200_000)
    low = np.floor(t * LENGTH).astype(int)
    up = t * LENGTH - low
    expected = (1 - up) * mean_by_count[low] + up * mean_by_count[np.minimum(low + 1, LENGTH)]
    if weight == "flat":
        factor = np.full_like(t, 1 / law.mean)
    else:
        factor = 1 / t if weight == "1/t" else 1 / (t * law.density(t))
    return float(np.mean(factor * expected)) / LENGTH


@pytest.mark.parametrize("hiding", ["coins", "exact"])
@pytest.mark.parametrize("weight", ["1/t", "elbo", "flat"])
@pytest.mark.parametrize("law_text", ["0.1-1", "0.45-0.55", "beta(3,2)", "normal(0.5,0.2)", "histogram(0,1,3)", "0.3"])
def test_the_stochastic_loss_averages_to_the_exact_one(law_text: str, weight: str, hiding: str) -> None:
    if weight == "elbo" and law_text == "0.3":
        pytest.skip("a point has no density")
    if weight == "elbo" and law_text == "beta(3,2)":
        pytest.skip("1/density has no variance at the ends; the test below integrates it instead")
    row, num_rows = [0, 2, 1, 2], 40_000
    law = parse_law(law_text)
    tokens = np.tile(np.array(row), (num_rows, 1))
    batch = Batch(0, np.arange(num_rows), num_rows, tokens, np.ones(tokens.shape, dtype=bool))
    masking = Masking(Always(law), weight, "stratified", hiding)  # type: ignore[arg-type]
    hidden = on_device(masking.noisy(batch, Noise(7), MASK), CPU)
    terms = masked_loss(Lookup(), hidden, hidden.num_maskable)  # type: ignore[arg-type]
    per_row = torch.zeros(num_rows, dtype=torch.float64)
    per_row.index_add_(0, hidden.position_N // LENGTH, hidden.weight_N * terms.nll_N.double())
    error = float(per_row.std()) / LENGTH / math.sqrt(num_rows)
    expected = exact_loss(row, law, weight) if hiding == "coins" else exact_loss_of_counts(row, law, weight)
    assert float(terms.loss) == pytest.approx(float(per_row.mean()) / LENGTH, rel=1e-5)
    assert float(terms.loss) == pytest.approx(expected, abs=4.5 * error)
    assert error < 0.05 * expected  # or the line above would say little


@pytest.mark.parametrize(
    "law_text", ["0-1", "beta(1.5,1)", "beta(1.2,1.2)", "0.5*0-1 + 0.5*0.4-0.6", "histogram(1,3,1)"]
)
def test_the_elbo_weight_has_one_expectation_under_every_law(law_text: str) -> None:
    """∫ 1/t E[...] dt, whatever full-support law the ratios are drawn from."""
    row, law = [1, 0, 0, 2], parse_law(law_text)
    t = law.from_uniform((np.arange(2_000_000) + 0.5) / 2_000_000)
    total = 0.0
    for mask, loss in loss_by_mask(row).items():
        num = sum(mask)
        if num:
            total += float(np.mean(t ** (num - 1) * (1 - t) ** (LENGTH - num) / law.density(t))) * loss
    bound = 0.0
    for mask, loss in loss_by_mask(row).items():
        if num := sum(mask):
            bound += math.factorial(num - 1) * math.factorial(LENGTH - num) / math.factorial(LENGTH) * loss
    assert total == pytest.approx(bound, rel=2e-3)


# The head


def random_head(num: int, vocabulary: int, width: int, *, bias: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    random = torch.Generator().manual_seed(num)
    states = torch.randn(num, width, generator=random, requires_grad=True)
    weight = torch.randn(vocabulary, width, generator=random, requires_grad=True)
    bias_V = torch.randn(vocabulary, generator=random, requires_grad=True) if bias else None
    return states, weight, bias_V, torch.randint(0, vocabulary, (num,), generator=random)


@pytest.mark.parametrize("num", [0, 1, 16, 17, 100])
@pytest.mark.parametrize("bias", [False, True])
def test_chunked_and_plain_heads_agree(num: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "CHUNK_BYTES", {"cpu": 16 * 4 * 37})  # chunks of 16 tokens
    states, weight, bias_V, target = random_head(num, 37, 8, bias=bias)
    factor = torch.rand(num) / max(1, num)
    inputs = [each for each in (states, weight, bias_V) if each is not None]
    nll = plain_nll(states, weight, bias_V, target)
    plain = torch.autograd.grad((factor * nll).sum() * 3, inputs)
    loss, nll_chunked = objective.ChunkedHead.apply(states, weight, bias_V, target, factor)
    chunked = torch.autograd.grad(loss * 3, inputs)
    assert torch.allclose(nll, nll_chunked, atol=1e-5)
    assert float(loss.detach()) == pytest.approx(float((factor * nll).sum().detach()), rel=1e-5)
    for ours, theirs in zip(chunked, plain, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5, rtol=1e-4)


def small_model() -> Transformer:
    model = Transformer(preset("1m", vocab_size=64, mask_id=60, max_length=16, width=32, layers=2, heads=2))
    model.initialise(3)
    return model


def some_hidden(law: str = "0.2-0.8", rows: int = 6) -> HiddenTokens:
    tokens = np.random.default_rng(0).integers(0, 60, (rows, 16))
    batch = Batch(0, np.arange(rows), rows, tokens, np.ones(tokens.shape, dtype=bool))
    return on_device(Masking(parse_schedule(law)).noisy(batch, Noise(0), 60), CPU)


def test_head_on_hidden_positions_equals_head_on_all() -> None:
    """Values and gradients, of every parameter."""
    model, hidden = small_model(), some_hidden()
    logits = head(model, model.hidden(hidden.tokens_BT)).flatten(0, 1)
    targets = torch.zeros(len(logits), dtype=torch.int64).index_copy(0, hidden.position_N, hidden.target_N)
    factor = torch.zeros(len(logits)).index_copy(0, hidden.position_N, hidden.weight_N / hidden.num_maskable)
    everywhere = (torch.nn.functional.cross_entropy(logits, targets, reduction="none") * factor).sum()
    expected = torch.autograd.grad(everywhere, list(model.parameters()))
    for kind in ("chunked", "plain"):
        terms = masked_loss(model, hidden, hidden.num_maskable, kind)  # type: ignore[arg-type]
        assert float(terms.loss.detach()) == pytest.approx(float(everywhere.detach()), rel=1e-6)
        for ours, theirs in zip(torch.autograd.grad(terms.loss, list(model.parameters())), expected, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("kind", ["chunked", "plain"])
@pytest.mark.parametrize("law", ["0", "0.000001"])
def test_a_batch_that_hides_nothing_adds_zero(law: str, kind: str) -> None:
    model, hidden = small_model(), some_hidden(law)
    assert len(hidden.position_N) == 0
    terms = masked_loss(model, hidden, hidden.num_maskable, kind)  # type: ignore[arg-type]
    terms.loss.backward()
    assert float(terms.loss.detach()) == 0
    assert all(float(p.grad.abs().sum()) == 0 for p in model.parameters() if p.grad is not None)


def test_parts_of_a_batch_add_up_to_the_batch() -> None:
    model = small_model()
    whole = some_hidden(rows=8)
    terms = masked_loss(model, whole, whole.num_maskable)
    tokens = np.random.default_rng(0).integers(0, 60, (8, 16))
    masking, total = Masking(parse_schedule("0.2-0.8")), 0.0
    for rows in (np.arange(3), np.arange(3, 8)):
        batch = Batch(0, rows, 8, tokens[rows], np.ones((len(rows), 16), dtype=bool))
        part = on_device(masking.noisy(batch, Noise(0), 60), CPU)
        total += float(masked_loss(model, part, whole.num_maskable).loss.detach())
    assert total == pytest.approx(float(terms.loss.detach()), rel=1e-6)


def test_bfloat16_is_near_float32() -> None:
    model, hidden = small_model(), some_hidden()
    exact = masked_loss(model, hidden, hidden.num_maskable)
    exact_gradient = torch.autograd.grad(exact.loss, model.output_weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        terms = masked_loss(model, hidden, hidden.num_maskable)
    gradient = torch.autograd.grad(terms.loss, model.output_weight)[0]
    assert float(terms.loss.detach()) == pytest.approx(float(exact.loss.detach()), rel=5e-3)
    assert float((gradient - exact_gradient).norm() / exact_gradient.norm()) < 0.02


def test_the_wrapped_loss_is_the_loss() -> None:
    model, hidden = small_model(), some_hidden()
    loss, nll_N = MaskedLoss(model)(hidden, hidden.num_maskable)
    terms = masked_loss(model, hidden, hidden.num_maskable)
    assert torch.equal(loss, terms.loss) and torch.equal(nll_N, terms.nll_N)
