"""Evaluator ``composite``: several evaluators with weights, judged together and reported as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import CheckError, EvaluatorParams, Finding, TypedEvaluator
from loopeng.evaluators.composite import judge_attempt
from loopeng.evaluators.run import run_evaluators
from loopeng.ports import EvaluationContext, Evaluator
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Sample
from loopeng.schema.task import PassSpec

__all__ = ["Composite", "CompositeParams"]

_BELOW = "composite.below_threshold"
_NOT_ENOUGH = "The answer is not good enough."


class CompositeParams(EvaluatorParams):
    """The parts, each with the keys of an evaluator of its own, and when they pass together."""

    evaluators: tuple[EvaluatorSpec, ...] = Field(min_length=1, description="The parts, with their weights.")
    mode: Literal["all", "any", "mean"] = Field("all", description="mean: the weighted mean score decides.")
    threshold: float | None = Field(None, ge=0, le=1, description="mode mean: least weighted mean score.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.threshold is not None) != (self.mode == "mean"):
            raise ValueError(f"mode {self.mode} {'needs' if self.mode == 'mean' else 'does not go with'} 'threshold'")
        ids = [part.id for part in self.evaluators]
        for part_id in ids:
            if ids.count(part_id) > 1:
                raise ValueError(f"two parts have the id {part_id!r}; give each its own")
        if self.mode == "mean" and not sum(part.weight for part in self.evaluators):
            raise ValueError("mode mean, but every part weighs 0")
        return self


class Composite(TypedEvaluator[CompositeParams]):
    """Passes where all parts pass, or any, or their weighted mean score reaches a threshold.

    Score: the weighted mean of the parts' scores. A part that breaks makes the whole an error, of the same side; what
    the other parts said, and what judges among them cost, is kept. A failure has the
    category, reason and remedy of the first failing part, of the model's own failures first; ``@`` and the part's id
    follow the category. Where no part failed by itself it is ``composite.below_threshold``.
    """

    type_name: ClassVar[str] = "composite"
    params_model = CompositeParams
    plain_categories = frozenset({_BELOW})  # and those of the parts
    negated_category = "composite.passed"

    def __init__(self, spec: EvaluatorSpec, params: CompositeParams, parts: Sequence[Evaluator]) -> None:
        super().__init__(spec, params)
        self.parts = tuple(parts)
        threshold = 0.0 if params.threshold is None else params.threshold
        self._condition = PassSpec(mode="weighted" if params.mode == "mean" else params.mode, threshold=threshold)
        self._weights = {part.id: part.weight for part in params.evaluators}

    @property
    def categories(self) -> frozenset[str]:
        if self.spec.negate:
            return super().categories
        return self.plain_categories | {f"{each}@{part.id}" for part in self.parts for each in part.categories}

    @property
    def reference(self) -> dict[str, Any] | None:
        references = [getattr(part, "reference", None) for part in self.parts]
        return (
            None
            if None in references
            else {**self.spec.model_dump(mode="json", exclude={"self_tests"}), "evaluators": references}
        )

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset().union(*(getattr(part, "placeholders", frozenset()) for part in self.parts))

    @property
    def reads_text_alone(self) -> bool:
        return all(getattr(part, "reads_text_alone", False) for part in self.parts)

    @property
    def needs_a_run(self) -> bool:
        return any(getattr(part, "needs_a_run", False) for part in self.parts)

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        results = run_evaluators(self.parts, sample, attempt, context)
        metadata = {"parts": [_kept(each) for each in results]}
        broken = next((each for each in results if each.error is not None), None)
        if broken is not None:
            raise CheckError(f"part {broken.evaluator!r}: {broken.error}", broken.side_of_error, metadata)
        verdict, score = judge_attempt(results, self._condition, self._weights)
        assert score is not None
        if verdict == "pass":
            return Finding(True, score, self._summary(results, score), metadata=metadata)
        return self._failure(results, score, metadata)

    def _failure(self, results: Sequence[EvalResult], score: float, metadata: dict[str, Any]) -> Finding:
        """Parts without weight do not count in a mean."""
        counted = [each for each in results if self._weights[each.evaluator] or not self._mean]
        failed = [each for each in counted if each.passed is False]
        if not failed:
            return Finding(False, score, self._summary(results, score), _BELOW, _NOT_ENOUGH, metadata)
        told = list(dict.fromkeys(each.feedback for each in failed if each.feedback))
        either = "Do at least one of these. " if self.params.mode == "any" and len(told) > 1 else ""
        first = next((each for each in failed if each.fault_side == "model"), failed[0])
        return Finding(
            False,
            score,
            f"{first.evaluator}: {first.reason}",
            f"{first.category}@{first.evaluator}",
            either + " ".join(told) or _NOT_ENOUGH,
            metadata,
            remedy=first.remedy,
            fault_side=first.fault_side,
        )

    @property
    def _mean(self) -> bool:
        return self.params.mode == "mean"

    def _summary(self, results: Sequence[EvalResult], score: float) -> str:
        if self._mean:
            return f"mean score {score:.3g}, at least {self._condition.threshold:g} wanted"
        return f"{sum(bool(each.passed) for each in results)} of {len(results)} parts pass"

    def default_remedy(self, category: str) -> str | None:
        plain, _, part_id = category.rpartition("@")
        part = next((each for each in self.parts if each.id == part_id), None)
        return part.default_remedy(plain) if isinstance(part, TypedEvaluator) else None


def _kept(result: EvalResult) -> dict[str, Any]:
    return result.model_dump(mode="json", exclude_defaults=True, exclude={"latency_s"})
