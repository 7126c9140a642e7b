"""Instructions on capital and small letters."""

from __future__ import annotations

from loopeng.evaluators.ifeval.capital_words import count_capital_words
from loopeng.evaluators.ifeval.instruction import Count, Instruction, Relation, holds
from loopeng.evaluators.ifeval.language import is_in_language

__all__ = ["CASE", "capital_word_frequency", "english_capital", "english_lowercase"]


def english_capital(response: str) -> bool:
    """There are letters, all of them capital, and the response is in English."""
    return response.isupper() and is_in_language(response, "en")


def english_lowercase(response: str) -> bool:
    """There are letters, none of them capital, and the response is in English."""
    return response.islower() and is_in_language(response, "en")


def capital_word_frequency(response: str, *, capital_frequency: Count, capital_relation: Relation) -> bool:
    """The number of words in capitals, as the Penn Treebank parts words, is at least, or less than, the limit."""
    return holds(count_capital_words(response), capital_relation, capital_frequency)


CASE = (
    Instruction(
        "change_case:english_capital",
        english_capital,
        "Write the whole answer in English and in CAPITAL LETTERS only.",
        "Where capital letters are asked for, use no small letter.",
        needs_language=True,
    ),
    Instruction(
        "change_case:english_lowercase",
        english_lowercase,
        "Write the whole answer in English and in small letters only. Use no capital letter.",
        "Where small letters are asked for, use no capital letter.",
        needs_language=True,
    ),
    Instruction(
        "change_case:capital_word_frequency",
        capital_word_frequency,
        "The number of words in CAPITAL LETTERS must be {capital_relation} {capital_frequency}.",
        "Write as many words in capital letters as are asked for.",
    ),
)
