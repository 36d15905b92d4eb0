"""What generate, infill and chat share: their arguments, and texts to canvases to results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfmask.cli.output import progress_bar
from halfmask.errors import UsageError

if TYPE_CHECKING:
    from halfmask.decoding.canvas import Canvas
    from halfmask.decoding.decode import Step
    from halfmask.decoding.row import Completion
    from halfmask.decoding.strategy import Strategy
    from halfmask.decoding.texts import Stop
    from halfmask.models.load import Loaded
    from halfmask.records import Record, Row

    OnStep = Callable[[int, Step], None]


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a run's folder, a checkpoint, or a Hugging Face model")


def add_texts(parser: argparse.ArgumentParser, name: str, summary: str) -> None:
    parser.add_argument("texts", nargs="*", metavar=name, help=summary)
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="read them from here: lines of text, JSON Lines, a table, or -"
    )
    parser.add_argument("--column", default="text", help="of rows, with --from")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="of each; with a temperature they differ")
    parser.add_argument("--rows", type=int, default=16, metavar="N", help="decoded at a time")


def add_strategy(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Named as the fields of `Strategy`."""
    parser.add_argument("--steps", type=int, metavar="N", help="for the whole text (default: one for each token)")
    parser.add_argument("--tokens", type=int, default=1, metavar="N", help="committed in a step, at least")
    parser.add_argument(
        "--block", type=int, metavar="N", help="holes worked on at a time, left to right (default: all)"
    )
    parser.add_argument(
        "--rule",
        default="confidence",
        help="which tokens are committed: the best by confidence, margin, entropy or random; threshold:P, all that "
        "are as probable; factor:F, as many as are sure together. Entropy and random draw from the model's own "
        "distribution, the others favour likely texts",
    )
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 takes the likeliest token")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="draw from the likeliest that hold P")
    parser.add_argument("--guidance", type=float, default=0.0, metavar="G", help="how much more the given text counts")
    parser.add_argument(
        "--remask", type=float, default=0.0, metavar="P", help="decide tokens committed below P again, one by one"
    )
    parser.add_argument(
        "--cache",
        choices=("none", "prefix", "dual"),
        default="none",
        help="what is not computed in every step: the text before the block, or all around it; not exact",
    )
    parser.add_argument("--refresh", type=int, metavar="N", help="but every N steps (default: with each block)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(default: cuda where there is one)")
    parser.set_defaults(**defaults)


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compare", action="store_true", help="decode without the cache, too, and tell the difference"
    )
    parser.add_argument("--trace", metavar="FILE", help="write every step to this file, as JSON Lines")
    parser.add_argument(
        "--alternatives", type=int, default=5, metavar="N", help="tokens told of each place in a trace"
    )
    parser.add_argument("--out", metavar="FILE", help="write the texts to this file, as JSON Lines")
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")


def strategy_of(arguments: argparse.Namespace) -> Strategy:
    from halfmask.decoding.commit import parse_rule
    from halfmask.decoding.strategy import Strategy

    given = {
        field.name: getattr(arguments, field.name) for field in fields(Strategy) if hasattr(arguments, field.name)
    }
    alternatives = arguments.alternatives if getattr(arguments, "trace", None) else 0
    return Strategy(**{**given, "rule": parse_rule(arguments.rule), "alternatives": alternatives})


def fill(arguments: argparse.Namespace, verb: str, canvas_of: Callable[[Loaded, str, int], Canvas]) -> None:
    """The texts of a command line, as canvases, filled and told. What is wrong is said before the model is opened."""
    from time import perf_counter

    from halfmask.decoding.decode import Decoder, decode
    from halfmask.decoding.texts import Stop
    from halfmask.decoding.trace import settings
    from halfmask.models.load import open_model
    from halfmask.records import Record

    strategy, texts = strategy_of(arguments), _texts(arguments)
    _check(arguments)
    model = open_model(arguments.model, device=arguments.device)
    canvases = [canvas_of(model, text, row) for text in texts for row in range(arguments.samples)]
    decoder, stop = Decoder.of(model), Stop(model.vocabulary, tuple(getattr(arguments, "stop", ())))
    with _watched(arguments, stop, strategy, canvases) as (on_step, on_end):
        started_at = perf_counter()
        done = decode(decoder, canvases, strategy, rows_at_once=arguments.rows, on_step=on_step, stop=stop)
        elapsed_s = perf_counter() - started_at
        on_end(done)
    rows = [_row(model, stop, each) for each in done]
    num_tokens, num_steps = sum(row["tokens"] for row in rows), sum(row["steps"] for row in rows)
    notes = [f"{num_tokens} tokens in {num_steps} steps, {num_tokens / elapsed_s:,.0f} tokens/s"]
    if arguments.compare:
        exact = decode(decoder, canvases, replace(strategy, cache="none"), rows_at_once=arguments.rows)
        notes.append(_difference(done, exact, model))
    elif not strategy.is_exact:
        notes.append(f"the cache {strategy.cache} is not exact: --compare measures what it changes")
    chosen = {"model": model.name, **settings(strategy)}
    _tell(Record(verb, "Texts", chosen, rows, notes), arguments, shown=_is_watched(arguments, canvases))


