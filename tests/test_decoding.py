"""The loop: one contract for every rule and cache; exact posteriors give exact answers; other rows do not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare

from decoders import Posterior, additions, parities, random_model, sortings, trained_on
from halfmask.decoding.canvas import Canvas
from halfmask.decoding.commit import Best, parse_rule
from halfmask.decoding.decode import Decoder, Step, decode
from halfmask.decoding.propose import gumbel, nucleus
from halfmask.decoding.row import NEVER, Completion, planned_steps
from halfmask.decoding.strategy import Strategy
from halfmask.errors import UsageError
from halfmask.models.denoiser import head
from halfmask.models.transformer import Transformer
from halfmask.noise import Noise
from test_commit import RULES

Ids = NDArray[np.int64]
MODEL = random_model()
RANDOM = np.random.default_rng(7)
CANVASES = [
    Canvas.continuation(RANDOM.integers(0, 39, 5), 20),
    Canvas.with_holes([3, RANDOM.integers(0, 39, 7), 5, RANDOM.integers(0, 39, 2), 1]),
    Canvas.continuation([], 9),
    Canvas.with_holes([RANDOM.integers(0, 39, 30), 12, RANDOM.integers(0, 39, 3)], row=5),
]
STRATEGIES = {
    "exact": Strategy(),
    "blocks": Strategy(block=4, tokens=2),
    "steps": Strategy(steps=5),
    "warm": Strategy(temperature=0.8, top_p=0.9, seed=3),
    "guided": Strategy(guidance=1.5, block=6),
    "remasked": Strategy(remask=0.5, tokens=3, block=6),
    "prefix": Strategy(block=4, cache="prefix", refresh=3),
    "dual": Strategy(block=4, cache="dual"),
    "all": Strategy(
        temperature=1.0, guidance=0.5, remask=0.3, block=5, tokens=2, cache="dual", refresh=2, seed=1, top_p=0.8
    ),
}


def decoder(model: Any = MODEL, **options: Any) -> Decoder:
    return Decoder(model, max_length=64, **options)


def run(canvases: list[Canvas], strategy: Strategy, model: Any = MODEL, **options: Any) -> list[Completion]:
    return decode(decoder(model, **options), canvases, strategy)


def assert_same(first: Completion, second: Completion) -> None:
    assert first.tokens_T.tolist() == second.tokens_T.tolist()
    assert first.step_T.tolist() == second.step_T.tolist()
    assert np.array_equal(first.confidence_T, second.confidence_T)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("rule", RULES)
def test_what_every_strategy_keeps_to(rule: str, name: str) -> None:
    strategy = replace(STRATEGIES[name], rule=parse_rule(rule))
    steps: dict[int, list[Step]] = {number: [] for number in range(len(CANVASES))}
    done = decode(decoder(), CANVASES, strategy, on_step=lambda number, step: steps[number].append(step))
    for number, (canvas, full) in enumerate(zip(CANVASES, done, strict=True)):
        assert full.canvas is canvas and full.finish == "length" and full.length == len(canvas.tokens_T)
        given = ~canvas.hidden_T
        assert np.array_equal(full.tokens_T[given], canvas.tokens_T[given])
        assert (full.tokens_T != MODEL.mask_id).all()
        assert (full.step_T[given] == NEVER).all() and (full.step_T[~given] != NEVER).all()
        assert ((full.confidence_T[~given] > 0) & (full.confidence_T[~given] <= 1)).all()
        # What the steps say is what happened to the canvas.
        tokens_T, hidden_T = canvas.tokens_T.copy(), canvas.hidden_T.copy()
        for at, step in enumerate(steps[number]):
            assert step.number == at and len(step.position_N) >= 1
            assert hidden_T[step.position_N].all()
            tokens_T[step.position_N], hidden_T[step.position_N] = step.token_N, False
            hidden_T[step.reopened_R] = True
        assert not hidden_T.any() and np.array_equal(tokens_T, full.tokens_T)
        assert full.num_steps == len(steps[number])


@pytest.mark.parametrize("rule", [rule for rule in RULES if isinstance(parse_rule(rule), Best)])
def test_exactly_the_budget_is_committed(rule: str) -> None:
    committed: list[int] = []
    canvas = Canvas.continuation([1, 2], 13)
    for strategy, sizes in (
        (Strategy(rule=parse_rule(rule)), [1] * 13),
        (Strategy(rule=parse_rule(rule), tokens=4), [4, 3, 3, 3]),
        (Strategy(rule=parse_rule(rule), steps=5), [3, 3, 3, 2, 2]),
        (Strategy(rule=parse_rule(rule), steps=100), [1] * 13),
        (Strategy(rule=parse_rule(rule), tokens=4, block=6), [3, 3, 3, 3, 1]),
    ):
        committed.clear()
        decode(decoder(), [canvas], strategy, on_step=lambda number, step: committed.append(len(step.position_N)))
        assert committed == sizes


def test_steps_are_shared_by_the_blocks() -> None:
    assert planned_steps(Strategy(steps=10), [8, 8, 4]) == [4, 4, 2]
    assert planned_steps(Strategy(steps=3), [8, 8, 1]) == [1, 1, 1]
    assert planned_steps(Strategy(steps=99), [3, 2]) == [3, 2]
    assert planned_steps(Strategy(tokens=3), [8, 2]) == [3, 1]
    with pytest.raises(UsageError, match="3 blocks need a step each, at least, got 2 steps"):
        planned_steps(Strategy(steps=2), [8, 8, 1])


@pytest.mark.parametrize("name", STRATEGIES)
def test_other_rows_do_not_matter(name: str) -> None:
    """Bit for bit: rows of other lengths, more rows than a pass takes, rows that come and go."""
    strategy = STRATEGIES[name]
    alone = [run([canvas], strategy)[0] for canvas in CANVASES]
    crowd = [Canvas.continuation(RANDOM.integers(0, 39, 3 + i % 20), 10 + i % 3) for i in range(20)]
    for at, canvas in enumerate(run([*CANVASES, *crowd, *CANVASES], strategy)[:4]):
        assert_same(canvas, alone[at])
    assert_same(run([*crowd, CANVASES[1]], strategy)[-1], alone[1])


def test_rows_of_any_strategy_join_and_leave_at_any_time() -> None:
    alone = {name: run([CANVASES[0]], strategy)[0] for name, strategy in STRATEGIES.items()}
    at_work, rows = decoder(), {}
    for name, strategy in STRATEGIES.items():
        rows[name] = at_work.join(CANVASES[0], strategy)
        at_work.join(CANVASES[3], strategy)
        at_work.step()
        at_work.step()
    at_work.leave(next(row for row in at_work.rows if row.canvas is CANVASES[3]))
    while at_work.rows:
        at_work.step()
    for name, row in rows.items():
        assert_same(row.completion(), alone[name])
    assert not at_work.passes.caches  # nothing is kept of rows that left


def test_a_seed_and_a_sample_choose_the_noise() -> None:
    warm = Strategy(temperature=1.0, seed=1)
    canvas = Canvas.continuation([4, 5, 6], 20)
    first, again = (run([canvas], warm)[0] for _ in range(2))
    assert_same(first, again)
    assert run([canvas], replace(warm, seed=2))[0].tokens_T.tolist() != first.tokens_T.tolist()
    assert run([replace(canvas, row=1)], warm)[0].tokens_T.tolist() != first.tokens_T.tolist()


def plain_loop(model: Transformer, prompt: Ids, length: int, block: int, num_steps: int) -> Ids:
    """As others write it: all positions, all logits, one row, low-confidence remasking at temperature 0."""
    x = torch.full((1, len(prompt) + length), model.mask_id)
    x[0, : len(prompt)] = torch.from_numpy(prompt)
    num = block // num_steps
    for end in range(len(prompt) + block, x.shape[1] + 1, block):
        for _ in range(num_steps):
            logits = head(model, model.hidden(x)).double()
            logits[..., model.mask_id] = -torch.inf
            best = logits.argmax(dim=-1)
            p = logits.softmax(dim=-1).gather(2, best[..., None])[..., 0]
            p[:, end:] = -torch.inf
            p[x != model.mask_id] = -torch.inf
            chosen = p[0].topk(num).indices
            x[0, chosen] = best[0, chosen]
    return x[0].numpy()


@pytest.mark.parametrize("block, num_steps", [(24, 24), (8, 8), (8, 2), (6, 3)])
@torch.no_grad()
def test_exact_decoding_is_the_plain_loop(block: int, num_steps: int) -> None:
    prompt = np.arange(8)
    theirs = plain_loop(MODEL, prompt, 24, block, num_steps)
    ours = run([Canvas.continuation(prompt, 24)], Strategy(block=block, steps=24 // block * num_steps))[0]
    assert ours.tokens_T.tolist() == theirs.tolist()


# --- what a model that knows the answer makes of it


ROWS = [[0, 1, 2, 3, 4], [0, 1, 3, 2, 4], [2, 2, 2, 2, 2], [4, 0, 0, 1, 2], [3, 4, 0, 4, 3]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block", [None, 2])
def test_a_unique_completion_is_found(rule: str, block: int | None) -> None:
    for row in ROWS:
        for visible in ([0, 2], [1, 3], [2, 3, 4]):
            given = np.isin(np.arange(5), visible)
            canvas = Canvas(np.where(given, row, -9), ~given)
            for temperature in (0.0, 1.0):
                strategy = Strategy(rule=parse_rule(rule), block=block, temperature=temperature)
                assert run([canvas], strategy, Posterior(ROWS))[0].tokens_T.tolist() == row


@pytest.mark.parametrize("rule", RULES)
def test_one_token_at_a_time_never_contradicts_itself(rule: str) -> None:
    canvases = [Canvas.with_holes([5], row=row) for row in range(30)]
    for full in run(canvases, Strategy(rule=parse_rule(rule), temperature=1.0), Posterior(ROWS)):
        if not rule.startswith("threshold:0.3"):  # commits several that may exclude each other
            assert full.tokens_T.tolist() in ROWS


@pytest.mark.parametrize("seed", range(20))
def test_factor_one_never_contradicts_itself(seed: int) -> None:
    """Fast-dLLM's theorem, on posteriors made to tempt: many rows, one of them far likelier."""
    random = np.random.default_rng(seed)
    rows = np.unique(random.integers(0, 3, (12, 5)), axis=0)
    weights = random.dirichlet(np.full(len(rows), 0.15))
    weights = np.maximum(weights, 1e-6)
    greedy = Strategy(rule=parse_rule("factor:1"))
    for given in ([], [0], [2], [1, 4]):
        mark = np.isin(np.arange(5), given)
        full = run([Canvas(rows[0], ~mark)], greedy, Posterior(rows, weights))[0]
        assert full.tokens_T.tolist() in rows.tolist()


