"""`halfmask VERB …`: find the verb, import it, run it; every error leaves in one style.

Exit status: 0 done, 1 a check that did not hold, 2 a user's mistake, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from halfmask import __version__
from halfmask.cli.command import Command, build_parser
from halfmask.errors import HalfmaskError, MissingExtraError, UsageError, nearest

# verb → (module, what it does). The module is imported when the verb is called.
VERBS = {
    "window": ("halfmask.cli.window", "predict the mask window of a corpus"),
    "prepare": ("halfmask.cli.prepare", "tokenise a corpus for training"),
    "tokens": ("halfmask.cli.tokens", "what a folder of tokens holds"),
    "train": ("halfmask.cli.train", "train a masked diffusion language model with any mask law"),
    "recipe": ("halfmask.cli.recipe", "the recipes of the package, and what any resolves to"),
    "generate": ("halfmask.cli.generate", "continue texts with a trained model"),
    "infill": ("halfmask.cli.infill", "fill the holes of texts with a trained model"),
    "chat": ("halfmask.cli.chat", "talk with a trained model in the terminal"),
    "eval": ("halfmask.cli.eval", "what a model has learned: bounds, loss by ratio, comparisons, likelihoods"),
    "lm-eval": ("halfmask.cli.lm_eval", "lm-evaluation-harness's own command line, with our models"),
    "theory": ("halfmask.cli.theory", "signal, optimal laws, identifiability, energy, n-gram mixtures"),
    "parity": ("halfmask.cli.parity", "the (n, k)-parity task: what a mask leaves identifiable"),
    "paper": ("halfmask.cli.paper", "the paper's claims: run, show and check its experiments"),
    "figure": ("halfmask.cli.figure", "draw a saved record again"),
    "demo": ("halfmask.cli.demo", "the main job end to end, into a folder of results"),
    "completion": ("halfmask.cli.completion", "print the shell completion script"),
}

# What a verb needs and the base does not install: package → extra.
EXTRAS = {"torch": "train", "yaml": "train", "safetensors": "train"}

OVERVIEW = f"""usage: halfmask VERB [arguments]

How much to mask: laws of the mask ratio for masked diffusion language models.

verbs:
{chr(10).join(f"  {verb:<12}{summary}" for verb, (_, summary) in VERBS.items())}

options:
  -h, --help  this text; `halfmask VERB --help` for a verb
  --version   the version
  --debug     show the traceback of an error

examples:
  halfmask theory optimum --k 6
  halfmask parity show --n 4 --k 2
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status is returned, and errors are printed."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        return _dispatch(words)
    except HalfmaskError as error:
        if debug:
            raise
        print(f"halfmask: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        print("\nhalfmask: interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if debug or package not in EXTRAS:
            raise
        missing = MissingExtraError(f"halfmask {words[0]}", package=package, extra=EXTRAS[package])
        print(f"halfmask: {missing}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does: not an error. Keep Python from complaining at exit.
        _drop_output()
        return 0
    except OSError as error:
        if debug:
            raise
        _drop_output()  # what is still buffered cannot be written either
        print(
            f"halfmask: the system refused a file operation, got {error}: free space or check the path",
            file=sys.stderr,
        )
        return 2


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def entry() -> None:
    sys.exit(main())


def _dispatch(words: list[str]) -> int:
    while words and words[0] == "--debug":
        words = words[1:]
    if not words or words[0] in ("-h", "--help", "help"):
        print(OVERVIEW, end="")
        return 0
    if words[0] in ("--version", "-V"):
        print(f"halfmask {__version__}")
        return 0
    verb = words[0]
    if verb not in VERBS:
        raise UsageError(f"halfmask has no verb {verb}", got=" ".join(words), fix=nearest(verb, VERBS))
    parser = build_parser(f"halfmask {verb}", commands_of(verb))
    try:
        arguments = parser.parse_args(words[1:])
    except SystemExit as done:  # --help
        return int(done.code or 0)
    status = arguments.run(arguments)
    sys.stdout.flush()
    return int(status or 0)


def commands_of(verb: str) -> list[Command]:
    return list(importlib.import_module(VERBS[verb][0]).COMMANDS)
