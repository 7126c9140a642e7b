"""Which patterns are suggested to be merged, and into which."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from loopeng.patterns.similarity import NEARLY_ALIKE, suggest_merges
from loopeng.schema import FailurePattern

START = datetime(2026, 1, 1, tzinfo=UTC)


def pattern(id_: str, reason: str, category: str = "length.too_long", **changes: Any) -> FailurePattern:
    fields = {
        "id": id_,
        "prompt_name": "describe",
        "fingerprint": f"v2:{id_}",
        "evaluator": "short",
        "category": category,
        "reason": reason,
        "created_at": START,
    }
    return FailurePattern(**(fields | changes))


LONG = "has <n> words, at most <n> allowed"
REWORDED = "the text has <n> words, at most <n> are allowed"


def pairs(*patterns: FailurePattern) -> list[tuple[str, str]]:
    return [(each.source, each.into) for each in suggest_merges(patterns)]


def test_the_same_mistake_in_other_words_is_suggested() -> None:
    (suggestion,) = suggest_merges([pattern("new", REWORDED), pattern("old", LONG, num_samples=3)])
    assert (suggestion.source, suggestion.into) == ("new", "old")
    assert NEARLY_ALIKE <= suggestion.similarity < 1


def test_more_of_the_same_hides_none_of_it() -> None:
    """Five wordings of one mistake: what they share is no less alike for being in all five."""
    words = ("letter", "parcel", "refund", "invoice", "order")
    reasons = [f"the reply to the customer does not mention the {word} that was asked for" for word in words]
    many = [pattern(f"p{number}", reason, num_samples=9 - number) for number, reason in enumerate(reasons)]
    for other in many[1:]:
        assert pairs(many[0], other) == [(other.id, "p0")]
    assert set(pairs(*many)) == {(each.id, "p0") for each in many[1:]}


def test_the_same_reason_under_an_earlier_version_of_the_fingerprints_comes_first() -> None:
    old = pattern("old", LONG, fingerprint="v1:0", num_samples=3)
    suggestions = suggest_merges([old, pattern("new", LONG), pattern("closer", LONG + "!")])
    assert [each.source for each in suggestions] == ["new", "closer"]
    assert suggestions[0].similarity > 0.999 and {each.into for each in suggestions} == {"old"}


def test_mistakes_that_share_words_are_not() -> None:
    assert pairs(pattern("a", LONG), pattern("b", "has <n> words, at least <n> wanted", "length.too_short")) == []
    assert pairs(pattern("a", LONG), pattern("b", "has <n> characters, at most <n> allowed")) == []
    assert pairs(pattern("a", "<str> is a required property"), pattern("b", "<str> is not of type <str>")) == []


def test_only_one_prompts_patterns_of_one_evaluator_and_side_are_compared() -> None:
    here = pattern("a", LONG)
    for other in (
        {"prompt_name": "title"},
        {"evaluator": "brief"},
        {"fault_side": "environment"},
        {"merged_into": "x"},
    ):
        assert pairs(here, pattern("b", LONG, **other)) == []


def test_what_a_proposal_or_a_watch_needs_stays() -> None:
    """A suggestion that the store refuses is a bad joke."""
    frequent, watched = pattern("a", LONG, num_samples=9), pattern("b", LONG, state="watching")
    assert pairs(frequent, watched) == [("a", "b")]
    assert pairs(frequent.model_copy(update={"state": "proposed"}), watched) == []


def test_all_go_to_the_one_that_stays_and_the_elder_stays_among_equals() -> None:
    elder, younger = pattern("z", LONG), pattern("a", LONG, created_at=START + timedelta(days=1))
    assert pairs(younger, elder) == [("a", "z")]
    many = [pattern(f"p{i}", LONG, num_samples=i) for i in range(4)]
    assert sorted(pairs(*many)) == [("p0", "p3"), ("p1", "p3"), ("p2", "p3")]


def test_a_single_pattern_and_none() -> None:
    assert pairs() == pairs(pattern("a", LONG)) == []
