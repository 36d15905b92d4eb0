"""The documentation is run: shell blocks, Python blocks, links and the command reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[object]:
    return [
        pytest.param(match[2], id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")))
        if match[1] == language
    ]


@pytest.mark.parametrize("block", blocks("sh"))
def test_shell_blocks_run(block: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(block: str, tmp_path: Path) -> None:
    """As a program; a comment `# → text` after a print is what the print must say."""
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"# → (.*)$", block, re.MULTILINE)
    assert done.stdout.splitlines()[: len(promised)] == promised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_command_reference_is_what_help_says() -> None:
    """Word for word; how the lines are wrapped differs between versions of Python."""
    code = "import runpy; print(runpy.run_path('docs/generate.py')['page']())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert done.stdout.split() == written.split(), "out of date: run make docs"


def test_the_tree_of_the_architecture_page_is_the_tree() -> None:
    """Every module under src/ is named there, and every module named there exists."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = text.partition("```\n")[2].partition("```")[0]
    named = set(re.findall(r"^ +(\w+\.py) ", tree, re.MULTILINE))
    there = {path.name for path in (ROOT / "src" / "halfmask").rglob("*.py")}
    verbs = {path.name for path in (ROOT / "src" / "halfmask" / "cli").glob("*.py")}  # one for each verb: not listed
    assert named <= there
    assert there - verbs <= named | {"__init__.py", "__main__.py"}
