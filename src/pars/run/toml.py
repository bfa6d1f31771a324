"""Configuration to TOML and back, checked field by field: a wrong key or type is named, never ignored."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from pars.errors import UserError
from pars.method_api import Method
from pars.methods import REGISTRY, by_name
from pars.run.config import RunConfig

T = TypeVar("T")
KINDS = {type(method).__name__: type(method) for method in map(by_name, REGISTRY)}


def to_dict(value: Any) -> dict[str, Any]:
    """A dataclass as plain nested values; a method also says of which kind it is."""
    out: dict[str, Any] = {"kind": type(value).__name__} if isinstance(value, Method) else {}
    for item in dataclasses.fields(value):
        inner = getattr(value, item.name)
        if dataclasses.is_dataclass(inner):
            out[item.name] = to_dict(inner)
        elif inner is not None:
            out[item.name] = list(inner) if isinstance(inner, tuple) else inner
    return out


def read(path: Path, base: RunConfig) -> RunConfig:
    """A configuration file that overrides `base`."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, or brackets as deep: no TOMLDecodeError
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return overlay(base, content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def overlay(base: T, content: dict[str, Any], where: str = "") -> T:
    """`base` with the fields of `content` replaced."""
    assert dataclasses.is_dataclass(base)
    hints = typing.get_type_hints(type(base))
    known = {item.name for item in dataclasses.fields(base)}
    changes: dict[str, Any] = {}
    for key, value in content.items():
        full = f"{where}{key}"
        if key not in known:
            raise UserError(f"unknown key {full!r}; {suggestion(key, known)}")
        inner = getattr(base, key)
        if dataclasses.is_dataclass(inner):
            if not isinstance(value, dict):
                raise UserError(f"{full} is {value!r}, expected a table [{full}]")
            if isinstance(inner, Method):
                kind = value.get("kind", type(inner).__name__)
                if not isinstance(kind, str) or kind not in KINDS:
                    raise UserError(f"{full}.kind is {kind!r}; {suggestion(str(kind), set(KINDS))}")
                inner = inner if type(inner).__name__ == kind else KINDS[kind]()
                value = {name: setting for name, setting in value.items() if name != "kind"}
            changes[key] = overlay(inner, value, f"{full}.")
        else:
            changes[key] = checked(hints[key], value, full)
    return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def conforming(value: T, where: str = "") -> T:
    """A configuration made in Python, its fields checked as if they had been read from a file.

    Numbers of numpy become Python's: they could not be written to one.
    """
    assert dataclasses.is_dataclass(value)
    if isinstance(value, Method) and KINDS.get(type(value).__name__) is not type(value):
        raise UserError(
            f"method is a {type(value).__name__}, which no run could read back; there are: {', '.join(KINDS)}"
        )
    hints = typing.get_type_hints(type(value))
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        inner, hint, full = getattr(value, item.name), hints[item.name], f"{where}{item.name}"
        if dataclasses.is_dataclass(hint):
            if not isinstance(inner, hint):  # type: ignore[arg-type]
                raise UserError(f"{full} is {inner!r}, expected a {getattr(hint, '__name__', hint)}")
            changes[item.name] = conforming(inner, f"{full}.")
        else:
            changes[item.name] = checked(hint, plain(inner), full)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def plain(value: Any) -> Any:
    """As a file would hold it."""
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def suggestion(word: str, known: set[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known))}"


def checked(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotated type, or an error that says what would be right."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        for option in options:
            if option is not type(None):
                try:
                    return checked(option, value, where)
                except UserError:
                    continue
    elif origin is Literal:
        if any(type(value) is type(option) and value == option for option in options):
            return value
    elif origin is tuple:
        if isinstance(value, list):
            return tuple(checked(options[0], inner, where) for inner in value)
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise UserError(f"{where} is a whole number of {len(str(value))} digits, expected a number") from None
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise UserError(f"{where} is {value!r}, expected {describe(hint)}")


def describe(hint: Any) -> str:
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in options if option is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in options)
    if origin is tuple:
        return f"a list of {describe(options[0])}"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(hint, str(hint))
