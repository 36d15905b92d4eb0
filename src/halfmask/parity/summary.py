"""What the steps of a run say: between evaluations the mean of every measure, and when the task was solved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from halfmask.parity.recipe import ParityRecipe
from halfmask.records import Record, Row

SOLVED = 0.99  # held-out accuracy
AVERAGED = ("loss", "signal share", "signal loss", "noise loss")
SHOWN = 20  # rows of a table
COLUMNS = {  # as measured → as shown: short, so that a table fits a terminal
    "loss": "loss",
    "signal loss": "L_S",
    "noise loss": "L_N",
    "train accuracy": "train",
    "held-out accuracy": "held out",
    "signal share": "signal",
}
ENERGY = {"energy share": "E / ceiling", "energy gradient": "|∇E|"}


class Curve:
    """Takes one step's measures after another, keeps a row for every evaluation."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._sums, self._num = dict.fromkeys(AVERAGED, 0.0), 0

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]]) -> Curve:
        curve = cls()
        for line in lines:
            curve.add(line)
        return curve

    def add(self, measures: dict[str, Any]) -> bool:
        """Whether these held an evaluation."""
        self._num += 1
        for name in AVERAGED:
            self._sums[name] += measures[name]
        if "held-out accuracy" not in measures:
            return False
        means = {name: total / self._num for name, total in self._sums.items()}
        self.rows.append({**measures, **means})
        self._sums, self._num = dict.fromkeys(AVERAGED, 0.0), 0
        return True

    def steps_to(self, accuracy: float = SOLVED, name: str = "held-out accuracy") -> int | None:
        """The first evaluated step with that accuracy."""
        return next((int(row["step"]) for row in self.rows if row[name] >= accuracy), None)


def run_record(recipe: ParityRecipe, curve: Curve) -> Record:
    masks, rows = recipe.masks, curve.rows
    solved = curve.steps_to()
    shares = [masks.signal_share(int(row["step"]) - 1, recipe.k) for row in rows]
    every = -(-len(rows) // SHOWN)
    shown = [number for number in range(len(rows)) if (number + 1) % every == 0 or number + 1 == len(rows)]
    energy = [{"step": rows[i]["step"], **_renamed(rows[i], ENERGY)} for i in shown if "energy share" in rows[i]]
    return Record(
        name="parity train",
        title=f"({recipe.n}, {recipe.k})-parity, {recipe.model}, masks {recipe.mask}, {recipe.loss} loss",
        settings=asdict(recipe),
        rows=[{"step": rows[i]["step"], **_renamed(rows[i], COLUMNS), "P_S": shares[i]} for i in shown],
        tables={"Energy of the hidden weights": energy} if energy else {},
        notes=[
            f"{SOLVED:.0%} held-out accuracy {f'at step {solved:,}' if solved else 'not reached'}.",
            "L_S, L_N: what signal and noise rows add to the effective loss; signal: the share of signal rows.",
            "Losses and shares are means over the steps since the row before.",
        ],
        extra={"curve": rows, "P_S": shares, "solved": solved},
    )


def _renamed(row: Row, names: dict[str, str]) -> Row:
    return {shown: row[name] for name, shown in names.items()}
