"""What judging an attempt costs and decides: words that are said again are free, and who only watches decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, JudgeUsage, Sample
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import Judge, Script, make_task
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
def test_the_bill_is_as_long_as_the_questions_asked(
    store: LoopStore, in_a_part: bool, reads_text_alone: bool
) -> None:
    """"no" comes twice. Only where the text is not all that counts is the judge asked a second time."""
    judge = AskingJudge(in_a_part=in_a_part, reads_text_alone=reads_text_alone)
    attempts, _ = play(store, Script("no", "no", "ok"), evaluators=[judge])
    assert [each.duplicate_of for each in attempts] == [None, 0, None]
    assert judge.num_calls == (2 if reads_text_alone else 3)
    usage = store.judge_usage(attempts[0].run_id)["judge"]
    assert (usage.num_calls, usage.total_tokens) == (judge.num_calls, 35 * judge.num_calls)
