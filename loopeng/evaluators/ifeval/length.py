"""Instructions on length: words, sentences and paragraphs."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from loopeng.evaluators.ifeval.instruction import Count, Instruction, Relation, Word, holds
from loopeng.evaluators.ifeval.sentence_count import count_sentences

__all__ = ["LENGTH", "nth_paragraph_first_word", "number_paragraphs", "number_sentences", "number_words"]

_FIRST_WORD_ENDS = re.compile(r"""[.,?!'"]""")


def number_words(response: str, *, num_words: Count, relation: Relation) -> bool:
    r"""The number of words, which are runs of ``\w`` ("don't" is two), is at least, or less than, the limit."""
    return holds(len(re.findall(r"\w+", response)), relation, num_words)


def number_sentences(response: str, *, num_sentences: Count, relation: Relation) -> bool:
    """The number of sentences, as Punkt counts them, is at least, or less than, the limit."""
    return holds(count_sentences(response), relation, num_sentences)


def number_paragraphs(response: str, *, num_paragraphs: Count) -> bool:
    """Dividers ``***`` part the response into just so many paragraphs; only the first and last part may be empty."""
    parts = [part.strip() for part in re.split(r"\s?\*\*\*\s?", response)]
    return all(parts[1:-1]) and sum(map(bool, parts)) == num_paragraphs


def nth_paragraph_first_word(
    response: str, *, num_paragraphs: Count, nth_paragraph: Annotated[int, Field(ge=1)], first_word: Word
) -> bool:
    """Empty lines part the response into just so many paragraphs, and the nth begins with the word, in any case.

    Blank paragraphs do not count towards the number, but they do when the nth is looked for.
    """
    if nth_paragraph > num_paragraphs:
        raise ValueError(f"nth_paragraph is {nth_paragraph}, more than num_paragraphs, which is {num_paragraphs}")
    paragraphs = [paragraph.strip() for paragraph in response.split("\n\n")]
    if sum(map(bool, paragraphs)) != num_paragraphs or not paragraphs[nth_paragraph - 1]:
        return False
    word = paragraphs[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    return _FIRST_WORD_ENDS.split(word)[0].lower() == first_word.lower()


LENGTH = (
    Instruction(
        "length_constraints:number_words",
        number_words,
        "The number of words must be {relation} {num_words}.",
        "Count the words and keep to the number that is asked for.",
    ),
    Instruction(
        "length_constraints:number_sentences",
        number_sentences,
        "The number of sentences must be {relation} {num_sentences}.",
        "Count the sentences and keep to the number that is asked for.",
    ),
    Instruction(
        "length_constraints:number_paragraphs",
        number_paragraphs,
        "Write exactly {num_paragraphs} paragraphs with a line of *** between them.",
        "Put a line of *** between paragraphs, and write exactly as many as are asked for.",
    ),
    Instruction(
        "length_constraints:nth_paragraph_first_word",
        nth_paragraph_first_word,
        "Write exactly {num_paragraphs} paragraphs with an empty line between them. Begin paragraph {nth_paragraph} "
        'with the word "{first_word}".',
        "Put an empty line between paragraphs, write exactly as many as are asked for, and begin the named paragraph "
        "with the given word.",
    ),
)