@pytest.mark.parametrize("rule", ["random", "entropy"])
def test_sampling_draws_from_the_models_distribution(rule: str) -> None:
    """Where the rule does not look at what was drawn, any order gives the joint distribution of the rows."""
    weights = np.array([0.4, 0.1, 0.2, 0.05, 0.25])
    canvases = [Canvas.with_holes([5], row=row) for row in range(3000)]
    strategy = Strategy(rule=parse_rule(rule), temperature=1.0)
    drawn = decode(decoder(Posterior(ROWS, weights)), canvases, strategy, rows_at_once=3000)
    counts = Counter(tuple(full.tokens_T.tolist()) for full in drawn)
    assert chisquare([counts[tuple(row)] for row in ROWS], weights * 3000).pvalue > 1e-3


def test_temperature_and_top_p_sharpen() -> None:
    weights = np.array([0.4, 0.1, 0.2, 0.05, 0.25])
    single = Posterior([[row] for row in range(5)], weights)
    canvases = [Canvas.with_holes([1], row=row) for row in range(2000)]
    for temperature, top_p in ((0.5, 1.0), (2.0, 1.0), (1.0, 0.6), (1.0, 0.65), (0.5, 0.7)):
        p = weights ** (1 / temperature) / (weights ** (1 / temperature)).sum()
        order = np.argsort(-p)
        p[order[1:][np.cumsum(p[order])[:-1] >= top_p]] = 0
        strategy = Strategy(temperature=temperature, top_p=top_p, seed=5)
        drawn = decode(decoder(single), canvases, strategy, rows_at_once=2000)
        counts = np.bincount([int(full.tokens_T[0]) for full in drawn], minlength=5)
        assert (counts[p == 0] == 0).all()
        assert chisquare(counts[p > 0], p[p > 0] / p.sum() * 2000).pvalue > 1e-3


