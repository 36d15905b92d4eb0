"""What a result came from: versions, the commit of the code, the command."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from halfmask import __version__


def made_by() -> dict[str, str]:
    """What a result came from, beside its recipe."""
    found = {"halfmask": __version__, "python": platform.python_version()}
    found |= {name: sys.modules[name].__version__ for name in ("numpy", "torch") if name in sys.modules}
    if commit := _commit():
        found["commit"] = commit
    return {**found, "command": " ".join(["halfmask", *sys.argv[1:]])}


def _commit() -> str:
    """Of the checkout that this code lies in, and whether the code differs from it; empty where there is none."""
    if not _git("ls-files", "__init__.py"):  # installed; perhaps inside the checkout of something else
        return ""
    return _git("rev-parse", "--short=12", "HEAD") + (" and changes" if _git("status", "--porcelain", ".") else "")


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git here
        return ""
