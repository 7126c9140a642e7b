"""Small pieces every text report is made of: rates, plurals, aligned columns, quoted excerpts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

__all__ = ["both_errors", "columns", "count", "excerpt", "moment", "plain_value", "rate"]


def rate(passed: int, total: int) -> str:
    """A count with its share; a share of nothing is not shown as zero.

    >>> rate(13, 16), rate(0, 0)
    ('13/16 (81 %)', '0/0')
    """
    return f"{passed}/{total}" + (f" ({passed / total:.0%})".replace("%", " %") if total else "")


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "sample"), count(1200, "attempt")
    ('1 sample', '1,200 attempts')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def excerpt(text: str, width: int = 100) -> str:
    """One line of at most ``width`` characters, quoted, control characters shown.

    >>> excerpt("a\\nb"), excerpt("x" * 9, width=6)
    ('"a b"', '"xxxxx…"')
    """
    line = "".join(char if char.isprintable() else "�" for char in " ".join(text.split()))
    return f'"{line}"' if len(line) <= width else f'"{line[: width - 1]}…"'


def both_errors(first: int, final: int) -> str:
    """How many could not be judged at the first attempt and in the end; one number where that is the same.

    >>> both_errors(2, 2), both_errors(3, 0)
    ('2', '3 at first, 0 in the end')
    """
    return str(final) if first == final else f"{first} at first, {final} in the end"


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: str = "") -> str:
    """Rows as aligned columns, the columns of ``right`` flush right.

    >>> print(columns([("name", "n"), ("ab", "12")], right=[1]))
    name   n
    ab    12
    """
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def moment(when: datetime) -> str:
    """A time as people of this machine read it, with its zone.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 1, 2, 3, 4, tzinfo=UTC)).startswith("2026-01-0")
    True
    """
    return when.astimezone().strftime("%Y-%m-%d %H:%M %Z")


def plain_value(value: Any) -> Any:
    """For ``json.dumps(..., default=plain_value)``: nouns as mappings, times in ISO format, anything else as text."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return value.isoformat() if isinstance(value, datetime) else str(value)