def test_a_second_look_mends_what_was_committed_too_soon() -> None:
    """Both tokens at once: each half of the time 0, so two zeros, which no row has. Seen one by one they agree."""
    posterior = Posterior([[0, 1, 1], [1, 0, 1], [1, 0, 2], [0, 1, 2]])
    canvas = Canvas.with_holes([2, [1]])
    hasty = Strategy(tokens=2)
    assert run([canvas], hasty, posterior)[0].tokens_T.tolist() == [0, 0, 1]
    steps: list[Step] = []
    careful = Strategy(rule=parse_rule("threshold:0.4"), remask=0.9)
    full = decode(decoder(posterior), [canvas], careful, on_step=lambda number, step: steps.append(step))[0]
    assert steps[0].reopened_R.tolist() == [0, 1]
    assert sum(len(step.reopened_R) for step in steps) == 2  # each once
    assert full.num_steps == 2


def test_guidance_against_its_formula() -> None:
    canvas = CANVASES[1]
    tokens_T = np.where(canvas.hidden_T, MODEL.mask_id, canvas.tokens_T)
    blind_T = np.full(len(tokens_T), MODEL.mask_id)
    with torch.no_grad():
        said, unsaid = (
            head(MODEL, MODEL.hidden(torch.from_numpy(each)[None]))[0].double() for each in (tokens_T, blind_T)
        )
    logits = (1 + 2.0) * said - 2.0 * unsaid
    logits[:, MODEL.mask_id] = -torch.inf
    p = logits.softmax(dim=1)
    full = run([canvas], Strategy(guidance=2.0, steps=1))[0]
    assert full.tokens_T[canvas.hidden_T].tolist() == p.argmax(dim=1).numpy()[canvas.hidden_T].tolist()
    assert np.allclose(full.confidence_T[canvas.hidden_T], p.max(dim=1).values.numpy()[canvas.hidden_T], atol=1e-4)


