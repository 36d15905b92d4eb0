"""Build the wheel, install it into an empty environment, and run it outside the tree. Run by `make wheel`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder)
        wheel = build(outside)
        check_contents(wheel)
        program = install(wheel, outside / "environment")
        for words in (
            ["--version"],
            ["demo", "--out", "results"],
            ["theory", "optimum", "--k", "6", "--json"],
            ["recipe", "list"],
        ):
            run([program, *words], outside)
        num_files = len(list((outside / "results").iterdir()))
        assert num_files > 0
        print(f"{wheel.name}: installed into an empty environment; its demo wrote {num_files} files outside the tree")


def build(outside: Path) -> Path:
    # The build backend is in the environment already, so no second one is made for the build.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*command, "--wheel-dir", outside, ROOT], outside)
    return next(outside.glob("halfmask-*.whl"))


def check_contents(wheel: Path) -> None:
    """Every module and recipe of the tree is in the wheel, and nothing that is not the package's."""
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path for ending in ("py", "yaml") for path in (ROOT / "src").rglob(f"*.{ending}")}
    wanted = {str(path.relative_to(ROOT / "src")) for path in files}
    assert wanted <= names, f"missing from the wheel: {sorted(wanted - names)}"
    strange = {name for name in names if not name.startswith(("halfmask/", "halfmask-"))}
    assert not strange, f"not the package's: {sorted(strange)}"


def install(wheel: Path, environment: Path) -> Path:
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*command, "--constraint", ROOT / "constraints.txt", wheel], environment)
    return environment / "bin" / "halfmask"


def run(command: list[object], folder: Path) -> None:
    # Without PYTHONPATH: nothing of the tree may reach the installed program.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
