"""`halfmask`, a model of lm-evaluation-harness: `lm_eval --model halfmask --model_args path=run,draws=128`.

    loglikelihood           options of one document are one `Question`: same noise, rows of all requests together
    loglikelihood_rolling   the bound of the whole text, in windows of what the model takes
    generate_until          decoding (`generation.py`)

Under torchrun each process takes its share of the documents, as lm-eval deals them out. The noise of a request is a
function of its document: neither the number of processes nor a cache changes an answer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.distributed as dist
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from halfmask.errors import UsageError, nearest
from halfmask.evaluation.continuations import Ids, is_greedy
from halfmask.evaluation.draws import EVALUATION_SEED
from halfmask.evaluation.harness.generation import fill_in
from halfmask.evaluation.likelihood import Answer, Likelihood, Question, Stop
from halfmask.evaluation.questions import encode_pair
from halfmask.models.load import open_model

Greedy = Literal["alone", "always", "never"]
PRECISIONS = {None: None, "fp32": torch.float32, "bf16": torch.bfloat16}
ARGUMENTS = (
    "path", "draws", "guidance", "stop", "greedy", "seed", "precision", "batch_tokens", "gen_length", "steps",
)  # fmt: skip


class HalfmaskLM(LM):  # type: ignore[misc]
    """`greedy`: whether to find out if greedy decoding writes a continuation, which costs a pass or more: only where
    a document has one ("alone", as in LAMBADA), always or never."""

    def __init__(
        self,
        path: str = "",
        *,
        draws: int = 128,
        guidance: float = 0.0,
        stop: Stop = "never",
        greedy: Greedy = "alone",
        seed: int = EVALUATION_SEED,
        precision: str | None = None,
        batch_tokens: int = 1 << 14,
        gen_length: int = 512,
        steps: int = 512,
        device: str | None = None,
        batch_size: object = None,  # lm-eval's; rows of all lengths are packed by tokens instead
        max_batch_size: object = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        for name in unknown:
            raise UsageError(
                f"the model halfmask takes {', '.join(ARGUMENTS)}", got=name, fix=nearest(name, ARGUMENTS)
            )
        if not path:
            raise UsageError("the model halfmask needs a path", got="none", fix="write for example path=run")
        _check_choice("precision", precision or "fp32", ("fp32", "bf16"))
        _check_choice("greedy", greedy, get_args(Greedy))
        if gen_length < 1 or steps < 1:
            raise UsageError("gen_length and steps must be 1 or more", got=f"{gen_length}, {steps}", fix="take 512")
        self._rank, self._world_size = _join_processes()
        model = open_model(path, device=_device(device, self._rank), dtype=PRECISIONS[precision])
        self._device = model.device
        self.how = Likelihood(
            model, num_draws=draws, guidance=guidance, stop=stop, seed=seed, batch_tokens=batch_tokens
        )
        self.greedy, self.gen_length, self.steps = greedy, gen_length, steps

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        vocabulary = self.how.model.vocabulary
        pairs = [encode_pair(vocabulary, *each.args) for each in requests]
        by_question: dict[tuple[int, bytes], list[int]] = {}
        for at, (prompt, _) in enumerate(pairs):
            by_question.setdefault((_key(requests[at]), prompt.tobytes()), []).append(at)
        questions = [
            Question(pairs[places[0]][0], tuple(pairs[at][1] for at in places), key)
            for (key, _), places in by_question.items()
        ]
        found: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        for places, answer in zip(by_question.values(), self._ask(questions), strict=True):
            for at, log_p in zip(places, answer.log_p_O, strict=True):
                found[at] = (float(log_p), False)
        for at in self._written_greedily(requests):
            found[at] = (found[at][0], True)
        for request, result in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return found

    def _written_greedily(self, requests: Sequence[Instance]) -> list[int]:
        """Which of the requests that ask for it greedy decoding writes."""
        options: dict[int, set[tuple[str, str]]] = {}
        for request in requests:
            options.setdefault(_key(request), set()).add(request.args)
        wanted = {
            "never": [],
            "always": list(range(len(requests))),
            "alone": [at for at, request in enumerate(requests) if len(options[_key(request)]) == 1],
        }[self.greedy]
        model = self.how.model
        pairs = [encode_pair(model.vocabulary, *requests[at].args) for at in wanted]
        pairs = [(_end(prompt, model.max_length, len(tokens)), tokens) for prompt, tokens in pairs]
        written = is_greedy(model, pairs, batch_tokens=self.how.batch_tokens)
        return [at for at, yes in zip(wanted, written, strict=True) if yes]

    def _ask(self, questions: Sequence[Question]) -> list[Answer]:
        from tqdm import tqdm

        with tqdm(total=len(questions), desc="likelihoods", disable=None if self._rank == 0 else True) as bar:
            return self.how.ask(questions, lambda done, total, stage: bar.update(done - bar.n) and None)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        vocabulary = self.how.model.vocabulary
        texts = [vocabulary.encode([request.args[0]]).astype(np.int64) for request in requests]
        questions = [
            Question(tokens[:0], (tokens,), _key(request)) for tokens, request in zip(texts, requests, strict=True)
        ]
        found = [float(answer.log_p_O[0]) for answer in self._ask(questions)]
        for request, total in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return found

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Requests with the same settings together; what follows a stop is cut off."""
        by_settings: dict[tuple[int, int, float], list[int]] = {}
        for at, request in enumerate(requests):
            given = request.args[1]
            num_tokens = int(given.get("max_gen_toks", self.gen_length))
            steps = int(given.get("steps", min(self.steps, num_tokens)))
            by_settings.setdefault((num_tokens, steps, float(given.get("temperature", 0.0))), []).append(at)
        found = [""] * len(requests)
        model = self.how.model
        for (num_tokens, steps, temperature), places in by_settings.items():
            prompts = [
                _end(model.vocabulary.encode([requests[at].args[0]]).astype(np.int64), model.max_length, num_tokens)
                for at in places
            ]
            written = fill_in(model, prompts, num_tokens=num_tokens, steps=steps, temperature=temperature)
            for at, ids in zip(places, written, strict=True):
                found[at] = self._until(ids, requests[at].args[1].get("until", []))
                self.cache_hook.add_partial("generate_until", requests[at].args, found[at])
        return found

    def _until(self, ids: Ids, stops: str | Sequence[str]) -> str:
        """The text before the end of the document and before any of the stops."""
        ends = np.flatnonzero(ids == self.how.model.vocabulary.end_id)
        text = self.how.model.vocabulary.decode(ids[: ends[0]] if len(ends) else ids)
        for stop in [stops] if isinstance(stops, str) else stops:
            text = text.partition(stop)[0] if stop else text
        return text

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        parts = _gathered(tensor.cpu()) if self._world_size > 1 else [tensor]
        return torch.cat([part.reshape(-1) for part in parts]) if len(parts) > 1 else tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        if self._world_size == 1:
            return [obj]
        parts = _gathered(obj)
        return parts if self._rank == dst else None

    def barrier(self) -> None:
        if self._world_size > 1:
            dist.barrier()

    @property
    def tokenizer_name(self) -> str:
        return self.how.model.vocabulary.digest


