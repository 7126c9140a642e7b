"""Evaluator ``unit_tests``: the answer is Python code, and its functions pass tests. See ``loopeng.sandbox``.

The tests come from the task and run in a process of their own; the answer's code runs in another, inside a sandbox,
and is only ever called with plain values. What the model hears of a failure keeps the tests to ourselves: an example is
named only where the conversation shows it already; of hidden tests it hears how many failed and which built-in
exceptions the code raised, never an input or an expected value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import Field

from loopeng.errors import SandboxError
from loopeng.evaluators.base import (
    TARGET,
    EvaluatorParams,
    Finding,
    TypedEvaluator,
    placeholders_in,
    render_value,
)
from loopeng.evaluators.code_feedback import (
    CATEGORIES,
    REMEDIES,
    category_of,
    feedback_of,
    first_failed,
    is_shown,
    reason_of,
)
from loopeng.evaluators.code_text import extract_code, looks_like_code, shown_examples
from loopeng.ports import EvaluationContext
from loopeng.sandbox import (
    Limits,
    SandboxJob,
    SandboxReport,
    StepReport,
    TestStep,
    Tier,
    TierName,
    choose_tier,
    example_steps,
    plan_tests,
    run_tests,
)
from loopeng.sandbox.tiers import DEFAULT_IMAGE
from loopeng.schema import Attempt, EvalResult, Sample

__all__ = ["SandboxParams", "UnitTests", "UnitTestsParams"]

_plan = lru_cache(maxsize=256)(plan_tests)


class SandboxParams(EvaluatorParams):
    """Where the answer's code runs, and what it may use."""

    tier: TierName = Field("auto", description="auto: the strongest of container, bubblewrap, subprocess that works.")
    allow_unsandboxed: bool = Field(
        False,
        description="Allow 'subprocess': the code runs as you. It guards against accidents, not attackers; where "
        "system calls cannot be filtered the code can use your files and the network, and read the tests.",
    )
    timeout_s: float = Field(5.0, gt=0, le=600, description="For each test.")
    total_s: float | None = Field(None, gt=0, le=3600, description="For all tests; six times timeout_s by default.")
    memory_mb: int = Field(512, ge=64, le=65536)
    image: str = Field(DEFAULT_IMAGE, min_length=1, description="For containers; must be on this machine.")

    @property
    def limits(self) -> Limits:
        """The limits of one run."""
        return Limits(self.timeout_s, self.total_s or 6 * self.timeout_s, self.memory_mb)


class UnitTestsParams(EvaluatorParams):
    """Tests for the answer's code; ``{{ name }}`` stands for a field of the sample or its target.

    The answer may use Python's own library and nothing else, and cannot write files. The tests may use what is
    installed; of an answer they can see only what its functions return.
    """

    tests: str = Field(
        min_length=1, description="A function check(candidate), or lines with assert; a field may hold a list of lines."
    )
    entry_point: str | None = Field(None, description="The function to test; found in assert lines if not given.")
    setup: str = Field("", description="Code the tests need: imports, or a prompt's helper functions.")
    prompt: str = Field("", description="Code whose last function the answer may continue without repeating it.")
    sandbox: SandboxParams = SandboxParams()


class UnitTests(TypedEvaluator[UnitTestsParams]):
    """The answer's functions pass the tests. Score: the share of tests passed.

    An answer that fails runs a second time, on the tests and examples that the conversation shows: the verdict is of
    the first run, the values the model hears of are of the second.
    """

    type_name: ClassVar[str] = "unit_tests"
    params_model = UnitTestsParams
    plain_categories = CATEGORIES
    is_slow: ClassVar[bool] = True  # 'loopeng check' tries it on few samples
    negated_category = "tests.passed"

    @property
    def placeholders(self) -> frozenset[str]:
        params = self.params
        texts = (params.tests, params.entry_point or "", params.setup, params.prompt)
        return frozenset().union(*map(placeholders_in, texts))

    def describe(self) -> str:
        """The tier in use and what it holds. Raises SandboxError where none can be used."""
        tier = self._tier()
        return f"{tier.name}: {tier.holds}"

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        """As every evaluator, but a sandbox that is missing or died is an error of the environment."""
        try:
            return super().evaluate(sample, attempt, context)
        except SandboxError as error:
            return EvalResult(evaluator=self.id, error=f"SandboxError: {error}", fault_side="environment")

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        params = self.params
        entry_point = render_value(params.entry_point, sample).strip() if params.entry_point else None
        tests, setup = _lines(params.tests, sample), _lines(params.setup, sample)
        plan = _plan(tests, setup=setup, entry_point=entry_point)
        function = entry_point or next(iter(plan.names))
        code = extract_code(attempt.text, function)
        if code is attempt.text and not looks_like_code(code):
            return Finding(False, 0.0, "the answer holds no code", "tests.no_code", REMEDIES["tests.no_code"])
        shown = [message.content for message in attempt.messages if message.role != "assistant"]
        job = SandboxJob(code, plan, _lines(params.prompt, sample), params.sandbox.limits)
        report = self._run(job)
        if report.passed:
            return Finding(True, 1.0, reason_of(report), metadata=_metadata(report))
        examples = example_steps(shown_examples(shown, function))
        alone = self._alone(job, (*examples, *(step for step in plan.steps if is_shown(step, shown))), report)
        feedback = feedback_of(report, alone, shown)
        score = 0.0 if report.loading is not None else report.num_passed / len(report.tests)
        metadata = _metadata(report) | {"first_failed": first_failed(report)}
        return Finding(False, score, reason_of(report), category_of(report), feedback, metadata)

    def _run(self, job: SandboxJob) -> SandboxReport:
        return run_tests(job, self._tier(), image=self.params.sandbox.image)

    def _alone(self, job: SandboxJob, steps: tuple[TestStep, ...], report: SandboxReport) -> Sequence[StepReport]:
        """What the conversation shows, run without any hidden test: of this the model may hear every value."""
        if not steps or report.loading is not None:
            return ()
        try:
            return self._run(replace(job, plan=replace(job.plan, steps=steps))).tests
        except (ValueError, SandboxError):  # a test needs what a hidden one made, or nothing runs now: fewer words
            return ()

    def _tier(self) -> Tier:
        sandbox = self.params.sandbox
        return choose_tier(sandbox.tier, allow_unsandboxed=sandbox.allow_unsandboxed, image=sandbox.image)

    def default_remedy(self, category: str) -> str | None:
        return REMEDIES.get(category)


def _metadata(report: SandboxReport) -> dict[str, Any]:
    return {"tier": report.tier, "held": list(report.held), "num_tests": len(report.tests)}


def _lines(text: str, sample: Sample) -> str:
    """A parameter rendered; where it is nothing but the name of a field that holds a list, its items as lines."""
    values: dict[str, Any] = {**sample.inputs, TARGET: sample.target}
    inner = text.strip()
    name = inner[2:-2].strip() if inner.startswith("{{") and inner.endswith("}}") else ""
    if isinstance(values.get(name), list | tuple):
        return "\n".join(map(str, values[name]))
    return render_value(text, sample)
