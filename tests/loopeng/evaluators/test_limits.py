from __future__ import annotations

from typing import Any

import pytest

from loopeng.evaluators.limits import count_words
from tests.loopeng.evaluators.conftest import Judge

LONG = "word " * 31


@pytest.mark.parametrize(
    ("text", "keys", "category", "remedy"),
    [
        (LONG, {"max_words": 25}, "length.too_long", "Use at most 20 words."),
        (LONG, {"max_words": 25, "min_words": 22}, "length.too_long", "Use at most 23 words."),
        (LONG, {"max_words": 25, "min_words": 25}, "length.too_long", "Use exactly 25 words."),
        (LONG, {"max_words": 1}, "length.too_long", "Use at most one word."),
        (LONG, {"max_chars": 100}, "length.too_long", "Use at most 80 characters."),
        (
            LONG,
            {"max_words": 25, "max_chars": 100},
            "length.too_long",
            "Use at most 20 words and at most 80 characters.",
        ),
        ("", {"min_words": 40}, "length.too_short", "Use at least 50 words."),
        ("", {"min_words": 40, "max_words": 45}, "length.too_short", "Use at least 43 words."),
        ("", {"min_words": 1}, "length.too_short", "Use at least one word."),
        ("x", {"min_chars": 2}, "length.too_short", "Use at least 2 characters."),
        ("a b", {"max_words": 25, "negate": True}, "length.within_limits", "Use more than 25 words."),
        (
            "a b",
            {"min_words": 2, "max_words": 5, "negate": True},
            "length.within_limits",
            "Use fewer than 2 or more than 5 words.",
        ),
    ],
)
def test_length(text: str, keys: dict[str, Any], category: str, remedy: str, judge: Judge) -> None:
    result = judge(text, type="length", **keys)
    assert (result.passed, result.category, result.remedy) == (False, category, remedy)


@pytest.mark.parametrize(
    ("num_sentences", "keys", "category", "remedy"),
    [
        (3, {"max": 1}, "sentences.too_many", "Write exactly one sentence."),
        (9, {"max": 5}, "sentences.too_many", "Write at most 4 sentences."),
        (9, {"max": 3, "min": 3}, "sentences.too_many", "Write exactly 3 sentences."),
        (0, {"min": 1}, "sentences.too_few", "Write at least one sentence."),
        (0, {"min": 1, "max": 1}, "sentences.too_few", "Write exactly one sentence."),
        (1, {"min": 4}, "sentences.too_few", "Write at least 5 sentences."),
        (1, {"max": 1, "negate": True}, "sentences.within_limits", "Write more than 1 sentences."),
    ],
)
def test_sentences(num_sentences: int, keys: dict[str, Any], category: str, remedy: str, judge: Judge) -> None:
    result = judge("It is so. " * num_sentences, type="sentences", **keys)
    assert (result.passed, result.category, result.remedy) == (False, category, remedy)


def test_feedback_says_the_limit_itself_and_the_count(judge: Judge) -> None:
    assert judge(LONG, type="length", max_words=25).feedback == "Use at most 25 words (the answer had 31)."
    assert judge("One. Two.", type="sentences", max=1).feedback == "Write exactly one sentence (the answer had 2)."
    assert judge("", type="sentences", min=2, max=2).feedback == "Write exactly 2 sentences (the answer had 0)."


def test_nearer_to_the_limit_scores_higher(judge: Judge) -> None:
    scores = [judge("word " * count, type="length", max_words=10).score for count in (10, 11, 20, 40)]
    assert scores == [1.0, pytest.approx(10 / 11), 0.5, 0.25]


def test_limits_are_included_and_space_around_does_not_count(judge: Judge) -> None:
    assert judge("  abc \n", type="length", max_chars=3, min_chars=3, max_words=1, min_words=1).passed


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("...", 0),
        ("- a\n- b", 2),
        ("it's well-made", 2),
        ("mug—bright – yes", 3),
        ("3.5 l", 2),
        ("**bold**", 1),
    ],
)
def test_words(text: str, count: int) -> None:
    assert count_words(text) == count
