"""The training loss: cross-entropy of hidden tokens, weighted, over the number of tokens that may be hidden.

    L = 1/num_maskable Σ_rows w(t) Σ_{hidden j} -log p(x_j | x̃)

With w = 1/t it is the paper's objective (Section "Signal-Rich Mask Sampling in Language Modeling"), per token. The
normaliser is that of the whole global batch, so that neither accumulation nor the number of processes changes the
gradient. A row that hides nothing adds exactly 0.

The output layer is applied to hidden positions alone. `plain_nll` writes it down; `ChunkedHead` computes the same in
bounded memory and fewer passes: since a token's factor in the loss is known beforehand, each chunk of logits is turned
into its gradient while it is still warm, and no logits are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn

from halfmask.masking.corrupt import Noisy
from halfmask.models.denoiser import Denoiser, attend_within

Head = Literal["chunked", "plain"]
CHUNK_BYTES = {"cpu": 1 << 27, "cuda": 1 << 29}  # of one chunk of float32 logits: chosen by benchmarks/head.py


@dataclass(frozen=True)
class HiddenTokens:
    """A `Noisy` on a device. Letters: B rows, T positions, N hidden tokens, V vocabulary, D width."""

    tokens_BT: Tensor
    position_N: Tensor  # in the flattened B × T
    target_N: Tensor
    weight_N: Tensor  # of its row
    attend_BTT: Tensor | None
    num_maskable: int


@dataclass(frozen=True)
class LossTerms:
    loss: Tensor  # the share of these rows in L
    nll_N: Tensor  # -log p of each hidden token, without a gradient


def on_device(noisy: Noisy, device: torch.device) -> HiddenTokens:
    length = noisy.tokens_BT.shape[1]
    weight_N = noisy.weight_B[noisy.position_N // length]

    def moved(array: Any, dtype: torch.dtype) -> Tensor:
        tensor = torch.as_tensor(array, dtype=dtype)
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

    documents_BT = None if noisy.documents_BT is None else moved(noisy.documents_BT, torch.int32)
    return HiddenTokens(
        tokens_BT=moved(noisy.tokens_BT, torch.int64),
        position_N=moved(noisy.position_N, torch.int64),
        target_N=moved(noisy.target_N, torch.int64),
        weight_N=moved(weight_N, torch.float32),
        attend_BTT=None if documents_BT is None else attend_within(documents_BT),
        num_maskable=noisy.num_maskable,
    )


def masked_loss(denoiser: Denoiser, hidden: HiddenTokens, normaliser: float, head: Head = "chunked") -> LossTerms:
    states_BTD = denoiser.hidden(hidden.tokens_BT, hidden.attend_BTT)
    states_ND = states_BTD.flatten(0, 1)[hidden.position_N]
    weight_VD, bias_V = denoiser.output_weight, denoiser.output_bias
    factor_N = hidden.weight_N / normaliser
    if head == "plain":
        nll_N = plain_nll(states_ND, weight_VD, bias_V, hidden.target_N)
        return LossTerms((factor_N * nll_N).sum(), nll_N.detach())
    loss, nll_N = ChunkedHead.apply(states_ND, weight_VD, bias_V, hidden.target_N, factor_N)  # type: ignore[no-untyped-call]
    return LossTerms(loss, nll_N)


def plain_nll(states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor) -> Tensor:
    """-log softmax(h W^T + b)[target], written down."""
    logits_NV = F.linear(states_ND, weight_VD, bias_V)
    return F.cross_entropy(logits_NV.float(), target_N, reduction="none")


class ChunkedHead(torch.autograd.Function):
    """Σ factor · nll, and nll, with gradients for states, weight and bias."""

    @staticmethod
    def forward(  # noqa: PLR0917 (what `apply` takes has an order)
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, factor_N: Tensor
    ) -> tuple[Tensor, Tensor]:
        device = states_ND.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states_ND.dtype
        needs_gradient = any(ctx.needs_input_grad[:3])
        num_tokens, vocab_size = len(target_N), len(weight_VD)
        with torch.autocast(device, enabled=False):
            h_ND, w_VD = states_ND.detach().to(dtype), weight_VD.detach().to(dtype)
            bias = None if bias_V is None else bias_V.detach().to(dtype)
            nll_N = torch.empty(num_tokens, device=states_ND.device)
            dh_ND, dw_VD = torch.empty_like(h_ND), torch.zeros_like(weight_VD, dtype=torch.float32)
            db_V = None if bias_V is None else torch.zeros_like(bias_V, dtype=torch.float32)
            size = max(16, CHUNK_BYTES.get(device, CHUNK_BYTES["cpu"]) // (4 * vocab_size))
            for start in range(0, num_tokens, size):
                at = slice(start, start + size)
                logits_CV = F.linear(h_ND[at], w_VD, bias)
                # softmax in few passes over memory: e^(logit - top), its sum, and one factor for both
                p_CV = logits_CV.float().sub_(logits_CV.amax(dim=1, keepdim=True))
                picked_C1 = p_CV.gather(1, target_N[at, None])
                total_C1 = p_CV.exp_().sum(dim=1, keepdim=True)
                nll_N[at] = (total_C1.log() - picked_C1)[:, 0]
                if not needs_gradient:
                    continue
                # d nll / d logits = softmax - one-hot, times the token's factor in the loss
                factor_C1 = factor_N[at, None]
                p_CV.mul_(factor_C1 / total_C1).scatter_add_(1, target_N[at, None], -factor_C1)
                d_CV = p_CV.to(dtype)
                dh_ND[at] = d_CV @ w_VD
                dw_VD += d_CV.T @ h_ND[at]
                if db_V is not None:
                    db_V += d_CV.sum(dim=0)
        if needs_gradient:
            ctx.save_for_backward(
                dh_ND.to(states_ND.dtype),
                dw_VD.to(weight_VD.dtype),
                None if db_V is None or bias_V is None else db_V.to(bias_V.dtype),
            )
        ctx.mark_non_differentiable(nll_N)
        return (factor_N * nll_N).sum(), nll_N

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if each is None else each * upstream[0] for each in ctx.saved_tensors)
        return (*gradients, None, None)


class MaskedLoss(nn.Module):
    """Model and loss as one module: what DDP and FSDP2 wrap, so that the output layer is inside their forward."""

    def __init__(self, denoiser: nn.Module, head: Head = "chunked") -> None:
        super().__init__()
        self.denoiser = denoiser
        self.head: Head = head

    def forward(self, hidden: HiddenTokens, normaliser: float) -> tuple[Tensor, Tensor]:
        terms = masked_loss(self.denoiser, hidden, normaliser, self.head)  # type: ignore[arg-type]
        return terms.loss, terms.nll_N
