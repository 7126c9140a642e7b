"""Replies of judges: the schema they are held to, and how they are read where nothing holds them.

Read strictly: the reply is one JSON object with exactly the keys asked for. What stands around or beside it, a second
object or a key said twice makes it unreadable; nothing is guessed. A code fence around the whole is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["REASONING", "MalformedReplyError", "object_schema", "read_object"]

REASONING = "reasoning"
_MAX_REASONING_CHARS = 300
_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*)\n[ \t]*```", re.DOTALL)


class MalformedReplyError(ValueError):
    """A reply that cannot be read. The message quotes nothing of it: it is said to the judge, who may have quoted."""


def object_schema(properties: Mapping[str, Any], *, reasoning: bool = False) -> dict[str, Any]:
    """An object with all of ``properties`` and no other; the reasoning comes first, so that verdicts follow from it."""
    own = {REASONING: {"type": "string", "maxLength": _MAX_REASONING_CHARS}} if reasoning else {}
    named = {**own, **properties}
    return {"type": "object", "properties": named, "required": list(named), "additionalProperties": False}


def read_object(text: str) -> tuple[dict[str, Any], str]:
    """The reply without its reasoning, and the reasoning. Raises MalformedReplyError."""
    text = text.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text, object_pairs_hook=_each_once)
    except MalformedReplyError:
        raise
    except (ValueError, RecursionError):
        raise MalformedReplyError("it is not one JSON object and nothing else") from None
    if not isinstance(value, dict):
        raise MalformedReplyError("it is not a JSON object")
    reasoning = value.pop(REASONING, "")
    if not isinstance(reasoning, str):
        raise MalformedReplyError(f'"{REASONING}" is not a text')
    return value, reasoning


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedReplyError("a key stands in it twice")
    return value