def _check_choice(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise UsageError(f"{name} must be {' or '.join(allowed)}", got=given, fix=nearest(given, allowed))


def _key(request: Instance) -> int:
    """Of a document, so that its options share their noise; of the text where a request comes without one."""
    named = request.task_name is not None
    text = f"{request.task_name}\0{request.doc_id}" if named else str(request.args[0])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def _end(prompt: Ids, longest: int | None, room: int) -> Ids:
    """As much of the prompt's end as leaves that much room."""
    return prompt if longest is None else prompt[max(0, len(prompt) - max(0, longest - room)) :]


def _device(asked: str | None, rank: int) -> str | None:
    """lm-eval asks for cuda:0 whether there is one or not, and for the same one in every process."""
    if asked is None or not asked.startswith("cuda") or not torch.cuda.is_available():
        return None if asked is None or asked.startswith("cuda") else asked
    return f"cuda:{int(os.environ.get('LOCAL_RANK', rank))}"


def _join_processes() -> tuple[int, int]:
    """(rank, size) of what torchrun started."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return 0, 1
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return dist.get_rank(), size


def _gathered(value: Any) -> list[Any]:
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, value)
    return parts


def register() -> None:
    """Let lm-eval know the model by its name."""
    from lm_eval.api.registry import model_registry, register_model

    if "halfmask" not in model_registry:
        decorate: Callable[[type[LM]], type[LM]] = register_model("halfmask")
        decorate(HalfmaskLM)
