"""Forms of several kinds, each with a check of the finished text that knows nothing of grammars."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from specdec_core.types import StructuredOutput

__all__ = ["FORMS", "Form", "fits"]

Form = tuple[StructuredOutput, Callable[[Any], bool] | None]  # the check gets the parsed JSON; None: the regex itself


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_PERSON = _object(
    name={"type": "string", "maxLength": 12},
    mood={"enum": ["red", "true grit", "trust", None, 12]},
    home=_object(street={"type": "string", "minLength": 2, "maxLength": 6}, number={"type": "integer", "minimum": 1}),
)
_SUBTREE = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}
_TREE = {"$ref": "#/$defs/node", "$defs": {"node": _object(name={"enum": ["a", "b"]}, me=_SUBTREE)}}
_LIST = {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 2.5}, "minItems": 2, "maxItems": 4}


def _is_person(value: Any) -> bool:
    assert list(value) == ["name", "mood", "home"] and list(value["home"]) == ["street", "number"]
    return (
        len(value["name"]) <= 12
        and value["mood"] in ("red", "true grit", "trust", None, 12)
        and 2 <= len(value["home"]["street"]) <= 6
        and type(value["home"]["number"]) is int
        and value["home"]["number"] >= 1
    )


def _is_tree(value: Any) -> bool:
    if value is None:
        return True
    return list(value) == ["name", "me"] and value["name"] in ("a", "b") and _is_tree(value["me"])


def _is_short_list(value: Any) -> bool:
    return 2 <= len(value) <= 4 and all(type(item) in (int, float) and -1 <= item <= 2.5 for item in value)


def _schema(schema: dict[str, Any]) -> StructuredOutput:
    return StructuredOutput(json_schema=schema)


FORMS: dict[str, Form] = {
    "person": (_schema(_PERSON), _is_person),
    "tree": (_schema(_TREE), _is_tree),
    "list": (_schema(_LIST), _is_short_list),
    "pattern": (
        _schema(_object(code={"type": "string", "pattern": "^[a-c]{2}-[0-9]{3}$"})),
        lambda value: re.fullmatch("[a-c]{2}-[0-9]{3}", value["code"]) is not None,
    ),
    "integer": (_schema({"type": "integer", "minimum": 10, "maximum": 99999}), lambda value: 10 <= value <= 99999),
    "object": (StructuredOutput(json_object=True), lambda value: isinstance(value, dict)),
    "regex": (StructuredOutput(regex=r"(name|me): (true|red){1,3}, [0-9]{4}\."), None),
}


def fits(form: Form, text: str) -> bool:
    """Whether a finished text has the form."""
    structured, check = form
    if check is None:
        assert structured.regex is not None
        return re.fullmatch(structured.regex, text) is not None
    return check(json.loads(text))
