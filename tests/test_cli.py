"""The command line as a person meets it: every example runs, every mistake gets one line."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

import halfmask
from halfmask.cli.command import Command
from halfmask.cli.main import VERBS, commands_of, main

COMMANDS = [command for verb in VERBS for command in commands_of(verb)]
EXAMPLES = [example for command in COMMANDS for example in command.examples]


def halfmask_program(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "halfmask", *words], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def in_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@cache
def made_by(lines: tuple[str, ...]) -> Path:
    """A folder after these lines; what several examples begin with runs once."""
    folder = Path(tempfile.mkdtemp(prefix="halfmask-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if lines:
        shutil.copytree(made_by(lines[:-1]), folder, dirs_exist_ok=True)
        done = in_shell(lines[-1], folder)
        assert done.returncode == 0, done.stderr
    return folder


def beside(lines: tuple[str, ...], folder: Path) -> Path:
    """A copy of what these lines leave."""
    return Path(shutil.copytree(made_by(lines), folder, dirs_exist_ok=True))


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_help_run(example: str, tmp_path: Path) -> None:
    """As a shell would run them, in an empty folder: redirections and && are part of some."""
    *before, last = example.split(" && ")
    done = in_shell(last, beside(tuple(before), tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout or any(tmp_path.iterdir())
    for word in shlex.split(example):
        if word.endswith((".svg", ".png")):
            assert (tmp_path / word).stat().st_size > 1000


def test_every_help_ends_with_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert main([*command.words.split(), "--help"]) == 0
        assert capsys.readouterr().out.rstrip().endswith(command.examples[-1])
        assert command.examples


def test_version_and_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"halfmask {halfmask.__version__}\n"
    assert main([]) == 0
    overview = capsys.readouterr().out
    for verb in VERBS:
        assert f"\n  {verb} " in overview


@pytest.mark.parametrize(
    "line, said",
    [
        ("thoery", "did you mean theory?"),
        ("theory", "needs WORD"),
        ("theory signl", "did you mean signal?"),
        ("theory signal --kk 3", "takes no argument --kk"),
        ("theory signal --k six", "takes a whole number, got 'six'"),
        ("theory signal --k -1", "must be 0 or more, got -1"),
        ("theory signal --mask 0.6-0.3", "0 <= lo < hi <= 1, got 0.6-0.3: swap the two"),
        ("theory signal --mask 0-1.2", "0 <= lo < hi <= 1, got 0-1.2"),
        ("theory signal --mask nan", "got 'nan'"),
        ("theory signal --mask 1.5", "must lie in [0, 1], got 1.5"),
        ("theory signal --plot curve.gif", "a .svg, .png or .pdf file, got curve.gif: name it curve.svg"),
        ("theory signal --plot nowhere/curve.svg", "mkdir -p nowhere"),
        ("theory optimum --k 3 --weights 2:1", "not allowed with"),
        ("theory optimum --t0 1.5", "t0 must lie in [0, 1], got 1.5"),
        ("theory optimum --t0 nan", "t0 must lie in [0, 1], got nan"),
        ("theory optimum --width 0", "must be positive, got 0.0"),
        ("theory optimum --concentration -1", "must be positive, got -1.0"),
        ("theory optimum --weights 2:0.5,2:0.5", "each order once"),
        ("theory optimum --weights two:1", "ORDER:WEIGHT"),
        ("theory mixture --weights 2:0,3:0", "not all zero"),
        ("theory mixture --weights 2:-1,3:2", "non-negative"),
        ("theory mixture --weights 2:nan", "finite"),
        ("theory mixture --share 1", "must lie in (0, 1), got 1.0"),
        ("theory identify --n 6 --k 6", "1 <= k < n, got n = 6, k = 6"),
        ("theory identify --delta 0", "must lie in (0, 1), got 0.0"),
        ("theory identify --mask 0", "a bound of infinity"),
        ("theory identify --trials 0", "at least one trial"),
        ("theory identify --samples 0", "sizes of at least one row"),
        ("theory loss --n 4 --k 5", "1 <= k < n"),
        ("theory loss --n 12", "exact enumeration is for n <= 8, got n = 12"),
        ("theory loss --mask 0-0.5 0-1", "one law is needed here"),
        ("theory loss --samples 0", "at least one row"),
        ("theory energy --width 0", "must be 1 or more"),
        ("theory energy --mask 1", "this law has no signal masks"),
        ("parity show --n 2 --k 3", "1 <= k < n"),
        ("figure missing.json x.svg", "missing.json could not be read, got No such file"),
        ("completion fish", "must be one of"),
    ],
)
def test_a_mistake_gets_one_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.startswith("halfmask: ") and err.count("\n") == 1
    assert not out
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback() -> None:
    done = halfmask_program("theory", "signal", "--k", "-1", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "UsageError" in done.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if " " in c.words], ids=lambda command: command.words)
def test_json_is_one_record(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *before, example = command.examples[0].split(" && ")
    monkeypatch.chdir(beside(tuple(before), tmp_path))
    assert main([*shlex.split(example)[1:], "--json"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert set(record) == {"name", "title", "settings", "rows", "notes", "tables", "extra", "version"}
    assert record["rows"] and record["version"] == halfmask.__version__
    assert all(line.startswith("wrote ") for line in err.splitlines())  # JSON alone is on the standard output


def test_a_closed_pipe_and_a_full_disk() -> None:
    command = f"{sys.executable} -m halfmask theory identify --trials 5 --samples 10 20 --json"
    head = subprocess.run(f"{command} | head -c 1", shell=True, capture_output=True, text=True, check=False)
    assert (head.stdout, head.stderr) == ("{", "")
    if Path("/dev/full").exists():
        full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, check=False)
        assert full.returncode == 2
        assert "No space left on device" in full.stderr and "Traceback" not in full.stderr


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "halfmask", "theory", "identify", "--trials", "100000", "--plot", "out.svg"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)  # long enough to be at work; an earlier interrupt must look the same
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_completion_names_every_verb() -> None:
    for shell in ("bash", "zsh"):
        script = halfmask_program("completion", shell).stdout
        assert all(verb in script for verb in VERBS)
        assert "--concentration" in script
    bash = halfmask_program("completion", "bash").stdout
    check = subprocess.run(["bash", "-n"], input=bash, text=True, capture_output=True, check=False)
    assert check.returncode == 0, check.stderr


def test_demo_names_the_files_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a folder" / "results"
    assert main(["demo", "--out", str(out), "--steps", "2"]) == 0
    said = capsys.readouterr().out
    named = said.partition("The demo wrote:\n")[2].split("\n")
    assert sorted(line.strip() for line in named if line) == sorted(map(str, out.iterdir()))
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert "choose another --out" in capsys.readouterr().err
