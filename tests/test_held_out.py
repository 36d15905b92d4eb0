"""What models are measured on: windows and documents of tokens or text, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from halfmask.corpus.sources import Reading
from halfmask.data.tokens import TokenData, TokenFile
from halfmask.errors import DataError, UsageError
from halfmask.evaluation.draws import Draws
from halfmask.evaluation.held_out import (
    batches_by_length,
    check_fits,
    document_rows,
    encode_texts,
    measure,
    open_tokens,
    rows_of,
)
from halfmask.masking.corrupt import PADDING
from halfmask.models.load import Loaded, open_model
from runs import tiny_data, tiny_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held-out")


@pytest.fixture(scope="module")
def model(folder: Path) -> Loaded:
    return open_model(tiny_run(folder / "run", tiny_data(folder)), device="cpu")


def quiet(done: int, total: int, stage: str) -> None: ...


FILE = TokenFile("a file", np.arange(20, dtype=np.uint16), np.array([0, 3, 4, 13]))  # documents of 3, 1, 9 and 7


def test_documents_are_rows_and_long_ones_several() -> None:
    rows = document_rows(FILE, length=5, limit=None)
    assert rows.maskable_BT.sum(axis=1).tolist() == [3, 1, 5, 4, 5, 2]
    assert rows.tokens_BT[rows.maskable_BT].tolist() == list(range(20))
    assert rows.documents_BT is not None and rows.documents_BT[1].tolist() == [0] + [PADDING] * 4
    assert len(document_rows(FILE, length=5, limit=2).rows_B) == 2


def test_padding_is_cut_where_no_row_needs_it() -> None:
    rows = document_rows(FILE, length=9, limit=None)
    short = rows.select(np.array([0, 1])).trimmed()
    assert short.tokens_BT.shape == (2, 3) and short.documents_BT is not None
    alone = rows.select(np.array([0])).trimmed()
    assert alone.documents_BT is None  # nothing is padded
    assert rows.trimmed() is not rows and rows.trimmed().tokens_BT.shape == (4, 9)


def test_a_document_is_measured_the_same_in_any_company(model: Loaded, folder: Path) -> None:
    file = TokenData.open(folder / "tokens").split("validation")
    rows = document_rows(file, length=16, limit=6)
    wide = measure(model, rows, num_draws=4, batch_tokens=1 << 14)
    narrow = measure(model, rows, num_draws=4, batch_tokens=1)
    assert np.allclose(wide.estimate_RG, narrow.estimate_RG, atol=1e-4)
    assert wide.length_R.sum() == sum(Draws(rows, 4).length_R)


def test_text_is_encoded_as_prepare_does(model: Loaded, folder: Path) -> None:
    """The same documents, each with its end."""
    source = folder / "some.txt"
    source.write_text("first line\nsecond\n", encoding="utf-8")
    found = encode_texts([str(source)], model, Reading(documents="line"), quiet)
    assert found.file.tokens_N.tolist() == [*b"first line", 256, *b"second", 256]
    assert found.file.starts_D.tolist() == [0, 11]
    assert found.num_bytes == 16 and found.bytes_per_token == 16 / 18


def test_rows_are_as_long_as_the_models_take(model: Loaded, folder: Path) -> None:
    held_out = open_tokens(folder / "tokens")
    assert rows_of(held_out, length=None, limit=3, per="window", models=[model]).tokens_BT.shape == (3, 16)
    assert rows_of(held_out, length=8, limit=None, per="window", models=[model]).tokens_BT.shape[1] == 8
    for length, limit, said in ((17, 1, "1 to 16 tokens, got 17"), (0, 1, "1 to 16"), (8, 0, "1 row or more")):
        with pytest.raises(UsageError, match=said):
            rows_of(held_out, length=length, limit=limit, per="window", models=[model])


def test_batches_hold_rows_of_like_length() -> None:
    batches = batches_by_length(np.array([5, 1, 1, 4, 5, 1]), batch_tokens=10)
    assert [batch.tolist() for batch in batches] == [[1, 2, 5], [3, 0], [4]]
    assert [batch.tolist() for batch in batches_by_length(np.array([7, 9]), batch_tokens=1)] == [[0], [1]]


def test_what_does_not_fit_is_refused(model: Loaded, folder: Path) -> None:
    other = open_tokens(tiny_data(folder / "other", "bpe:300"))
    with pytest.raises(DataError, match="those of another tokenizer: give the text itself"):
        check_fits(other, model)
    check_fits(open_tokens(folder / "tokens"), model)
    with pytest.raises(UsageError, match="holds the splits train, validation, got test"):
        open_tokens(folder / "tokens", "test")
    (folder / "empty.txt").touch()
    with pytest.raises(DataError, match="must hold text, got nothing"):
        encode_texts([str(folder / "empty.txt")], model, Reading(), quiet)
    nothing = TokenFile("nothing", np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64))
    with pytest.raises(DataError, match="must hold a document"):
        document_rows(nothing, 8, None)


def test_progress_reaches_the_end(model: Loaded, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    rows = rows_of(open_tokens(folder / "tokens"), length=None, limit=5, per="window", models=[model])
    measure(model, rows, num_draws=2, batch_tokens=32, progress=lambda done, total, stage: seen.append((done, total)))
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert not torch.is_grad_enabled() or model.denoiser.output_weight.grad is None
