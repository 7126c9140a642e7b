"""Evaluator ``unit_tests``: the answer is Python code, and its functions pass tests. See ``loopeng.sandbox``.

The tests come from the task and run in a process of their own; the answer's code runs in another, inside a sandbox,
and is only ever called with plain values. What the model hears of a failure keeps the tests to ourselves: an example is
named only where the conversation shows it already; of hidden tests it hears how many failed and which exceptions the
code raised, never an input or an expected value.
"""

from __future__ import annotations

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
from loopeng.evaluators.code_feedback import CATEGORIES, REMEDIES, category_of, feedback_of, reason_of
from loopeng.evaluators.code_text import extract_code, looks_like_code, shown_examples
from loopeng.ports import EvaluationContext
from loopeng.sandbox import (
    Limits,
    SandboxJob,
    SandboxReport,
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
        "system calls cannot be filtered the code can use your files and the network.",
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
    """Tests for the answer's code; ``{{ name }}`` stands for a field of the sample or its target."""

    tests: str = Field(
        min_length=1, description="A function check(candidate), or lines with assert; a field may hold a list of lines."
    )
    entry_point: str | None = Field(None, description="The function to test; found in assert lines if not given.")
    setup: str = Field("", description="Code the tests need: imports, or a prompt's helper functions.")
    prompt: str = Field("", description="Code whose last function the answer may continue without repeating it.")
    sandbox: SandboxParams = SandboxParams()


class UnitTests(TypedEvaluator[UnitTestsParams]):
    """The answer's functions pass the tests. Score: the share of tests passed."""

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
        job = SandboxJob(
            code,
            plan,
            prompt=_lines(params.prompt, sample),
            examples=example_steps(shown_examples(shown, function)),
            limits=params.sandbox.limits,
        )
        report = run_tests(job, self._tier(), image=params.sandbox.image)
        return _finding(report, shown)

    def _tier(self) -> Tier:
        sandbox = self.params.sandbox
        return choose_tier(sandbox.tier, allow_unsandboxed=sandbox.allow_unsandboxed, image=sandbox.image)

    def default_remedy(self, category: str) -> str | None:
        return REMEDIES.get(category)


def _finding(report: SandboxReport, shown: list[str]) -> Finding:
    metadata = {"tier": report.tier, "held": list(report.held), "num_tests": len(report.tests)}
    score = report.num_passed / len(report.tests) if report.tests and report.loading is None else 0.0
    if report.passed:
        return Finding(True, 1.0, reason_of(report), metadata=metadata)
    category, feedback = category_of(report), feedback_of(report, shown)
    return Finding(False, min(score, 1.0), reason_of(report), category, feedback, metadata)


def _lines(text: str, sample: Sample) -> str:
    """A parameter rendered; where it is nothing but the name of a field that holds a list, its items as lines."""
    values: dict[str, Any] = {**sample.inputs, TARGET: sample.target}
    inner = text.strip()
    name = inner[2:-2].strip() if inner.startswith("{{") and inner.endswith("}}") else ""
    if isinstance(values.get(name), list | tuple):
        return "\n".join(map(str, values[name]))
    return render_value(text, sample)
