"""Likelihoods of continuations: exact where all sets are tried, unbiased elsewhere, the same whatever the batches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from halfmask.data.vocabulary import open_vocabulary
from halfmask.errors import DataError, UsageError
from halfmask.evaluation.continuations import Continuation, hidden_losses, is_greedy
from halfmask.evaluation.exact import all_sets
from halfmask.evaluation.likelihood import Likelihood, Question, draw_sets
from halfmask.evaluation.questions import encode_pair, read_questions
from halfmask.laws import FloatArray
from halfmask.models.denoiser import head
from halfmask.models.load import Loaded
from halfmask.models.transformer import Transformer, TransformerConfig
from halfmask.noise import Noise

MASK = 257
LONGEST = 16


@cache
def model() -> Loaded:
    """Random and far from uniform, over bytes."""
    made = Transformer(TransformerConfig(258, MASK, width=8, layers=1, heads=2, max_length=LONGEST))
    made.initialise(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(20.0 if parameter.ndim == 2 else 1.0)
    return Loaded("random", made.eval(), open_vocabulary("bytes"), LONGEST, torch.device("cpu"), {})


def ids(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)


def by_hand(prompt: np.ndarray, option: np.ndarray, guidance: float = 0.0) -> float:
    """-log p by every set, one row at a time, written apart from the code."""
    denoiser, total = model().denoiser, 0.0
    for at in all_sets(len(option)):
        noisy = torch.tensor([*prompt, *np.where(at, MASK, option)])[None]
        with torch.no_grad():
            logits = head(denoiser, denoiser.hidden(noisy)[0])
            if guidance:
                noisy[0, : len(prompt)] = MASK
                blind = head(denoiser, denoiser.hidden(noisy)[0])
                logits = blind + (1 + guidance) * (logits - blind)
        log_p = logits.log_softmax(-1)[len(prompt) :]
        nll = -sum(float(log_p[place, option[place]]) for place in np.flatnonzero(at))
        total += nll / at.sum() / math.comb(len(option), int(at.sum()))
    return total


@pytest.mark.parametrize("guidance", [0.0, 0.7])
def test_few_tokens_are_exact(guidance: float) -> None:
    prompt, options = ids("so it "), (ids("is"), ids("was"), ids("x"), ids("will"))
    answer = Likelihood(model(), num_draws=15, guidance=guidance).ask([Question(prompt, options)])[0]
    for log_p, option in zip(answer.log_p_O, options, strict=True):
        assert abs(log_p + by_hand(prompt, option, guidance)) < 1e-4
    assert (answer.error_O == 0).all()


def test_many_tokens_are_unbiased_and_know_their_noise() -> None:
    question = Question(ids("so it "), (ids("goes on"),))
    answers = [Likelihood(model(), num_draws=32, seed=seed).ask([question])[0] for seed in range(150)]
    values = np.array([answer.log_p_O[0] for answer in answers])
    truth = -by_hand(question.prompt, question.options[0])
    assert abs(values.mean() - truth) < 3.5 * values.std() / math.sqrt(150)
    errors = np.array([answer.error_O[0] for answer in answers])
    assert 0.7 < math.sqrt((errors**2).mean()) / values.std() < 1.4
    assert values.std() < 0.05 * abs(truth)


def questions() -> list[Question]:
    options = tuple(ids(text) for text in ("goes on and on", "ends", "goes on and up"))
    return [Question(ids(text), options, key) for key, text in enumerate(("so", "and then ", "", "so it "))]


@pytest.mark.parametrize("stop", ["never", "decided"])
def test_an_answer_is_that_of_its_question_alone(stop: str) -> None:
    """Whatever is asked beside it, and however rows are batched."""
    together = Likelihood(model(), num_draws=48, stop=stop).ask(questions())  # type: ignore[arg-type]
    for one, answer in zip(questions(), together, strict=True):
        small = Likelihood(model(), num_draws=48, batch_tokens=40, stop=stop)  # type: ignore[arg-type]
        alone = small.ask([one])[0]
        assert np.allclose(alone.log_p_O, answer.log_p_O, atol=1e-3)


def test_options_share_their_noise() -> None:
    """Equal beginnings are hidden alike, so equal options get equal answers, and a longer one the same draws."""
    option = ids("goes on and on")
    answer = Likelihood(model(), num_draws=16).ask([Question(ids("so"), (option, option))])[0]
    assert answer.log_p_O[0] == answer.log_p_O[1]
    other = Likelihood(model(), num_draws=16).ask([Question(ids("so"), (option,), key=1)])[0]
    assert other.log_p_O[0] != answer.log_p_O[0]
    short, _ = draw_sets(20, 16, Noise(0), key=3, group=0)
    long, _ = draw_sets(21, 16, Noise(0), key=3, group=0)
    assert (short == long[:, :20]).mean() > 0.9


def test_every_token_is_hidden_as_often_as_its_draw_says() -> None:
    sets, weight = zip(*(draw_sets(9, 16, Noise(0), key, 0) for key in range(3000)), strict=True)
    share = np.mean([each / each.sum(axis=1, keepdims=True) for each in sets], axis=0)
    assert np.allclose(share, 1 / 9, atol=0.02)
    assert abs(np.mean(weight) - 1) < 0.01


def test_equal_rows_go_through_once() -> None:
    """Four one-token options see the same row; so do options of one length with everything hidden."""
    prompt = ids("2 + 2 =")
    asked = [Continuation(prompt, ids(each), all_sets(1)) for each in "1234"]
    assert hidden_losses(model(), asked, guidance=0, batch_tokens=1000) == 1
    assert len({float(each.nll_SL[0, 0]) for each in asked}) == 4
    everything = np.ones((1, 3), dtype=bool)
    asked = [Continuation(prompt, ids(each), everything) for each in ("abc", "xyz")]
    assert hidden_losses(model(), asked, guidance=0, batch_tokens=1000) == 1
    again = [Continuation(prompt, ids(each), everything) for each in ("abc", "xyz")]
    assert hidden_losses(model(), again, guidance=0, batch_tokens=1) == 2  # a row for each pass
    assert np.allclose(asked[1].nll_SL, again[1].nll_SL)


def rows_asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from halfmask.evaluation import likelihood

    counts: list[int] = []

    def counted(*arguments: object, **options: object) -> int:
        counts.append(hidden_losses(*arguments, **options))  # type: ignore[arg-type]
        return counts[-1]

    monkeypatch.setattr(likelihood, "hidden_losses", counted)
    return counts


def test_stopping_when_decided_saves_rows_and_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = rows_asked(monkeypatch)
    all_draws = Likelihood(model(), num_draws=128).ask(questions())
    num_all, at = sum(counts), len(counts)
    early = Likelihood(model(), num_draws=128, stop="decided").ask(questions())
    assert sum(counts[at:]) < 0.8 * num_all
    for full, stopped in zip(all_draws, early, strict=True):
        assert np.argmax(full.log_p_O) == np.argmax(stopped.log_p_O)


def test_one_continuation_has_no_rank_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = rows_asked(monkeypatch)
    one = Question(ids("so"), (ids("goes on and on"),))
    never = Likelihood(model(), num_draws=64).ask([one])[0]
    decided = Likelihood(model(), num_draws=64, stop="decided").ask([one])[0]
    assert len(counts) == 1 + 4
    assert np.allclose(never.log_p_O, decided.log_p_O, atol=1e-4)


def test_a_prompt_keeps_its_end() -> None:
    option = ids("on")
    long = Likelihood(model()).ask([Question(ids("much text, and so it goes "), (option,))])[0]
    short = Likelihood(model()).ask([Question(ids("much text, and so it goes ")[-14:], (option,))])[0]
    assert long.log_p_O[0] == short.log_p_O[0]


def test_a_long_continuation_is_cut_into_windows() -> None:
    """Each token is predicted once; 16 fit, of which the prompt gets up to 8."""
    prompt, option = ids("so it goes "), ids("on and on, and that is the end of it")
    whole = Likelihood(model(), num_draws=8).ask([Question(prompt, (option,))])[0].log_p_O[0]
    row = np.concatenate([prompt, option])
    cuts = [11, 19, 35, 47]
    parts = []
    for number, (start, stop) in enumerate(pairwise(cuts)):
        window = Question(row[max(0, stop - LONGEST) : start], (row[start:stop],), key=number)
        parts.append(Likelihood(model(), num_draws=8).ask([window])[0].log_p_O[0])
    assert len(row) == 47 and abs(whole - sum(parts)) < 1e-3


def test_no_limit_where_a_model_has_none() -> None:
    free = replace(model(), max_length=None)
    with pytest.raises(UsageError, match="at most 16 tokens"):
        Likelihood(free, num_draws=4).ask([Question(ids("a" * 15), (ids("bc"),))])


def test_greedy_is_what_greedy_decoding_writes() -> None:
    denoiser, prompt = model().denoiser, ids("so it ")
    written = np.full(4, MASK)
    for _ in range(4):
        with torch.no_grad():
            logits = head(denoiser, denoiser.hidden(torch.tensor([*prompt, *written])[None])[0])[len(prompt) :]
        best, token = logits.log_softmax(-1).max(-1)
        best[torch.tensor(written != MASK)] = -math.inf
        place = int(best.argmax())
        written[place] = int(token[place])
    for changed in range(4):
        other = written.copy()
        other[changed] = (other[changed] + 1) % 256
        asked = [(prompt, written), (prompt, other), (ids("x"), ids("yz"))]
        assert is_greedy(model(), asked, batch_tokens=64)[:2] == [True, False]


def test_mistakes() -> None:
    with pytest.raises(UsageError, match="1 draw or more"):
        Likelihood(model(), num_draws=0)
    with pytest.raises(UsageError, match="did you mean decided"):
        Likelihood(model(), stop="decide")  # type: ignore[arg-type]
    for options in ((), (ids(""),)):
        with pytest.raises(DataError, match="1 token or more"):
            Likelihood(model()).ask([Question(ids("so"), options)])


def test_spaces_between_belong_to_the_continuation() -> None:
    before, after = encode_pair(open_vocabulary("bytes"), "so it ", "goes")
    assert bytes(before.tolist()) == b"so it" and bytes(after.tolist()) == b" goes"
    before, after = encode_pair(open_vocabulary("bytes"), "", "goes")
    assert not len(before) and bytes(after.tolist()) == b"goes"


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "must hold a question, got none"),
        ("{", "line 1, must hold a question, got JSONDecodeError"),
        ('{"prompt": "a"}', "got KeyError: 'options'"),
        ('{"prompt": "a", "options": ["b"], "gold": 1}', "got IndexError"),
        ("[1]", "line 1"),
    ],
)
def test_broken_files_of_questions(text: str, said: str, tmp_path: object) -> None:
    path = tmp_path / "questions.jsonl"  # type: ignore[operator]
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_questions(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_questions_of_both_shapes(tmp_path: object) -> None:
    path = tmp_path / "questions.jsonl"  # type: ignore[operator]
    path.write_text('{"query": "Q?", "choices": ["a", "b"], "gold": 1}\n\n{"prompt": "P", "options": [" c"]}\n')
    assert read_questions(path) == [
        {"prompt": "Q?\nAnswer:", "options": [" a", " b"], "gold": 1},
        {"prompt": "P", "options": [" c"]},
    ]


def spread(values: list[FloatArray]) -> float:
    return float(np.std(values))


def test_shared_noise_ranks_better() -> None:
    """The difference of two options is less noisy with their draws shared than with draws of their own."""
    options = (ids("goes on and on"), ids("goes on and up"))
    shared, unpaired = [], []
    for seed in range(60):
        how = Likelihood(model(), num_draws=8, seed=seed)
        both = how.ask([Question(ids("so"), options)])[0].log_p_O
        apart = [how.ask([Question(ids("so"), (each,), key)])[0].log_p_O[0] for key, each in enumerate(options)]
        shared.append(both[0] - both[1])
        unpaired.append(apart[0] - apart[1])
    assert spread(shared) < 0.8 * spread(unpaired)
