"""From an answer to its verdict: in a run, and where the answers of a run are judged again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopeng.attempt.harness import Harness
from loopeng.evaluators import judge_attempt, run_evaluators
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, Sample, Task
from loopeng.schema.attempts import Verdict

__all__ = ["judged", "verdict_of"]

_COST = "judge_usage"  # where a result's metadata says what asking a model took


def judged(harness: Harness, sample: Sample, draft: Attempt, earlier: tuple[Attempt, ...]) -> Attempt:
    """``draft`` with its verdict; ``earlier`` are the attempts at the sample before it.

    The same text as before is not evaluated again, where the text alone decides. What broke has no answer to judge.
    """
    if draft.error is not None:
        return draft
    twin = next((each for each in earlier if each.text == draft.text and each.verdict != "error"), None)
    duplicate_of = None if twin is None else twin.attempt_index
    if twin is not None and _stands(twin, harness):
        results, verdict, score = tuple(map(_again, twin.results)), twin.verdict, twin.score
    else:
        context = EvaluationContext(engine=harness.engine, earlier_attempts=earlier, cache=harness.store)
        results = run_evaluators(harness.evaluators, sample, draft, context)
        verdict, score = verdict_of(results, harness.task)
    changes = {"results": results, "verdict": verdict, "score": score, "duplicate_of": duplicate_of}
    return draft.model_copy(update=changes)


def verdict_of(results: Sequence[EvalResult], task: Task) -> tuple[Verdict, float | None]:
    """The task's verdict on results, and the score. Evaluators that only watch have no part in it."""
    return judge_attempt([each for each in results if each.evaluator not in task.watching], task)


def _stands(twin: Attempt, harness: Harness) -> bool:
    """Whether what was said of a text holds for the same text again. A watcher that broke may be tried once more."""
    whole = all(each.error is None for each in twin.results)
    return whole and all(getattr(each, "reads_text_alone", True) for each in harness.evaluators)


def _again(result: EvalResult) -> EvalResult:
    """The same word once more, for which no model was asked."""
    return result.model_copy(update={"metadata": _free_of_charge(result.metadata)})


def _free_of_charge(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _free_of_charge(each) for key, each in value.items() if key != _COST}
    return [_free_of_charge(each) for each in value] if isinstance(value, list) else value
