"""Instructions on words and letters. Keywords are regular expressions, as in the public code, and ignore case."""

from __future__ import annotations

import re

from loopeng.evaluators.ifeval.instruction import Count, Instruction, Letter, Relation, Word, Words, as_pattern, holds

__all__ = ["KEYWORDS", "existence", "forbidden_words", "frequency", "letter_frequency"]


def existence(response: str, *, keywords: Words) -> bool:
    """Each keyword occurs, be it inside a longer word."""
    return all(re.search(as_pattern(each), response, re.IGNORECASE) for each in keywords)


def frequency(response: str, *, keyword: Word, frequency: Count, relation: Relation) -> bool:
    """The keyword occurs at least, or less than, so many times; inside longer words counts."""
    return holds(len(re.findall(as_pattern(keyword), response, re.IGNORECASE)), relation, frequency)


def forbidden_words(response: str, *, forbidden_words: Words) -> bool:
    """None of the words occurs as a whole word."""
    return not any(re.search(rf"\b{as_pattern(each)}\b", response, re.IGNORECASE) for each in forbidden_words)


def letter_frequency(response: str, *, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """The letter occurs at least, or less than, so many times, whatever its case.

    Two public prompts ask for "#" and "!", which count like letters; some copies of the code draw a letter instead.
    """
    return holds(response.lower().count(letter.lower()), let_relation, let_frequency)


KEYWORDS = (
    Instruction(
        "keywords:existence", existence, "Use all of these words: {keywords}.", "Use every keyword that is asked for."
    ),
    Instruction(
        "keywords:frequency",
        frequency,
        'The number of times the word "{keyword}" occurs must be {relation} {frequency}.',
        "Use the given word as often as is asked for.",
    ),
    Instruction(
        "keywords:forbidden_words",
        forbidden_words,
        "Do not use any of these words: {forbidden_words}.",
        "Do not use any word that is forbidden.",
    ),
    Instruction(
        "keywords:letter_frequency",
        letter_frequency,
        'The number of times the letter "{letter}" occurs must be {let_relation} {let_frequency}.',
        "Use the given letter as often as is asked for.",
    ),
)
