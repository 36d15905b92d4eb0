"""Figures: every kind of record has one, it is drawn from the saved record alone, and the bytes repeat."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from halfmask.cli.main import commands_of, main
from halfmask.errors import UsageError
from halfmask.records import Record
from halfmask.reports.figures import FIGURES, draw
from halfmask.reports.style import COLOURS, DASHES, MARKERS, series

EXAMPLES = {command.words: command.examples[0] for command in commands_of("theory")}


def test_every_theory_command_has_a_figure() -> None:
    assert set(EXAMPLES) <= set(FIGURES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_saved_record_draws_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(EXAMPLES[name])[1:], "--json", "--plot", "first.svg"]) == 0
    Path("record.json").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["figure", "record.json", "second.svg"]) == 0
    assert Path("first.svg").read_bytes() == Path("second.svg").read_bytes()
    assert b"<svg" in Path("first.svg").read_bytes()


@pytest.mark.parametrize("suffix, start", [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".SVG", b"<?xml")])
def test_forms(suffix: str, start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["theory", "mixture", "--plot", f"x{suffix}"]) == 0
    assert Path(f"x{suffix}").read_bytes().startswith(start)


def test_a_record_without_a_figure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this record has no figure, got parity show"):
        draw(Record("parity show", "", {}, []), tmp_path / "x.svg")


def test_series_differ_without_colour() -> None:
    dashes = [str(series(i)["linestyle"]) for i in range(len(COLOURS))]
    assert len(set(dashes)) == len(COLOURS) == len(DASHES) == len(MARKERS)
    brightness = [_brightness(colour) for colour in COLOURS]
    assert brightness == sorted(brightness)


def _brightness(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue
