"""The cache: a key that holds everything, only what a deterministic engine said and what could be read."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.store import LoopStore
from tests.loopeng.evaluators.judge.judging import CLEAR, POLITE, Engine, Replies, ask, ruling

BASE: dict[str, Any] = {
    "text": "Hello.",
    "criteria": [POLITE],
    "given": {"name": "Ana"},
    "target": "Hi",
    "reference": "{{ target }}",
}
GOOD = ruling(polite="pass")


def judged(store: LoopStore, replies: Replies, info: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    keys = BASE | changes
    return ask(Engine(replies, **(info or {})), keys.pop("text"), cache=store, **keys).metadata["judge_usage"]


def test_the_same_question_is_asked_once_and_a_hit_is_told(store: LoopStore) -> None:
    replies = Replies(ruling("Nice.", polite="pass"))
    first = ask(Engine(replies), cache=store, votes=3, **BASE)
    again = ask(Engine(replies), cache=store, votes=3, **BASE)
    assert len(replies.requests) == 3
    assert (first.metadata["judge_usage"]["num_calls"], first.metadata["judge_usage"]["num_cached"]) == (3, 0)
    told = again.metadata["judge_usage"]
    assert (told["num_calls"], told["num_cached"], told["prompt_tokens"]) == (0, 3, 0)
    assert again.metadata["criteria"] == first.metadata["criteria"]
    assert again.metadata["reasoning"] == first.metadata["reasoning"]


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "Hello!"},
        {"criteria": [{**POLITE, "description": "The answer is very polite."}]},
        {"criteria": [{**POLITE, "id": "kind"}]},
        {"criteria": [POLITE, CLEAR]},
        {"given": {"name": "Bea"}},
        {"inputs": False},
        {"target": "Hey"},
        {"reference": None},
        {"reasoning": False},
        {"temperature": 0.5},
        {"info": {"model": "another"}},
        {"info": {"fingerprint": "other numerics"}},
        {"info": {"structured_output": True}},
        {"info": {"details": {"dtype": "float32"}}},
    ],
    ids=str,
)
def test_whatever_matters_makes_another_key(store: LoopStore, changes: dict[str, Any]) -> None:
    replies = Replies(ruling(polite="pass", clear=5), GOOD, ruling(kind="pass"))
    judged(store, Replies(GOOD))
    judged(store, Replies(GOOD))
    fresh = judged(store, Replies(*replies.replies, *replies.replies), **changes) if "criteria" in changes else None
    usage = fresh or judged(store, Replies(GOOD), **changes)
    assert (usage["num_calls"] >= 1, usage["num_cached"]) == (True, 0)


def test_another_weight_or_remedy_asks_nothing_new(store: LoopStore) -> None:
    judged(store, Replies(GOOD))
    usage = judged(store, Replies(GOOD), criteria=[{**POLITE, "weight": 2, "remedy": "Be polite."}])
    assert (usage["num_calls"], usage["num_cached"]) == (0, 1)


def test_votes_are_kept_apart(store: LoopStore) -> None:
    votes = Replies(ruling(polite="pass"), ruling(polite="fail"), ruling(polite="fail"))
    first = ask(Engine(votes), cache=store, votes=3, **BASE)
    again = ask(Engine(Replies("never read")), cache=store, votes=3, **BASE)
    assert first.metadata["criteria"]["polite"]["values"] == ["pass", "fail", "fail"]
    assert again.metadata["criteria"] == first.metadata["criteria"]
    assert again.passed is first.passed is False


@pytest.mark.parametrize("info", [{"deterministic": False}, {"fingerprint": None}], ids=str)
def test_an_engine_that_may_say_something_else_is_asked_every_time(store: LoopStore, info: dict[str, Any]) -> None:
    """So may one that does not say what it computes with: by tomorrow it may be another under the same name."""
    replies = Replies(GOOD)
    for _ in range(2):
        assert judged(store, replies, info)["num_cached"] == 0
    assert len(replies.requests) == 2


def test_what_could_not_be_read_is_not_kept(store: LoopStore) -> None:
    replies = Replies("pass", GOOD, "pass")
    assert judged(store, replies)["num_asked_again"] == 1
    told = judged(store, replies)
    assert (told["num_calls"], told["num_cached"], told["num_asked_again"]) == (1, 1, 1)
    broken = Replies("pass")
    for _ in range(2):
        assert judged(store, broken, text="Other.")["num_calls"] == 2


def test_without_a_store_nothing_is_kept() -> None:
    replies = Replies(GOOD)
    for _ in range(2):
        assert ask(Engine(replies), **BASE).metadata["judge_usage"]["num_calls"] == 1
