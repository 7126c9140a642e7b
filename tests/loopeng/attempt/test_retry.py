"""What each policy changes, and that only feedback reaches the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from loopeng.attempt.retry import RETRY_POLICIES, Situation, first_move, next_move
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Message
from loopeng.schema.task import LoopSpec
from tests.loopeng.attempt.making import make_attempt, make_task

EVALS = Path(__file__).parents[3] / "evals"
ASK = (Message(role="user", content="Describe a mug"),)


def failed(index: int = 0, *feedback: str, **changes: object) -> Attempt:
    results = tuple(
        EvalResult(evaluator=f"e{i}", passed=False, score=0, reason="SECRET", feedback=text, category="c")
        for i, text in enumerate(feedback)
    )
    return make_attempt(index, **({"messages": ASK, "text": "old answer", "results": results} | changes))


def situation(*attempts: Attempt, temperature: float = 0.0) -> Situation:
    return Situation("Describe a mug", attempts, temperature)


def test_the_first_attempt_is_one_user_message() -> None:
    move = first_move("Describe a mug", 0.3)
    assert (move.policy, move.messages, move.temperature, move.feedback) == ("first", ASK, 0.3, None)


def test_resample_keeps_the_prompt_and_the_tasks_temperature() -> None:
    move = next_move(RETRY_POLICIES["resample"], situation(failed(0, "be brief"), temperature=0.7))
    assert (move.policy, move.messages, move.temperature) == ("resample", ASK, 0.7)


def test_a_resample_of_a_cold_answer_is_warm_as_it_would_be_the_same_again() -> None:
    move = next_move(RETRY_POLICIES["resample"], situation(failed(0, "be brief"), temperature=0.0))
    assert (move.policy, move.messages, move.temperature) == ("resample", ASK, 0.4)


@pytest.mark.parametrize(
    ("suite", "result"),
    [("humaneval", ""), ("mbpp", ""), ("product-descriptions", "-product-descriptions")],
)
def test_the_default_is_what_solved_most_where_it_was_measured(suite: str, result: str) -> None:
    measured = json.loads((EVALS / "results" / f"retry_policies{result}.json").read_text(encoding="utf-8"))["policies"]
    assert set(measured) == set(RETRY_POLICIES)
    evaluators = yaml.safe_load((EVALS / "suites" / suite / "task.yaml").read_text(encoding="utf-8"))["evaluators"]
    task = make_task(evaluators=tuple(EvaluatorSpec(**each) for each in evaluators), loop=LoopSpec())
    assert task.retry == max(measured, key=lambda policy: measured[policy]["num_solved"])


def test_feedback_goes_on_with_the_conversation() -> None:
    first = failed(0, "Be brief.", "Name the mug.")
    move = next_move(RETRY_POLICIES["feedback"], situation(first))
    assert move.messages[:2] == (*ASK, Message(role="assistant", content="old answer"))
    assert move.messages[2].role == "user"
    assert "- Be brief.\n- Name the mug." in move.messages[2].content
    second = failed(1, "Still too long.", messages=move.messages, text="second answer")
    longer = next_move(RETRY_POLICIES["feedback"], situation(first, second))
    assert [message.role for message in longer.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert longer.messages[:3] == move.messages and longer.messages[3].content == "second answer"


def test_critique_is_a_fresh_prompt_without_the_old_answer() -> None:
    move = next_move(RETRY_POLICIES["critique"], situation(failed(0, "Be brief.")))
    (message,) = move.messages
    assert message.content.startswith("Describe a mug") and "- Be brief." in message.content
    assert "old answer" not in message.content
    assert move.feedback == "Be brief."


def test_escalate_is_critique_then_resample_at_least_at_0_4() -> None:
    policy = RETRY_POLICIES["escalate"]
    assert next_move(policy, situation(failed(0, "x"))).policy == "critique"
    cool = next_move(policy, situation(failed(0, "x"), failed(1, "x"), temperature=0.0))
    assert (cool.policy, cool.temperature, cool.messages) == ("resample", 0.4, ASK)
    assert next_move(policy, situation(failed(0, "x"), failed(1, "x"), temperature=0.8)).temperature == 0.8


@pytest.mark.parametrize("name", sorted(RETRY_POLICIES))
def test_after_a_repeated_answer_every_policy_escalates(name: str) -> None:
    """Greedy feedback repeated the same answer 11 of 11 times: a retry must change something."""
    twice = situation(failed(0, "x"), failed(1, "x", duplicate_of=0), temperature=0.0)
    move = next_move(RETRY_POLICIES[name], twice)
    assert (move.policy, move.temperature) == ("resample", 0.4)
    hot = situation(failed(0, "x"), failed(1, "x", duplicate_of=0, temperature=0.4), temperature=0.4)
    assert next_move(RETRY_POLICIES[name], hot).temperature == 0.8
    hottest = situation(failed(0, "x"), failed(1, "x", duplicate_of=0, temperature=1.3), temperature=1.3)
    assert next_move(RETRY_POLICIES[name], hottest).temperature == 1.3


@pytest.mark.parametrize("name", ["critique", "escalate", "feedback"])
def test_without_feedback_there_is_nothing_to_say_so_it_is_drawn_anew(name: str) -> None:
    move = next_move(RETRY_POLICIES[name], situation(failed(0, "", "  ")))
    assert (move.policy, move.temperature, move.messages, move.feedback) == ("resample", 0.4, ASK, None)


@pytest.mark.parametrize("name", sorted(RETRY_POLICIES))
def test_the_reason_for_people_never_reaches_the_model(name: str) -> None:
    move = next_move(RETRY_POLICIES[name], situation(failed(0, "Be brief.", "Be brief.")))
    told = "".join(message.content for message in move.messages) + (move.feedback or "")
    assert "SECRET" not in told
    assert told.count("Be brief.") <= 2  # once in the prompt, once in feedback for agents
