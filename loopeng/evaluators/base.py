"""What all evaluators share: parameters, findings, and how a finding becomes an EvalResult.

A **finding** is what a check saw, in its plain sense. ``negate``, the remedy, redaction and the evaluator's id are
applied here, once: ``negate`` turns ``passed`` and ``score`` round and gives the failure a category of its own.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from loopeng.ports import EvaluationContext
from loopeng.prompts import find_placeholders, render_text
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, FaultSide, Sample

__all__ = [
    "HIDDEN",
    "TARGET",
    "CheckError",
    "EvaluatorParams",
    "Finding",
    "TypedEvaluator",
    "hide",
    "placeholders_in",
    "redact",
    "render_value",
    "visible_texts",
]

HIDDEN = "[hidden]"
TARGET = "target"
_UNWANTED = "The answer holds something that it must not hold."


class EvaluatorParams(BaseModel):
    """Parameters of an evaluator type: frozen, unknown keys refused. Field names are keys of the task file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


P = TypeVar("P", bound=EvaluatorParams)


class CheckError(ValueError):
    """A check could not be made: whose fault that is, and the metadata that the result in error keeps."""

    def __init__(self, message: str, fault_side: FaultSide, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.fault_side, self.metadata = fault_side, dict(metadata or {})


@dataclass(frozen=True)
class Finding:
    """What a check saw. ``category``, ``feedback`` and ``remedy`` belong to a failure of the plain, not negated, sense.

    ``remedy`` stands for the default one of the category; ``fault_side`` is whose fault a failure is.
    """

    passed: bool
    score: float
    reason: str
    category: str | None = None
    feedback: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    remedy: str | None = None
    fault_side: FaultSide = "model"


class TypedEvaluator(ABC, Generic[P]):
    """An evaluator made from a spec and its type's parameters. Subclasses write ``check`` and ``default_remedy``."""

    type_name: ClassVar[str]
    params_model: ClassVar[type[EvaluatorParams]]
    plain_categories: ClassVar[frozenset[str]]
    negated_category: ClassVar[str]
    redacts_feedback: ClassVar[bool] = True
    """False where feedback is safe as it is written: hiding a word or number of its own would give the target away."""

    def __init__(self, spec: EvaluatorSpec, params: P) -> None:
        self.spec, self.params = spec, params

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def categories(self) -> frozenset[str]:
        """The closed set a failure's category is from."""
        return frozenset({self.negated_category}) if self.spec.negate else self.plain_categories

    @property
    def reference(self) -> dict[str, Any] | None:
        """The spec as plain data: ``build_evaluators([reference])`` makes this evaluator in another process."""
        return self.spec.model_dump(mode="json", exclude={"self_tests"})

    @property
    def placeholders(self) -> frozenset[str]:
        """Fields of the sample (or ``target``) that the parameters refer to."""
        return frozenset()

    @property
    def reads_text_alone(self) -> bool:
        """Whether the same text gets the same result again; not where time, tokens, steps or earlier answers count."""
        return True

    @property
    def needs_a_run(self) -> bool:
        """Whether its word on a text that no run made means nothing."""
        return not self.reads_text_alone

    @abstractmethod
    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        """Look at one answer in the plain sense. Raising means that the evaluator broke."""

    @abstractmethod
    def default_remedy(self, category: str) -> str | None:
        """The rule that would prevent a failure of ``category``, without any sample's value."""

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        """Check, then apply ``negate`` and the remedy. A CheckError becomes a result in error, with what it knows."""
        try:
            finding = self.check(sample, attempt, context)
        except CheckError as error:
            return EvalResult(evaluator=self.id, error=str(error), fault_side=error.fault_side, metadata=error.metadata)
        if not 0 <= finding.score <= 1:
            raise ValueError(f"a score must be between 0 and 1, not {finding.score!r}")
        passed, score, category = finding.passed, finding.score, finding.category
        if self.spec.negate:
            passed, score, category = not passed, 1.0 - score, self.negated_category
        common = {"evaluator": self.id, "score": score, "passed": passed, "metadata": dict(finding.metadata)}
        if passed:
            return EvalResult(reason=finding.reason, **common)
        feedback, own_remedy = ("", None) if self.spec.negate else self._redacted(finding, sample, attempt)
        remedy = self.spec.remedy or own_remedy or (self.default_remedy(category) if category else None)
        return EvalResult(
            reason=finding.reason,
            feedback=(remedy or _UNWANTED) if self.spec.negate else feedback,
            category=category,
            remedy=remedy,
            fault_side=finding.fault_side,
            **common,
        )

    def _redacted(self, finding: Finding, sample: Sample, attempt: Attempt) -> tuple[str, str | None]:
        """Its feedback, and its remedy if that is safe: it becomes a rule, which must not give the answer away."""
        if not self.redacts_feedback:
            return finding.feedback, finding.remedy
        is_safe = redact(finding.remedy or "", sample, attempt) == (finding.remedy or "")
        return redact(finding.feedback, sample, attempt), finding.remedy if is_safe else None


def placeholders_in(text: str) -> frozenset[str]:
    """Placeholders of a parameter. Text without ``{{`` is never read as a template. Raises TaskError."""
    return find_placeholders(text) if "{{" in text else frozenset()


def render_value(text: str, sample: Sample, *, escape_regex: bool = False) -> str:
    """A parameter with the sample's inputs and ``target`` filled in. Raises TaskError."""
    if "{{" not in text:
        return text
    values = {**sample.inputs, TARGET: sample.target}
    return render_text(text, values, escape=re.escape if escape_regex else None)


def redact(text: str, sample: Sample, attempt: Attempt) -> str:
    """``text`` without the sample's target, or any part of a nested one, but for what the model can see anyway."""
    return hide(text, sample.target, visible_texts(sample, attempt))


def visible_texts(sample: Sample, attempt: Attempt) -> list[str]:
    """What the model was shown: the conversation, which need not hold every field; where there is none, the inputs."""
    shown = [message.content for message in attempt.messages if message.role != "assistant"]
    return shown or [str(value) for value in sample.inputs.values()]


def hide(text: str, secret: Any, visible: Sequence[str]) -> str:
    """``text`` without ``secret``, or any part of a nested one, but for what stands in ``visible``."""
    for part in sorted(_texts_of(secret), key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)", re.IGNORECASE)
        if not any(pattern.search(each) for each in visible):
            text = pattern.sub(HIDDEN, text)
    return text


def _texts_of(value: Any) -> set[str]:
    """A target as texts: the whole of it, and where it is nested every value in it."""
    inner = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else []
    texts = {"" if value is None else str(value).strip()}.union(*map(_texts_of, inner))
    return texts - {""}
