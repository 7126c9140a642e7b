"""Numbers as people write them: ``-1,234.50``, ``$10k``, ``12 %``, ``3/4``, ``2 ½``, ``1.5e3``, ``10^6``, LaTeX.

Values are exact fractions, so that 0.1 is a tenth and no rounding decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Number", "boxed", "numbers_in", "read_number"]

_LONGEST = 400  # digits, and the largest exponent: what is longer is no number that anyone means
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\ufe63\uff0d\u2013", "-"),
        "⁄": "/",
        "½": "1/2",
        "⅓": "1/3",
        "⅔": "2/3",
        "¼": "1/4",
        "¾": "3/4",
        "⅕": "1/5",
        "⅖": "2/5",
        "⅗": "3/5",
        "⅘": "4/5",
        "⅛": "1/8",
        "⅜": "3/8",
        "⅝": "5/8",
        "⅞": "7/8",
    }
)
_PLAIN = r"(?:\d{1,3}(?:[,\u00a0\u2009\u202f'’]\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\w)\.\d+"
_BEFORE_PARTS = re.compile(r"(?<=\w)(?=[½⅓⅔¼¾⅕⅖⅗⅘⅛⅜⅝⅞])")
_EXPONENT = r"(?<!\^)(?<!\^[-+{(])(?<!\^[{(][-+])"  # the 2 of cm^2 is no number by itself
_TEN = r"\s?(?:[x×*·]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)\s?[{(]?(?P<ten>[-+]?\d+)[)}]?"
_POWER = r"(?: ?\^ ?[{(]?|\*\*(?=\d))(?P<power>[-+]?\d+)[)}]?"  # of "**5**-3" the marks make bold
_SCALE = {"k": 3, "m": 6, "b": 9}
_NUMBER = re.compile(
    rf"{_EXPONENT}(?P<sign>(?<![\w)\]}}])[-+])?(?:\\?(?P<money>[$€£¥₹]) ?(?P<inner>[-+])?)?(?<![^\W_])"
    rf"(?:(?P<units>\d+) {{1,2}}(?=\d+/\d))?(?P<top>{_PLAIN})(?:/(?P<bottom>{_PLAIN}))?"
    rf"(?:[eE](?P<exponent>[-+]?\d+)(?!\w)|{_TEN}|(?(bottom)(?!)|{_POWER})|(?P<scale>(?(money)[kKmMbB]|k))(?!\w))?"
    rf"(?P<percent>\s?\\?%|\sper ?cent\b)?"
)
_FRACTION = re.compile(r"(\d?)(\s?)\\[dt]?frac\s?\{\s?([\d.,]+)\s?\}\s?\{\s?([\d.,]+)\s?\}")
_BOXED = "\\boxed{"


@dataclass(frozen=True)
class Number:
    """A number that stood in a text, and whether as a percentage."""

    value: Fraction
    shown: str
    percent: bool = False

    def is_near(self, expected: Number, *, abs_tol: float = 0.0, rel_tol: float = 0.0) -> bool:
        """Whether it is ``expected`` within the larger tolerance. Where one alone has a %, 12 % is 12 and 0.12.

        >>> read_number("12%").is_near(read_number("0.12")), read_number("12%").is_near(read_number("0.12%"))
        (True, False)
        """
        margin = max(_decimal(abs_tol), _decimal(rel_tol) * abs(expected.value))
        factors = {1} if self.percent == expected.percent else {1, 100 if expected.percent else Fraction(1, 100)}
        return any(abs(self.value * factor - expected.value) <= margin for factor in factors)


def numbers_in(text: str) -> list[Number]:
    """The numbers of a text in order; digits inside a word are none.

    >>> [number.shown for number in numbers_in("H2O: 16-3 is 13, not -13 or 1,234.50.")]
    ['16', '3', '13', '-13', '1,234.50']
    """
    found = (_number(match) for match in _NUMBER.finditer(_cleaned(text)))
    return [number for number in found if number is not None]


def read_number(text: str) -> Number | None:
    """The number that is all of ``text``, a full stop aside; None where it is anything else."""
    match = _NUMBER.fullmatch(_cleaned(text).strip().removesuffix(".").strip())
    return _number(match) if match else None


def boxed(text: str) -> str | None:
    r"""What the last ``\boxed{...}`` of a text holds; None where there is none or it is not closed.

    >>> boxed(r"so \boxed{\frac{1}{2}} it is")
    '\\frac{1}{2}'
    """
    start = text.rfind(_BOXED)
    depth = 0
    for index in range(start + len(_BOXED) - 1, len(text) if start >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if not depth:
            return text[start + len(_BOXED) : index]
    return None


def _cleaned(text: str) -> str:
    """One way of writing for signs, fractions and separators."""
    text = _BEFORE_PARTS.sub(" ", text).translate(_CHARACTERS)
    text = text.replace("{,}", ",").replace("\\!", "").replace("\\,", "\u2009")
    return _FRACTION.sub(lambda each: f"{each[1]}{' ' if each[1] or each[2] else ''}{each[3]}/{each[4]}", text)


def _number(match: re.Match[str]) -> Number | None:
    shift = int((match["exponent"] or match["ten"] or "0")[:6]) + _SCALE.get((match["scale"] or "").lower(), 0)
    power = int((match["power"] or "1")[:6])
    top, bottom = _value(match["top"]), _value(match["bottom"] or "1")
    units = _value(match["units"] or "0")
    if top is None or units is None or not bottom or abs(shift) > _LONGEST:
        return None
    if abs(power) * len(match["top"]) > _LONGEST or (power < 0 and not top):
        return None
    value = (units + top**power / bottom) * Fraction(10) ** shift
    if "-" in (match["sign"], match["inner"]):
        value = -value
    return Number(value, match[0].strip(), percent=match["percent"] is not None)


def _value(digits: str) -> Fraction | None:
    bare = re.sub(r"[^\d.]", "", digits)
    return Fraction(bare) if len(bare) <= _LONGEST else None


def _decimal(number: float) -> Fraction:
    """0.3 as it was written: a float is a little less or more."""
    return Fraction(str(number))
