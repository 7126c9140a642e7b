"""Evaluator ``llm_judge``: a model judges the answer by named criteria, in one or several votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from loopeng.evaluators.base import TARGET, Finding, hide, placeholders_in, redact, render_value, visible_texts
from loopeng.evaluators.judge.anchors import load_anchors, report_anchors
from loopeng.evaluators.judge.asking import Asker, Question
from loopeng.evaluators.judge.criteria import Criterion, Ruling, read_ruling, reply_form, reply_schema, sentence
from loopeng.evaluators.judge.material import inputs_text, neutralised, rendered
from loopeng.evaluators.judge.model_judge import ModelJudge, ModelJudgeParams
from loopeng.ports import EvaluationContext
from loopeng.prompts import load_prompt
from loopeng.schema import AnchorReport, Attempt, EvaluatorSpec, Sample

__all__ = ["JudgeParams", "LlmJudge", "llm_judge"]


def _as_list(value: Any) -> Any:
    """One sentence is one criterion."""
    if isinstance(value, str):
        return ({"id": "criteria", "description": value},)
    return tuple(value) if isinstance(value, list) else value


_Criteria = Annotated[
    tuple[Criterion, ...], BeforeValidator(_as_list, json_schema_input_type=str | tuple[Criterion, ...])
]
_VOTING_TEMPERATURE = 0.7
_PREFIX = "judge."


class JudgeParams(ModelJudgeParams):
    """A model that judges by criteria. ``{{ name }}`` stands for a field of the sample or its target."""

    criteria: _Criteria = Field(min_length=1, description="A list, or one criterion as a sentence.")
    reference: str | None = Field(None, description='A correct answer shown to the judge, as in "{{ target }}".')
    votes: int = Field(1, ge=1, description="Odd; the majority decides each criterion.")
    show_reasoning: bool = Field(
        False, description="Tell the model the judge's reasoning, redacted; a judge that saw the target may leak it."
    )
    anchors: str | tuple[dict[str, Any], ...] = Field((), description="Labelled items, or a .jsonl file of them.")
    min_agreement: float = Field(0.8, ge=0, le=1, description="Agreement with anchors below which the report warns.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [each.id for each in self.criteria]
        if twice := [each for each in ids if ids.count(each) > 1]:
            raise ValueError(f"two criteria have the id {twice[0]!r}")
        if "met" in ids:
            raise ValueError("no criterion may have the id 'met': judge.met is what a negated judge says")
        if self.votes % 2 == 0:
            raise ValueError(f"'votes' must be odd, so that there is a majority, not {self.votes}")
        if self.votes > 1 and self.asking_temperature == 0:
            raise ValueError("votes at temperature 0 would all be the same; give a temperature, such as 0.7")
        if self.show_reasoning and not self.reasoning:
            raise ValueError("'show_reasoning' needs reasoning: true")
        return self

    @property
    def asking_temperature(self) -> float:
        """Votes must differ, so several are warm where nothing is said."""
        said = self.temperature is not None or (self.engine is not None and self.engine.temperature is not None)
        return super().asking_temperature if said or self.votes == 1 else _VOTING_TEMPERATURE


@dataclass(frozen=True)
class _Tally:
    """All votes on one criterion."""

    criterion: Criterion
    values: tuple[str | int, ...]

    @property
    def num_passes(self) -> int:
        return sum(map(self.criterion.passes, self.values))

    @property
    def passed(self) -> bool:
        return 2 * self.num_passes > len(self.values)

    @property
    def agreement(self) -> float:
        """Share of the votes that are with the majority."""
        return max(self.num_passes, len(self.values) - self.num_passes) / len(self.values)


class LlmJudge(ModelJudge[JudgeParams]):
    """Every criterion is met, by the majority of the votes. Score: the weighted share of the criteria met."""

    type_name: ClassVar[str] = "llm_judge"
    params_model = JudgeParams
    negated_category = f"{_PREFIX}met"

    def __init__(self, spec: EvaluatorSpec, params: JudgeParams, base_dir: Path | None = None) -> None:
        super().__init__(spec, params, base_dir)
        self.criteria = params.criteria
        self.anchors = load_anchors(params.anchors, self.criteria, base_dir)

    @property
    def categories(self) -> frozenset[str]:
        """``judge.<criterion>`` for each."""
        if self.spec.negate:
            return frozenset({self.negated_category})
        return frozenset(f"{_PREFIX}{each.id}" for each in self.criteria)

    @property
    def placeholders(self) -> frozenset[str]:
        texts = [each.description for each in self.criteria] + [self.params.reference or ""]
        return super().placeholders.union(*map(placeholders_in, texts))

    @property
    def num_questions(self) -> int:
        """Asked of one answer."""
        return self.params.votes

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        asker = self.asker(context, context.cache)
        tallies, rulings = self._judge(asker, sample, attempt.text)
        failed = sorted((each for each in tallies if not each.passed), key=lambda each: -each.criterion.weight)
        metadata = asker.metadata() | {
            "criteria": {each.criterion.id: _told(each) for each in tallies},
            "reasoning": [each.reasoning for each in rulings if each.reasoning],
        }
        weights = sum(each.criterion.weight for each in tallies)
        score = min(1.0, sum(each.criterion.weight for each in tallies if each.passed) / weights)
        if not failed:
            return Finding(True, 1.0, "meets every criterion", metadata=metadata)
        reason = f"does not meet: {', '.join(each.criterion.id for each in failed)}"
        feedback = self._feedback(sample, attempt, failed, rulings)
        return Finding(False, score, reason, f"{_PREFIX}{failed[0].criterion.id}", feedback, metadata)

    def judge_anchors(self, context: EvaluationContext) -> AnchorReport | None:
        """Judge the labelled items anew, never from the cache; None where there are none."""
        if not self.anchors:
            return None

        def passed(sample: Sample, answer: str) -> tuple[Mapping[str, bool], Asker]:
            asker = self.asker(context, None)
            tallies, _ = self._judge(asker, sample, answer)
            return {each.criterion.id: each.passed for each in tallies}, asker

        return report_anchors(self.id, self.anchors, self.criteria, self.params.min_agreement, passed)

    def _judge(self, asker: Asker, sample: Sample, answer: str) -> tuple[list[_Tally], list[Ruling]]:
        """Every vote, counted by criterion."""
        question = self._question(sample, answer)
        rulings = [asker.ask(question, vote) for vote in range(self.params.votes)]
        tallies = [_Tally(each, tuple(ruling.values[each.id] for ruling in rulings)) for each in self.criteria]
        return tallies, rulings

    def _question(self, sample: Sample, answer: str) -> Question[Ruling]:
        criteria, params = self.criteria, self.params
        reference = None if params.reference is None else render_value(params.reference, sample)
        if reference is not None and not reference.strip():
            raise ValueError("the reference answer is empty for this sample")
        prompt = load_prompt("judge/criteria").render(
            criteria=[
                {"id": each.id, "description": sentence(rendered(each.description, sample)), "scale": _asked(each)}
                for each in criteria
            ],
            inputs=inputs_text(sample, params.inputs),
            reference=None if reference is None else neutralised(reference),
            answer=neutralised(answer),
            form=reply_form(criteria, reasoning=params.reasoning),
        )
        return Question(
            prompt,
            schema=reply_schema(criteria, reasoning=params.reasoning),
            short_schema=reply_schema(criteria, reasoning=False),
            short_form=reply_form(criteria, reasoning=False),
            read=lambda text: read_ruling(text, criteria),
        )

    def _feedback(self, sample: Sample, attempt: Attempt, failed: list[_Tally], rulings: list[Ruling]) -> str:
        lines = [f"This is not met: {_shown(each.criterion, sample)}" for each in failed]
        if self.params.show_reasoning:
            first = failed[0].criterion
            against = [each.reasoning for each in rulings if not first.passes(each.values[first.id])]
            lines += [self._without_hidden_fields(each, sample, attempt) for each in against[:1]]
        return redact(" ".join(lines), sample, attempt)

    def _without_hidden_fields(self, reasoning: str, sample: Sample, attempt: Attempt) -> str:
        """A judge may be shown fields that the model was not; also no line of them is told."""
        names = sample.inputs if self.params.inputs is True else self.params.inputs or ()
        fields = [sample.inputs[name] for name in names]
        lines = [line for field in fields if isinstance(field, str) for line in field.splitlines() if line.strip()]
        return hide(reasoning, [*fields, *lines], visible_texts(sample, attempt))

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category:
            return None
        return next(each.rule for each in self.criteria if category == f"{_PREFIX}{each.id}")


def _asked(criterion: Criterion) -> str:
    return "pass or fail" if criterion.scale == "pass/fail" else "1 to 5, 5 is best"


def _shown(criterion: Criterion, sample: Sample) -> str:
    """The description for the model; what would quote the target is told by its name."""
    if TARGET in placeholders_in(criterion.description):
        return f"{criterion.id}."
    return sentence(render_value(criterion.description, sample))


def _told(tally: _Tally) -> dict[str, Any]:
    return {"passed": tally.passed, "agreement": tally.agreement, "values": list(tally.values)}


def llm_judge(spec: EvaluatorSpec, params: JudgeParams, base_dir: Path | None) -> LlmJudge:
    """An evaluator of type ``llm_judge``. Raises TaskError for an engine or anchors that cannot be used."""
    return LlmJudge(spec, params, base_dir)
