"""What evaluators that ask a model share: the engine, and what it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from loopeng.engines import LazyEngine, build_engine
from loopeng.engines.engine_keys import problems_of_kind
from loopeng.errors import EngineError, TaskError, UsageError
from loopeng.evaluators.base import CheckError, EvaluatorParams, TypedEvaluator
from loopeng.evaluators.judge.asking import Asker
from loopeng.ports import EvaluationContext, ReplyCache, TextEngine
from loopeng.schema import EvaluatorSpec
from loopeng.schema.task import EngineSpec

__all__ = ["ModelJudge", "ModelJudgeParams"]

_DEFAULT_SETTINGS = EngineSpec(max_tokens=512)


class ModelJudgeParams(EvaluatorParams):
    """What every evaluator that asks a model takes."""

    engine: EngineSpec | None = Field(None, description="The judge's own engine; the task's where unset.")
    temperature: float | None = Field(None, ge=0, description="How warm the judge is.")
    inputs: bool | tuple[str, ...] = Field(True, description="Show the judge the sample's inputs, or those named.")
    reasoning: bool = Field(True, description="The judge says why before it says what.")

    @model_validator(mode="after")
    def _one_temperature(self) -> Self:
        if self.temperature is not None and self.engine is not None and self.engine.temperature is not None:
            raise ValueError("'temperature' and 'engine.temperature' both say how warm the judge is; keep one")
        return self

    @property
    def asking_temperature(self) -> float:
        """The temperature of a question."""
        own = self.engine.temperature if self.engine is not None else None
        return next((each for each in (self.temperature, own) if each is not None), 0.0)


J = TypeVar("J", bound=ModelJudgeParams)


class ModelJudge(TypedEvaluator[J]):
    """Asks its own engine, made at the first question, or the task's. Raises TaskError for one that cannot be."""

    uses_engine: ClassVar[bool] = True  # what must load no model leaves it out

    def __init__(self, spec: EvaluatorSpec, params: J, base_dir: Path | None = None) -> None:
        super().__init__(spec, params)
        self._own = None if params.engine is None else _own_engine(params.engine, base_dir)

    @property
    def placeholders(self) -> frozenset[str]:
        """Inputs named to be shown; subclasses add those of their texts."""
        return frozenset() if isinstance(self.params.inputs, bool) else frozenset(self.params.inputs)

    @property
    def reads_all_inputs(self) -> bool:
        """Whether any field of a sample may be shown."""
        return self.params.inputs is True

    @property
    def is_deterministic(self) -> bool:
        """Whether its own engine says the same again; the task's, where it asks that, is not its to judge. Loads it."""
        return self._own is None or self._own.describe().deterministic

    def asker(self, context: EvaluationContext, cache: ReplyCache | None) -> Asker:
        """For the questions of one judgement. Raises ValueError without an engine, CheckError where it cannot start."""
        engine: TextEngine | None = self._own or context.engine
        if engine is None:
            raise ValueError("there is no engine to ask; give the evaluator one of its own, as in engine: {model: ...}")
        settings = self.params.engine or _DEFAULT_SETTINGS
        try:
            return Asker(engine, settings, self.params.asking_temperature, cache, context.retry_delays_s)
        except (EngineError, UsageError) as error:
            raise CheckError(f"the judge's engine does not start: {error}", "environment") from error


def _own_engine(spec: EngineSpec, base_dir: Path | None) -> TextEngine:
    """A script is read at once, so that its mistakes are found early; a model is loaded at the first question."""
    for problem in problems_of_kind(spec, base_dir or Path()):
        raise TaskError(problem.message, suggestion=problem.suggestion)
    if spec.kind == "scripted":
        return build_engine(spec, base_dir)
    return LazyEngine(lambda: build_engine(spec, base_dir))
