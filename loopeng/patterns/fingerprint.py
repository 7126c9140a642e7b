"""When two failures are the same mistake: same evaluator, category and reason, but for numbers, names and places."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["FINGERPRINT_VERSION", "fingerprint", "normalise"]

FINGERPRINT_VERSION = "v1"  # a better normaliser gets a new one: old groups are never merged silently

_HIDDEN = re.compile(r"<(?:n|str|path|id|input)>")
_STRING = re.compile(
    r"""(?<![\w'])'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)                                  # not the one in don't
      | "[^"\n]*" | `[^`\n]*` | “[^”\n]*” | ‘[^’\n]*’ | «[^»\n]*»
    """,
    re.VERBOSE,
)
_ID = re.compile(
    r"""\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b                                           # uuid
      | \b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?\b            # date, date and time
      | \b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b                                                      # time
      | \b0x[0-9a-f]+\b
      | \b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b                                         # hex
    """,
    re.VERBOSE,
)
_PATH = re.compile(
    r"""(?<![\w<>/.~\\])(?:[a-z]:[\\/]|~?/|\.{1,2}/)[\w.\-/\\]*\w
      | (?<![\w/])[\w.\-]+(?:/[\w.\-]+)+\.\w+
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"(?:(?<![\w>])[-+])?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_MIN_INPUT_CHARS = 3


def fingerprint(evaluator_id: str, category: str, reason: str, inputs: Mapping[str, Any] | None = None) -> str:
    """The key of a failure pattern. ``inputs`` are the sample's: what a reason quotes of them does not count.

    >>> a = fingerprint("short", "length.too_long", "has 41 words, at most 25 allowed")
    >>> a == fingerprint("short", "length.too_long", "has 38 words, at most 25 allowed"), a[:3], len(a)
    (True, 'v1:', 19)
    """
    key = f"{evaluator_id}|{category}|{normalise(reason, inputs)}"
    return f"{FINGERPRINT_VERSION}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def normalise(reason: str, inputs: Mapping[str, Any] | None = None) -> str:
    """The shape of a reason. Normalising twice changes nothing.

    >>> normalise("File /tmp/a/x.py, line 3: expected 'mug', got 4.5e3")
    'file <path>, line <n>: expected <str>, got <n>'
    >>> normalise("the Red Kettle is not named", {"product": "Red Kettle"})
    'the <input> is not named'
    """
    names = [re.compile(rf"(?<!\w){re.escape(value)}(?!\w)") for value in _input_values(inputs or {})]
    text, shape = "", " ".join(reason.lower().split())
    while shape != text:  # a number that is hidden may free a quotation mark beside it; every round hides something
        text = shape
        shape = _hide(_STRING, "<str>", shape)
        for name in names:
            shape = _hide(name, "<input>", shape)
        for pattern, placeholder in ((_PATH, "<path>"), (_ID, "<id>"), (_NUMBER, "<n>")):
            shape = _hide(pattern, placeholder, shape)
        shape = " ".join(shape.lower().split())
    return shape


def _hide(pattern: re.Pattern[str], name: str, text: str) -> str:
    """Replace matches, but nowhere inside a placeholder that stands there already."""
    kept = _HIDDEN.findall(text)
    parts = [pattern.sub(name, part) for part in _HIDDEN.split(text)]
    return "".join(part + hidden for part, hidden in zip(parts, [*kept, ""], strict=True))


def _input_values(inputs: Mapping[str, Any]) -> list[str]:
    """Whole input texts, the longest first. Single words of a longer input stay: they may be the reason's own."""
    values = {" ".join(text.lower().split()) for text in _texts(inputs)}
    return sorted((value for value in values if len(value) >= _MIN_INPUT_CHARS), key=lambda value: (-len(value), value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
