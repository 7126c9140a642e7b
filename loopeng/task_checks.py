"""What the schema alone cannot see: keys that contradict each other, unknown names, code that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from loopeng.agents import check_agent
from loopeng.dataset import Row
from loopeng.engines.engine_keys import problems_of_kind
from loopeng.engines.model_names import MODEL_DRAFTER, drafter_names
from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, spec_problems
from loopeng.evaluators.base import TARGET
from loopeng.prompts import RULES, PromptTemplate, placeholder_line
from loopeng.references import import_reference
from loopeng.schema import Task, TaskFile
from loopeng.schema.live import live_prompt
from loopeng.schema.task import EngineSpec
from loopeng.task_source import TaskSource, TemplateText
from loopeng.validation import Loc, Problem, did_you_mean, key_path

__all__ = ["DRAFTER_NAMES", "REFLECTOR_NAMES", "check_placeholders", "problems_of_keys"]

DRAFTER_NAMES = ("auto", "ngram", "none", "suffix")  # those of specdec_core.drafters; a test compares
REFLECTOR_NAMES = ("hints", "llm")
_TARGET_HINT = "the model must not see it; evaluators may"


def problems_of_keys(task: TaskFile, source: TaskSource) -> list[Problem]:
    """Everything wrong with the keys themselves, samples aside."""
    return [
        *_name(task),
        *_dataset(task, source),
        *_agent(task, source),
        *_engine(task.engine, source),
        *_temperatures(task),
        *_loop(task, source),
        *_improve(task, source),
        *_evaluators(task, source),
    ]


def _name(task: TaskFile) -> Iterator[Problem]:
    if live_prompt(task.name) is not None:
        yield Problem(("name",), f"name: {task.name!r} is the name of an application's traffic", "leave out 'live:'")


def _dataset(task: TaskFile, source: TaskSource) -> Iterator[Problem]:
    if task.dataset.split is not None and source.has(("dataset", "splits")):
        message = "dataset.split and dataset.splits both say which split a sample is in"
        yield Problem(("dataset", "splits"), message, "keep one; shares are for data without a split field")


def _agent(task: TaskFile, source: TaskSource) -> Iterator[Problem]:
    agent = task.agent
    try:
        check_agent(agent, source.base_dir)
    except TaskError as error:
        loc = ("agent", agent.kind)
        yield Problem(loc, f"{key_path(loc)}: {error.message}", error.suggestion)


def _reference(loc: Loc, reference: str, source: TaskSource) -> Iterator[Problem]:
    try:
        value = import_reference(reference, source.base_dir)
    except TaskError as error:
        yield Problem(loc, f"{key_path(loc)}: {error.message}", error.suggestion)
    else:
        if not callable(value):
            yield Problem(loc, f"{key_path(loc)}: {reference!r} is not a function")


def _engine(engine: EngineSpec, source: TaskSource) -> Iterator[Problem]:
    names = drafter_names(engine)
    if not names:
        yield Problem(("engine", "drafter"), "engine.drafter must not be an empty list", "none is plain decoding")
    for name in names:
        if name not in DRAFTER_NAMES and not name.startswith(MODEL_DRAFTER):
            hint = did_you_mean(name, DRAFTER_NAMES) or f"there is: {', '.join(DRAFTER_NAMES)}, {MODEL_DRAFTER}NAME"
            yield Problem(("engine", "drafter"), f"engine.drafter: unknown drafter {name!r}", hint)
    yield from problems_of_kind(engine, source.base_dir)
    if engine.kind == "scripted":
        yield from _script(engine.script, source)


def _temperatures(task: TaskFile) -> Iterator[Problem]:
    if task.engine.temperature is not None and task.loop.temperatures is not None:
        message = "engine.temperature and loop.temperatures both say how warm an attempt is"
        yield Problem(("engine", "temperature"), message, "keep one; loop.temperatures says it attempt by attempt")


def _script(script: str | None, source: TaskSource) -> Iterator[Problem]:
    if script is None:
        hint = "a .yaml or .json file of replies, or module:function"
        yield Problem(("engine",), "engine: kind scripted needs the key 'script'", hint)
    elif not script.endswith((".yaml", ".yml", ".json")):
        yield from _reference(("engine", "script"), script, source)
    elif not (source.base_dir / script).is_file():
        yield Problem(("engine", "script"), f"engine.script: there is no file {source.shown(script)}")


def _loop(task: TaskFile, source: TaskSource) -> Iterator[Problem]:
    """A retry must change something: temperatures that the task names would be passed over where they are 0."""
    loop, temperatures = task.loop, task.loop.temperatures
    if task.retry != "resample" or temperatures is None:
        return
    for attempt_index in range(1, loop.max_attempts):
        if temperatures[min(attempt_index, len(temperatures) - 1)] == 0:
            yield Problem(
                ("loop", "temperatures"),
                f"loop.temperatures: a resample{_by_default(task)} at temperature 0 would repeat the same answer "
                f"(attempt {attempt_index + 1})",
                "a retry must change something: temperatures: [0, 0.4, 0.8], or retry: critique",
            )
            return


def _by_default(task: TaskFile) -> str:
    return "" if task.loop.retry else " (the retry where unit_tests alone decide)"


def _improve(task: TaskFile, source: TaskSource) -> Iterator[Problem]:
    reflector, loc = task.improve.reflector, ("improve", "reflector")
    if ":" in reflector:
        yield from _reference(loc, reflector, source)
    elif reflector not in REFLECTOR_NAMES:
        hint = did_you_mean(reflector, REFLECTOR_NAMES) or f"there is: {', '.join(REFLECTOR_NAMES)}, module:function"
        yield Problem(loc, f"improve.reflector: {reflector!r} is not available", hint)
    if reflector == "hints":
        yield from _more_than_hints(task)
    if task.improve.engine is not None:
        for problem in _engine(task.improve.engine, source):
            yield Problem(("improve", *problem.loc), f"improve.{problem.message}", problem.suggestion)


def _more_than_hints(task: TaskFile) -> Iterator[Problem]:
    if task.improve.candidates > 1:
        message = "improve.candidates: the reflector hints makes one change"
        yield Problem(("improve", "candidates"), message, "write reflector: llm, or remove the key")
    if task.improve.engine is not None:
        message = "improve.engine: the reflector hints asks no engine"
        yield Problem(("improve", "engine"), message, "write reflector: llm, or remove the key")


def _evaluators(task: TaskFile, source: TaskSource) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, spec in enumerate(task.evaluators):
        loc: Loc = ("evaluators", index)
        if spec.id in seen:
            yield Problem((*loc, "id"), f"two evaluators have the id {spec.id!r}", "give each its own")
        seen.add(spec.id)
        for problem in spec_problems(spec, source.base_dir):
            message = f"evaluator {spec.id!r}: {problem.message}"
            yield Problem((*loc, *problem.loc), message, problem.suggestion)
    if not sum(spec.weight for spec in task.evaluators):
        message = "every evaluator weighs 0, so that all of them only watch and nothing decides"
        yield Problem(("evaluators",), message, "give one a weight")
    if task.pass_.mode != "weighted" and source.has(("pass", "threshold")):
        hint = "write mode: weighted, or remove the key"
        yield Problem(("pass", "threshold"), f"pass.threshold does not go with mode {task.pass_.mode}", hint)


def check_placeholders(task: Task, written: TemplateText, rows: Sequence[Row], source: TaskSource) -> None:
    """Every name in the template and in the evaluators must be in every sample. Raises TaskError."""
    for name in sorted(PromptTemplate(written.text).placeholders):
        mistake = partial(written.error, line=placeholder_line(written.text, name))
        if name == TARGET:
            raise mistake("the template uses {{ target }}, the expected answer", _TARGET_HINT)
        _in_every_sample(name, "the template", task, rows, mistake)
    for index, each in enumerate(build_evaluators(task.evaluators, source.base_dir)):
        what, mistake = f"evaluator {each.id!r}", partial(_mistake_at, source, ("evaluators", index))
        for name in sorted(getattr(each, "placeholders", frozenset())):
            if name == TARGET and task.dataset.target is None:
                hint = "name the field, as in dataset: {target: answer}"
                raise mistake(f"{what} uses {{{{ target }}}}, but the dataset names no target", hint)
            if name != TARGET:
                _in_every_sample(name, what, task, rows, mistake)


def _mistake_at(source: TaskSource, loc: Loc, message: str, suggestion: str | None = None) -> TaskError:
    return source.error(Problem(loc, message, suggestion))


def _in_every_sample(
    name: str, user: str, task: Task, rows: Sequence[Row], mistake: Callable[[str, str | None], TaskError]
) -> None:
    """A name that no sample has is the user's mistake; one that some samples lack is theirs."""
    lacking = [row for row, sample in zip(rows, task.samples, strict=True) if name not in sample.inputs]
    if not lacking:
        return
    row, inputs = lacking[0], task.samples[0].inputs
    hint = did_you_mean(name, inputs) or f"fields: {', '.join(inputs)}"
    uses = f"{user} uses {{{{ {name} }}}}"
    if len(lacking) < len(rows):
        others = f" ({len(lacking)} of {len(rows)} samples lack it)" if len(lacking) > 1 else ""
        raise row.error(f"the sample has no field {name!r}, but {uses}{others}", hint)
    if name == RULES:
        raise mistake(f"{uses}, which only a template may", None)
    where = f" (see {row.file}:{row.line})" if row.file and row.line else ""
    raise mistake(f"{uses}, but no sample has that field{where}", hint)
