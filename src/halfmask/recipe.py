"""Recipes: defaults → YAML file → `key=value` on the command line, typed, with the origin of every value.

A recipe is a tree of frozen dataclasses; a file holds only what differs. What a class does not know is an error that
names the nearest key, and a value of another type is an error that names the type.

    recipe, origins = read_recipe(TrainRecipe, "recipe.yaml", ["optimizer.lr=1e-3"])
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from halfmask.errors import DataError, UsageError, nearest

Tree = TypeVar("Tree")
Origins = dict[str, str]  # dotted key → where its value came from


def read_recipe(kind: type[Tree], path: Path | str | None, overrides: Sequence[str] = ()) -> tuple[Tree, Origins]:
    values: dict[str, Any] = {}
    origins: Origins = {}
    if path is not None:
        for key, value in _flat(_load_yaml(Path(path))):
            values[key], origins[key] = value, str(path)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UsageError("an override is written key=value", got=override, fix="give for example seed=1")
        values[key.strip()], origins[key.strip()] = _parse_yaml(text, "command line"), "command line"
    recipe = _build(kind, "", values)
    known = dict(flat_recipe(recipe))
    for key in values:
        if key not in known:
            raise UsageError(f"{origins[key]}: a recipe has no key {key}", got=key, fix=nearest(key, known))
    return recipe, {key: origins.get(key, "default") for key in known}


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


def _load_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} could not be read", got=got or error, fix="check the path") from error
    found = _parse_yaml(text, str(path))
    if not isinstance(found, dict):
        raise DataError(f"{path} must hold a recipe", got=type(found).__name__, fix="write keys and values in YAML")
    return found


def _parse_yaml(text: str, where: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"{where} must be YAML", got=" ".join(str(error).split()), fix="mend it") from error


def _flat(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        dotted = f"{prefix}{key}"
        found += _flat(value, f"{dotted}.") if isinstance(value, dict) else [(dotted, value)]
    return found


def _build(kind: type[Tree], prefix: str, values: Mapping[str, Any]) -> Tree:
    hints = get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        key, hint = f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            if key in values and values[key] is not None:
                raise UsageError(f"{key} is a section of a recipe", got=repr(values[key]), fix=f"write {key}.KEY")
            arguments[field.name] = _build(hint, f"{key}.", values)  # type: ignore[arg-type]
        elif key in values:
            arguments[field.name] = _typed(values[key], hint, key)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UsageError(f"a recipe needs {key}", got="nothing", fix=f"add it, or {key}=… on the command line")
    return kind(**arguments)


def _typed(value: Any, hint: Any, key: str) -> Any:
    """The value as the type that its field declares; 1e-3 is text to YAML and a number here."""
    origin, allowed = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in allowed:
            return None
        (inner,) = [each for each in allowed if each is not type(None)]
        return _typed(value, inner, key)
    if origin is Literal:
        if value not in allowed:
            raise UsageError(
                f"{key} must be one of {', '.join(map(str, allowed))}", got=value, fix=nearest(str(value), allowed)
            )
        return value
    if origin is tuple:
        return _typed_tuple(value, allowed, key)
    converted = _scalar(value, hint)
    if converted is None:
        kind = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]
        raise UsageError(f"{key} must be {kind}", got=repr(value), fix=f"write {key}: {_EXAMPLES[hint]}")
    return converted


_EXAMPLES = {int: "1", float: "1e-3", bool: "true", str: "text"}


def _typed_tuple(value: Any, allowed: tuple[Any, ...], key: str) -> tuple[Any, ...]:
    values = value if isinstance(value, list) else [value]
    kinds = [allowed[0]] * len(values) if allowed[-1] is ... else list(allowed)
    if len(kinds) != len(values):
        raise UsageError(f"{key} must hold {len(kinds)} values", got=value, fix="write them as [a, b]")
    return tuple(_typed(each, kind, key) for each, kind in zip(values, kinds, strict=True))


def _scalar(value: Any, kind: type) -> Any:
    if kind is str:
        # A law such as 0.15 is a number to YAML.
        return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    try:
        number = float(value)
        return number if kind is float else int(number) if number == int(number) else None
    except (TypeError, ValueError, OverflowError):
        return None
