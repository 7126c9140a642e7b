"""Where a judge's engine breaks: tried again, then an error of the environment that keeps what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopeng.errors import BudgetStop, EngineError, RequestRefusedError
from loopeng.ports import EngineInfo, TextReply, TextRequest
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, JudgeUsage
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import SHORT, make_harness, make_samples, make_task
from tests.loopeng.evaluators.judge.judging import Replies, ask, ruling

DOWN = EngineError("no route to host")
GOOD, BAD = ruling(criteria="pass"), ruling(criteria="fail")


def test_an_engine_that_breaks_for_a_moment_is_asked_again() -> None:
    replies = Replies(DOWN, DOWN, GOOD)
    result = ask(replies, criteria="It is short", delays_s=(0.0, 0.0))
    assert result.passed is True
    assert len(replies.requests) == 3 and len({request.seed for request in replies.requests}) == 1
    assert result.metadata["judge_usage"]["num_calls"] == 1, "what broke gave no reply to count"


def test_one_that_stays_down_is_the_environments_fault_and_the_votes_before_it_are_counted() -> None:
    replies = Replies(GOOD, BAD, DOWN)
    result = ask(replies, criteria="It is short", votes=3, delays_s=(0.0,))
    assert (result.passed, result.score, result.fault_side) == (None, None, "environment")
    assert result.error == "the judge's engine broke: no route to host"
    assert len(replies.requests) == 4
    usage = JudgeUsage.of(result.metadata)
    assert usage is not None and usage.num_calls == 2 and usage.total_tokens > 0


def test_it_is_so_for_the_second_question_and_for_two_answers_too() -> None:
    again = ask(Replies("no idea", DOWN), criteria="It is short")
    assert (again.fault_side, again.metadata["judge_usage"]["num_asked_again"]) == ("environment", 1)
    two = ask(Replies('{"better": "A"}', DOWN), kind="pairwise", against="Bye.", reasoning=False)
    assert (two.fault_side, two.metadata["judge_usage"]["num_calls"]) == ("environment", 1)


def test_a_question_that_is_refused_is_asked_once_and_the_judge_is_to_be_changed() -> None:
    """A prompt too long for the judge's context is too long tomorrow."""
    replies = Replies(RequestRefusedError("5000 tokens do not fit"))
    result = ask(replies, criteria="It is short", delays_s=(0.0, 0.0))
    assert (result.fault_side, len(replies.requests)) == ("grader", 1)
    assert result.error == "the judge's engine refuses the question: 5000 tokens do not fit"


def test_an_engine_that_does_not_start_is_no_mistake_of_the_judge() -> None:
    class NoRoom:
        def describe(self) -> EngineInfo:
            raise EngineError("no memory for the model")

        def generate(self, request: TextRequest) -> TextReply:
            raise AssertionError("never asked")

    result = ask(NoRoom(), criteria="It is short")
    assert (result.error, result.fault_side) == (
        "the judge's engine does not start: no memory for the model",
        "environment",
    )


def test_a_limit_is_nobodys_fault() -> None:
    with pytest.raises(BudgetStop):
        ask(Replies(BudgetStop("enough")), criteria="It is short", delays_s=(0.0,))


def test_in_a_run_it_is_tried_as_often_as_the_models_engine_and_is_no_mistake_of_the_prompt(tmp_path: Path) -> None:
    judge = EvaluatorSpec.model_validate({"id": "tone", "type": "llm_judge", "criteria": "It is kind"})
    task = make_task(make_samples(1, "reflect"), max_attempts=1, evaluators=(judge,))
    replies = Replies(DOWN)

    def reply(request: TextRequest) -> str:
        return replies(request) if "<answer>" in request.messages[-1].content else SHORT

    with LoopStore.open(tmp_path / "loop.db") as store:
        harness = make_harness(store, reply, task)
        summary = run_suite(harness)
        (pattern,) = store.patterns()
    assert summary.total.errors == 1 and summary.exit_code(task) == 4
    assert len(replies.requests) == 1 + len(harness.retry_delays_s)
    assert (pattern.evaluator, pattern.category, pattern.fault_side) == ("tone", "environment.error", "environment")
