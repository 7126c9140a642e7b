"""Texts as they are compared: case, accents, punctuation, code style and the way to write a number do not count.

A text has several **readings**, since "1.234" is two numbers and "i-Phone" one word or two. Two texts say the same
where any reading of one holds any reading of the other. Only the way of writing is undone (base64 and escapes too): a
translation, a paraphrase or a cipher passes, and is left to the gate, the hold-out samples and the person.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

__all__ = [
    "Reading",
    "decoded_parts",
    "fold",
    "literal_pattern",
    "literal_text",
    "may_stand_in",
    "readings_of_rule",
    "readings_of_target",
    "split_code",
]

_INVISIBLE = re.compile(
    "[\u0300-\u036f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_OWN_LETTERS = re.compile("[ıłŁøØđĐħĦæÆœŒ\u0370-\u052f]")
_LOOKALIKES = str.maketrans(  # Cyrillic and Greek letters that look Latin, Latin ones that no accent explains
    "АВЕЅІЈКМНОРСТХУаеѕіјорсухԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧοινκ",
    "ABESIJKMHOPCTXYaesijopcyxdqwhABEZHIKMNOPTYXoivk",
) | str.maketrans(
    dict(zip("ıłŁøØđĐħĦæÆœŒ", ("i", "l", "L", "o", "O", "d", "D", "h", "H", "ae", "AE", "oe", "OE"), strict=True))
)
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003134f"  # no word spaces
_SOFT = "\x01"  # a boundary that is no space
_POINT, _BREAK = "\u2396", "\x1f"  # in compact text: the decimal point, and what parts two numbers
_TOKEN = re.compile(rf"\d+(?:{_POINT}\d+)?|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+|[%$€£¥₹]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CONTRACTION = re.compile(r"(?<=[A-Za-z])['’](?=(?:t|re|ll|ve|d|m)\b)")
_SPELLED = re.compile(r"(?<![^\W_])[^\W_](?:[ .\-_*|]+[^\W_]){2,}(?![^\W_])")
_NUMBERING = re.compile(r"(?<!\w)\(?\d{1,2}[.)](?=\s)")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,80}>")
_BULLET = re.compile(r"(?m)^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_UNITS = {
    "%": r"per ?cent|pct",
    "$": r"usd|dollars?",
    "€": r"eur|euros?",
    "£": r"gbp|pounds?",
    "¥": r"jpy|yen",
    "₹": r"inr|rupees?",
}
_NOT_COMPACT = re.compile(rf"[^\w{''.join(_UNITS)}]+|_")
_NO_UNITS = str.maketrans("", "", "".join(_UNITS))
_NAMED_UNITS = [(re.compile(rf"(?<=\d)\s*(?:{names})\b", re.IGNORECASE), unit) for unit, names in _UNITS.items()]
_UNITS_IN_FRONT = [
    (re.compile(rf"(?:\{unit}|\b(?:{names})\b)\s*(\d(?:[\d.,'’]*\d)?)", re.IGNORECASE), unit)
    for unit, names in _UNITS.items()
]
_DECODED_MIN_CHARS = 4
_REVERSED_MIN_CHARS = 5
_LONG_NUMBER_MIN_CHARS = 7  # of a telephone number or a date: where its digits are parted does not matter


def _number(thousands: str, *, spaced: bool) -> re.Pattern[str]:
    """Groups: digits with their separators, the decimals. Three or more parts that form no number are left alone."""
    grouping = f"{thousands}'’_{' ' if spaced else ''}"
    return re.compile(
        rf"(?<!\d)(?<!\d[.,'’_{' ' if spaced else ''}])"
        rf"(\d{{1,3}}(?:[{grouping}]\d{{3}})+(?!\d)|\d+)(?:[.,](\d+))?(?![{grouping}.,]?\d)"
    )


_NUMBERS = [_number(thousands, spaced=spaced) for thousands in (",", ".") for spaced in (False, True)]


@dataclass(frozen=True)
class Reading:
    """Letters and digits without what stands between them, and where a token begins or ends.

    ``edges[i]``, for the place before character i: 0 inside a token, 1 a boundary without a space, 2 one with a space.
    """

    compact: str
    edges: bytes
    min_chars: int = 0  # shorter texts are not looked for in it

    @property
    def num_chars(self) -> int:
        return len(self.compact.replace(_BREAK, ""))

    def holds(self, other: Reading) -> bool:
        """Whether ``other`` stands here between token boundaries.

        A space inside must be a boundary of ``other`` too ("to go" is not "Togo"); other boundaries may come and go
        ("i-Phone", "iPhone").
        """
        start = self.compact.find(other.compact) if other.num_chars >= self.min_chars else -1
        while start >= 0:
            end = start + len(other.compact)
            inside = zip(self.edges[start + 1 : end], other.edges[1:-1], strict=True)
            if self.edges[start] and self.edges[end] and all(mine < 2 or theirs for mine, theirs in inside):
                return True
            start = self.compact.find(other.compact, start + 1)
        return False

    def reversed(self) -> Reading:
        """The same backwards; many shorter words are words both ways."""
        return Reading(self.compact[::-1], self.edges[::-1], _REVERSED_MIN_CHARS)


def fold(text: str) -> str:
    """``text`` without character references, accents, invisible characters, widths and look-alikes; case stays.

    >>> fold("Zu&#776;rich"), fold("Ｐаris")
    ('Zurich', 'Paris')
    """
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKD", text))
        if _OWN_LETTERS.search(text):
            text = text.translate(_LOOKALIKES)
        text = unicodedata.normalize("NFC", text)
    return text


def split_code(text: str) -> str:
    """``resetPassword`` as two words.

    >>> split_code("resetPassword, HTTPServer")
    'reset Password, HTTP Server'
    """
    return _CAMEL.sub(" ", text)


def readings_of_rule(text: str) -> list[Reading]:
    """All readings of a rule: letters spelled out, backwards, numbered lists and encoded parts among them."""
    folded = fold(text)
    spelled, untagged = _SPELLED.sub(_joined, folded), _TAG.sub(_SOFT, folded)
    variants = dict.fromkeys((folded, spelled, untagged, _NUMBERING.sub(" ", folded), *decoded_parts(text)))
    readings = [_read(number) for variant in variants for number in _with_numbers(variant, apart=True)]
    return [*dict.fromkeys(readings), _read(folded, parted=False), readings[0].reversed()]


def readings_of_target(text: str) -> list[Reading]:
    """The readings of a whole target that have three characters or more; none for "C++", see ``literal_pattern``."""
    folded = fold(text)
    found: list[Reading] = []
    for variant in dict.fromkeys((folded, _BULLET.sub(" ", folded))):
        apart = sum(char.isdigit() for char in variant) > 3  # 12.5 is not what "12-5" says, 07.45 is what "07:45" says
        for number in _with_numbers(variant, apart=apart):
            found += [_read(number), _read(number.translate(_NO_UNITS))]
        if sum(char.isdigit() for char in variant) >= _LONG_NUMBER_MIN_CHARS:
            found.append(_read(variant, parted=False))
    return [reading for reading in dict.fromkeys(found) if reading.num_chars > 2]


def literal_pattern(text: str) -> re.Pattern[str]:
    """Finds a short target of symbols, such as "C++" or "3/4", in a ``literal_text``; spaces may stand in it."""
    chars = [re.escape(char) for char in literal_text(text) if not char.isspace()]
    return re.compile(r"(?<!\w)" + r"\s*".join(chars) + r"(?!\w)")


def literal_text(text: str) -> str:
    """``text`` with its punctuation, for ``literal_pattern``."""
    return _with_units(fold(text)).casefold()


def decoded_parts(text: str) -> Iterator[str]:
    """Readable text that stands in ``text`` in an encoding: percent and backslash escapes, base64."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), unquote(text))
    if plain != text:
        yield fold(plain)
    for match in _BASE64.finditer(text):
        coded = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            inner = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if len(inner) >= _DECODED_MIN_CHARS and inner.isprintable():
            yield fold(inner)


