"""Splits text into sentences by rules: no model, no data files.

A sentence ends at a new line of text, a list item, or at ``.``, ``!``, ``?`` and ``…`` where they end something: not
after abbreviations, initials or digits, in the middle of an ellipsis, or where it goes on after a quoted ``"Wow!"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["split_sentences"]

# Something always follows: never the end of a sentence.
_TITLES = ("mr", "mrs", "ms", "dr", "prof", "st", "mt", "capt", "col", "gen", "lt", "rev", "hon", "messrs")
_BEFORE_MORE = frozenset((*_TITLES, "e.g", "i.e", "eg", "ie", "cf", "vs", "viz", "approx"))
# The end only if a new sentence seems to follow: an upper-case letter.
_DOTTED = ("a.m", "p.m", "u.s", "u.k", "u.n", "d.c", "b.c", "a.d", "ph.d")
_MAY_END = frozenset((*_DOTTED, "etc", "al", "inc", "ltd", "co", "corp", "jr", "sr", "dept", "est"))
# An abbreviation only before a number.
_BEFORE_NUMBERS = frozenset(("no", "nos", "p", "pp", "fig", "figs", "vol", "ch", "sec", "eq", "art"))

_LIST_MARK = re.compile(r"\s*(?:[-*+•‣◦–]\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+|>\s*)+")
_CLOSING_MARKS = "\"'”’»)]*_`"
_CLOSERS = re.escape(_CLOSING_MARKS)
_END = re.compile(
    rf"""(?<![.!?…])(?P<mark>[.!?…]++)(?P<close>[{_CLOSERS}]*+)(?=\s|$)   # a mark, then space
    |(?<=[a-z]{{2}})(?P<tight>[.!?])(?=[A-Z][a-z])                        # the space after it was forgotten
    |(?P<cjk>[。！？]++)[{_CLOSERS}」』]*+""",
    re.VERBOSE,
)
_OPENERS = re.escape("\"'“‘«([*_`¿¡")
_FOLLOWING = re.compile(rf"\s*+(?P<openers>[{_OPENERS}]*+)(?P<first>.?)")
_LONGEST_WORD = 20  # more than any that is looked for
_TERMINALS = tuple(".!?…:;。！？")


def split_sentences(text: str) -> list[str]:
    """The sentences of ``text``, trimmed. A line of its own counts as one, whether or not it ends in a full stop.

    >>> split_sentences("Dr. Lee paid 3.50, e.g. for tea. It was good... very good! Was it?")
    ['Dr. Lee paid 3.50, e.g. for tea.', 'It was good... very good!', 'Was it?']
    """
    pieces = (piece.strip() for block in _blocks(text) for piece in _split_block(block))
    return [piece for piece in pieces if any(character.isalnum() for character in piece)]


def _blocks(text: str) -> Iterator[str]:
    """Lines without their list marks; a line that goes on in lower case is joined to the one before."""
    block: list[str] = []
    for line in re.split(r"\r\n|[\r\n\v\f\u2028\u2029]", text):
        mark = _LIST_MARK.match(line)
        content = line[mark.end() if mark else 0 :].strip()
        goes_on = block and content[:1].islower() and not mark
        if not goes_on or block[-1].rstrip(_CLOSING_MARKS).endswith(_TERMINALS):
            yield " ".join(block)
            block = []
        block += [content] if content else []
    yield " ".join(block)


def _split_block(block: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(block):
        if match["mark"] is None or _ends_sentence(block, match):
            yield block[start : match.end()]
            start = match.end()
    yield block[start:]


def _ends_sentence(block: str, match: re.Match[str]) -> bool:
    mark, next_word = match["mark"], _FOLLOWING.match(block, match.end())
    if next_word is None or match.end() == len(block):
        return True
    following = next_word["first"]
    if following.islower() and (match["close"] or set(mark) != {"."} or len(mark) > 1):
        # '"Wow!" she said', 'wait... what': the sentence goes on. 'Great! it works' does not.
        return mark[-1] in "!?" and not match["close"]
    if mark != ".":
        return True
    return _full_stop_ends(_last_word(block[max(0, match.start() - _LONGEST_WORD) : match.start()]), following)


def _last_word(before: str) -> str:
    """What ``before`` ends with, up to a space or mark; a full stop inside is part of it."""
    start = len(before)
    while start and (before[start - 1].isalnum() or before[start - 1] in "._"):
        start -= 1
    return before[start:]


def _full_stop_ends(word: str, following: str) -> bool:
    bare = word.casefold()
    if bare in _BEFORE_MORE:
        return False
    if bare in _MAY_END:
        return following.isupper()
    if bare in _BEFORE_NUMBERS:
        return not following.isdigit()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not (is_initial and following.isupper())