def test_scores_against_their_definitions() -> None:
    canvas = CANVASES[0]
    tokens_T = np.where(canvas.hidden_T, MODEL.mask_id, canvas.tokens_T)
    with torch.no_grad():
        logits = head(MODEL, MODEL.hidden(torch.from_numpy(tokens_T)[None]))[0].double()
    logits[:, MODEL.mask_id] = -torch.inf
    p = logits.softmax(dim=1).numpy()[canvas.hidden_T]
    best = np.sort(p, axis=1)[:, ::-1]
    expected = {
        "confidence": best[:, 0],
        "margin": best[:, 0] - best[:, 1],
        "entropy": np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=1),
    }
    for name, score_N in expected.items():
        at_work = decoder()
        at_work.join(canvas, Strategy(rule=parse_rule(name), tokens=3, alternatives=4))
        first = at_work.step()
        hidden = np.flatnonzero(canvas.hidden_T)
        assert first[0].position_N.tolist() == sorted(hidden[np.argsort(-score_N)[:3]])
        chosen = np.searchsorted(hidden, first[0].position_N)
        assert np.allclose(first[0].confidence_N, p[chosen].max(axis=1), atol=1e-5)
        assert np.allclose(first[0].chance_NA, best[chosen, :4], atol=1e-5)
        assert first[0].other_NA.tolist() == np.argsort(-p[chosen], axis=1)[:, :4].tolist()


# --- the end of a text


