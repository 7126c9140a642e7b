"""Evaluator ``ifeval``: which of a sample's instructions the answer follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, Finding, TypedEvaluator, placeholders_in, redact, render_value
from loopeng.evaluators.ifeval.following import follows, follows_loosely
from loopeng.evaluators.ifeval.instruction import Instruction
from loopeng.evaluators.ifeval.language import require_langdetect
from loopeng.evaluators.ifeval.registry import INSTRUCTIONS, find_instruction
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvaluatorSpec, Sample

__all__ = ["Ifeval", "IfevalParams", "InstructionParams"]

_IDS, _KWARGS = "instruction_id_list", "kwargs"


class InstructionParams(EvaluatorParams):
    """One instruction with its arguments."""

    id: str = Field(description="Such as length_constraints:number_words.")
    kwargs: dict[str, Any] = Field({}, description="As in IFEval; texts may hold {{ name }}.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        instruction = find_instruction(self.id)
        if not self.placeholders:
            instruction.arguments(self.kwargs)
        return self

    @property
    def placeholders(self) -> frozenset[str]:
        """Fields of the sample that the arguments refer to."""
        return frozenset().union(*(placeholders_in(text) for value in self.kwargs.values() for text in _texts(value)))


class IfevalParams(EvaluatorParams):
    """Which instructions, and how strictly they are read."""

    instructions: tuple[InstructionParams, ...] | None = Field(
        None, min_length=1, description="Default: the sample's fields instruction_id_list and kwargs."
    )
    mode: Literal["strict", "loose"] = Field(
        "strict", description="loose: the first or last line and asterisks may be in the way."
    )


@dataclass(frozen=True)
class _Outcome:
    instruction: Instruction
    demand: str
    strict: bool
    loose: bool

    def followed(self, mode: str) -> bool:
        return self.loose if mode == "loose" else self.strict


class Ifeval(TypedEvaluator[IfevalParams]):
    """Passes where all instructions are followed. Score: the share followed. Both modes are kept in the metadata."""

    type_name: ClassVar[str] = "ifeval"
    params_model = IfevalParams
    plain_categories = frozenset(each.category for each in INSTRUCTIONS.values())
    negated_category = "ifeval.followed"
    redacts_feedback = False  # it does so itself: instructions that stand in the target are no secret

    def __init__(self, spec: EvaluatorSpec, params: IfevalParams) -> None:
        super().__init__(spec, params)
        if any(INSTRUCTIONS[each.id].needs_language for each in params.instructions or ()):
            require_langdetect()

    @property
    def categories(self) -> frozenset[str]:
        if self.spec.negate or self.params.instructions is None:
            return super().categories
        return frozenset(INSTRUCTIONS[each.id].category for each in self.params.instructions)

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset().union(*(each.placeholders for each in self.params.instructions or ()))

    @property
    def read_fields(self) -> frozenset[str]:
        """Fields of the sample that are looked for by their name."""
        return frozenset({_IDS, _KWARGS} if self.params.instructions is None else ())

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        outcomes = [_judged(instruction, kwargs, attempt.text) for instruction, kwargs in self._asked(sample)]
        broken = [each for each in outcomes if not each.followed(self.params.mode)]
        metadata = {
            "mode": self.params.mode,
            "instructions": [
                {"id": each.instruction.id, "strict": each.strict, "loose": each.loose} for each in outcomes
            ],
        }
        if not broken:
            return Finding(True, 1.0, f"all instructions followed: {len(outcomes)}", metadata=metadata)
        num_followed = len(outcomes) - len(broken)
        return Finding(
            False,
            num_followed / len(outcomes),
            f"{broken[0].instruction.id} is not followed ({num_followed} of {len(outcomes)} instructions are)",
            broken[0].instruction.category,
            redact(" ".join(each.demand for each in broken), _without_instructions(sample), attempt),
            metadata,
        )

    def _asked(self, sample: Sample) -> list[tuple[Instruction, dict[str, Any]]]:
        if self.params.instructions is None:
            return _instructions_of(sample)
        asked = []
        for each in self.params.instructions:
            instruction = find_instruction(each.id)
            asked.append((instruction, {key: _rendered(value, sample) for key, value in each.kwargs.items()}))
        return asked

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category:
            return "Do not keep to the form that is asked for."
        return next((each.remedy for each in INSTRUCTIONS.values() if each.category == category), None)


def _judged(instruction: Instruction, kwargs: Mapping[str, Any], text: str) -> _Outcome:
    arguments = instruction.arguments(kwargs)
    strict = follows(instruction, text, arguments)
    loose = strict or follows_loosely(instruction, text, arguments)
    return _Outcome(instruction, instruction.stated(arguments), strict, loose)


def _instructions_of(sample: Sample) -> list[tuple[Instruction, dict[str, Any]]]:
    """What the sample itself asks for, in its inputs or its target. Raises ValueError."""
    places = [sample.inputs, sample.target if isinstance(sample.target, Mapping) else {}]
    fields = next((each for each in places if _IDS in each), None)
    if fields is None:
        raise ValueError(
            f"the sample has no field {_IDS!r}: give it {_IDS!r} and {_KWARGS!r}, or the evaluator 'instructions'"
        )
    ids, kwargs = fields[_IDS], fields.get(_KWARGS)
    if not isinstance(ids, list | tuple) or not ids:
        raise ValueError(f"{_IDS!r} must be a list of instruction ids and not empty, not {ids!r}")
    if not isinstance(kwargs, list | tuple) or len(kwargs) != len(ids):
        raise ValueError(f"{_KWARGS!r} must be a list with one mapping for each of the {len(ids)} instructions")
    for each in kwargs:
        if not isinstance(each, Mapping):
            raise ValueError(f"{_KWARGS!r} must hold mappings, not {each!r}")
    return [(find_instruction(str(each)), dict(given)) for each, given in zip(ids, kwargs, strict=True)]


def _without_instructions(sample: Sample) -> Sample:
    """The sample with a target that has only what is secret: instructions are told to the model by the prompt."""
    if not isinstance(sample.target, Mapping):
        return sample
    secret = {key: value for key, value in sample.target.items() if key not in (_IDS, _KWARGS)}
    return sample.model_copy(update={"target": secret})


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)]


def _rendered(value: Any, sample: Sample) -> Any:
    if isinstance(value, list | tuple):
        return [_rendered(each, sample) for each in value]
    return render_value(value, sample) if isinstance(value, str) else value
