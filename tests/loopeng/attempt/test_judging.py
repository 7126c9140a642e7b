"""What judging an attempt costs and decides: a word said again is free, and who only watches decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import UsageError
from loopeng.evaluators import build_evaluators
from loopeng.live import live_task
from loopeng.ports import EvaluationContext
from loopeng.runner import run_suite
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, JudgeUsage, Sample, Task
from loopeng.schema.task import PassSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import LONG, SHORT, Judge, Script, make_harness, make_samples, make_task
from tests.loopeng.attempt.test_graph import play

ONE_CALL = JudgeUsage(num_calls=1, prompt_tokens=30, generated_tokens=5)


class AskingJudge(Judge):
    """Says what its model cost, by itself or in the part of a composite."""

    def __init__(self, *, in_a_part: bool = False, reads_text_alone: bool = True) -> None:
        super().__init__()
        self.in_a_part, self.reads_text_alone = in_a_part, reads_text_alone

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        asked: dict[str, Any] = {"judge_usage": ONE_CALL.model_dump()}
        metadata = {"parts": [{"evaluator": "tone", "metadata": asked}]} if self.in_a_part else asked
        return super().evaluate(sample, attempt, context).model_copy(update={"metadata": metadata})


@pytest.mark.parametrize("in_a_part", [False, True])
@pytest.mark.parametrize("reads_text_alone", [True, False])
def test_the_bill_is_as_long_as_the_questions_asked(store: LoopStore, in_a_part: bool, reads_text_alone: bool) -> None:
    """ "no" comes twice. Only where the text is not all that counts is the judge asked a second time."""
    judge = AskingJudge(in_a_part=in_a_part, reads_text_alone=reads_text_alone)
    attempts, _ = play(store, Script("no", "no", "ok"), evaluators=[judge])
    assert [each.duplicate_of for each in attempts] == [None, 0, None]
    assert judge.num_calls == (2 if reads_text_alone else 3)
    usage = store.judge_usage(attempts[0].run_id)["judge"]
    assert (usage.num_calls, usage.total_tokens) == (judge.num_calls, 35 * judge.num_calls)


MODES = pytest.mark.parametrize("mode", ["all", "any", "weighted"])


def dislikes(sample: Sample, attempt: Attempt) -> dict[str, Any]:
    return {"passed": False, "score": 0.0, "feedback": "HUSH", "remedy": "Be somebody else."}


def likes(sample: Sample, attempt: Attempt) -> bool:
    return True


def breaks(sample: Sample, attempt: Attempt) -> bool:
    raise RuntimeError("out of order")


def watched(function: Any, mode: str = "all", **changes: Any) -> Task:
    """Answers of up to five words pass, whatever somebody else says who has no weight."""
    reference = f"{__name__}:{function.__name__}"
    watcher = EvaluatorSpec(id="watcher", type="python", weight=0, function=reference)  # type: ignore[call-arg]
    own = EvaluatorSpec(id="short", type="length", max_words=5)  # type: ignore[call-arg]
    values: dict[str, Any] = {"evaluators": (own, watcher), "pass": PassSpec.model_validate({"mode": mode})}
    return make_task(**(values | changes))


@MODES
@pytest.mark.parametrize("watcher", [dislikes, likes, breaks])
@pytest.mark.parametrize(("text", "verdict", "score"), [(SHORT, "pass", 1.0), (LONG, "fail", 0.625)])
def test_who_has_no_weight_only_watches(
    store: LoopStore, mode: str, watcher: Any, text: str, verdict: str, score: float
) -> None:
    task = watched(watcher, mode, max_attempts=1)
    (attempt,), _ = play(store, Script(text), task=task)
    assert (attempt.verdict, attempt.score) == (verdict, score)
    assert [result.evaluator for result in attempt.results] == ["short", "watcher"], "it is reported all the same"


def test_a_watcher_is_not_heard_by_the_model_and_its_failures_are_no_patterns(store: LoopStore) -> None:
    script = Script(LONG, SHORT)
    run_suite(make_harness(store, script, watched(dislikes, samples=make_samples(1, "reflect"))))
    asked = [request.messages[-1].content for request in script.requests]
    assert len(asked) == 2 and "HUSH" not in asked[1] and "words" in asked[1]
    assert [pattern.evaluator for pattern in store.patterns()] == ["short"]


def test_a_watcher_that_broke_is_asked_again_about_the_same_words(store: LoopStore) -> None:
    attempts, _ = play(store, Script(LONG), task=watched(breaks, max_attempts=2))
    assert [each.duplicate_of for each in attempts] == [None, 0]
    assert all("out of order" in (each.results[1].error or "") for each in attempts)


def test_an_application_needs_an_evaluator_that_decides(store: LoopStore) -> None:
    version, _, _ = store.adopt_template("describe", "{{ product }}", by="test")
    built = build_evaluators([{"id": "short", "type": "length", "max_words": 5, "weight": 0}])
    with pytest.raises(UsageError, match="every evaluator weighs 0"):
        live_task(version, built)
