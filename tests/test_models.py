"""Every denoiser keeps one contract; the transformer is what its configuration says; other libraries' models fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halfmask.errors import UsageError
from halfmask.models.denoiser import attend_within, head
from halfmask.models.transformer import PRESETS, Transformer, TransformerConfig, num_parameters, preset

LENGTH, VOCABULARY, MASK = 10, 64, 60


def ours(**changes: Any) -> Transformer:
    sizes = {"width": 32, "layers": 2, "heads": 4, **changes}
    model = Transformer(TransformerConfig(vocab_size=VOCABULARY, mask_id=MASK, max_length=LENGTH, **sizes))
    model.initialise(0)
    return model


def pretrained(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    from halfmask.models.pretrained import Pretrained

    config_class, model_class = {
        "bert": (transformers.BertConfig, transformers.BertForMaskedLM),
        "modernbert": (transformers.ModernBertConfig, transformers.ModernBertForMaskedLM),
        "roberta": (transformers.RobertaConfig, transformers.RobertaForMaskedLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    }[kind]
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        is_causal=False,
    )
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return Pretrained(model_class(config), MASK).eval()


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "llada-like": ours,
    "nanogpt-like": lambda: ours(norm="layer", activation="gelu", positions="learned", tied=True, bias=True),
    "grouped-query": lambda: ours(kv_heads=2),
    **{kind: (lambda kind=kind: pretrained(kind)) for kind in ("bert", "modernbert", "roberta", "llama", "qwen3")},  # type: ignore[misc]
}
each_denoiser = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def some_tokens(rows: int = 3, length: int = LENGTH) -> Tensor:
    return torch.randint(3, MASK, (rows, length), generator=torch.Generator().manual_seed(1))


@each_denoiser
def test_shapes_and_names(make: Callable[[], Any]) -> None:
    model = make()
    states = model.hidden(some_tokens())
    assert states.shape[:2] == (3, LENGTH)
    assert head(model, states).shape == (3, LENGTH, VOCABULARY)
    assert (model.mask_id, model.vocab_size) == (MASK, VOCABULARY)
    assert model.output_weight.shape == (VOCABULARY, states.shape[2])


@each_denoiser
def test_rows_do_not_see_each_other(make: Callable[[], Any]) -> None:
    model, tokens = make(), some_tokens()
    together = model.hidden(tokens)
    for row in range(3):
        assert torch.allclose(model.hidden(tokens[row : row + 1])[0], together[row], atol=1e-5)


@each_denoiser
def test_every_position_sees_every_other(make: Callable[[], Any]) -> None:
    """Nothing causal is left: a change at either end reaches the other."""
    model, tokens = make(), some_tokens(1)
    before = model.hidden(tokens)[0]
    for at in (0, LENGTH - 1):
        changed = tokens.clone()
        changed[0, at] = (changed[0, at] + 1) % MASK
        after = model.hidden(changed)[0]
        assert all(not torch.equal(before[i], after[i]) for i in range(LENGTH))


@each_denoiser
def test_attention_stays_inside_a_document(make: Callable[[], Any]) -> None:
    model, tokens = make(), some_tokens(1)
    documents = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1, 1]])
    before = model.hidden(tokens, attend_within(documents))[0]
    changed = tokens.clone()
    changed[0, 7] = (changed[0, 7] + 1) % MASK
    after = model.hidden(changed, attend_within(documents))[0]
    assert torch.allclose(before[:4], after[:4], atol=1e-6)
    assert all(not torch.equal(before[i], after[i]) for i in range(4, LENGTH))


@each_denoiser
def test_head_on_some_positions_is_head_on_all(make: Callable[[], Any]) -> None:
    model = make()
    states = model.hidden(some_tokens()).flatten(0, 1)
    some = torch.tensor([0, 7, 29])
    assert torch.allclose(head(model, states)[some], head(model, states[some]), atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "roberta", "llama", "qwen3"])
def test_a_pretrained_model_says_what_it_said(kind: str) -> None:
    """Behind the protocol, logits are those of the library's own forward pass."""
    transformers = pytest.importorskip("transformers")
    model = pretrained(kind)
    fresh = transformers.AutoModelForMaskedLM if "Masked" in type(model.model).__name__ else None
    fresh = fresh or transformers.AutoModelForCausalLM
    reference = fresh.from_config(model.model.config).eval()  # type: ignore[union-attr]
    reference.load_state_dict(model.model.state_dict())  # type: ignore[union-attr]
    tokens = some_tokens()
    mask = torch.ones(3, 1, LENGTH, LENGTH, dtype=torch.bool)
    assert torch.equal(head(model, model.hidden(tokens)), reference(tokens, attention_mask=mask).logits)  # type: ignore[arg-type,operator]


def test_initial_weights_are_a_function_of_the_seed() -> None:
    first, second, third = ours(), ours(), ours()
    third.initialise(1)
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name])
    assert not torch.equal(first.embedding.weight, third.embedding.weight)


def test_rotary_positions_are_relative() -> None:
    """Attention scores depend on the distance alone: one more token in front moves no state of a uniform text."""
    model = ours(layers=1)
    tokens = torch.full((1, LENGTH), 5)
    states = model.hidden(tokens)[0]
    assert torch.allclose(states, states[:1].expand_as(states), atol=1e-5)
    learned = ours(layers=1, positions="learned").hidden(tokens)[0]
    assert not torch.allclose(learned, learned[:1].expand_as(learned), atol=1e-3)


def test_rotation_against_complex_numbers() -> None:
    from halfmask.models.transformer import _rotate

    model = ours()
    x = torch.randn(1, 1, LENGTH, 8, generator=torch.Generator().manual_seed(0))
    ours_turned = _rotate(x, model._rotary(LENGTH, x))
    angle = torch.arange(LENGTH)[:, None] * 10_000.0 ** (-torch.arange(4) / 4)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angle), angle)
    assert torch.allclose(ours_turned, torch.cat([turned.real, turned.imag], dim=-1), atol=1e-5)


def test_checkpointing_changes_nothing_but_memory() -> None:
    model, tokens = ours(), some_tokens()
    plain = torch.autograd.grad(model.hidden(tokens).square().sum(), list(model.parameters()), allow_unused=True)
    model.checkpointing = True
    again = torch.autograd.grad(model.hidden(tokens).square().sum(), list(model.parameters()), allow_unused=True)
    for ours_, theirs in zip(again, plain, strict=True):
        assert (ours_ is None and theirs is None) or torch.allclose(ours_, theirs, atol=1e-6)


@pytest.mark.parametrize(
    "name, vocab_size, millions",
    [("1m", 1024, (0.8, 1.3)), ("51m", 50_304, (50.5, 51.5)), ("8b", 126_464, (8010, 8020))],
)
def test_presets_have_the_size_of_their_name(name: str, vocab_size: int, millions: tuple[float, float]) -> None:
    num = num_parameters(preset(name, vocab_size=vocab_size, mask_id=0, max_length=150)) / 1e6
    assert millions[0] < num < millions[1]


@pytest.mark.parametrize("changes", [{"heads": 3}, {"width": 12, "heads": 4}, {"kv_heads": 3}, {"layers": 0}])
def test_impossible_sizes_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="in a transformer"):
        ours(**changes)


def test_unknown_presets_and_long_rows_are_refused() -> None:
    assert "51m" in PRESETS
    with pytest.raises(UsageError, match="did you mean 51m"):
        preset("51", vocab_size=9, mask_id=0, max_length=9)
    with pytest.raises(UsageError, match="at most 10 tokens"):
        ours().hidden(some_tokens(length=11))
