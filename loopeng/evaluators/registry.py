"""Evaluator types by name, and evaluators made from specs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import create_model
from pydantic.errors import PydanticUserError

from loopeng.errors import TaskError, UsageError
from loopeng.evaluators.base import EvaluatorParams, TypedEvaluator
from loopeng.evaluators.built_in import BUILT_IN, EvaluatorType, typed
from loopeng.evaluators.combining import Composite, CompositeParams
from loopeng.evaluators.plugins import load_plugin, plugin_names, plugin_owners
from loopeng.evaluators.python import FunctionEvaluator, live_evaluator, python_params
from loopeng.ports import Evaluator
from loopeng.schema import EvaluatorSpec, Task
from loopeng.validation import Problem, did_you_mean, validated

__all__ = [
    "EvaluatorSource",
    "EvaluatorType",
    "build_evaluators",
    "evaluator",
    "evaluator_types",
    "hidden_types",
    "spec_problems",
]

F = TypeVar("F", bound=Callable[..., Any])
EvaluatorSource = EvaluatorSpec | Mapping[str, Any] | Evaluator | Callable[..., Any]
"""What an evaluator can be made from: a spec, a mapping with its keys, an evaluator, or a function."""


def _composite(spec: EvaluatorSpec, params: CompositeParams, base_dir: Path | None) -> Evaluator | list[Problem]:
    built = [_build(part, base_dir) for part in params.evaluators]
    problems = [
        Problem(
            ("evaluators", index, *each.loc), f"part {params.evaluators[index].id!r}: {each.message}", each.suggestion
        )
        for index, part in enumerate(built)
        if isinstance(part, list)
        for each in part
    ]
    return problems or Composite(spec, params, [part for part in built if not isinstance(part, list)])


_SHIPPED = sorted([*BUILT_IN, EvaluatorType("composite", CompositeParams, _composite)], key=lambda each: each.name)
_TYPES: dict[str, EvaluatorType] = {each.name: each for each in _SHIPPED}


def evaluator_types() -> dict[str, EvaluatorType]:
    """All types by name: those that ship, then those registered or installed. A broken package's are left out."""
    for name in plugin_names():
        with suppress(TaskError):
            _type_of(name)
    return dict(_TYPES)


def hidden_types() -> dict[str, str]:
    """Types of installed packages that nobody gets, since one that ships has the name; with the package of each."""
    shipped = {each.name for each in _SHIPPED}
    return {name: owner for name, owner in plugin_owners().items() if name in shipped}


def _type_of(name: str) -> EvaluatorType | None:
    """The type of a name; an installed package is asked where nobody else has it. Raises TaskError: it is broken."""
    found = None if name in _TYPES else load_plugin(name)
    if found is not None and name not in _TYPES:  # importing it may have registered it
        thing, owner = found
        try:
            _TYPES[name] = _plugin_type(name, thing)
        except (TypeError, AttributeError, UsageError) as error:
            raise TaskError(f"evaluator type {name!r} of package {owner} is none: {error}") from None
    return _TYPES.get(name)


def _plugin_type(name: str, thing: Any) -> EvaluatorType:
    if isinstance(thing, EvaluatorType):
        return replace(thing, name=name)
    if isinstance(thing, type) and issubclass(thing, TypedEvaluator):
        if missing := sorted(thing.__abstractmethods__):
            raise TypeError(f"{thing.__name__} does not have {', '.join(missing)}")
        return replace(typed(thing), name=name)
    if not callable(thing):
        raise TypeError(f"{thing!r} is neither a TypedEvaluator nor a function")
    evaluator(name)(thing)
    return _TYPES[name]


@overload
def evaluator(function: F, /) -> F: ...
@overload
def evaluator(
    name: str | None = None, /, *, categories: Iterable[str] = (), remedy: str | None = None, threshold: float = 0.5
) -> Callable[[F], F]: ...
def evaluator(
    function_or_name: Any = None,
    /,
    *,
    categories: Iterable[str] = (),
    remedy: str | None = None,
    threshold: float = 0.5,
) -> Any:
    """Register a function as an evaluator type; see ``loopeng.evaluators.python`` for what it takes and returns.

    Keyword-only arguments of the function are the type's keys in the task file.

    >>> @evaluator("mentions", remedy="Say the magic word.")
    ... def mentions(text: str, *, word: str) -> bool:
    ...     return word in text
    >>> build_evaluators([{"id": "magic", "type": "mentions", "word": "please"}])[0].id
    'magic'

    Raises UsageError when the name is taken or the function's keyword arguments cannot become keys.
    """
    if callable(function_or_name):
        return evaluator()(function_or_name)

    def register(function: F) -> F:
        name = function_or_name or function.__name__
        _refuse_taken(name, function)
        model = _keyword_params(name, function)
        closed = tuple(categories)

        def build(spec: EvaluatorSpec, params: EvaluatorParams, _: Path | None) -> Evaluator:
            full = python_params(function, params.model_dump(), categories=closed, threshold=threshold)
            return FunctionEvaluator(spec, function, full, remedy)

        _TYPES[name] = EvaluatorType(name, model, build, function)
        return function

    return register


