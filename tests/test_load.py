"""A model is opened from wherever it lies, with its tokenizer; what does not fit is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from halfmask.data.tokens import TokenData
from halfmask.errors import HalfmaskError
from halfmask.models.denoiser import head
from halfmask.models.load import Loaded, open_model
from halfmask.models.pretrained import load_pretrained
from runs import tiny_data, tiny_run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("data"), "bpe:300")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    return tiny_run(tmp_path_factory.mktemp("run") / "run", data)


def logits(found: Loaded) -> torch.Tensor:
    tokens = torch.arange(12).view(2, 6) % found.denoiser.vocab_size
    with torch.no_grad():
        return head(found.denoiser, found.denoiser.hidden(tokens).flatten(0, 1))


def test_a_run_its_model_and_its_last_checkpoint_are_the_same(run: Path) -> None:
    found = open_model(run, device="cpu")
    assert not found.module.training and found.max_length == 16
    assert found.card["law"] == "0-1" and found.card["steps"] == 2
    for path in (run / "model", run / "checkpoints" / "step-00000002"):
        assert torch.equal(logits(open_model(path, device="cpu")), logits(found))


def test_the_tokenizer_travels_with_the_model(run: Path, data: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run / "model", moved)
    found = open_model(moved, device="cpu")
    text = "mask the ratio"
    assert found.vocabulary.encode([text]).tolist() == TokenData.open(data).encode(text).tolist()
    assert found.vocabulary.digest == TokenData.open(data).tokenizer["digest"]


def test_bytes_need_no_tokenizer_file(tmp_path: Path) -> None:
    found = open_model(tiny_run(tmp_path / "run", tiny_data(tmp_path)), device="cpu")
    assert found.vocabulary.decode(found.vocabulary.encode(["ä"])) == "ä"


def test_tied_weights_are_one(tmp_path: Path, data: Path) -> None:
    run = tiny_run(tmp_path / "run", data, "model.tied=true", "model.positions=learned")
    for path in (run, run / "checkpoints" / "step-00000002"):
        found = open_model(path, device="cpu")
        assert found.denoiser.output_weight is found.module.get_parameter("embedding.weight")
        assert torch.isfinite(logits(found)).all()


def test_averaged_weights_are_those_of_a_checkpoint(tmp_path: Path, data: Path) -> None:
    run = tiny_run(tmp_path / "run", data, "optimizer.ema=0.5")
    at_end = logits(open_model(run, device="cpu"))
    assert torch.equal(logits(open_model(run / "checkpoints" / "step-00000002", device="cpu")), at_end)


def test_weights_can_be_narrowed(run: Path) -> None:
    assert open_model(run, device="cpu", dtype=torch.bfloat16).denoiser.output_weight.dtype == torch.bfloat16


def hugging_face(folder: Path, data: Path, kind: str, **options: Any) -> Path:
    transformers = pytest.importorskip("transformers")
    vocabulary = TokenData.open(data)
    sizes = {
        "vocab_size": vocabulary.vocab_size,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
    }
    config = {"bert": transformers.BertConfig, "llama": transformers.LlamaConfig}[kind](**sizes, **options)
    model_class = {"bert": transformers.BertForMaskedLM, "llama": transformers.LlamaForCausalLM}[kind]
    torch.manual_seed(0)
    model_class(config).save_pretrained(folder)
    shutil.copy(data / "tokenizer.json", folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_hugging_face_folder(kind: str, tmp_path: Path, data: Path) -> None:
    folder = hugging_face(tmp_path, data, kind)
    found = open_model(folder, device="cpu")
    assert found.max_length == 32 and found.vocabulary.mask_id == found.denoiser.mask_id
    direct = load_pretrained(str(folder), mask_id=found.vocabulary.mask_id, vocab_size=0).eval()
    assert torch.equal(logits(found), head(direct, direct.hidden(torch.arange(12).view(2, 6)).flatten(0, 1)))


@pytest.mark.parametrize("kind, tied", [("bert", True), ("llama", False), ("llama", True)])
def test_a_run_that_went_on_from_a_pretrained_model(kind: str, tied: bool, tmp_path: Path, data: Path) -> None:
    base = hugging_face(tmp_path / "base", data, kind, tie_word_embeddings=tied)
    run = tiny_run(tmp_path / "run", data, f"model.pretrained={base}")
    shutil.rmtree(base)  # the run stands by itself
    found = open_model(run, device="cpu")
    assert torch.isfinite(logits(found)).all()
    assert torch.equal(logits(open_model(run / "checkpoints" / "step-00000002", device="cpu")), logits(found))


@pytest.mark.filterwarnings("ignore")  # peft warns of configurations that are not its own
@pytest.mark.parametrize("own", [True, False])
def test_an_adapter_is_added_to_the_model_it_names(own: bool, tmp_path: Path, run: Path, data: Path) -> None:
    peft = pytest.importorskip("peft")
    base = run if own else hugging_face(tmp_path / "base", data, "llama")
    found = open_model(base, device="cpu")
    module: Any = found.module if own else found.module.model
    before = logits(found)
    targets = ["query_key_value"] if own else ["q_proj"]
    adapted = peft.get_peft_model(module, peft.LoraConfig(target_modules=targets, init_lora_weights=False))
    after = logits(found)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(tmp_path / "adapter")
    opened = open_model(tmp_path / "adapter", device="cpu")
    assert torch.allclose(logits(opened), after, atol=1e-5)
    assert not torch.allclose(before, after, atol=1e-3)


def broken(run: Path, folder: Path, what: str) -> Path:
    shutil.copytree(run, folder)
    card = folder / "model" / "config.json"
    fields = json.loads(card.read_text())
    if what == "unfinished":
        (folder / "model" / "model.safetensors").unlink()
    elif what == "truncated":
        weights = folder / "model" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
    elif what == "other sizes":
        fields["config"]["width"] = 32
        card.write_text(json.dumps(fields))
    elif what == "one layer more":
        fields["config"]["layers"] = 2
        card.write_text(json.dumps(fields))
    elif what == "other mask":
        fields["config"]["mask_id"] = 3
        card.write_text(json.dumps(fields))
    elif what == "no tokenizer":
        (folder / "model" / "tokenizer.json").unlink()
        card.write_text(json.dumps({**fields, "data": "gone"}))
    return folder


@pytest.mark.parametrize(
    "what, said",
    [
        ("unfinished", "step-00000002"),
        ("truncated", "must hold the weights"),
        ("other sizes", "must hold the weights"),
        ("one layer more", "no blocks.1"),
        ("other mask", "of which 3 is hidden"),
        ("no tokenizer", "must hold the model's tokenizer.json"),
    ],
)
def test_a_broken_run_is_refused(what: str, said: str, run: Path, tmp_path: Path) -> None:
    refuses(broken(run, tmp_path / "run", what), said)


def refuses(path: Path, said: str) -> None:
    with pytest.raises(HalfmaskError) as caught:
        open_model(path, device="cpu")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_model_is_refused(tmp_path: Path, data: Path, run: Path) -> None:
    (tmp_path / "empty").mkdir()
    refuses(tmp_path / "empty", "a folder without a model")
    refuses(run / "metrics.jsonl", "got a file")
    refuses(data, "a folder without a model")
    refuses(tmp_path / "gone", "got nothing there")
    refuses(Path("runs/gone"), "got nothing there")  # looks like a name on the Hub, and is not taken for one
    if not torch.cuda.is_available():
        with pytest.raises(HalfmaskError, match="needs a CUDA device"):
            open_model(run, device="cuda")


def test_a_model_without_a_mask_token_is_refused(tmp_path: Path, data: Path) -> None:
    folder = hugging_face(tmp_path, data, "llama")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [each for each in tokenizer["added_tokens"] if "mask" not in each["content"].lower()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    refuses(folder, "must have a mask token")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, data: Path) -> None:
    folder = hugging_face(tmp_path / "model", data, "bert")
    other = tiny_data(tmp_path / "other", "bpe:320")
    shutil.copy(other / "tokenizer.json", folder)
    refuses(folder, "must lie below this model's")
