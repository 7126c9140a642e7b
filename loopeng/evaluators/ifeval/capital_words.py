"""Counts words in capitals after parting words as the Penn Treebank does, which the public scores were counted with.

A word with a hyphen or a slash is one; a contraction is two ("DON'T" is "DO" and "N'T", "IT'S" is "IT" and "'S"), and
so is "CANNOT". "I" and "A" are words in capitals too.
"""

from __future__ import annotations

import re

__all__ = ["count_capital_words"]

_BETWEEN = re.compile(
    r"""--|''|\.{2,}|[:,](?!\d)|[;@#$%&?!*"`«»“”‘’„\[\](){}<>\u2012-\u2015]
    |(?<!\w)'(?=\w)(?!(?i:re|ve|ll|m|t|s|d|n)\b)  # the opening one of a pair""",
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?<=[^' ])(?='[sSmMdD]$|'(?:ll|LL|re|RE|ve|VE)$|(?:n't|N'T)$)")
_TWO_IN_ONE = {
    "CANNOT": "CAN NOT",
    "D'YE": "D 'YE",
    "GIMME": "GIM ME",
    "GONNA": "GON NA",
    "GOTTA": "GOT TA",
    "LEMME": "LEM ME",
    "MORE'N": "MORE 'N",
    "WANNA": "WAN NA",
}
_JOINED = re.compile(rf"\b(?:{'|'.join(_TWO_IN_ONE)})\b")


def count_capital_words(text: str) -> int:
    """How many words have letters, all of them capital.

    >>> count_capital_words("I WON'T go to the STATE-OF-THE-ART (USA) show, NEVER!"), count_capital_words("123 a B2")
    (6, 1)
    """
    return sum(word.isupper() for chunk in _BETWEEN.sub(" ", text).split() for word in _parted(chunk))


def _parted(chunk: str) -> list[str]:
    chunk = _CLITIC.sub(" ", chunk.removesuffix("."))
    return _JOINED.sub(lambda match: f" {_TWO_IN_ONE[match[0]]} ", chunk).split()
