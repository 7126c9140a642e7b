"""A rule holds nothing that a person who reads the proposal cannot see.

Typography passes: quotes, dashes, accents, any script, emoji with their variation selectors, skin tones and joiners,
and the joiners that Arabic and Indic scripts need. Flags made of tag characters do not: with those characters whole
sentences are smuggled past readers.
"""

from __future__ import annotations

import html
import re
import unicodedata

from loopeng.improve.guards.candidate import Candidate

__all__ = ["hidden_text"]

_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\U0001d159")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_PICTOGRAPHS = range(0x1F000, 0x1FB00)  # new emoji are unassigned for an older Python
_FIRST_EMOJI = 0x203C  # but for two in Latin-1
_JOINERS = "\u200c\u200d"
_JOINING_SCRIPTS = (range(0x0600, 0x0800), range(0x08A0, 0x0E00))  # Arabic, Syriac, the Indic scripts
_MAX_MARKS = 4  # on one letter; more cover what stands around it
_MARKUP = (
    (re.compile(r"<!--|--!?>"), "an HTML comment"),
    (re.compile(r"<!\[CDATA\[|<\?\w|<!DOCTYPE|<!ENTITY", re.IGNORECASE), "markup that is not shown"),
    (re.compile(r"<\s*(?:script|style|template|noscript|head|title|meta|iframe|object)\b[^>]*>", re.I), "hidden HTML"),
    (
        re.compile(
            r"<[^>]*(?:\s(?:hidden\b|aria-hidden)|display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
            r"|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])|color\s*:\s*(?:white|transparent|#fff))[^>]*>",
            re.IGNORECASE,
        ),
        "hidden HTML",
    ),
    (re.compile(r"\[(?://|comment|_metadata_[^\]]*)\]\s*:", re.IGNORECASE), "a Markdown comment"),
    (re.compile(r"\\[hv]?phantom\b|\\(?:text)?color\{white\}"), "LaTeX that is not shown"),
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_GREEK_SYMBOLS = "αβγδεθλμπρστφχψωΓΔΘΛΞΠΣΦΨΩ"


def hidden_text(candidate: Candidate) -> str | None:
    """No invisible characters, no comments, no words that mix look-alike alphabets, in any new rule."""
    for number, rule in candidate.new_rules:
        if found := _unseen(rule.text) or _markup(rule.text) or _mixed_alphabets(rule.text):
            return f"rule {number} contains {found}; write it without"
    return None


def _unseen(text: str) -> str | None:
    for each, reference in ((text, ""), (html.unescape(text), " as a character reference")):
        for position, char in enumerate(each):
            if _hides(each, position):
                name = unicodedata.name(char, "no character" if unicodedata.category(char) == "Cn" else "unnamed")
                return f"the invisible character U+{ord(char):04X} ({name}){reference}"
    return None


def _hides(text: str, position: int) -> bool:
    char, before, after = text[position], text[position - 1 : position], text[position + 1 : position + 2]
    if char in _BLANK:
        return True
    if _SELECTORS.match(char):
        return char not in _EMOJI_SELECTORS or not (_is_pictograph(before) or after == "\u20e3")
    if char in _JOINERS:
        return not (_joins_letters(before, after) or (char == "\u200d" and _joins_emoji(text, position)))
    category = unicodedata.category(char)
    if category == "Mn":
        marks = text[max(0, position - _MAX_MARKS) : position + 1]
        return len(marks) > _MAX_MARKS and all(unicodedata.category(each) == "Mn" for each in marks)
    return category in _UNSEEN and ord(char) not in _PICTOGRAPHS


def _is_pictograph(char: str) -> bool:
    """Whether an emoji selector may follow."""
    is_symbol = bool(char) and unicodedata.category(char) in ("So", "Sm", "Sk", "Po", "Pd")
    return (is_symbol and (char in "©®" or ord(char) >= _FIRST_EMOJI)) or _is_emoji(char)


def _joins_emoji(text: str, position: int) -> bool:
    before = text[:position].rstrip(_EMOJI_SELECTORS)[-1:]
    return _is_emoji(before) and _is_emoji(text[position + 1 : position + 2])


def _is_emoji(char: str) -> bool:
    return bool(char) and (ord(char) in _PICTOGRAPHS or unicodedata.category(char) == "So")


def _joins_letters(before: str, after: str) -> bool:
    return all(char and any(ord(char) in script for script in _JOINING_SCRIPTS) for char in (before, after))


def _markup(text: str) -> str | None:
    shown = html.unescape(text)
    return next((what for pattern, what in _MARKUP if pattern.search(text) or pattern.search(shown)), None)


def _mixed_alphabets(text: str) -> str | None:
    """A word of Latin letters with a Cyrillic or Greek one among them; Greek symbols of science are fine."""
    for match in _WORD.finditer(text):
        word = match[0]
        foreign = [char for char in _FOREIGN.findall(word) if char not in _GREEK_SYMBOLS]
        if foreign and any(unicodedata.name(char, "").startswith("LATIN") for char in word):
            return f"a word that mixes alphabets: {word!r} has {unicodedata.name(foreign[0], 'a foreign letter')}"
    return None
