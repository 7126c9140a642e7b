"""Mistakes in data, said so that a person can mend them: where, what is wrong, and what was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, to_json

__all__ = ["Loc", "Problem", "did_you_mean", "key_path", "validated"]

Loc = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


@dataclass(frozen=True)
class Problem:
    """One mistake. ``loc`` is the path of keys and indices that leads to it."""

    loc: Loc
    message: str
    suggestion: str | None = None


def key_path(loc: Sequence[str | int]) -> str:
    """The path as people write it.

    >>> key_path(("evaluators", 2, "max_words"))
    'evaluators[2].max_words'
    """
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def did_you_mean(word: str, options: Iterable[str]) -> str | None:
    """A suggestion if ``word`` looks like one of ``options``, else None.

    >>> did_you_mean("lenght", ["length", "contains"])
    "did you mean 'length'?"
    """
    by_fold = {option.casefold(): option for option in options}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return f"did you mean {by_fold[close[0]]!r}?" if close else None


def validated(model: type[M], data: Any) -> M | list[Problem]:
    """``data`` as a ``model``, or every mistake in it.

    Strict: no text is taken for a number and no ``true`` for 1. Goes through JSON, so that lists may fill tuples.
    """
    try:
        document = to_json(data, inf_nan_mode="constants")
    except ValueError as error:
        return [Problem((), f"only plain data can stand here: {error}")]
    try:
        return model.model_validate_json(document, strict=True)
    except ValidationError as error:
        return _problems(error, model, data)


def _problems(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """One problem per place; the arms of a union speak as one."""
    by_loc: dict[Loc, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_loc.setdefault(_real_loc(detail, data), []).append(detail)
    return [_problem(loc, details, model) for loc, details in by_loc.items()]


def _real_loc(detail: ErrorDetails, data: Any) -> Loc:
    """The part of pydantic's location that exists in the data, without names of union arms."""
    real: list[str | int] = []
    for part in detail["loc"]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            if detail["type"] == "missing":
                real.append(part)
            break
        real.append(part)
    return tuple(real)


def _problem(loc: Loc, details: list[ErrorDetails], model: type[BaseModel]) -> Problem:
    path, detail = key_path(loc) or "this", details[0]
    kind, value, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(loc, model)
    if kind == "missing":
        return Problem(loc, f"{path} is missing")
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", str(context["expected"]))
        hint = did_you_mean(str(value), options)
        return Problem(loc, f"{path} must be {context['expected']}, not {_shown(value)}", hint)
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return Problem(loc, f"{path} must be {words} {_limit(context[name])}, not {_shown(value)}")
    expected = [_EXPECTED[each["type"]] for each in details if each["type"] in _EXPECTED]
    if expected:
        hint = "put it in quotes" if expected == ["text"] and isinstance(value, bool | int | float) else None
        return Problem(loc, f"{path} must be {' or '.join(dict.fromkeys(expected))}, not {_shown(value)}", hint)
    return Problem(loc, f"{path}: {_plain(detail)}" if loc else _plain(detail))


def _limit(value: float) -> str:
    """``1`` and ``0.5``, and ``1,000,000`` rather than ``1e+06``."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _plain(detail: ErrorDetails) -> str:
    if detail["type"] in ("too_short", "string_too_short"):
        return "must not be empty"
    if detail["type"] == "string_pattern_mismatch" and "http" in detail["ctx"]["pattern"]:
        return f"{detail['input']!r} must be an address that begins with http:// or https://"
    if detail["type"] == "string_pattern_mismatch":
        return f"{detail['input']!r} may hold only letters, digits, '.', '_' and '-', and starts with a letter or digit"
    return detail["msg"].removeprefix("Value error, ")


def _unknown_key(loc: Loc, model: type[BaseModel]) -> Problem:
    known = _keys_at(model, loc[:-1])
    name = str(loc[-1])
    hint = did_you_mean(name, known)
    if hint is None and len(loc) == 1:
        homes = [key for key in known if name in _keys_at(model, (key,))]
        hint = f"it belongs under {' or '.join(map(repr, homes))}" if homes else None
    place = f" in {key_path(loc[:-1])}" if len(loc) > 1 else ""
    return Problem(loc, f"unknown key {name!r}{place}", hint or f"known keys: {', '.join(known)}")


def _keys_at(model: type[BaseModel], loc: Loc) -> tuple[str, ...]:
    """The keys a mapping at ``loc`` may have."""
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str) and current is not None:
            fields = {field.alias or name: field.annotation for name, field in current.model_fields.items()}
            current = _model_in(fields.get(part))
    return tuple(field.alias or name for name, field in current.model_fields.items()) if current else ()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else text[:57] + "..."
