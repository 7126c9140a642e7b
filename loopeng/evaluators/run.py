"""Runs evaluators on an attempt: what breaks becomes a result in error, never a fail and never a crash."""

from __future__ import annotations

import time
from collections.abc import Sequence

from loopeng.errors import BudgetStop
from loopeng.ports import EvaluationContext, Evaluator
from loopeng.schema import Attempt, EvalResult, Sample

__all__ = ["run_evaluators"]


def run_evaluators(
    evaluators: Sequence[Evaluator], sample: Sample, attempt: Attempt, context: EvaluationContext | None = None
) -> tuple[EvalResult, ...]:
    """One result per evaluator, in order, with its latency. Raises only BudgetStop, which is nobody's fault."""
    context = context or EvaluationContext()
    return tuple(_run(evaluator, sample, attempt, context) for evaluator in evaluators)


def _run(evaluator: Evaluator, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
    started = time.perf_counter()
    try:
        result = _checked(evaluator, evaluator.evaluate(sample, attempt, context))
    except BudgetStop:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  an evaluator may be anybody's code
        message = f"{type(error).__name__}: {error}"
        result = EvalResult(evaluator=evaluator.id, error=message, fault_side="grader")
    return result.model_copy(update={"latency_s": time.perf_counter() - started})


def _checked(evaluator: Evaluator, result: object) -> EvalResult:
    """Hold an evaluator to its contract: its own id, and failures with a category of its closed set."""
    if not isinstance(result, EvalResult):
        raise TypeError(f"evaluate() returns an EvalResult, not {type(result).__name__}")
    if result.error is None and result.passed is None:
        raise ValueError("the result has neither a verdict nor an error")
    if result.passed is False and result.category not in evaluator.categories:
        known = ", ".join(sorted(evaluator.categories))
        raise ValueError(f"category {result.category!r} is not among those of the evaluator: {known}")
    return result if result.evaluator == evaluator.id else result.model_copy(update={"evaluator": evaluator.id})
