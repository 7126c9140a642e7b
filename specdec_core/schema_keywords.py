"""JSON Schema, read for its keywords: what a grammar can hold the text to, and where a schema asks for more.

JSON Schema lets a validator ignore keywords it does not know. Here that would be a promise broken in silence, so every
keyword must be one that the grammar enforces or one that only describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specdec_core.errors import RequestError

__all__ = ["check_keywords", "subschemas"]

# fmt: off
_ENFORCED = {
    "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "oneOf", "pattern", "patternProperties",
    "prefixItems", "properties", "required", "type",
}
_DESCRIBING = {
    "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples",
    "readOnly", "title", "writeOnly",
}
# fmt: on
_ONE = ("additionalItems", "additionalProperties", "items")  # keywords that hold a schema
_LIST = ("allOf", "anyOf", "items", "oneOf", "prefixItems")  # a list of them
_NAMED = ("$defs", "definitions", "patternProperties", "properties")  # schemas by name


def subschemas(schema: Mapping[str, Any], path: str = "$") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema inside ``schema`` with its path, the inner ones first, ``schema`` itself last.

    >>> [path for path, _ in subschemas({"properties": {"a": {"items": {}}}})]
    ['$.properties.a.items', '$.properties.a', '$']
    """
    for keyword, value in schema.items():
        inner: list[tuple[str, Any]] = []
        if keyword in _NAMED and isinstance(value, Mapping):
            inner = [(f"{path}.{keyword}.{name}", part) for name, part in value.items()]
        elif keyword in _LIST and isinstance(value, list):
            inner = [(f"{path}.{keyword}[{index}]", part) for index, part in enumerate(value)]
        elif keyword in _ONE:
            inner = [(f"{path}.{keyword}", value)]
        for inner_path, part in inner:
            if isinstance(part, Mapping):
                yield from subschemas(part, inner_path)
    yield path, schema


def check_keywords(schema: Mapping[str, Any]) -> None:
    """Raise RequestError, with the place, for a keyword that the grammar would not enforce.

    >>> check_keywords({"items": {"minLenght": 3}})
    Traceback (most recent call last):
    specdec_core.errors.RequestError: json_schema: $.items: keyword 'minLenght' is not supported
    """
    for path, part in subschemas(schema):
        for keyword in part:
            if keyword not in _ENFORCED and keyword not in _DESCRIBING:
                raise RequestError(f"json_schema: {path}: keyword {keyword!r} is not supported")
        open_names = part.get("additionalProperties", True) is not False or "patternProperties" in part
        if open_names and isinstance(least := part.get("minProperties", 0), int) and least > 1:
            raise RequestError(
                f"json_schema: {path}: minProperties above 1 is supported only with additionalProperties false and "
                "without patternProperties: a grammar cannot see that a free name occurs twice"
            )
