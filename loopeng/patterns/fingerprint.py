"""When two failures are the same mistake: same evaluator, category and reason, but for numbers, names and places."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["FINGERPRINT_VERSION", "fingerprint", "is_current", "normalise"]

FINGERPRINT_VERSION = "v2"  # a better normaliser gets a new one: old groups are never merged silently

_FIXED_RUBRIC = "judge."  # a judge words its reason anew every time; the criterion in its category does not fluctuate
_HIDDEN = re.compile(r"<(?:n|str|path|id|input)>")
_STRING = re.compile(
    r"""(?<![\w'])'(?>(?:\\.|[^'\\]|(?<=\w)'(?=\w))*)'(?!\w)      # with escapes, as repr() writes them
      | (?<![\w'])'(?:[^']|(?<=\w)'(?=\w))*'(?!\w)                   # not the one in don't
      | "(?>(?:\\.|[^"\\])*)" | "[^"]*" | `[^`]*` | “[^”]*” | ‘[^’]*’ | «[^»]*»
    """,
    re.VERBOSE,
)
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)[.]?"
)
_ID = re.compile(
    rf"""\b[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b                                         # uuid
      | \b\d{{4}}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?\b          # date, time
      | \b{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?[ ]\d{{4}}\b)?                                   # may 3rd, 2026
      | \b\d{{1,2}}(?:st|nd|rd|th)?[ ](?:of[ ])?{_MONTH}\b(?:,?[ ]\d{{4}}\b)?
      | \b\d{{1,2}}:\d\d(?::\d\d(?:\.\d+)?)?\b                                                       # time
      | \b[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+\b                                                          # address
      | \b0x[0-9a-f]+\b
      | \b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{{8,}}\b                                           # hex
      | (?<![a-z0-9])(?=[a-z0-9]*\d[a-z]{{2,}}\d)[a-z0-9]{{8,}}(?![a-z0-9])                             # 8fkx92lmq
    """,
    re.VERBOSE,
)
_PATH = re.compile(
    r"""\b[a-z][a-z0-9+.\-]*://[^\s<>"'`]*[\w/]
      | (?<![\w<>/.~\\])(?:[a-z]:[\\/]|~?/|\.{1,2}/)[\w.\-/\\]*\w
      | (?<![\w/])[\w.\-]+(?:/[\w.\-]+)+\.(?!\d)\w+
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"(?:(?<![\w>])[-+−])?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?(?:(?:st|nd|rd|th)\b)?")
_MIN_INPUT_CHARS = 3

_NUMBER_WORD = re.compile(r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten)\b(?= [^\W\d_])")
_LIST = re.compile(r"(<(?:n|str|path|id|input)>)(?:(?:,? (?:and|or) |[,;] ?)\1)+")
_PLURAL = re.compile(r"(?<=<n> )([^\W\d_]{2,}[^\W\d_s])s\b")


def fingerprint(evaluator_id: str, category: str, reason: str, inputs: Mapping[str, Any] | None = None) -> str:
    """The key of a failure pattern. ``inputs`` are the sample's: what a reason quotes of them does not count.

    Nor does how many things a reason lists. Of a judge (category ``judge.<criterion>``) only the criterion counts.

    >>> a = fingerprint("short", "length.too_long", "has 41 words, at most 25 allowed")
    >>> a == fingerprint("short", "length.too_long", "has one word, at most 25 allowed"), a[:3], len(a)
    (True, 'v2:', 19)
    """
    shape = "" if category.startswith(_FIXED_RUBRIC) else _without_counts(normalise(reason, inputs))
    key = json.dumps([evaluator_id, category, shape])
    return f"{FINGERPRINT_VERSION}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def is_current(fingerprint: str) -> bool:
    """Whether failures of today can have this fingerprint: it is of today's version."""
    return fingerprint.startswith(f"{FINGERPRINT_VERSION}:")


def normalise(reason: str, inputs: Mapping[str, Any] | None = None) -> str:
    """The shape of a reason. Normalising twice changes nothing.

    >>> normalise("File /tmp/a/x.py, line 3: expected 'mug', got 4.5e3")
    'file <path>, line <n>: expected <str>, got <n>'
    >>> normalise("the Red Kettle is not named", {"product": "Red Kettle"})
    'the <input> is not named'
    """
    values = _input_values(inputs or {})
    quoting = [_name(value) for value in values if _STRING.search(value) or "'" in value or '"' in value]
    names = [_name(value) for value in values]
    text, shape = "", _plain(reason)
    while shape != text:  # a number that is hidden may free a quotation mark beside it; every round hides something
        text = shape
        shape = _hide_all(quoting, "<input>", shape)
        shape = _hide(_STRING, "<str>", shape)
        shape = _hide_all(names, "<input>", shape)
        for pattern, placeholder in ((_PATH, "<path>"), (_ID, "<id>"), (_NUMBER, "<n>")):
            shape = _hide(pattern, placeholder, shape)
        shape = _plain(shape)
    return shape


def _without_counts(shape: str) -> str:
    """One, two or three missing things are one mistake: ``"a", "b"`` counts as ``"a"``, ``one word`` as ``2 words``."""
    shape = _LIST.sub(r"\1", _NUMBER_WORD.sub("<n>", shape))
    return _PLURAL.sub(r"\1", shape)


def _plain(text: str) -> str:
    """Small letters, single spaces, and one way to write each character."""
    before = None
    while text != before:
        before, text = text, " ".join(unicodedata.normalize("NFKC", text).lower().split())
    return text


def _name(value: str) -> re.Pattern[str]:
    """An input as a whole word; where a script has no spaces between words, anywhere."""
    before = "" if _runs_on(value[0]) else r"(?<!\w)"
    after = "" if _runs_on(value[-1]) else r"(?!\w)"
    return re.compile(before + re.escape(value) + after)


def _runs_on(char: str) -> bool:
    return unicodedata.east_asian_width(char) == "W" or "\u0e00" <= char <= "\u0fff"  # Thai, Lao, Tibetan


def _hide_all(patterns: Iterable[re.Pattern[str]], name: str, text: str) -> str:
    for pattern in patterns:
        text = _hide(pattern, name, text)
    return text


def _hide(pattern: re.Pattern[str], name: str, text: str) -> str:
    """Replace matches, but nowhere inside a placeholder that stands there already."""
    kept = _HIDDEN.findall(text)
    parts = [pattern.sub(name, part) for part in _HIDDEN.split(text)]
    return "".join(part + hidden for part, hidden in zip(parts, [*kept, ""], strict=True))


def _input_values(inputs: Mapping[str, Any]) -> list[str]:
    """Whole input texts, the longest first. Single words of a longer input stay: they may be the reason's own."""
    values = {_plain(text) for text in _texts(inputs)}
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
