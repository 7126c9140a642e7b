"""Instructions on how a response starts and ends."""

from __future__ import annotations

from loopeng.evaluators.ifeval.instruction import Instruction, Word

__all__ = ["START_END", "end_checker", "quotation"]


def end_checker(response: str, *, end_phrase: Word) -> bool:
    """The response ends with the phrase, in any case; quotation marks around the response do not count."""
    return response.strip().strip('"').lower().endswith(end_phrase.lower())


def quotation(response: str) -> bool:
    """The response stands in double quotation marks."""
    text = response.strip()
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


START_END = (
    Instruction(
        "startend:end_checker",
        end_checker,
        "End with exactly this phrase and write nothing after it: {end_phrase}",
        "End with exactly the phrase that is given, and write nothing after it.",
    ),
    Instruction(
        "startend:quotation",
        quotation,
        'Put the whole answer in double quotation marks: begin with " and end with ".',
        "Where quotation marks are asked for, begin the answer with a double quotation mark and end it with one.",
    ),
)
