"""Evaluator ``pairwise``: is the answer better than another? Asked in both orders; where they differ it is a tie."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from loopeng.evaluators.base import TARGET, Finding, placeholders_in, redact, render_value
from loopeng.evaluators.judge.asking import Question
from loopeng.evaluators.judge.criteria import sentence
from loopeng.evaluators.judge.material import inputs_text, neutralised, rendered
from loopeng.evaluators.judge.model_judge import ModelJudge, ModelJudgeParams
from loopeng.evaluators.judge.replies import MalformedReplyError, object_schema, read_object
from loopeng.ports import EvaluationContext
from loopeng.prompts import load_prompt
from loopeng.schema import Attempt, EvaluatorSpec, JudgeUsage, Sample

__all__ = ["Pairwise", "PairwiseParams", "pairwise"]

_CHOICES = ("A", "B", "tie")
_SCORES = {"won": 1.0, "tie": 0.5, "lost": 0.0}
_FORM = '"better": "<A, B or tie>"}'


class PairwiseParams(ModelJudgeParams):
    """A comparison with another answer. ``{{ name }}`` stands for a field of the sample or its target."""

    against: str = Field("{{ target }}", min_length=1, description="The other answer.")
    against_earlier: bool = Field(
        False, description="Compare with the attempt before, where there is one; with 'against' elsewhere."
    )
    criteria: str = Field("It is more correct, more complete and clearer.", min_length=1)
    tie_passes: bool = Field(True, description="An answer as good as the other one passes.")


class Pairwise(ModelJudge[PairwiseParams]):
    """The answer is at least as good as another one. Score: 1 for better, 0.5 for a tie, 0 for worse."""

    type_name: ClassVar[str] = "pairwise"
    params_model = PairwiseParams
    negated_category = "pairwise.not_lost"
    num_questions: ClassVar[int] = 2  # asked of one answer: both orders

    @property
    def categories(self) -> frozenset[str]:
        """``pairwise.lost``, and ``pairwise.tie`` where a tie does not pass."""
        if self.spec.negate:
            return frozenset({self.negated_category})
        return frozenset({"pairwise.lost"} if self.params.tie_passes else {"pairwise.lost", "pairwise.tie"})

    @property
    def placeholders(self) -> frozenset[str]:
        return super().placeholders.union(*map(placeholders_in, (self.params.against, self.params.criteria)))

    @property
    def reads_text_alone(self) -> bool:
        return not self.params.against_earlier

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        other = self._other(sample, context)
        if other.strip() == attempt.text.strip():
            return self._finding(
                "tie", sample, attempt, {"judge_usage": JudgeUsage().model_dump(), "orders": "the same text"}
            )
        asker = self.asker(context, context.cache)
        first, why = asker.ask(self._question(sample, attempt.text, other))
        second, why_second = asker.ask(self._question(sample, other, attempt.text))
        outcome = {("A", "B"): "won", ("B", "A"): "lost"}.get((first, second), "tie")
        told = {"orders": {"answer first": first, "answer second": second}, "reasoning": [why, why_second]}
        return self._finding(outcome, sample, attempt, asker.metadata() | told)

    def _other(self, sample: Sample, context: EvaluationContext) -> str:
        earlier = [each.text for each in context.earlier_attempts if each.error is None]
        text = earlier[-1] if self.params.against_earlier and earlier else render_value(self.params.against, sample)
        if not text.strip():
            raise ValueError("the answer to compare with is empty for this sample")
        return text

    def _question(self, sample: Sample, answer_a: str, answer_b: str) -> Question[tuple[str, str]]:
        params = self.params
        reasons = '{"reasoning": "<why, in one or two sentences>", '
        prompt = load_prompt("judge/compare").render(
            criteria=sentence(rendered(params.criteria, sample)),
            inputs=inputs_text(sample, params.inputs),
            answer_a=neutralised(answer_a),
            answer_b=neutralised(answer_b),
            form=(reasons if params.reasoning else "{") + _FORM,
        )
        choice = {"better": {"enum": list(_CHOICES)}}
        return Question(
            prompt,
            schema=object_schema(choice, reasoning=params.reasoning),
            short_schema=object_schema(choice),
            short_form="{" + _FORM,
            read=_read_choice,
        )

    def _finding(self, outcome: str, sample: Sample, attempt: Attempt, metadata: dict[str, Any]) -> Finding:
        metadata = metadata | {"outcome": outcome}
        passed = outcome == "won" or (outcome == "tie" and self.params.tie_passes)
        reason = {"won": "is better than", "tie": "is as good as", "lost": "is worse than"}[
            outcome
        ] + " the other answer"
        if passed:
            return Finding(True, _SCORES[outcome], reason, metadata=metadata)
        shown = self.params.criteria
        wanted = "" if TARGET in placeholders_in(shown) else f" {sentence(render_value(shown, sample))}"
        feedback = redact(f"Another answer is {'as good' if outcome == 'tie' else 'better'}.{wanted}", sample, attempt)
        return Finding(False, _SCORES[outcome], reason, f"pairwise.{outcome}", feedback, metadata)

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category or placeholders_in(self.params.criteria):
            return None
        return f"Make each answer better in this sense: {sentence(self.params.criteria)}"


def _read_choice(text: str) -> tuple[str, str]:
    value, reasoning = read_object(text)
    if value.keys() != {"better"}:
        raise MalformedReplyError('it has other keys than "reasoning" and "better"')
    choice = value["better"]
    if choice not in _CHOICES:
        raise MalformedReplyError(f'"better" is none of {", ".join(_CHOICES)}')
    return choice, reasoning


def pairwise(spec: EvaluatorSpec, params: PairwiseParams, base_dir: Path | None) -> Pairwise:
    """An evaluator of type ``pairwise``. Raises TaskError for an engine that cannot be used."""
    return Pairwise(spec, params, base_dir)
