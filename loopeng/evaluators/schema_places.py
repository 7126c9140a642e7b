"""The places of a JSON Schema where schemas stand, with a path and what people call what they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loopeng.evaluators.wording import quoted

__all__ = ["IN_PLACE", "ROOT", "Inner", "SchemaPlace", "schemas_in"]

ROOT = "json.schema"
IN_PLACE = frozenset(("allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"))
"""Keywords whose schemas are about the very value that their own schema is about, not about a part of it."""

_NEED_NOT_HOLD = ("anyOf", "contains", "if", "not", "oneOf", "unevaluatedItems", "unevaluatedProperties")


@dataclass(frozen=True)
class SchemaPlace:
    """Where a schema stands, and what it is about; ``holds`` is false where it is only one of several choices."""

    path: str = ROOT
    subject: str = "the JSON"
    holds: bool = True

    def inner(self, token: str, subject: str | None = None) -> SchemaPlace:
        """The place of a schema inside; about the same where no subject is given."""
        return replace(self, path=self.path + token, subject=subject or self.subject)


Inner = tuple[Any, str | int, SchemaPlace]
"""The holder of a schema, its key there, and its place."""


def schemas_in(keyword: str, schema: dict[str, Any], place: SchemaPlace) -> Iterator[Inner]:
    """The schemas inside one keyword."""
    value = schema[keyword]
    if keyword in _NEED_NOT_HOLD:
        choices = range(len(value)) if isinstance(value, list) else [keyword]
        holder = value if isinstance(value, list) else schema
        yield from ((holder, key, replace(place, path=f"{place.path}.{keyword}", holds=False)) for key in choices)
    elif isinstance(value, list) and keyword in ("allOf", "items", "prefixItems"):
        for index in range(len(value)):
            one_of = place.inner(f"[{index}]", f"item {index + 1} of {place.subject}")
            yield value, index, place.inner(f".allOf[{index}]") if keyword == "allOf" else one_of
    elif isinstance(value, dict):
        yield from _named(keyword, value, place)
    if isinstance(value, dict | bool) and (single := _single(keyword, schema, place)) is not None:
        yield schema, keyword, single


def _named(keyword: str, schemas: dict[str, Any], place: SchemaPlace) -> Iterator[Inner]:
    for name in schemas:
        if keyword == "properties":
            subject = quoted([name]) + ("" if place.path == ROOT else f" in {place.subject}")
            yield schemas, name, place.inner(f".{name}", subject)
        elif keyword == "patternProperties":
            subject = f"each value in {place.subject} with a key that matches {name}"
            yield schemas, name, place.inner(f".{{{name}}}", subject)
        elif keyword in ("dependencies", "dependentSchemas"):
            yield schemas, name, place.inner(f".if[{name}]")


def _single(keyword: str, schema: Mapping[str, Any], place: SchemaPlace) -> SchemaPlace | None:
    has_keys = "properties" in schema or "patternProperties" in schema
    item = "further item" if "prefixItems" in schema else "item"
    tokens = {
        "additionalItems": ("[+]", f"each further item of {place.subject}"),
        "additionalProperties": (".*", f"each {'other ' if has_keys else ''}value in {place.subject}"),
        "else": (".else", None),
        "items": ("[]", f"each {item} of {place.subject}"),
        "propertyNames": (".<key>", f"each key of {place.subject}"),
        "then": (".then", None),
    }
    return place.inner(*tokens[keyword]) if keyword in tokens else None
