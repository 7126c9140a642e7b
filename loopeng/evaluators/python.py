"""Evaluators that are Python functions: by reference (type ``python``), registered as a type, or handed over live.

A function takes the text, or (sample, attempt), or (sample, attempt, context), and returns one of

- ``bool``: passed or not
- a number in [0, 1]: the score, passed from ``threshold`` on
- ``dict`` with keys of EvalResult, at least ``passed`` or ``score``
- ``EvalResult``

Anything else, None included, is an error of the evaluator. What the function says to the model is redacted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from loopeng.errors import TaskError
from loopeng.evaluators.base import EvaluatorParams, redact
from loopeng.ports import EvaluationContext
from loopeng.references import import_reference, reference_of
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Sample

__all__ = [
    "EvaluatorFunction",
    "FunctionEvaluator",
    "PythonParams",
    "live_evaluator",
    "python_evaluator",
    "python_params",
]

EvaluatorFunction = Callable[..., Any]
_DICT_KEYS = frozenset(EvalResult.model_fields) - {"evaluator", "latency_s"}


class PythonParams(EvaluatorParams):
    """A function of the user's own."""

    function: str = Field(min_length=1, description="module:function; the task's folder is on the import path.")
    args: dict[str, Any] = Field({}, description="Further arguments, by name.")
    categories: tuple[str, ...] = Field((), description="Categories the function may give a failure, if any.")
    threshold: float = Field(0.5, ge=0, le=1, description="Least score that passes, where a number is returned.")


class FunctionEvaluator:
    """Wraps a function. ``args`` go in by name; ``categories`` are those its failures may carry besides the default."""

    type_name: ClassVar[str] = "python"

    def __init__(
        self, spec: EvaluatorSpec, function: EvaluatorFunction, params: PythonParams, remedy: str | None = None
    ) -> None:
        self.spec, self.function, self.params = spec, function, params
        self._remedy = spec.remedy or (None if spec.negate else remedy)  # the function's own is for the plain sense
        self._num_inputs = _num_inputs(function, params.args)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def categories(self) -> frozenset[str]:
        return frozenset({"python.unwanted"} if self.spec.negate else {"python.failed", *self.params.categories})

    @property
    def reference(self) -> dict[str, Any] | None:
        """A spec of type ``python`` that makes this evaluator in another process; None for a live function."""
        if not self.params.function:
            return None
        common = self.spec.model_dump(mode="json", include={"id", "weight", "negate"})
        return {**common, "remedy": self._remedy, "type": "python", **self.params.model_dump(mode="json")}

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads_text_alone(self) -> bool:
        """Whether the same text gets the same result again: a function of more may look at steps, time or context."""
        return self._num_inputs == 1

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        """Call the function. Raises whatever it raises, and TypeError or ValueError for an answer of no use."""
        inputs = (attempt.text,) if self._num_inputs == 1 else (sample, attempt, context)[: self._num_inputs]
        fields = _fields(self.function(*inputs, **self.params.args), self.params.threshold)
        if fields.get("error") is not None:
            return EvalResult(evaluator=self.id, **fields)
        if self.spec.negate:
            fields.update(passed=not fields["passed"], score=1.0 - fields["score"], feedback="", category=None)
        if fields["passed"]:
            return EvalResult(evaluator=self.id, **{**fields, "category": None, "remedy": None, "feedback": ""})
        return self._failure(fields, sample, attempt)

    def _failure(self, fields: dict[str, Any], sample: Sample, attempt: Attempt) -> EvalResult:
        default = "python.unwanted" if self.spec.negate else "python.failed"
        own = None if self.spec.negate else fields.get("remedy")
        if own and redact(own, sample, attempt) != own:
            own = None  # a remedy becomes a rule of the prompt: it must not give the answer away
        remedy = self.spec.remedy or own or self._remedy
        feedback = fields.get("feedback") or remedy or f"The answer does not pass the check {self.id!r}."
        result = {
            **fields,
            "category": fields.get("category") or default,
            "remedy": remedy,
            "feedback": redact(feedback, sample, attempt),
            "reason": fields.get("reason") or f"the check {self.id!r} was not passed",
        }
        return EvalResult(evaluator=self.id, **result)


