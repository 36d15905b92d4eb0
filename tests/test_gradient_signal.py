"""The gradient's signal and noise by ratio: against plain per-row gradients, and unbiased where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from halfmask.data.vocabulary import open_vocabulary
from halfmask.errors import UsageError
from halfmask.evaluation.draws import EVALUATION_SEED
from halfmask.evaluation.signal import NUM_BLOCKS, _Blocks, gradient_signal
from halfmask.masking.corrupt import Batch, hide_exactly
from halfmask.models.denoiser import head
from halfmask.models.load import Loaded
from halfmask.models.transformer import Transformer, TransformerConfig
from halfmask.noise import Noise

LENGTH, MASK = 12, 30


def model() -> Loaded:
    made = Transformer(TransformerConfig(32, MASK, width=8, layers=1, heads=2, max_length=LENGTH))
    made.initialise(0)
    return Loaded("random", made.eval(), open_vocabulary("bytes"), LENGTH, torch.device("cpu"), {})


def rows(num: int) -> Batch:
    tokens = np.random.default_rng(0).integers(0, 30, (num, LENGTH)) // 3
    return Batch(0, np.arange(num), num, tokens, np.ones(tokens.shape, dtype=bool))


def plain_gradients(num: int, at: int, num_bins: int) -> tuple[np.ndarray, list[float]]:
    """One row at a time, the loss written down."""
    found, losses, loaded = [], [], model()
    noise, tokens = Noise(EVALUATION_SEED), rows(num).tokens_BT
    for row in range(num):
        ratio = (at + noise.uniform("ratios", at, [row], 1)[0, 0]) / num_bins
        count = np.array([min(np.floor(ratio * LENGTH) + 1, LENGTH)])
        hidden = hide_exactly(count, noise.uniform("hiding", at, [row], LENGTH), np.ones((1, LENGTH), dtype=bool))[0]
        states = loaded.denoiser.hidden(torch.tensor(np.where(hidden, MASK, tokens[row]))[None])[0]
        log_p = head(loaded.denoiser, states).log_softmax(-1)[torch.tensor(hidden)]
        loss = -log_p[torch.arange(len(log_p)), torch.tensor(tokens[row][hidden])].mean()
        gradient = torch.autograd.grad(loss, list(loaded.module.parameters()))
        found.append(torch.cat([part.flatten() for part in gradient]).numpy())
        losses.append(float(loss.detach()))
    return np.array(found, dtype=np.float64), losses


def test_against_plain_gradients_of_every_row() -> None:
    found = gradient_signal(model(), rows(24), num_bins=3)
    for at in range(3):
        gradients, losses = plain_gradients(24, at, 3)
        noise = gradients.var(axis=0, ddof=1).sum()
        signal = (gradients.mean(axis=0) ** 2).sum() - noise / 24
        assert np.isclose(found.noise_B[at], noise, rtol=1e-3)
        assert np.isclose(found.signal_B[at], signal, rtol=1e-3)
        assert np.isclose(found.snr_B[at], signal / noise, rtol=2e-3)
        assert np.isclose(found.loss_B[at], np.mean(losses), rtol=1e-5)
    assert np.allclose(found.ratio_B, [1 / 6, 1 / 2, 5 / 6])


def test_small_batches_mean_the_same() -> None:
    """Gradients of four rows have the same signal, and a quarter of the noise, which is counted back."""
    one, four = (gradient_signal(model(), rows(256), num_bins=2, micro_rows=micro) for micro in (1, 4))
    assert np.allclose(one.signal_B, four.signal_B, rtol=0.05)
    assert np.allclose(one.noise_B, four.noise_B, rtol=0.25)


def known(seed: int, num: int = 40, dimension: int = 20) -> tuple[float, ...]:
    """Gradients drawn with |E g|² = 0.5 and a noise of 20."""
    random = torch.Generator().manual_seed(seed)
    mean = torch.full((dimension,), (0.5 / dimension) ** 0.5)
    blocks = _Blocks()
    for at in range(num):
        blocks.add(at * NUM_BLOCKS // num, [mean + torch.randn(dimension, generator=random)], 1.0)
    return blocks.summary(micro_rows=1)


def test_signal_and_noise_are_unbiased_and_the_error_is_right() -> None:
    found = np.array([known(seed) for seed in range(400)])
    signal, noise, snr, error = found[:, 0], found[:, 1], found[:, 2], found[:, 3]
    assert abs(signal.mean() - 0.5) < 3.5 * signal.std() / 20
    assert abs(noise.mean() - 20) < 3.5 * noise.std() / 20
    assert abs(snr.mean() - 0.025) < 0.004
    assert 0.8 < error.mean() / snr.std() < 1.4


@pytest.mark.parametrize("num, micro", [(15, 1), (16, 2), (16, 0)])
def test_too_few_rows_are_refused(num: int, micro: int) -> None:
    with pytest.raises(UsageError, match="16 small batches or more"):
        gradient_signal(model(), rows(num), micro_rows=micro)
