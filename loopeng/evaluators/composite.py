"""From the results of all evaluators to one verdict on an attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopeng.errors import UsageError
from loopeng.schema import EvalResult, Task
from loopeng.schema.attempts import Verdict
from loopeng.schema.task import PassSpec

__all__ = ["judge_attempt"]

_ROUNDING = 1e-9


def judge_attempt(
    results: Sequence[EvalResult], condition: Task | PassSpec, weights: Mapping[str, float] | None = None
) -> tuple[Verdict, float | None]:
    """The verdict and the weighted mean score.

    ``condition`` is a task, or a task's ``pass``; ``weights`` by evaluator id, the task's own or one where not given.

    Any result in error makes the attempt an error, without a score. ``all`` and ``any`` look at ``passed`` alone;
    ``weighted`` compares the mean with the threshold. With no weight at all the plain mean is the score.
    Raises UsageError when there is nothing to judge by.

    >>> good, bad = EvalResult(evaluator="a", passed=True, score=1), EvalResult(evaluator="b", passed=False, score=0.5)
    >>> judge_attempt([good, bad], PassSpec(mode="weighted", threshold=0.8), {"a": 3, "b": 1})
    ('pass', 0.875)
    """
    if not results:
        raise UsageError("an attempt cannot be judged without an evaluator")
    if any(result.error is not None or result.passed is None for result in results):
        return "error", None
    if isinstance(condition, Task):
        weights = {each.id: each.weight for each in condition.evaluators} | dict(weights or {})
        condition = condition.pass_
    score = _mean(results, weights or {})
    if condition.mode == "all":
        passed = all(result.passed for result in results)
    elif condition.mode == "any":
        passed = any(result.passed for result in results)
    else:
        passed = score >= condition.threshold - _ROUNDING
    return "pass" if passed else "fail", score


def _mean(results: Sequence[EvalResult], weights: Mapping[str, float]) -> float:
    scores = [float(bool(result.passed)) if result.score is None else result.score for result in results]
    factors = [weights.get(result.evaluator, 1.0) for result in results]
    if not sum(factors):
        factors = [1.0] * len(results)
    mean = sum(score * factor for score, factor in zip(scores, factors, strict=True)) / sum(factors)
    return min(max(mean, 0.0), 1.0)
