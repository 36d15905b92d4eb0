"""Recipes: what goes before what and where it came from, types as the class declares them, every mistake in a line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfmask.cli.main import main
from halfmask.errors import DataError, UsageError
from halfmask.recipe import dump_recipe, flat_recipe, read_recipe, shipped_recipes
from halfmask.training.recipe import TrainRecipe


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    pair: tuple[float, float] = (0.9, 0.95)
    kind: Literal["one", "two"] = "one"


@dataclass(frozen=True)
class Nested:
    deep: bool = False
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Tree:
    """Every type that a recipe may declare."""

    name: str
    count: int = 3
    maybe: int | None = None
    choice: Literal[1, 2] = 1
    perhaps: Literal["a", "b"] | None = None
    many: tuple[int, ...] = ()
    inner: Inner = field(default_factory=Inner)
    nested: Nested = field(default_factory=Nested)


def read(text: str, tmp_path: Path, *overrides: str) -> tuple[Tree, dict[str, str]]:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(Tree, path, overrides)


def test_defaults_then_the_file_then_the_command_line(tmp_path: Path) -> None:
    text = "name: x\ncount: 5\ninner:\n  rate: 1e-3\nnested: {inner: {kind: two}}\n"
    tree, origins = read(text, tmp_path, "count=7", "nested.inner.rate=2", "count=8")
    assert tree == Tree("x", 8, inner=Inner(rate=1e-3), nested=Nested(inner=Inner(rate=2.0, kind="two")))
    file = str(tmp_path / "recipe.yaml")
    assert {key: origin for key, origin in origins.items() if origin != "default"} == {
        "name": file,
        "count": "command line",
        "inner.rate": file,
        "nested.inner.kind": file,
        "nested.inner.rate": "command line",
    }
    assert list(origins) == [key for key, _ in flat_recipe(tree)]  # no section among them


def test_a_recipe_needs_no_file() -> None:
    tree, origins = read_recipe(Tree, None, ["name=x"])
    assert tree == Tree("x") and origins["count"] == "default"


@pytest.mark.parametrize("text", ["", "# a comment\n", "null\n", "inner:\n", "inner: {}\nnested:\n  inner:\n"])
def test_what_holds_nothing_changes_nothing(text: str, tmp_path: Path) -> None:
    assert read(text, tmp_path, "name=x")[0] == Tree("x")


@pytest.mark.parametrize(
    "key, text, value",
    [
        ("count", "1_000", 1000),
        ("count", "1e3", 1000),
        ("count", "-2", -2),
        ("count", "9007199254740993", 2**53 + 1),  # no float has it
        ("count", "010", 10),  # YAML would take it for an octal
        ("inner.rate", "1e-3", 1e-3),  # YAML would take it for a text
        ("inner.rate", "3", 3.0),
        ("nested.deep", "true", True),
        ("nested.deep", "False", False),
        ("name", "0.10", "0.10"),  # YAML would take it for a number, as the next six for what they look like
        ("name", "1:30", "1:30"),
        ("name", "no", "no"),
        ("name", "true", "true"),
        ("name", "2026-11-19", "2026-11-19"),
        ("name", "007", "007"),
        ("name", "0.5*0-1 + 0.5*0.45-0.55", "0.5*0-1 + 0.5*0.45-0.55"),
        ("maybe", "null", None),
        ("maybe", "~", None),
        ("maybe", "", None),
        ("maybe", "4", 4),
        ("choice", "2", 2),
        ("perhaps", "b", "b"),
        ("perhaps", "null", None),
        ("inner.pair", "[1e-3, 2]", (1e-3, 2.0)),
        ("many", "[1, 2, 3]", (1, 2, 3)),
        ("many", "7", (7,)),
        ("many", "[]", ()),
        ("inner", "{rate: 2, kind: two}", Inner(rate=2.0, kind="two")),
    ],
)
def test_the_class_says_what_a_value_is(key: str, text: str, value: Any, tmp_path: Path) -> None:
    """Alike in a file and on the command line; and of the right type, as 1 is not True."""
    lines = "" if key == "name" else "name: x\n"
    for tree, origins in (
        read(f"{lines}{key}: {text}\n", tmp_path),
        read_recipe(Tree, None, [f"{key} = {text}", *(["name=x"] if key != "name" else [])]),
    ):
        found: Any = tree
        for part in key.split("."):
            found = getattr(found, part)
        assert (found, type(found)) == (value, type(value))
        assert origins["inner.rate" if key == "inner" else key] != "default"


@pytest.mark.parametrize("text", ["a # b", "a: b", "@a", "*a", "'quoted'", "a, b", "~/folder", "predicted:p.json"])
def test_a_text_on_the_command_line_is_itself(text: str) -> None:
    assert read_recipe(Tree, None, [f"name={text}"])[0].name == text


trees = st.builds(
    Tree,
    name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
    | st.sampled_from(
        ["0.10", "1e3", "null", "~", "yes", "true", "[a]", "{a: b}", "# a", "007", "2026-11-19", "=", "<<"]
    ),
    count=st.integers(-(2**70), 2**70),
    maybe=st.none() | st.integers(),
    choice=st.sampled_from([1, 2]),
    perhaps=st.none() | st.sampled_from(["a", "b"]),
    many=st.lists(st.integers(), max_size=3).map(tuple),
    inner=st.builds(
        Inner,
        rate=st.floats(allow_nan=False, allow_infinity=False),
        pair=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
        kind=st.sampled_from(["one", "two"]),
    ),
    nested=st.builds(Nested, deep=st.booleans()),
)


@given(tree=trees)
def test_what_is_dumped_reads_back(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(dump_recipe(tree), encoding="utf-8")
    found, origins = read_recipe(Tree, path)
    assert found == tree and set(origins.values()) == {str(path)}


# Mistakes


FILE = r"recipe\.yaml"
LINE = "command line"


@pytest.mark.parametrize(
    "text, overrides, said",
    [
        ("", [], "a recipe needs name, got nothing: add it, or name=… on the command line"),
        ("naem: x", [], FILE + ": a recipe has no such key, got naem: did you mean name?"),
        ("name: x", ["inner.rat=1"], LINE + ": a recipe has no such key, got inner.rat: did you mean inner.rate?"),
        ("name: x", ["rate=1"], "got rate: did you mean inner.rate or nested.inner.rate?"),
        ("name: x", ["other.deep=1"], "got other.deep: did you mean nested.deep?"),
        ("name: x", ["zzz=1"], "got zzz: halfmask recipe show demo shows them all"),
        ("name: x\n1: 2", [], "a recipe has no such key, got 1:"),
        ("name: x\ncount: {a: 1}", [], "a recipe has no such key, got count.a"),
        ("name: x\ncount: {}", [], FILE + r": count must be a whole number, got \{\}: write for example 1"),
        ("name: x\ncount:", [], "count must be a whole number, got nothing"),
        ("name: x\ncount: 2.5", [], FILE + ": count must be a whole number, got '2.5'"),
        ("name: x", ["count=two"], LINE + ": count must be a whole number, got 'two'"),
        ("name: x", ["count=inf"], "count must be a whole number, got 'inf'"),
        ("name: x", ["count=[1]"], r"count must be a whole number, got \['1'\]"),
        ("name: x", ["inner.rate=fast"], "inner.rate must be a number, got 'fast': write for example 1e-3"),
        ("name: x", ["inner.rate=nan"], "inner.rate must be a number, got 'nan'"),
        ("name: x\ninner: {rate: .inf}", [], "inner.rate must be a number, got '.inf'"),
        ("name: x\nnested: {deep: yes}", [], "nested.deep must be true or false, got 'yes': write for example true"),
        ("name: [x]", [], r"name must be a text, got \['x'\]"),
        ("name: null", [], "name must be a text, got nothing"),
        ("name: x", ["maybe=some"], "maybe must be a whole number, got 'some'"),
        ("name: x", ["choice=3"], "choice must be one of 1, 2, got '3': choose one of 1, 2"),
        ("name: x", ["inner.kind=tow"], "inner.kind must be one of one, two, got 'tow': did you mean two?"),
        ("name: x", ["perhaps=c"], "perhaps must be one of a, b, got 'c'"),
        ("name: x\ninner: {kind: [one]}", [], "inner.kind must be one of one, two, got"),
        ("name: x", ["inner.pair=0.9"], r"inner.pair must hold 2 values, got '0.9': write them as \[a, b\]"),
        ("name: x", ["inner.pair=[1,2,3]"], "inner.pair must hold 2 values, got"),
        ("name: x", ["inner.pair=[1,b]"], "inner.pair must be a number, got 'b'"),
        (
            "name: x",
            ["inner=3"],
            LINE + ": inner is a section of a recipe, got '3': write inner.KEY, or keys below",
        ),
        ("name: x\ninner: [rate]", [], FILE + r": inner is a section of a recipe, got \['rate'\]"),
        ("name: x", ["seed"], "an override is written key=value, got seed: give for example seed=1"),
        ("name: x", ["=1"], "an override is written key=value, got =1"),
        ("name: x", ["inner.pair=[1,"], "command line must be YAML, got while parsing"),
        ("- name", [], FILE + " must hold a recipe, got a list: write keys and values in YAML"),
        ("name", [], FILE + " must hold a recipe, got 'name'"),
        ("name: x\n name: y", [], FILE + " must be YAML, got mapping values are not allowed"),
        ("name: !!python/object:os.system x", [], FILE + " must be YAML, got could not determine a constructor"),
        ("name: x\nname: y", [], FILE + " must be YAML, got name twice in .* line 2"),
        ("name: x\ninner: {rate: 1}\ninner.rate: 2", [], FILE + ": a key is written once, got inner.rate twice"),
    ],
)
def test_a_mistake_has_its_line(text: str, overrides: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, DataError)) as caught:
        read(text, tmp_path, *overrides)
    assert re.search(said, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    (tmp_path / "folder").mkdir()
    for name, said in (
        ("latin.yaml", "latin.yaml could not be read, got 'utf-8' codec can't decode"),
        ("folder", "folder could not be read, got Is a directory: check the path"),
        ("nowhere.yaml", "a recipe must be a YAML file, or one of demo, .*, got nowhere.yaml, which is neither"),
        ("dmeo", "got dmeo, which is neither: check the path, or did you mean demo?"),
    ):
        with pytest.raises(DataError, match=said):
            read_recipe(Tree, name)


# Recipes of the package


def test_the_recipes_that_ship() -> None:
    assert list(shipped_recipes()) == ["demo", "paper-51m"]


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_recipe_of_the_package_holds_differences_and_why(name: str) -> None:
    recipe, origins = read_recipe(TrainRecipe, name)
    defaults = dict(flat_recipe(TrainRecipe(data=replace(recipe.data, folder="", length=128))))
    own = {key: value for key, value in flat_recipe(recipe) if origins[key] == name}
    assert own and all(value != defaults[key] for key, value in own.items())
    assert recipe.mask == TrainRecipe(data=recipe.data).mask  # what the user is here to choose
    lines = shipped_recipes()[name].read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# .*[.\)]", lines[0])  # what `halfmask recipe list` says
    for before, line in pairwise(lines):
        assert line.startswith("#") or line.endswith(":") or "  # " in line or before.lstrip().startswith("#"), line


def test_a_file_goes_before_a_recipe_of_its_name_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()  # what `make demo` leaves
    assert read_recipe(TrainRecipe, "demo")[0].optimizer.lr == 2e-3
    (tmp_path / "paper-51m").write_text("data: {folder: mine}", encoding="utf-8")
    assert read_recipe(TrainRecipe, "paper-51m")[0].data.folder == "mine"


def test_what_the_paper_says_of_its_51m_model() -> None:
    recipe, _ = read_recipe(TrainRecipe, "paper-51m")
    assert (recipe.step.rows, recipe.data.length, recipe.steps, recipe.model.preset) == (1024, 150, 6000, "51m")
    assert recipe.mask.weight == "1/t"


# halfmask recipe


def test_list_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "list", "--json"]) == 0
    assert [row["recipe"] for row in json.loads(capsys.readouterr().out)["rows"]] == list(shipped_recipes())
    assert main(["recipe", "show", "demo", "mask.law=0.45-0.55", "optimizer.betas=[0.8,0.9]", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    rows = {row["key"]: (row["value"], row["from"]) for row in record["rows"]}
    assert list(rows) == [key for key, _ in flat_recipe(read_recipe(TrainRecipe, "demo")[0])]
    assert rows["optimizer.lr"] == ("0.002", "demo")
    assert rows["mask.law"] == ("0.45-0.55", "command line")
    assert rows["optimizer.betas"] == ("[0.8, 0.9]", "command line")
    assert rows["step.compile"] == ("false", "default") and rows["model.width"] == ("–", "default")


def test_show_says_what_a_predicted_law_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a b c d a b c a b " * 40, encoding="utf-8")
    assert main(["window", "words.txt", "--out", "profile.json"]) == 0
    capsys.readouterr()
    assert main(["recipe", "show", "demo", "mask.law=predicted:profile.json"]) == 0
    assert re.search(r"predicted:profile.json.* is 0\.\d+-0\.\d+$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    "line, said",
    [
        ("recipe show", "halfmask recipe show needs RECIPE"),
        ("recipe shwo demo", "did you mean show?"),
        ("recipe show dmeo", "got dmeo, which is neither: check the path, or did you mean demo?"),
        ("recipe show demo lr=3", "command line: a recipe has no such key, got lr: did you mean optimizer.lr?"),
        ("recipe show demo steps=0", "steps must be 1 or more, got 0"),
        ("recipe show demo mask.law=0.6-0.3", "0.6-0.3: swap the two"),
        ("recipe show demo step.precision=fp16", "step.precision must be one of bf16, fp32, got 'fp16'"),
        ("train demo lr=3 --out run", "did you mean optimizer.lr?"),
    ],
)
def test_mistakes_of_the_verbs(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert said in err and err.startswith("halfmask: ") and err.count("\n") == 1
    assert not out and not list(tmp_path.iterdir())
