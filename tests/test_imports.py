"""Who may import whom, and what a cheap command must not import at all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import halfmask
from halfmask.cli.main import VERBS, commands_of

PACKAGE = Path(halfmask.__file__).parent

# Imports go one way: a layer may import those above it in this list, and itself.
LAYERS = [
    ["halfmask", "errors", "records", "provenance", "noise", "recipe", "laws"],
    ["theory"],
    ["corpus"],
    ["masking"],
    ["data", "models"],
    ["objective"],
    ["decoding"],
    ["evaluation"],
    ["training"],
    ["parity"],
    ["experiments"],
    ["reports"],
    ["cli", "__main__"],
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str:
    """`halfmask.theory.signal` → `theory`; the package itself is `halfmask`."""
    return module.split(".")[1] if "." in module else module


def modules() -> list[tuple[str, Path]]:
    return [
        (".".join(("halfmask", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"), path)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
    return {name for name in names if name == "halfmask" or name.startswith("halfmask.")}


def test_every_part_has_a_layer() -> None:
    assert {part_of(module) for module, _ in modules()} == set(RANK)


@pytest.mark.parametrize("module, path", modules(), ids=[module for module, _ in modules()])
def test_imports_go_one_way(module: str, path: Path) -> None:
    if module == "halfmask":
        pytest.skip("the package lists its public names, loaded when they are used")
    upward = {name for name in imported_by(path) if RANK[part_of(name)] > RANK[part_of(module)]}
    assert not upward, f"{module} imports from a later layer: {sorted(upward)}"


def test_the_layers_are_those_of_the_architecture_page() -> None:
    text = (PACKAGE.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    order = " → ".join(", ".join(part for part in layer if part not in ("halfmask", "__main__")) for layer in LAYERS)
    assert order in " ".join(text.split())


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after running the code."""
    code += "\nimport sys; print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


HELP = [["--help"], *([verb, "--help"] for verb in VERBS)]
HELP += [[*command.words.split(), "--help"] for verb in VERBS for command in commands_of(verb) if " " in command.words]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_imports_neither_numpy_nor_torch(words: list[str]) -> None:
    held = modules_after(f"from halfmask.cli.main import main\nassert main({words!r}) == 0")
    assert not held & {"numpy", "scipy", "torch", "matplotlib", "rich"}


def test_theory_never_imports_torch() -> None:
    held = modules_after(
        "from halfmask.cli.main import main\n"
        "assert main(['theory', 'signal']) == 0\n"
        "assert main(['theory', 'mixture']) == 0"
    )
    assert "numpy" in held
    assert not held & {"torch", "transformers", "datasets"}


def test_window_imports_only_what_counting_needs() -> None:
    code = "from halfmask.cli.main import main\nassert main(['window', 'builtin', '--limit', '20000', '--json']) == 0"
    held = modules_after(code)
    assert "numpy" in held
    unwanted = {"torch", "transformers", "datasets", "tokenizers", "pyarrow", "ray", "polars", "matplotlib", "rich"}
    assert not held & unwanted


def test_the_package_itself_imports_nothing() -> None:
    assert not modules_after("import halfmask") & {"numpy", "halfmask.laws"}


def test_public_names_are_there_and_lazy() -> None:
    for name in halfmask.__all__:
        assert getattr(halfmask, name).__name__ == name
    assert set(halfmask.__all__) <= set(dir(halfmask))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = halfmask.nothing
