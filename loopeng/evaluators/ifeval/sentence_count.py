"""Counts sentences the way Punkt does, which the public scores of IFEval were counted with: by rules, without its data.

Punkt (Kiss and Strunk 2006) looks at full stops, question and exclamation marks before a space or closing mark, and
at nothing else: a new line ends no sentence, and the "1." of a list is one. What its English model learned from
newspapers is here a list of the abbreviations it knows and of words that begin sentences; it knows more of the latter,
so the two may differ by one where a full stop follows an abbreviation, an initial or three dots (11 of 3983 texts of
public benchmarks did).
"""

from __future__ import annotations

import re
from itertools import zip_longest

__all__ = ["count_sentences"]

_TITLES = "adm col dr gen lt maj messrs mr mrs ms prof rep reps sen sr jr st"
_FIRMS = "bros co corp cos inc ltd"
_DATES = "a.d a.m p.m jan feb aug sep sept oct nov dec tues wed fri"
_PLACES = (
    "ala ariz ave calif colo conn ct d.c fla ft ga ill kan ky l.a mich minn n.c n.h n.j n.m n.y nev okla pa s.c tenn "
    "u.k u.n u.s u.s.a u.s.s.r va vt w.va wash wis"
)
_OTHERS = "chg m.b.a mg ok ph.d vs yr"
_LETTERS = "c d e f g h k l m n p r s t v w"  # an initial of another letter may end a sentence
_ABBREVIATIONS = frozenset(f"{_TITLES} {_FIRMS} {_DATES} {_PLACES} {_OTHERS} {_LETTERS}".split())
# Written with a capital they begin a sentence: the model saw them so, and never with a capital inside one.
_STARTERS = """
according although among both but despite does even he her here him however i if in indeed instead into it many
meanwhile moreover most nevertheless nonetheless nor please same similarly since so some the them there therefore these
they this though thus under using very were when which while without yet your
"""
# These it saw both ways: they are no names, and that is all one can tell.
_OTHER_WORDS = """
a after all also an and any are as at be because before by can do each every find first for from had has have his how
is its let my next no not now of on one or our she that their then those to was we what where who why will with you
"""
_BEGINNERS = frozenset(_STARTERS.split())
_NO_NAMES = _BEGINNERS | frozenset(_OTHER_WORDS.split())

_CLOSING = "\"')]}‘’“”«»"  # goes with the sentence before it
_INSIDE = f"{_CLOSING};*:@({{[?!"  # what a word cannot hold
_BEFORE_CLOSING = re.compile(rf"[.?!](?=[{re.escape(_INSIDE)}])")
_STICKING = frozenset("'‘’“”«»")  # single and curly quotes stick to what follows
_WORD_START = re.compile(rf"[{re.escape(_INSIDE)}#&`,-]|[^{re.escape(_INSIDE)}]+")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")


def count_sentences(text: str) -> int:
    """How many sentences Punkt finds.

    >>> count_sentences("Dr. Lee came at 9 a.m. today. Did he? Yes!"), count_sentences("no full stop\\nnor here")
    (3, 1)
    """
    runs = text.split()
    count = 1 if runs else 0
    for run, following, later in zip_longest(runs, runs[1:], runs[2:], fillvalue=""):
        end = _candidate(run, following)
        rest = run[end:]
        goes_on = (rest or following).strip(_CLOSING) or (following if rest else later)
        if end and goes_on and _ends_in_context(run[:end], rest, following):
            count += 1
    return count


def _candidate(run: str, following: str) -> int:
    """Where in a run without spaces a sentence may end: behind its last such mark. 0 where it cannot."""
    if following and run[-1] in ".?!":
        return len(run)
    marks = [match.end() for match in _BEFORE_CLOSING.finditer(run)]
    return marks[-1] if marks else 0


def _ends_in_context(before: str, rest: str, following: str) -> bool:
    """Whether a sentence ends behind ``before``. Punkt takes an end inside the next run for one here."""
    if rest:
        return _ends(before, rest[0])
    inner = _candidate(following, "")
    return _ends(before, following) or (bool(inner) and _ends(following[:inner], following[inner]))


def _ends(before: str, following: str) -> bool:
    """Whether the mark at the end of ``before`` ends a sentence. ``following`` is what comes next."""
    if "?" in before or "!" in before:
        return True
    word = _first_word(following)
    if before.endswith(".."):
        return _begins(word) is True
    last = _last_word(before).lstrip(",-`&#")
    bare = last.removesuffix(".").lower()
    if len(last) == 2 and last[0].isalpha():
        return bare not in _ABBREVIATIONS and _begins(word) is not False and not _is_name(word)
    if _NUMBER.fullmatch(last):
        return _begins(word) is not False
    if {bare, bare.rpartition("-")[2]} & _ABBREVIATIONS:
        return _begins(word) is True
    return True


def _last_word(before: str) -> str:
    mark = max(map(before.rfind, _INSIDE))
    return before[mark if before[mark : mark + 1] in _STICKING else mark + 1 :]


def _first_word(following: str) -> str:
    found = _WORD_START.match(following)
    return found[0] if found else following


def _begins(word: str) -> bool | None:
    """Whether a word looks like the first of a sentence; None where nobody can tell."""
    if word in (";", ":", ",", ".", "!", "?") or word[:1].islower():
        return False
    return True if word[:1].isupper() and _bare(word) in _BEGINNERS else None


def _is_name(word: str) -> bool:
    return word[:1].isupper() and _bare(word) not in _NO_NAMES


def _bare(word: str) -> str:
    return word.rstrip(".,").lower()
