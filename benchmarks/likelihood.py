"""Multiple choice on ARC-Easy: questions a second against one request at a time, and how well options are ranked.

The loop that others use is that of LLaDA's evaluation: for each option 128 copies of prompt and option in batches of
32, counts of hidden tokens in equal strides, logits at every position. Ours gives every option as many draws. Ranking:
of four options, against 4,096 draws, with few draws: LLaDA's scheme with masks of its own for every option, ours with
noise of its own for every option, and ours with shared noise, as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

from bench import Result, main
from halfmask.evaluation.likelihood import Answer, Likelihood, Question
from halfmask.evaluation.questions import as_question, read_questions
from halfmask.models.denoiser import head
from halfmask.models.load import Loaded
from small import add_model, small_model

BATCH, REFERENCE = 32, 4096
ROOM = 90  # tokens of a prompt, which leaves room for every option of these in rows of 128


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--data", metavar="FOLDER", help="that holds arc/arc_easy.jsonl (default: HALFMASK_DATA)")
    parser.add_argument("--questions", type=int, default=60, help="for the speed")
    parser.add_argument("--draws", type=int, default=128, help="for the speed")
    parser.add_argument("--ranked", type=int, default=30, help="questions for the ranking")
    parser.add_argument("--few", type=int, default=8, help="draws for the ranking")
    parser.add_argument("--seeds", type=int, default=8, help="for the ranking")


def measure(arguments: argparse.Namespace) -> list[Result]:
    model = small_model(arguments)
    questions = _questions(arguments, model)
    return [*_speed(arguments, model, questions[: arguments.questions]), *_ranking(arguments, model, questions)]


def _questions(arguments: argparse.Namespace, model: Loaded) -> list[Question]:
    folder = Path(arguments.data or os.environ.get("HALFMASK_DATA", "../shared/data"))
    path = folder / "arc" / "arc_easy.jsonl"
    if not path.is_file():
        sys.exit(f"{path} is not there: name the folder with --data")
    asked = read_questions(path)[: max(arguments.questions, arguments.ranked)]
    found = [as_question(each, model.vocabulary, key) for key, each in enumerate(asked)]
    return [replace(each, prompt=each.prompt[-ROOM:]) for each in found]


def _speed(arguments: argparse.Namespace, model: Loaded, questions: list[Question]) -> list[Result]:
    how = Likelihood(model, num_draws=arguments.draws)
    random = np.random.default_rng(0)
    theirs, ours, ours_s, theirs_s = [], [], 0.0, 0.0
    for start in range(0, len(questions), 20):  # in turn, so that a disturbance meets both
        some = questions[start : start + 20]
        started_at = time.perf_counter()
        ours += [answer.log_p_O for answer in how.ask(some)]
        ours_s += time.perf_counter() - started_at
        started_at = time.perf_counter()
        for each in some:
            theirs.append(
                np.array(
                    [_one_request(model, each.prompt, option, arguments.draws, random) for option in each.options]
                )
            )
        theirs_s += time.perf_counter() - started_at
    same = np.mean([np.argmax(a) == np.argmax(b) for a, b in zip(ours, theirs, strict=True)])
    return [
        Result(
            f"ARC-Easy, {len(questions)} questions, {arguments.draws} draws, against one request at a time "
            f"({same:.0%} same answers)",
            f"{len(questions) / ours_s:.2f} questions/s",
            f"{len(questions) / theirs_s:.2f} questions/s",
            theirs_s / ours_s,
            5.0,
        )
    ]


def _one_request(
    model: Loaded, prompt: np.ndarray, option: np.ndarray, draws: int, random: np.random.Generator
) -> float:
    """As in LLaDA's evaluation, of which this is a plain form."""
    row = torch.tensor(np.concatenate([prompt, option]))
    length, losses = len(option), []
    for _ in range(max(1, draws // BATCH)):
        num = min(draws, BATCH)
        hidden, count = _strided_sets(length, num, random)
        noisy = row.repeat(num, 1)
        place = torch.zeros(noisy.shape, dtype=torch.bool)
        place[:, len(prompt) :] = torch.tensor(hidden)
        noisy[place] = model.denoiser.mask_id
        with torch.no_grad():
            logits = head(model.denoiser, model.denoiser.hidden(noisy))
        nll = F.cross_entropy(logits[place].float(), row.repeat(num, 1)[place], reduction="none")
        share = torch.tensor(count / length, dtype=torch.float32)[:, None].expand(num, len(row))[place]
        losses.append(float((nll / share).sum()) / num)
    return -float(np.mean(losses))


def _strided_sets(length: int, num: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first = random.integers(1, length + 1)
    count = (np.round(np.linspace(first, first + (num - 1) * length / num, num)) - 1) % length + 1
    return random.random((num, length)).argsort(axis=1).argsort(axis=1) < count[:, None], count


def _ranking(arguments: argparse.Namespace, model: Loaded, questions: list[Question]) -> list[Result]:
    asked = [each for each in questions if len(each.options) == 4][: arguments.ranked]
    true = Likelihood(model, num_draws=REFERENCE).ask(asked)
    theirs, unpaired, shared = [], [], []
    for seed in range(arguments.seeds):
        random = np.random.default_rng(seed)
        theirs.append(
            [
                np.array([_one_request(model, each.prompt, option, arguments.few, random) for option in each.options])
                for each in asked
            ]
        )
        how = Likelihood(model, num_draws=arguments.few, seed=seed)
        shared.append([answer.log_p_O for answer in how.ask(asked)])
        apart = [
            Question(each.prompt, (option,), each.key * 8 + 10**6 + at)
            for each in asked
            for at, option in enumerate(each.options)
        ]
        values = iter([answer.log_p_O[0] for answer in how.ask(apart)])
        unpaired.append([np.array([next(values) for _ in each.options]) for each in asked])
    wrong = {
        name: 1 - _agreement(found, true)
        for name, found in (("theirs", theirs), ("unpaired", unpaired), ("shared", shared))
    }
    what = f"{len(asked)} rankings of four options with {arguments.few} draws, share unlike {REFERENCE:,} draws"
    floor = 1 / (len(asked) * arguments.seeds)
    return [
        Result(
            f"{what}: against noise of its own for each option",
            f"{wrong['shared']:.1%}",
            f"{wrong['unpaired']:.1%}",
            max(wrong["unpaired"], floor) / max(wrong["shared"], floor),
            1.0,
        ),
        Result(
            f"{what}: against LLaDA's",
            f"{wrong['shared']:.1%}",
            f"{wrong['theirs']:.1%}",
            max(wrong["theirs"], floor) / max(wrong["shared"], floor),
            1.0,
        ),
    ]


def _agreement(found: list[list[np.ndarray]], true: list[Answer]) -> float:
    """The share of questions whose options stand in the same order."""
    return float(
        np.mean(
            [
                (np.argsort(values) == np.argsort(answer.log_p_O)).all()
                for one in found
                for values, answer in zip(one, true, strict=True)
            ]
        )
    )


if __name__ == "__main__":
    main(measure, __doc__ or "", configure)
