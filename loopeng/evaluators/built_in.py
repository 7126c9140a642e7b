"""The evaluator types that ship, a line each; ``composite`` alone is the registry's, which builds its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopeng.evaluators.answers import AnswerLine, Exact
from loopeng.evaluators.base import EvaluatorParams, TypedEvaluator
from loopeng.evaluators.budget import Cost, Latency, Tokens
from loopeng.evaluators.choice import Choice
from loopeng.evaluators.code import UnitTests
from loopeng.evaluators.ifeval import Ifeval
from loopeng.evaluators.json_format import JsonFormat
from loopeng.evaluators.json_schema import JsonSchemaParams, json_schema_evaluator
from loopeng.evaluators.judge import JudgeParams, PairwiseParams, llm_judge, pairwise
from loopeng.evaluators.limits import Length, Sentences
from loopeng.evaluators.markup import Xml, Yaml
from loopeng.evaluators.numeric import Numeric
from loopeng.evaluators.python import PythonParams, python_evaluator
from loopeng.evaluators.similarity import SimilarityParams, similarity_evaluator
from loopeng.evaluators.text import Contains, EndsWith, Regex, StartsWith
from loopeng.evaluators.trajectory import ToolCalls
from loopeng.ports import Evaluator
from loopeng.schema import EvaluatorSpec
from loopeng.validation import Problem

__all__ = ["BUILT_IN", "EvaluatorType", "typed"]

_Build = Callable[[EvaluatorSpec, Any, Path | None], "Evaluator | list[Problem]"]


@dataclass(frozen=True)
class EvaluatorType:
    """A name for ``type:``, the parameters it takes, and how an evaluator of it is made."""

    name: str
    params_model: type[EvaluatorParams]
    build: _Build
    function: Callable[..., Any] | None = None  # of a registered function


def typed(kind: type[TypedEvaluator[Any]]) -> EvaluatorType:
    """The type whose evaluators are made of their spec and parameters alone."""
    return EvaluatorType(kind.type_name, kind.params_model, lambda spec, params, _: kind(spec, params))


BUILT_IN = (
    typed(AnswerLine),
    typed(Choice),
    typed(Contains),
    typed(Cost),
    typed(EndsWith),
    typed(Exact),
    typed(Ifeval),
    typed(JsonFormat),
    EvaluatorType("json_schema", JsonSchemaParams, json_schema_evaluator),
    typed(Latency),
    typed(Length),
    EvaluatorType("llm_judge", JudgeParams, llm_judge),
    typed(Numeric),
    EvaluatorType("pairwise", PairwiseParams, pairwise),
    EvaluatorType("python", PythonParams, python_evaluator),
    typed(Regex),
    typed(Sentences),
    EvaluatorType("similarity", SimilarityParams, similarity_evaluator),
    typed(StartsWith),
    typed(Tokens),
    typed(ToolCalls),
    replace(typed(ToolCalls), name="trajectory"),  # the name other tools have for it
    typed(UnitTests),
    typed(Xml),
    typed(Yaml),
)