def _refuse_taken(name: str, function: Callable[..., Any]) -> None:
    """A reloaded module may register its functions again; nobody else may take a name that is in use."""
    known = _TYPES.get(name)
    if known is None:
        return
    same = known.function is not None and (known.function.__module__, known.function.__qualname__) == (
        function.__module__,
        function.__qualname__,
    )
    if not same:
        raise UsageError(f"there is an evaluator type {name!r} already; register yours under another name")


def _keyword_params(name: str, function: Callable[..., Any]) -> type[EvaluatorParams]:
    fields: dict[str, Any] = {}
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            annotation = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[parameter.name] = (annotation, default)
    taken = sorted(fields.keys() & EvaluatorSpec.model_fields.keys())
    if taken:
        raise UsageError(f"evaluator type {name!r}: the argument {taken[0]!r} has a key of its own; rename it")
    try:
        return create_model(f"{name}_params", __base__=EvaluatorParams, __doc__=inspect.getdoc(function), **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        raise UsageError(f"evaluator type {name!r}: its keyword arguments cannot be keys: {error}") from None


def spec_problems(spec: EvaluatorSpec, base_dir: Path | None = None) -> list[Problem]:
    """What is wrong with a spec; locations are keys inside it."""
    built = _build(spec, base_dir)
    return built if isinstance(built, list) else []


def build_evaluators(sources: Task | Iterable[EvaluatorSource], base_dir: Path | None = None) -> tuple[Evaluator, ...]:
    """A task's evaluators; or evaluators from specs, mappings, functions or evaluators, in order.

    ``base_dir`` is where modules are looked for first; a task's own folder if there is one.
    Raises TaskError for an unknown type, wrong parameters, a function that cannot be imported, or an id given twice;
    UsageError for what no evaluator can be made from.
    """
    if isinstance(sources, Task):
        base_dir = base_dir or (sources.path.parent if sources.path else None)
        sources = sources.evaluators
    if isinstance(sources, str | Mapping | EvaluatorSpec) or not isinstance(sources, Iterable):
        raise UsageError(f"evaluators are given as a list, not as one {type(sources).__name__}")
    built = tuple(_from_source(source, base_dir) for source in sources)
    ids = [each.id for each in built]
    for evaluator_id in ids:
        if ids.count(evaluator_id) > 1:
            raise TaskError(f"two evaluators have the id {evaluator_id!r}", suggestion="give each its own")
    return built


def _from_source(source: EvaluatorSource, base_dir: Path | None) -> Evaluator:
    if isinstance(source, Mapping):
        checked = validated(EvaluatorSpec, dict(source))
        if isinstance(checked, list):
            raise TaskError(f"evaluator: {checked[0].message}", suggestion=checked[0].suggestion)
        source = checked
    if isinstance(source, EvaluatorSpec):
        built = _build(source, base_dir)
        if isinstance(built, list):
            raise TaskError(f"evaluator {source.id!r}: {built[0].message}", suggestion=built[0].suggestion)
        return built
    if isinstance(source, Evaluator):
        return source
    if not callable(source):
        raise UsageError(f"{source!r} is no evaluator; give {{'id': ..., 'type': ...}}, a function or an Evaluator")
    return live_evaluator(source, _id_from(source))


def _id_from(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else name.strip("_") or "function"


def _build(spec: EvaluatorSpec, base_dir: Path | None) -> Evaluator | list[Problem]:
    try:
        kind = _type_of(spec.type)
    except TaskError as error:
        return [Problem(("type",), error.message, error.suggestion)]
    if kind is None:
        known = list(dict.fromkeys([*_TYPES, *plugin_names()]))
        hint = did_you_mean(spec.type, known) or f"there is: {', '.join(known)}"
        return [Problem(("type",), f"unknown evaluator type {spec.type!r}", hint)]
    params = validated(kind.params_model, spec.params)
    if isinstance(params, list):
        return params
    try:
        built = kind.build(spec, params, base_dir)
        getattr(built, "placeholders", None)  # reads parameters that are templates
    except TaskError as error:
        loc = ("function",) if spec.type == "python" else ()
        return [Problem(loc, _with_place(error), error.suggestion)]
    return built


def _with_place(error: TaskError) -> str:
    """What is wrong, in which of the evaluator's own files."""
    line = "" if error.line is None else f":{error.line}"
    return error.message if error.file is None else f"{error.file}{line}: {error.message}"
