"""Self-tests of evaluators: answers whose verdict the task's author wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopeng.checking.trying import Bench, asks_a_model
from loopeng.evaluators.parts import walk_parts
from loopeng.ports import Evaluator
from loopeng.schema import EvalResult, EvaluatorSpec, Sample
from loopeng.schema.task import SelfTest

__all__ = ["SelfTestResult", "run_self_tests"]


@dataclass(frozen=True)
class SelfTestResult:
    """``number`` counts the evaluator's self-tests from 1; ``found`` is pass, a category, or what stood in the way.

    A part of a composite is named as in ``whole/part``.
    """

    evaluator: str
    number: int
    expected: str
    found: str
    reason: str
    passed: bool


def run_self_tests(bench: Bench) -> list[SelfTestResult]:
    """Try every self-test of the evaluators that need no model, and of such parts."""
    specs = {spec.id: spec for spec in bench.task.evaluators}
    return [
        result
        for name, evaluator in walk_parts(bench.evaluators)
        if not asks_a_model(evaluator) and (spec := specs.get(name) or getattr(evaluator, "spec", None)) is not None
        for result in _of_evaluator(bench, name, evaluator, spec)
    ]


def _of_evaluator(bench: Bench, name: str, evaluator: Evaluator, spec: EvaluatorSpec) -> list[SelfTestResult]:
    results = []
    for number, test in enumerate(spec.self_tests, start=1):
        found, reason = _tried(bench, evaluator, test)
        fine = found == test.expect or (test.expect == "fail" and found in evaluator.categories)
        results.append(SelfTestResult(name, number, test.expect, found, reason, fine))
    return results


def _tried(bench: Bench, evaluator: Evaluator, test: SelfTest) -> tuple[str, str]:
    """What was found, and the evaluator's reason."""
    if test.expect not in {"pass", "fail", *evaluator.categories}:
        known = ", ".join(["pass", "fail", *sorted(evaluator.categories)])
        return "unknown", f"expect is one of: {known}"
    sample = _sample(bench.task.samples, test)
    if sample is None:
        return "no sample", f"there is no sample {test.sample!r}"
    (result,) = bench.judge(sample, test.answer, only=evaluator, trajectory=test.trajectory)
    return _word(result), result.error or result.reason


def _sample(samples: Sequence[Sample], test: SelfTest) -> Sample | None:
    """The sample a test is about, with what the test puts in its place."""
    found = samples[0] if test.sample is None else next((each for each in samples if each.id == test.sample), None)
    if found is None:
        return None
    target = found.target if test.target is None else test.target
    return found.model_copy(update={"inputs": {**found.inputs, **test.inputs}, "target": target})


def _word(result: EvalResult) -> str:
    if result.error is not None:
        return "error"
    return "pass" if result.passed else result.category or "fail"
