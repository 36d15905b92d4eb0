"""Local files in place of a hub: data sets in plain files become folders that mirror their names on the Hub.

lm-eval's tasks name their data sets (`allenai/ai2_arc`), and a folder of that name in the working directory is read
before the Hub. `stand_in(DIR)` makes such folders from what it finds:

    arc/arc_easy.jsonl, arc_challenge.jsonl     query, choices, gold
    hellaswag/*.jsonl                           the official fields
    gsm8k/train.jsonl, test.jsonl               question, answer
    mmlu/mmlu.tar.gz, or mmlu/dev, mmlu/test    a CSV for each subject: question, A, B, C, D, answer
    gpqa/gpqa_main.csv                          the official columns
    math/train.jsonl, test.jsonl                problem, solution, level, type
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from halfmask.corpus.formats import optional
from halfmask.errors import DataError

Row = dict[str, Any]
Splits = dict[str, dict[str, list[Row]]]  # configuration → split → rows


@contextlib.contextmanager
def stand_in(folder: Path | None) -> Iterator[list[str]]:
    """Work in a folder of mirrors of what the given one holds; yields their names. None: the Hub as it is."""
    if folder is None:
        yield []
        return
    if not folder.is_dir():
        raise DataError("local data sets are in a folder", got=folder, fix="check --local")
    with tempfile.TemporaryDirectory() as place:
        made = []
        for name, read in MIRRORS.items():
            if splits := read(folder):
                _write(Path(place) / name, splits)
                made.append(name)
        if not made:
            raise DataError(
                f"{folder} must hold data sets in folders arc, hellaswag, gsm8k, mmlu, gpqa or math",
                got=", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "an empty folder",
                fix="see halfmask eval tasks --help",
            )
        config = optional("datasets", "tasks of lm-eval", extra="eval").config
        before = config.HF_DATASETS_CACHE
        config.HF_DATASETS_CACHE = Path(place) / ".cache"  # the mirrors go, and what was made of them with them
        try:
            with contextlib.chdir(place):
                yield made
        finally:
            config.HF_DATASETS_CACHE = before


def _write(folder: Path, splits: Splits) -> None:
    """Arrow files, and the page that tells `datasets` which file is which split of which configuration.

    lm-eval opens every split that a task names, also where it needs none of its rows: one that is not here gets a row
    that says so to whoever asks for examples from it.
    """
    pyarrow = optional("pyarrow", "local data sets", extra="corpus")
    page = ["---", "configs:"]
    for config, by_split in splits.items():
        page += [f"- config_name: {config}", "  data_files:"]
        schema = pyarrow.Table.from_pylist(next(iter(by_split.values()))).schema
        nothing = [{**next(iter(by_split.values()))[0], **NOT_HERE.get(folder.name, {})}]
        for split in dict.fromkeys((*SPLITS[folder.name], *by_split)):
            path = folder / config / f"{split}.arrow"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pyarrow.Table.from_pylist(by_split.get(split, nothing), schema=schema)
            with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as stream:
                stream.write_table(table)
            page += [f"  - split: {split}", f"    path: {config}/{split}.arrow"]
    (folder / "README.md").write_text("\n".join([*page, "---", ""]), encoding="utf-8")


def _arc(folder: Path) -> Splits:
    names = {"ARC-Easy": "arc_easy", "ARC-Challenge": "arc_challenge"}
    found: Splits = {}
    for config, name in names.items():
        path = folder / "arc" / f"{name}.jsonl"
        if path.is_file():
            found[config] = {"test": [_arc_row(row) for row in _json_lines(path, "query", "choices", "gold")]}
    return found


def _arc_row(row: Row) -> Row:
    labels = [chr(ord("A") + at) for at in range(len(row["choices"]))]
    return {
        "question": row["query"].removeprefix("Question: "),
        "choices": {"text": row["choices"], "label": labels},
        "answerKey": labels[row["gold"]],
    }


def _hellaswag(folder: Path) -> Splits:
    paths = sorted((folder / "hellaswag").glob("*.jsonl"))
    fields = ("activity_label", "ctx_a", "ctx_b", "endings", "label")
    rows = [{name: row[name] for name in fields} for path in paths for row in _json_lines(path, *fields)]
    return {"default": {"validation": rows}} if rows else {}


def _gsm8k(folder: Path) -> Splits:
    splits = _splits(folder / "gsm8k", ("question", "answer"))
    return {"main": splits} if splits else {}


def _math(folder: Path) -> Splits:
    found: Splits = {}
    for split, rows in _splits(folder / "math", ("problem", "solution", "level", "type")).items():
        for row in rows:
            subject = str(row["type"]).lower().replace(" & ", " and ").replace(" ", "_")
            found.setdefault(subject, {}).setdefault(split, []).append(row)
    return found


def _splits(folder: Path, fields: tuple[str, ...]) -> dict[str, list[Row]]:
    """Of a data set whose tasks take their examples from the training split: both or none."""
    there = {name: folder / f"{name}.jsonl" for name in ("train", "test")}
    missing = [path for path in there.values() if not path.is_file()]
    if len(missing) == 1:
        raise DataError(f"{folder} must hold train.jsonl and test.jsonl", got=f"no {missing[0].name}", fix="add it")
    return {} if missing else {name: list(_json_lines(path, *fields)) for name, path in there.items()}


def _mmlu(folder: Path) -> Splits:
    found: Splits = {}
    splits = {"dev": "dev", "val": "validation", "test": "test"}
    for name, text in _csv_files(folder / "mmlu"):
        part = Path(name).parent.name
        subject = Path(name).stem.removesuffix(f"_{part}")
        if part not in splits:
            continue
        rows = []
        for line in csv.reader(io.StringIO(text)):
            if len(line) != 6 or line[5] not in "ABCD":
                raise DataError(
                    f"{name} of MMLU must hold question, four choices and a letter", got=line, fix="copy it again"
                )
            row: Row = {"question": line[0], "subject": subject, "choices": line[1:5], "answer": "ABCD".index(line[5])}
            rows.append(row)
        found.setdefault(subject, {})[splits[part]] = rows
    return found


def _csv_files(folder: Path) -> Iterator[tuple[str, str]]:
    archive = folder / "mmlu.tar.gz"
    if archive.is_file():
        with tarfile.open(archive) as files:
            for member in files:
                stream = files.extractfile(member)
                if stream is not None and member.name.endswith(".csv"):
                    yield member.name, stream.read().decode("utf-8")
        return
    for path in sorted(folder.glob("*/*.csv")):
        yield str(path), path.read_text(encoding="utf-8")


def _gpqa(folder: Path) -> Splits:
    found: Splits = {}
    for path in sorted((folder / "gpqa").glob("gpqa_*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            found[path.stem] = {"train": list(csv.DictReader(stream))}
    return found


def _json_lines(path: Path, *fields: str) -> Iterator[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            missing = [field for field in fields if field not in row]
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}, line {number}, must be JSON", got=str(error), fix="copy it again") from error
        if missing:
            raise DataError(
                f"{path}, line {number}, must hold {', '.join(fields)}", got=f"no {missing[0]}", fix="copy it again"
            )
        yield row


# The splits that lm-eval's tasks name, and what makes a row of a split that is not here no example for a prompt.
SPLITS = {
    "ai2_arc": ("train", "validation", "test"),
    "hellaswag": ("train", "validation"),
    "gsm8k": ("train", "test"),
    "mmlu": ("dev", "validation", "test"),
    "gpqa": ("train",),
    "hendrycks_math": ("train", "test"),
}
NOT_HERE: dict[str, Row] = {
    "ai2_arc": {"answerKey": "an example: the local files have no training split, so ask for no shots"},
    "hellaswag": {"endings": []},
}
MIRRORS: dict[str, Callable[[Path], Splits]] = {
    "allenai/ai2_arc": _arc,
    "Rowan/hellaswag": _hellaswag,
    "openai/gsm8k": _gsm8k,
    "cais/mmlu": _mmlu,
    "Idavidrein/gpqa": _gpqa,
    "EleutherAI/hendrycks_math": _math,
}
