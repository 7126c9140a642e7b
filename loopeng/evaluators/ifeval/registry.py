"""The 25 instructions of IFEval by id."""

from __future__ import annotations

from collections.abc import Mapping

from loopeng.evaluators.ifeval.case import CASE
from loopeng.evaluators.ifeval.combination import COMBINATION
from loopeng.evaluators.ifeval.content import CONTENT
from loopeng.evaluators.ifeval.format import FORMAT
from loopeng.evaluators.ifeval.instruction import Instruction
from loopeng.evaluators.ifeval.keywords import KEYWORDS
from loopeng.evaluators.ifeval.language import LANGUAGE
from loopeng.evaluators.ifeval.length import LENGTH
from loopeng.evaluators.ifeval.punctuation import PUNCTUATION
from loopeng.evaluators.ifeval.startend import START_END
from loopeng.validation import did_you_mean

__all__ = ["INSTRUCTIONS", "find_instruction"]

_FAMILIES = (KEYWORDS, LANGUAGE, LENGTH, CONTENT, FORMAT, COMBINATION, START_END, CASE, PUNCTUATION)
INSTRUCTIONS: Mapping[str, Instruction] = {each.id: each for family in _FAMILIES for each in family}


def find_instruction(instruction_id: str) -> Instruction:
    """The instruction with an id. Raises ValueError that says what was probably meant.

    >>> find_instruction("punctuation:no_comma").stated({})
    'Do not use any commas.'
    """
    found = INSTRUCTIONS.get(instruction_id)
    if found is None:
        hint = did_you_mean(instruction_id, INSTRUCTIONS) or f"there is: {', '.join(INSTRUCTIONS)}"
        raise ValueError(f"there is no instruction {instruction_id!r} in IFEval ({hint})")
    return found