def may_stand_in(text: str, compacts: str) -> bool:
    """False where no reading of a target can stand in ``compacts``, by its letters or its first digits alone; cheap."""
    digits = re.search(r"\d+", text)
    if digits is None:
        return _NOT_COMPACT.sub("", fold(text)).casefold() in compacts
    return digits[0] in compacts or not text.isascii() or "&" in text or bool(_BULLET.search(text))


def _with_numbers(folded: str, *, apart: bool) -> Iterator[str]:
    """The text once for every way to read its numbers; ``apart``: also as digits with something between them."""
    text = _with_units(folded)
    if not any(char.isdigit() for char in text):
        yield text
        return
    if apart:
        yield text
    yield from (pattern.sub(_canonical, text) for pattern in _NUMBERS)


def _with_units(text: str) -> str:
    """Units of money and per cent as one symbol after the number."""
    if not any(char.isdigit() for char in text):
        return text
    for pattern, unit in _NAMED_UNITS:
        text = pattern.sub(unit, text)
    for pattern, unit in _UNITS_IN_FRONT:
        text = pattern.sub(rf"\1{unit}", text)
    return text


def _canonical(match: re.Match[str]) -> str:
    """No separators, no needless zeros; one decimal stays where the number would be shorter than three digits."""
    whole, decimals = re.sub(r"\D", "", match[1]), (match[2] or "").rstrip("0")
    if match[2] and not decimals and len(whole) < 3:
        decimals = "0"
    return f"{whole}{_POINT}{decimals}" if decimals else whole


def _joined(match: re.Match[str]) -> str:
    """Spelled letters as one word with a boundary between any two; digits as one number."""
    chars = [char for char in match[0] if char.isalnum()]
    return chars[0] + "".join(b if a.isdigit() and b.isdigit() else _SOFT + b for a, b in pairwise(chars))


def _read(text: str, *, parted: bool = True) -> Reading:
    """Not ``parted``: the digits of neighbouring numbers run on, and only long texts are looked for."""
    text = _CAMEL.sub(_SOFT, _CONTRACTION.sub("", text))
    parts: list[str] = []
    edges = bytearray()
    end = 0
    for match in _TOKEN.finditer(text):
        token = match[0].casefold()
        edge = 2 if any(char.isspace() for char in text[end : match.start()]) else 1
        if parted and parts and parts[-1][-1].isdigit() and token[0].isdigit():
            parts.append(_BREAK)
            edges.append(edge)
        parts.append(token)
        edges += bytes([edge]) + bytes(len(token) - 1)
        end = match.end()
    return Reading("".join(parts), bytes(edges) + b"\x02", 0 if parted else _LONG_NUMBER_MIN_CHARS)
