"""What the rules of a JSON Schema say, in short sentences: for remedies and feedback, and for a person's reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from loopeng.evaluators.schema_rules import Break, SchemaRule
from loopeng.evaluators.wording import aim_above, aim_below, count_of, join_words, quoted

__all__ = ["extra_keys", "missing_keys", "reason_of", "sentence_of"]

_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_MAX_NAMED = 20  # values of an enum
_MAX_VALUE_CHARS = 60
_Value = Callable[[Any], str]


def sentence_of(rule: SchemaRule, *, aim: bool = False) -> str:
    """The rule as a sentence; with ``aim`` a limit on characters keeps clear of the edge, as a remedy should."""
    return f"{rule.subject[0].upper()}{rule.subject[1:]} {_must(rule.keyword, rule.schema, aim=aim)}."


def reason_of(found: Break) -> str:
    """Where a value breaks the rule, and how. Key and value are quoted, so that they are no part of the mistake."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found.path).removeprefix(".")
    value = json.dumps(found.value, ensure_ascii=False).replace("`", "'")
    if len(value) > _MAX_VALUE_CHARS:
        value = value[: _MAX_VALUE_CHARS - 3] + "..."
    where = quoted([path.replace('"', "'")]) if path else "the JSON"
    return f"{where} {_broken(found)} (it is `{value}`)"


def missing_keys(found: Break) -> list[str]:
    """The keys that a value lacks of those its schema requires."""
    return [key for key in found.rule.schema["required"] if key not in found.value]


def extra_keys(found: Break) -> list[str]:
    """The keys of a value that its schema does not name."""
    schema = found.rule.schema
    patterns = schema.get("patternProperties", {})
    return [
        key
        for key in found.value
        if key not in schema.get("properties", {}) and not any(re.search(pattern, key) for pattern in patterns)
    ]


def _broken(found: Break) -> str:
    if found.rule.keyword == "required":
        return f"lacks {quoted(missing_keys(found))}"
    if found.rule.keyword == "additionalProperties":
        return f"must not have {quoted(extra_keys(found))}"
    return _must(found.rule.keyword, found.rule.schema, aim=False)


def _must(keyword: str, schema: Mapping[str, Any], *, aim: bool) -> str:
    value = schema[keyword]
    if keyword in ("minLength", "maxLength"):
        return _length(keyword, schema, aim=aim)
    if keyword in ("minimum", "maximum"):
        return _bound(keyword, schema)
    if keyword in ("minContains", "maxContains"):
        least = "at least" if keyword == "minContains" else "at most"
        return f"must have {least} {count_of(value, 'item')} of the required form"
    if keyword == "additionalProperties":
        keys = quoted(schema.get("properties", {}))
        return f"must have no other keys than {keys}" if keys else "must have no other keys"
    if keyword in ("anyOf", "oneOf"):
        return _choice(keyword, value)
    return _PHRASES[keyword](value)


def _length(keyword: str, schema: Mapping[str, Any], *, aim: bool) -> str:
    low, high = schema.get("minLength"), schema.get("maxLength")
    if keyword == "minLength":
        wanted = aim_above(low, high) if aim and low else low
        return f"must have at least {count_of(int(wanted or 0), 'character')}"
    if not high:
        return "must be empty"
    wanted = aim_below(high, low) if aim else high
    return f"must have at most {count_of(int(wanted), 'character')}"


def _bound(keyword: str, schema: Mapping[str, Any]) -> str:
    side = "Minimum" if keyword == "minimum" else "Maximum"
    if schema.get(f"exclusive{side}") is True:  # draft 4
        return _PHRASES[f"exclusive{side}"](schema[keyword])
    return f"must be at {'least' if side == 'Minimum' else 'most'} {schema[keyword]}"


def _choice(keyword: str, choices: list[Any]) -> str:
    phrases = [_is(choice) for choice in choices]
    known = [phrase for phrase in phrases if phrase is not None]
    if len(known) == len(phrases):
        return f"must be {join_words(list(dict.fromkeys(known)), 'or')}"
    return f"must have {'exactly' if keyword == 'oneOf' else 'at least'} one of the allowed forms"


def _is(schema: Any) -> str | None:
    """What a plain schema allows, in a few words; None where it takes more of them."""
    if not isinstance(schema, dict):
        return None
    keywords = schema.keys() - {"description", "title", "examples", "default", "$comment"}
    if keywords == {"type"}:
        return _types(schema["type"])
    if keywords - {"type"} == {"const"}:
        return _shown(schema["const"])
    if keywords - {"type"} == {"enum"} and len(schema["enum"]) <= _MAX_NAMED:
        return join_words([_shown(each) for each in schema["enum"]], "or")
    return None


def _types(value: Any) -> str:
    return join_words([_TYPES[each] for each in ([value] if isinstance(value, str) else value)], "or")


def _shown(value: Any) -> str:
    """A value as JSON, but a plain word as it is."""
    return value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)


def _enum(values: list[Any]) -> str:
    if len(values) > _MAX_NAMED:
        return "must be one of the allowed values"
    return f"must be one of: {', '.join(map(_shown, values))}"


def _dependent(needs: Mapping[str, Any]) -> str:
    parts = [f"{quoted(keys)} if it has {quoted([key])}" for key, keys in needs.items() if isinstance(keys, list)]
    return f"must have {join_words(parts, 'and')}"


_PHRASES: dict[str, _Value] = {
    "additionalItems": lambda _: "must have no further items",
    "const": lambda value: f"must be {_shown(value)}",
    "contains": lambda value: f"must have an item that is {_is(value)}" if _is(value) else "lacks a required item",
    "dependencies": _dependent,
    "dependentRequired": _dependent,
    "enum": _enum,
    "exclusiveMaximum": lambda value: f"must be less than {value}",
    "exclusiveMinimum": lambda value: f"must be more than {value}",
    "format": lambda value: f"must have the format {value}",
    "maxItems": lambda value: f"must have at most {count_of(value, 'item')}" if value else "must be empty",
    "maxProperties": lambda value: f"must have at most {count_of(value, 'key')}" if value else "must be empty",
    "minItems": lambda value: f"must have at least {count_of(value, 'item')}",
    "minProperties": lambda value: f"must have at least {count_of(value, 'key')}",
    "multipleOf": lambda value: f"must be a multiple of {value}",
    "not": lambda value: f"must not be {_is(value)}" if _is(value) else "must not be there" if not value else _NOT_SO,
    "pattern": lambda value: f"must match the pattern {value}",
    "required": lambda keys: f"must have {join_words([quoted([key]) for key in keys], 'and')}",
    "type": lambda value: f"must be {_types(value)}",
    "unevaluatedItems": lambda _: "must have no further items",
    "unevaluatedProperties": lambda _: "must have no other keys",
    "uniqueItems": lambda _: "must not have the same item twice",
}
_NOT_SO = "must not have the form that is forbidden"
