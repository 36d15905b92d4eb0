"""Recipes: defaults → YAML file → `key=value` on the command line, typed, with the origin of every value.

A recipe is a tree of frozen dataclasses; a file holds only what differs, and some come with the package by name. What
a class does not know is an error that names the nearest key, and a value of another type is an error that names the
type.

    recipe, origins = read_recipe(TrainRecipe, "recipe.yaml", ["optimizer.lr=1e-3"])

The class alone says what a value is: YAML's own guesses (1e-3 a text, 010 an eight, `no` a truth value) are not asked.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from halfmask.errors import DataError, UsageError, nearest

Tree = TypeVar("Tree")
Origins = dict[str, str]  # dotted key → where its value came from
COMMAND_LINE = "command line"
SHIPPED = Path(__file__).parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Those that come with the package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_recipe(kind: type[Tree], path: Path | str | None, overrides: Sequence[str] = ()) -> tuple[Tree, Origins]:
    """`path` may also name a recipe of the package; a file of that name goes first."""
    given: list[tuple[str, Any, str]] = []
    if path is not None:
        given += [(key, value, str(path)) for key, value in _flat(_load(path))]
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise UsageError("an override is written key=value", got=override, fix="give for example seed=1")
        given += [(*pair, COMMAND_LINE) for pair in _flat({key.strip(): _parsed_override(text)})]
    keys = _keys(kind)
    values: dict[str, Any] = {}
    origins: Origins = {}
    for key, value, origin in given:
        hint = keys.get(key)
        if hint is None:
            raise UsageError(f"{origin}: a recipe has no such key", got=key, fix=_nearest_key(key, keys))
        if origins.get(key) == origin != COMMAND_LINE:
            raise UsageError(f"{origin}: a key is written once", got=f"{key} twice", fix="leave one out")
        if not _is_section(hint):
            values[key], origins[key] = _typed(value, hint, f"{origin}: {key}"), origin
        elif value not in (None, {}):  # a section that is left empty
            raise UsageError(
                f"{origin}: {key} is a section of a recipe", got=repr(value), fix=f"write {key}.KEY, or keys below it"
            )
    recipe = _build(kind, "", values)
    return recipe, {key: origins.get(key, "default") for key, hint in keys.items() if not _is_section(hint)}


def flat_recipe(recipe: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted keys and values, in the order they are declared."""
    found: list[tuple[str, Any]] = []
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        key = f"{prefix}{field.name}"
        found += flat_recipe(value, f"{key}.") if dataclasses.is_dataclass(value) else [(key, value)]
    return found


def dump_recipe(recipe: Any) -> str:
    """YAML that `read_recipe` reads back to an equal recipe."""
    import yaml

    return str(yaml.safe_dump(_plain(recipe), sort_keys=False, allow_unicode=True, default_flow_style=None))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


def _load(path: Path | str) -> dict[str, Any]:
    file, recipes = Path(path), shipped_recipes()
    if not file.is_file() and str(path) in recipes:  # also where a folder has its name
        file = recipes[str(path)]
    if not file.exists():
        raise DataError(
            f"a recipe must be a YAML file, or one of {', '.join(recipes)}",
            got=f"{path}, which is neither",
            fix=f"check the path, or {nearest(str(path), recipes)}",
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} could not be read", got=got or error, fix="check the path") from error
    found = _parsed(text, str(path))
    if found is None:  # nothing but comments
        return {}
    if not isinstance(found, dict):
        kind = "a list" if isinstance(found, list) else repr(found)
        raise DataError(f"{path} must hold a recipe", got=kind, fix="write keys and values in YAML")
    return found


def _parsed_override(text: str) -> Any:
    """The text itself, so that a # or : in it means nothing; lists and sections are written as in YAML."""
    text = text.strip()
    if text.startswith(("[", "{")):
        return _parsed(text, COMMAND_LINE)
    return None if text in ("", "~", "null") else text


def _parsed(text: str, where: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise DataError(f"{where} must be YAML", got=" ".join(str(error).split()), fix="mend it") from error


@cache
def _loader() -> Any:
    """YAML with texts and null alone, which refuses a key that is written twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 (as the base class declares it)
            first: [(tag, pattern) for tag, pattern in each if tag == "tag:yaml.org,2002:null"]
            for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value} twice", key.start_mark)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    return Loader


def _flat(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _keys(kind: Any, prefix: str = "") -> dict[str, Any]:
    """Every key that the class knows, with its type: sections, and after each what is in it."""
    found: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        key, hint = f"{prefix}{field.name}", hints[field.name]
        found[key] = hint
        if _is_section(hint):
            found |= _keys(hint, f"{key}.")
    return found


def _is_section(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint)


def _nearest_key(key: str, keys: Mapping[str, Any]) -> str:
    """Also for one whose section was left out or mistaken."""
    last = key.rpartition(".")[2]
    same = [each for each in keys if each.rpartition(".")[2] == last]
    if same:
        return f"did you mean {' or '.join(same)}?"
    close = nearest(key, keys)
    return close if close.startswith("did") else "halfmask recipe show demo shows them all"


def _build(kind: type[Tree], prefix: str, values: Mapping[str, Any]) -> Tree:
    hints = get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        key, hint = f"{prefix}{field.name}", hints[field.name]
        if _is_section(hint):
            arguments[field.name] = _build(hint, f"{key}.", values)
        elif key in values:
            arguments[field.name] = values[key]
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UsageError(f"a recipe needs {key}", got="nothing", fix=f"add it, or {key}=… on the command line")
    return kind(**arguments)


def _typed(value: Any, hint: Any, where: str) -> Any:
    """A value of YAML, which is a text, null, a list or a section, as the type that its field declares."""
    origin, allowed = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in allowed:
            return None
        (inner,) = [each for each in allowed if each is not type(None)]
        return _typed(value, inner, where)
    if origin is tuple:
        return _typed_tuple(value, allowed, where)
    text = value if isinstance(value, str) else None
    if origin is Literal:
        for each in allowed:
            if text == str(each):
                return each
        fix = nearest(str(value), map(str, allowed))
        raise UsageError(f"{where} must be one of {', '.join(map(str, allowed))}", got=_shown(value), fix=fix)
    kind, example, convert = _SCALARS[hint]
    try:
        if text is not None:
            return convert(text)
    except ValueError:
        pass
    raise UsageError(f"{where} must be {kind}", got=_shown(value), fix=f"write for example {example}")


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _typed_tuple(value: Any, allowed: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    values = value if isinstance(value, list) else [value]
    kinds = [allowed[0]] * len(values) if allowed[-1] is ... else list(allowed)
    if len(kinds) != len(values):
        raise UsageError(f"{where} must hold {len(kinds)} values", got=_shown(value), fix="write them as [a, b]")
    return tuple(_typed(each, kind, where) for each, kind in zip(values, kinds, strict=True))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = _finite(text)  # 1e6
        if number != int(number):
            raise
        return int(number)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


# What each type is called, an example, and what reads it.
_SCALARS: dict[Any, tuple[str, str, Any]] = {
    int: ("a whole number", "1", _whole),
    float: ("a number", "1e-3", _finite),
    bool: ("true or false", "true", _truth),
    str: ("a text", "text", str),
}