def _texts(arguments: argparse.Namespace) -> list[str]:
    if bool(arguments.texts) == (arguments.source is not None):
        raise UsageError(
            "texts are given as words of the command line or from a file",
            got="both" if arguments.texts else "neither",
            fix="leave one out" if arguments.texts else "write one in quotes, or --from FILE",
        )
    if arguments.source is None:
        return list(arguments.texts)
    from halfmask.corpus.sources import Reading, open_corpus

    corpus = open_corpus([arguments.source], Reading(documents="line", column=arguments.column))
    return [text for piece in corpus.pieces() for text in piece.texts]


def _check(arguments: argparse.Namespace) -> None:
    from halfmask.records import check_writable

    for name in ("samples", "rows"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name} must be 1 or more", got=getattr(arguments, name), fix="leave it out")
    if arguments.compare and getattr(arguments, "stop", None):
        raise UsageError("--compare is about whole texts", got="--stop beside it", fix="leave one out")
    for path in filter(None, (arguments.trace, arguments.out)):
        check_writable(Path(path))


def _is_watched(arguments: argparse.Namespace, canvases: list[Canvas]) -> bool:
    """One text, on a terminal: it appears as it is uncovered."""
    return len(canvases) == 1 and sys.stdout.isatty() and not arguments.json


@contextmanager
def _watched(
    arguments: argparse.Namespace, stop: Stop, strategy: Strategy, canvases: list[Canvas]
) -> Iterator[tuple[OnStep, Callable[[list[Completion]], None]]]:
    """What is done at each step and at the end: the trace, the screen."""
    from halfmask.decoding.trace import Trace
    from halfmask.records import atomic_write

    watchers: list[OnStep] = []
    trace: Trace | None = None
    with ExitStack() as stack:
        if arguments.trace:
            stream = stack.enter_context(atomic_write(Path(arguments.trace)))
            trace = Trace(stream, stop.vocabulary, model=arguments.model, strategy=strategy)
            trace.begin(canvases)
            watchers.append(trace.step)
        if _is_watched(arguments, canvases):
            from halfmask.cli.live_text import live_text

            show = stack.enter_context(live_text(stop))
            watchers.append(lambda number, step: show(step.row))
        else:
            advance = stack.enter_context(progress_bar("decoding"))
            full: set[int] = set()

            def count(number: int, step: Step) -> None:
                if step.row.finished:
                    full.add(number)
                advance(len(full), len(canvases))

            watchers.append(count)

        def on_step(number: int, step: Step) -> None:
            for watcher in watchers:
                watcher(number, step)

        yield on_step, trace.end if trace is not None else lambda done: None


def _row(model: Loaded, stop: Stop, done: Completion) -> Row:
    from halfmask.decoding.texts import filled_holes, whole_text

    holes = filled_holes(model.vocabulary, done)
    text, finish = whole_text(model.vocabulary, done), done.finish
    if (cut := stop.cut(holes[-1])) != holes[-1]:
        text, finish, holes[-1] = text.removesuffix(holes[-1]) + cut, "stopped", cut
    written = done.canvas.hidden_T[: done.length]
    return {
        "text": text,
        "written": holes,
        "tokens": int(written.sum()),
        "steps": done.num_steps,
        "passes": done.num_passes,
        "finish": finish,
        "confidence": float(done.confidence_T[: done.length][written].mean()) if written.any() else None,
        "sample": done.canvas.row,
    }


def _difference(fast: list[Completion], exact: list[Completion], model: Loaded) -> str:
    from halfmask.evaluation.written import difference

    found = difference(model.denoiser, fast, exact, model.device)
    return (
        f"{found.same:.1%} of the tokens are those of decoding without the cache; bound of what was written "
        f"{found.bound:.4f} nats per token, without the cache {found.other_bound:.4f}"
    )


def _tell(record: Record, arguments: argparse.Namespace, *, shown: bool) -> None:
    import json

    from halfmask.records import atomic_write, plain

    if arguments.out:
        with atomic_write(Path(arguments.out)) as stream:
            stream.writelines(json.dumps(plain(row), ensure_ascii=False) + "\n" for row in record.rows)
    if arguments.json:
        print(record.to_json())
        return
    for number, row in enumerate(record.rows, start=1):
        if len(record.rows) > 1:
            print(f"── {number} of {len(record.rows)}")
        if not shown:
            print(row["text"])
    for line in [*record.notes, *(f"wrote {path}" for path in (arguments.trace, arguments.out) if path)]:
        print(line, file=sys.stderr)