END = 5
ENDING = [[1, 2, END, 0, 0, 0], [1, 3, 3, END, 0, 0], [2, 3, 4, 4, 4, 1]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block", [None, 1, 3])
def test_a_text_ends_where_its_end_is_written(rule: str, block: int | None) -> None:
    strategy = Strategy(rule=parse_rule(rule), block=block)
    full = run([Canvas.continuation([1, 3], 4)], strategy, Posterior(ENDING), end_id=END)[0]
    assert (full.finish, full.length, full.written.tolist()) == ("end", 3, [3])
    assert full.tokens_T.tolist() == [1, 3, 3, END, END, END]
    full = run([Canvas.continuation([2], 5)], strategy, Posterior(ENDING), end_id=END)[0]
    assert (full.finish, full.length, full.written.tolist()) == ("length", 6, [3, 4, 4, 4, 1])


def test_what_follows_the_end_is_not_asked_about() -> None:
    asked: list[int] = []
    left_to_right = Strategy(block=1)
    decode(
        decoder(Posterior(ENDING), end_id=END),
        [Canvas.continuation([1, 2], 4)],
        left_to_right,
        on_step=lambda number, step: asked.extend(step.position_N.tolist()),
    )
    assert asked == [2]


def test_a_text_ends_only_in_its_open_end() -> None:
    infilled = run([Canvas.with_holes([[1], 2, [5 - 1]])], Strategy(), random_model(), end_id=0)[0]
    assert 0 not in infilled.tokens_T
    eager = Posterior([[1, END, END, END]])
    going_on = Strategy(may_end=False)
    full = run([Canvas.continuation([1], 3)], going_on, eager, end_id=END)[0]
    assert full.finish == "length" and END not in full.tokens_T


def test_ids_that_are_never_written() -> None:
    full = run([Canvas.continuation([], 40)], Strategy(rule=Best("random"), temperature=9.0), num_ids=12, pad_id=3)[0]
    assert set(full.tokens_T.tolist()) <= set(range(12)) - {3}
    assert len(set(full.tokens_T.tolist())) > 6


# --- caches


@pytest.mark.parametrize("cache", ["prefix", "dual"])
@pytest.mark.parametrize("more", [{}, {"temperature": 0.7}, {"guidance": 1.0}, {"remask": 0.5}])
def test_a_cache_refreshed_at_every_step_is_exact(cache: Any, more: dict[str, float]) -> None:
    exact = Strategy(block=4, **more)  # type: ignore[arg-type]
    for full, same in zip(run(CANVASES, exact), run(CANVASES, replace(exact, cache=cache, refresh=1)), strict=True):
        assert_same(full, same)


@pytest.mark.parametrize("cache", ["prefix", "dual"])
@pytest.mark.parametrize(
    "changes", [{}, {"kv_heads": 2}, {"positions": "learned", "norm": "layer", "activation": "gelu", "bias": True}]
)
def test_positions_alone_are_what_they_are_in_the_whole_row(cache: Any, changes: dict[str, Any]) -> None:
    """Where nothing has changed since the pass over the whole row, a pass over a part gives its states again."""
    model = random_model(**changes)
    at_work = decoder(model)
    views = []
    for canvas in CANVASES:
        row = at_work.join(canvas, Strategy(block=6, cache=cache))
        views.append(at_work.rows[row][0])
    for view in views:
        view.ask()
    with torch.no_grad():
        whole = at_work.passes.states(views)
        for view in views:
            view.row.since_pass = 1
            view.ask()
            assert view.computed_Q is not None
        part = at_work.passes.states(views)
    for view in views:
        assert torch.allclose(whole[view], part[view], atol=2e-5)


@pytest.mark.parametrize("cache", ["prefix", "dual"])
@pytest.mark.parametrize("refresh, passes", [(None, 5), (2, 10), (3, 10), (4, 5), (1, 20)])
def test_whole_rows_are_computed_when_they_are_due(cache: Any, refresh: int | None, passes: int) -> None:
    exact: list[bool] = []
    full = decode(
        decoder(),
        [Canvas.continuation([1, 2, 3], 20)],
        Strategy(block=4, cache=cache, refresh=refresh),
        on_step=lambda number, step: exact.append(step.is_exact),
    )[0]
    assert full.num_passes == sum(exact) == passes
    assert exact[::4] == [True] * 5  # each block begins with one


def test_a_prefix_of_nothing_leaves_all_to_be_computed() -> None:
    """The first block begins the row, so that the prefix cache holds nothing of use: exact, to rounding."""
    canvas = Canvas.with_holes([12, [1, 2, 3]])
    exact, cached = (run([canvas], Strategy(cache=cache))[0] for cache in ("none", "prefix"))  # type: ignore[arg-type]
    assert exact.tokens_T.tolist() == cached.tokens_T.tolist()
    assert np.allclose(exact.confidence_T, cached.confidence_T, atol=1e-5)
    assert (exact.num_passes, cached.num_passes) == (12, 1)


def test_a_cache_that_is_not_refreshed_approximates() -> None:
    exact, cached = (run(CANVASES, Strategy(block=4, cache=cache)) for cache in ("none", "dual"))  # type: ignore[arg-type]
    assert any(not np.array_equal(a.confidence_T, b.confidence_T) for a, b in zip(exact, cached, strict=True))
    assert not Strategy(cache="dual").is_exact and Strategy(cache="dual", refresh=1).is_exact


# --- models that were trained


TASKS: dict[str, tuple[Callable[..., Ids], dict[str, Any], list[list[int]]]] = {
    # what is hidden: whole answers, and parts of the question that follow from the rest
    "addition": (
        additions,
        {"steps": 900, "layers": 2, "law": "0.1-0.6"},
        [[4, 5], [0], [2], [4], [5], [0, 1], [1, 4]],
    ),
    "sorting": (
        sortings,
        {"steps": 1400, "layers": 2, "law": "0.1-0.6"},
        [[5, 6, 7, 8], [0], [3], [6, 7], [1, 4], [8]],
    ),
    "parity": (parities, {"steps": 500, "layers": 1, "law": "0.1-0.4"}, [[6], [1], [4]]),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_trained_model_completes_and_infills_exactly(task: str) -> None:
    rows_of, how, holes = TASKS[task]
    model = trained_on(rows_of, **how)
    rows = rows_of(np.random.default_rng(1), 60)
    canvases, answers = [], []
    for row in rows:
        for hidden in holes:
            canvases.append(Canvas(row, np.isin(np.arange(len(row)), hidden)))
            answers.append(row.tolist())
    for strategy in (
        Strategy(),
        Strategy(rule=parse_rule("factor:1"), block=2, cache="dual", refresh=1),
        Strategy(rule=parse_rule("entropy"), block=1),
    ):
        done = decode(Decoder(model, max_length=16), canvases, strategy, rows_at_once=len(canvases))
        assert [full.tokens_T.tolist() for full in done] == answers


# --- noise and nucleus


def test_gumbel_noise_is_that_of_the_streams() -> None:
    keys = Noise(5).keys("sampling", 3, [0, 1, 1 << 40])
    uniform = Noise(5).uniform("sampling", 3, [0, 1, 1 << 40], 50)
    assert np.allclose(gumbel(keys, 50, torch.device("cpu")).numpy(), -np.log(-np.log(uniform)), rtol=1e-12)


def test_nucleus_holds_its_share() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()[None, [2, 0, 3, 1]]
    for top_p, kept in ((0.4, [0]), (0.5, [0]), (0.51, [0, 1]), (0.8, [0, 1]), (0.9, [0, 1, 2]), (1.0, [0, 1, 2, 3])):
        found = nucleus(logits.double(), torch.tensor([top_p], dtype=torch.float64))
        assert torch.isfinite(found)[0, [1, 3, 0, 2]].nonzero()[:, 0].tolist() == kept


# --- what is refused


@pytest.mark.parametrize(
    "canvas, strategy, said",
    [
        (Canvas.continuation([1] * 60, 5), Strategy(), "at most 64 tokens, got 65 with the holes"),
        (Canvas.continuation([39], 5), Strategy(), "ids below 39, got 39 to 39"),
        (Canvas.continuation([-1], 5), Strategy(), "ids below 39, got -1"),
        (Canvas.continuation([1], 8), Strategy(block=2, steps=3), "4 blocks need a step each"),
    ],
)
def test_what_cannot_be_decoded(canvas: Canvas, strategy: Strategy, said: str) -> None:
    at_work = decoder(num_ids=39)
    with pytest.raises(UsageError, match=said):
        at_work.join(canvas, strategy)
    assert not at_work.rows


def test_a_model_without_memory_has_no_cache() -> None:
    with pytest.raises(UsageError, match=r"needs a model that can recall.*got Posterior: decode without a cache"):
        run([CANVASES[2]], Strategy(cache="dual"), Posterior(ROWS))
