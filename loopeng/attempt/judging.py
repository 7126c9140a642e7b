"""From an answer to its verdict: in a run, and where the answers of a run are judged again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopeng.attempt.harness import Harness
from loopeng.evaluators import judge_attempt, run_evaluators
from loopeng.ports import EvaluationContext, ReplyCache
from loopeng.schema import Attempt, EvalResult, Sample, Task
from loopeng.schema.attempts import Verdict

__all__ = ["judged", "verdict_of"]

_COST = "judge_usage"  # where a result's metadata says what asking a model took


def judged(
    harness: Harness, sample: Sample, draft: Attempt, earlier: Sequence[Attempt], cache: ReplyCache | None = None
) -> Attempt:
    """``draft`` with its verdict; ``earlier`` are the attempts at the sample before it. ``cache``: else the store.

    Where one of them has the same text, the evaluators that read the text alone are not asked again: their word is
    carried over, and costs nothing. What broke has no answer to judge.
    """
    if draft.error is not None:
        return draft
    twin = next((each for each in earlier if each.text == draft.text and each.verdict != "error"), None)
    known = {} if twin is None else {each.evaluator: _again(each) for each in twin.results if each.error is None}
    asked = [each for each in harness.evaluators if each.id not in known or not _reads_text_alone(each)]
    context = EvaluationContext(harness.engine, tuple(earlier), cache or harness.store, harness.retry_delays_s)
    known |= {each.evaluator: each for each in run_evaluators(asked, sample, draft, context)}
    results = tuple(known[each.id] for each in harness.evaluators)
    verdict, score = verdict_of(results, harness.task)
    duplicate_of = None if twin is None else twin.attempt_index
    changes = {"results": results, "verdict": verdict, "score": score, "duplicate_of": duplicate_of}
    return draft.model_copy(update=changes)


def verdict_of(results: Sequence[EvalResult], task: Task) -> tuple[Verdict, float | None]:
    """The task's verdict on results, and the score. Evaluators that only watch have no part in it."""
    return judge_attempt([each for each in results if each.evaluator not in task.watching], task)


def _reads_text_alone(evaluator: object) -> bool:
    """What an evaluator says of itself. One that says nothing may look at anything, and is asked again."""
    return bool(getattr(evaluator, "reads_text_alone", False))


def _again(result: EvalResult) -> EvalResult:
    """The same word once more, for which no model was asked."""
    return result.model_copy(update={"metadata": _free_of_charge(result.metadata)})


def _free_of_charge(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _free_of_charge(each) for key, each in value.items() if key != _COST}
    return [_free_of_charge(each) for each in value] if isinstance(value, list) else value