def python_evaluator(spec: EvaluatorSpec, params: PythonParams, base_dir: Path | None) -> FunctionEvaluator:
    """An evaluator of type ``python``. Raises TaskError when there is no such function or it cannot be called so."""
    function = import_reference(params.function, base_dir)
    if not callable(function):
        raise TaskError(f"{params.function!r} is not a function")
    return FunctionEvaluator(spec, function, params)


def live_evaluator(function: EvaluatorFunction, evaluator_id: str) -> FunctionEvaluator:
    """An evaluator from a function handed over in Python; without a reference where it cannot be imported."""
    return FunctionEvaluator(EvaluatorSpec(id=evaluator_id, type="python"), function, python_params(function, {}))


def python_params(
    function: EvaluatorFunction, args: dict[str, Any], categories: tuple[str, ...] = (), threshold: float = 0.5
) -> PythonParams:
    """Parameters of a function at hand. ``function`` is empty where no other process could import it."""
    reference = reference_of(function) or ""
    return PythonParams.model_construct(function=reference, args=args, categories=categories, threshold=threshold)


def _num_inputs(function: EvaluatorFunction, args: Mapping[str, Any]) -> int:
    """1, 2 or 3: text; sample and attempt; sample, attempt and context. Raises TaskError when the call cannot work."""
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function):
        raise TaskError(f"{name!r} is async; evaluators are plain functions", suggestion="write def, not async def")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    count = _num_positional(signature, args)
    try:
        signature.bind(*[None] * count, **args)
    except TypeError as error:
        raise TaskError(f"{name!r} cannot be called so: {error}") from None
    if count not in (1, 2, 3):
        raise TaskError(
            f"{name!r} takes {count} inputs", suggestion="take (text), (sample, attempt) or (sample, attempt, context)"
        )
    return count


def _num_positional(signature: inspect.Signature, args: Mapping[str, Any]) -> int:
    """How many inputs must be given by place; two where any number will do."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters.values()
    by_place = [each for each in parameters if each.kind in kinds and each.name not in args]
    if not by_place and any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return 2
    return sum(each.default is inspect.Parameter.empty for each in by_place) or min(len(by_place), 1)


def _fields(value: Any, threshold: float) -> dict[str, Any]:
    """What the function returned, as fields of an EvalResult without its evaluator."""
    if type(value).__module__.partition(".")[0] in ("numpy", "torch") and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, EvalResult):
        value = {key: each for key, each in value.model_dump().items() if key in _DICT_KEYS}
    if isinstance(value, bool):
        return {"passed": value, "score": float(value)}
    if isinstance(value, Real):
        return {"score": _checked_score(value), "passed": float(value) >= threshold}
    if not isinstance(value, Mapping):
        raise TypeError(f"an evaluator returns a bool, a number, a dict or an EvalResult, not {type(value).__name__}")
    unknown = sorted(value.keys() - _DICT_KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_DICT_KEYS))}")
    return _completed(dict(value), threshold)


def _completed(fields: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Fill in ``passed`` from ``score`` or the other way round."""
    if fields.get("error") is not None:
        return fields
    passed, score = fields.get("passed"), fields.get("score")
    if passed is None and score is None:
        raise ValueError("the result has neither 'passed' nor 'score'")
    if passed is not None and not isinstance(passed, bool):
        raise TypeError(f"'passed' must be true or false, not {passed!r}")
    number = float(bool(passed)) if score is None else _checked_score(score)
    return {**fields, "score": number, "passed": number >= threshold if passed is None else passed}


def _checked_score(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"a score must be between 0 and 1, not {value!r}")
    return number
