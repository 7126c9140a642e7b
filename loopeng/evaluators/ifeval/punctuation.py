"""Instructions on punctuation."""

from __future__ import annotations

from loopeng.evaluators.ifeval.instruction import Instruction

__all__ = ["PUNCTUATION", "no_comma"]


def no_comma(response: str) -> bool:
    """The response has no comma."""
    return "," not in response


PUNCTUATION = (
    Instruction("punctuation:no_comma", no_comma, "Do not use any commas.", "Where commas are forbidden, use none."),
)
