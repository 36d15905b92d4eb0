"""generate, infill and chat as a person meets them; traces, pieces of text, and what a cache is said to change."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoders import random_model
from halfmask.cli.main import main
from halfmask.data.vocabulary import open_vocabulary
from halfmask.decoding.canvas import Canvas
from halfmask.decoding.chat import Conversation
from halfmask.decoding.commit import parse_rule
from halfmask.decoding.decode import Decoder, decode
from halfmask.decoding.strategy import Strategy
from halfmask.decoding.texts import Stop, filled_holes, pieces, whole_text
from halfmask.decoding.trace import Trace
from halfmask.errors import UsageError
from halfmask.evaluation.written import difference, written_bound
from halfmask.models.load import Loaded, open_model
from runs import tiny_data, tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = tiny_data(folder / "data", "bpe:300")
    return tiny_run(folder / "run", data, "data.length=48", "optimizer.lr=1e-2", "model.width=32", steps=20)


@pytest.fixture(scope="module")
def model(run: Path) -> Loaded:
    return open_model(run, device="cpu")


def program(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert main([*words, "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    return out, err


# --- tokens and text


@pytest.mark.parametrize("text", ["plain words", "ünïcödé — 日本語 🙂!", "\ufffd kept", "", "🙂"])
def test_pieces_make_up_the_text(text: str, model: Loaded) -> None:
    for vocabulary in (open_vocabulary("bytes"), model.vocabulary):
        ids = vocabulary.encode([text])
        found = pieces(vocabulary, ids)
        assert len(found) == len(ids) and "".join(found) == text


def test_a_character_of_several_tokens_comes_whole() -> None:
    vocabulary = open_vocabulary("bytes")
    assert pieces(vocabulary, vocabulary.encode(["aé🙂"])) == ["a", "", "é", "", "", "", "🙂"]
    assert pieces(vocabulary, [97, vocabulary.mask_id, 98]) == ["a", "", "b"]


def test_stop_cuts_before_the_first_of_its_texts() -> None:
    vocabulary = open_vocabulary("bytes")
    stop = Stop(vocabulary, ("\n\n", "END"))
    assert stop.cut("one END two\n\n") == "one "
    assert stop.cut("one") == "one"
    assert Stop(vocabulary, ()).cut("one END") == "one END"


def test_a_row_stops_when_its_text_says_so() -> None:
    vocabulary, denoiser = open_vocabulary("bytes"), random_model(vocab_size=258)
    canvas, left_to_right = Canvas.continuation([65, 66], 30), Strategy(block=1)
    whole = decode(Decoder(denoiser), [canvas], left_to_right)[0]
    text = vocabulary.decode(whole.tokens_T[2:])
    stop = Stop(vocabulary, (text[3:5],))
    stopped = decode(Decoder(denoiser), [canvas], left_to_right, stop=stop)[0]
    assert stopped.finish == "stopped" and stopped.length < whole.length
    assert stopped.tokens_T[: stopped.length].tolist() == whole.tokens_T[: stopped.length].tolist()
    assert stop.cut(filled_holes(vocabulary, stopped)[0]) == stop.cut(text)


def test_holes_are_told_one_by_one() -> None:
    vocabulary, denoiser = open_vocabulary("bytes"), random_model(vocab_size=258)
    canvas = Canvas.with_holes([2, vocabulary.encode([" and "]), 3, vocabulary.encode(["."])])
    full = decode(Decoder(denoiser, num_ids=128), [canvas], Strategy())[0]
    first, second = filled_holes(vocabulary, full)
    assert (len(first), len(second)) == (2, 3)
    assert whole_text(vocabulary, full) == f"{first} and {second}."


# --- traces


def replayed(lines: list[dict[str, Any]], number: int) -> list[int]:
    """The canvas as the trace alone tells it."""
    mine = [line for line in lines if line.get("canvas") == number]
    tokens = [token for token, _ in mine[0]["tokens"]]
    for line in mine[1:-1]:
        for each in line["committed"]:
            tokens[each["at"]] = each["id"]
    return tokens


def test_a_trace_tells_all_that_happened(model: Loaded) -> None:
    canvases = [Canvas.continuation(model.vocabulary.encode(["mask the"]), 12), Canvas.with_holes([[1, 2], 4, [3]])]
    strategy = Strategy(rule=parse_rule("threshold:0.3"), remask=0.2, block=4, cache="dual", alternatives=3)
    stream = io.StringIO()
    trace = Trace(stream, model.vocabulary, model="a model", strategy=strategy)
    trace.begin(canvases)
    done = decode(Decoder.of(model), canvases, strategy, on_step=trace.step)
    trace.end(done)
    head, *lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (head["halfmask"], head["format"], head["model"]) == ("trace", 1, "a model")
    assert head["strategy"]["rule"] == "threshold:0.3" and head["strategy"]["cache"] == "dual"
    for number, full in enumerate(done):
        mine = [line for line in lines if line["canvas"] == number]
        assert mine[0]["holes"] == np.flatnonzero(canvases[number].hidden_T).tolist()
        assert replayed(lines, number)[: full.length] == full.tokens_T[: full.length].tolist()
        assert [line["step"] for line in mine[1:-1]] == list(range(full.num_steps))
        assert sum(line["exact"] for line in mine[1:-1]) == full.num_passes
        assert mine[-1] == {
            "canvas": number,
            "steps": full.num_steps,
            "passes": full.num_passes,
            "finish": full.finish,
            "text": whole_text(model.vocabulary, full),
        }
        for each in (each for line in mine[1:-1] for each in line["committed"]):
            assert len(each["others"]) == 3
            chances = [chance for _, _, chance in each["others"]]
            assert chances == sorted(chances, reverse=True)
            assert each["others"][0][:2] == [each["id"], each["text"]]  # at temperature 0


# --- what a cache changes


def test_the_difference_between_completions(model: Loaded) -> None:
    canvases = [Canvas.continuation(model.vocabulary.encode([text]), 16) for text in ("mask", "the ratio")]
    decoder = Decoder.of(model)
    exact = decode(decoder, canvases, Strategy(may_end=False))
    same = difference(model.denoiser, exact, exact, model.device)
    assert same.same == 1 and same.bound == same.other_bound
    noisy = decode(decoder, canvases, Strategy(may_end=False, temperature=50.0, rule=parse_rule("random")))
    found = difference(model.denoiser, noisy, exact, model.device)
    agree = np.mean([(a.tokens_T == b.tokens_T)[a.canvas.hidden_T] for a, b in zip(noisy, exact, strict=True)])
    assert found.same == pytest.approx(agree) and found.same < 0.2
    assert found.bound > found.other_bound + 0.5  # what is drawn almost evenly is no text to the model


def test_the_bound_of_one_written_token_is_its_surprise(model: Loaded) -> None:
    """One hole has one mask: the bound is -log p of its token, whatever the ratio."""
    full = decode(Decoder.of(model), [Canvas.with_holes([[5, 6, 7], 1, [8, 9]])], Strategy())[0]
    with torch.no_grad():
        tokens = torch.from_numpy(np.where(full.canvas.hidden_T, model.denoiser.mask_id, full.tokens_T))[None]
        log_p = (model.denoiser.hidden(tokens)[0, 3] @ model.denoiser.output_weight.T).log_softmax(0)
    expected = -float(log_p[full.tokens_T[3]])
    assert written_bound(model.denoiser, [full], model.device)[0] == pytest.approx(expected, abs=1e-5)


# --- Hugging Face models


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_pretrained_model_is_decoded_exactly(kind: str) -> None:
    from test_models import MAKERS

    denoiser: Any = MAKERS[kind]()
    canvases = [Canvas.continuation([5, 6, 7], 4), Canvas.with_holes([[8, 9], 3, [10]])]
    done = decode(Decoder(denoiser), canvases, Strategy())
    for canvas, full in zip(canvases, done, strict=True):
        alone = decode(Decoder(denoiser), [canvas], Strategy())[0]
        assert full.tokens_T.tolist() == alone.tokens_T.tolist()
        assert (full.tokens_T != denoiser.mask_id).all()
    with pytest.raises(UsageError, match="got Pretrained: decode without a cache"):
        decode(Decoder(denoiser), canvases, Strategy(cache="dual"))


# --- the command line


def test_generate_prints_texts_and_says_how_fast(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = program("generate", str(run), "mask the", "--length", "6", "--no-end", capsys=capsys)
    assert out.startswith("mask the") and len(out) > len("mask the\n")
    assert "6 tokens in 6 steps" in err
    again, _ = program("generate", str(run), "mask the", "--length", "6", "--no-end", capsys=capsys)
    assert again == out


def test_generate_reads_files_and_writes_records(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prompts.txt").write_text("mask the\n\nhidden token\n", encoding="utf-8")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "mask the"}\n{"prompt": "hidden token"}\n', encoding="utf-8")
    common = ["--length", "5", "--temperature", "0.5", "--samples", "2", "--json"]
    first, _ = program("generate", str(run), "--from", str(tmp_path / "prompts.txt"), *common, capsys=capsys)
    second, _ = program(
        "generate", str(run), "--from", str(tmp_path / "prompts.jsonl"), "--column", "prompt", *common, capsys=capsys
    )
    third, _ = program("generate", str(run), "mask the", "hidden token", *common, "--rows", "1", capsys=capsys)
    rows = json.loads(first)["rows"]
    assert rows == json.loads(second)["rows"] == json.loads(third)["rows"]
    assert [row["sample"] for row in rows] == [0, 1, 0, 1]
    assert rows[0]["text"].startswith("mask the") and rows[2]["text"].startswith("hidden token")
    assert json.loads(first)["settings"]["temperature"] == 0.5
    out, err = program(
        "generate", str(run), "mask the", "hidden token", *common[:-1], "--out", str(tmp_path / "texts.jsonl"),
        "--trace", str(tmp_path / "steps.jsonl"), capsys=capsys,
    )  # fmt: skip
    assert [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()] == rows
    assert "── 4 of 4" in out and f"wrote {tmp_path / 'texts.jsonl'}" in err
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert lines[0]["model"] == str(run) and {line["canvas"] for line in lines[1:]} == {0, 1, 2, 3}


def test_generate_says_what_a_cache_changes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("generate", str(run), "mask the", "--length", "16", "--block", "4", "--cache", "dual")
    _, err = program(*words, capsys=capsys)
    assert "the cache dual is not exact: --compare measures what it changes" in err
    _, err = program(*words, "--compare", capsys=capsys)
    assert "of the tokens are those of decoding without the cache; bound of what was written" in err
    _, err = program(*words, "--refresh", "1", "--compare", capsys=capsys)
    assert "100.0% of the tokens" in err


def test_generate_stops_before_a_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(run), "mask", "--length", "12", "--no-end", "--json"]
    whole = json.loads(program(*words, capsys=capsys)[0])["rows"][0]
    stop = whole["written"][0][2:4]
    row = json.loads(program(*words, "--stop", stop, capsys=capsys)[0])["rows"][0]
    assert row["finish"] == "stopped"
    assert row["text"] == "mask" + row["written"][0] and stop not in row["written"][0]
    assert whole["written"][0].startswith(row["written"][0])


def test_infill_keeps_what_is_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = program("infill", str(run), "mask [mask:3] hidden [mask].", "--json", capsys=capsys)
    row = json.loads(out)["rows"][0]
    first, second = row["written"]
    assert row["text"] == f"mask {first} hidden {second}."
    assert (row["tokens"], row["finish"]) == (4, "length")


def test_chat_answers_each_line(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("mask?\n\n/new\n/nonsense\nmask?\n" + "long " * 80 + "\n/quit\nno\n"))
    out, err = program("chat", str(run), "--length", "6", capsys=capsys)
    first, second, *rest = out.split("\n")
    assert first == second and rest == [""]  # begun again: the same answer
    assert "knows no /nonsense" in err
    assert "must leave room for an answer" in err


def test_a_conversation_drops_its_oldest_turns(model: Loaded) -> None:
    talk = Conversation(Decoder.of(model), model.vocabulary, Strategy(block=4), length=6)
    seen = []
    for word in ("mask", "token", "ratio", "law"):
        talk.ask(word, seen.append)
        assert talk.turns[-1][0] == word
        given = talk.vocabulary.decode(seen[-1].tokens_T[: seen[-1].canvas.open_from])
        assert given.endswith(f"User: {word}\nAssistant:")
        assert len(seen[-1].tokens_T) <= 48
    assert "mask" not in given
    assert not talk.decoder.rows


def test_the_terminal_shows_what_is_covered_and_how_sure_the_model_was(model: Loaded) -> None:
    from halfmask.cli.live_text import COVERED, STYLES, painted

    canvas = Canvas.with_holes([model.vocabulary.encode(["mask "]), 3, model.vocabulary.encode(["."])])
    decoder = Decoder.of(model)
    row = decoder.join(canvas, Strategy())
    assert painted(model.vocabulary, row).plain == f"mask {COVERED * 3}."
    while decoder.rows:
        decoder.step()
    row.confidence_T[row.canvas.hidden_T] = (0.95, 0.7, 0.1)
    text = painted(model.vocabulary, row)
    assert text.plain == whole_text(model.vocabulary, row.completion())
    assert [str(span.style) for span in text.spans] == [style for _, style in STYLES]
    assert painted(model.vocabulary, row, len(canvas.tokens_T) - 1).plain == "."


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "line, said",
    [
        ("generate RUN", "got neither: write one in quotes, or --from FILE"),
        ("generate RUN mask --from x.txt", "got both: leave one out"),
        ("generate RUN --from x.txt", "x.txt"),
        ("generate RUN mask --length 0", "1 token or more, got 0"),
        ("generate RUN mask --length 100", "at most 48 tokens"),
        ("generate RUN mask --samples 0", "--samples must be 1 or more"),
        ("generate RUN mask --rows 0", "--rows must be 1 or more"),
        ("generate RUN mask --rule treshold:0.9", "did you mean threshold?"),
        ("generate RUN mask --length 32 --steps 3 --block 4", "8 blocks need a step each"),
        ("generate RUN mask --stop x --compare", "--compare is about whole texts"),
        ("generate RUN mask --out nowhere/texts.jsonl", "mkdir -p nowhere"),
        ("generate RUN mask --trace nowhere/steps.jsonl", "mkdir -p nowhere"),
        ("generate RUN mask --cache duel", "did you mean dual?"),
        ("generate . mask", "got a folder without a model"),
        ("infill RUN mask", "must have a hole"),
        ("infill RUN [mask:0]", "[mask:5]"),
        ("infill RUN [mask:99]", "at most 48 tokens, got 99"),
        ("chat RUN --top-p 0", "top_p must lie in (0, 1]"),
        ("chat .", "got a folder without a model"),
    ],
)
@pytest.mark.usefixtures("in_an_empty_folder")
def test_a_mistake_gets_one_line(line: str, said: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run) if word == "RUN" else word for word in line.split()]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.startswith("halfmask: ") and err.count("\n") == 1
    assert not out
