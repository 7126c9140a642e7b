"""An application's calls as work of the loop: its inputs as samples, the task that stands for them.

The task is called ``live:<prompt>``. In the rows of its runs a stand-in takes the samples' place, since they come one
by one; ``recorded_task`` puts in those that were recorded, so that proposals and gates are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from loopeng.dataset import assign_split
from loopeng.errors import NotFoundError, TaskError, UsageError
from loopeng.evaluators import spec_problems
from loopeng.evaluators.base import TARGET
from loopeng.live.redaction import Redactor
from loopeng.ports import EngineInfo, Evaluator
from loopeng.prompts import PromptTemplate
from loopeng.schema import EvaluatorSpec, Noun, PromptVersion, Sample, Task, content_hash
from loopeng.schema.live import live_name, live_prompt
from loopeng.schema.task import DatasetSpec, EngineSpec, PromptSpec
from loopeng.store import LoopStore
from loopeng.validation import did_you_mean, validated

__all__ = [
    "arguments",
    "engine_section",
    "evaluator_section",
    "live_sample",
    "live_task",
    "readable_inputs",
    "recorded_task",
    "refuse_live_objects",
    "with_samples",
]

N = TypeVar("N", bound=Noun)

_DATASET = DatasetSpec(samples=({},))  # its shares are those of any dataset that names none
_STAND_IN = Sample(id="stand-in", inputs={}, split="reflect")
_NUM_SAMPLES = 1000  # of a task that proposals are made from: the ones sent last, whether or not they failed


def arguments(model: type[N], /, **values: Any) -> N:
    """Arguments of a call as a part of a task. Raises UsageError that names the first wrong one."""
    checked = validated(model, values)
    if isinstance(checked, list):
        raise UsageError(checked[0].message + (f" ({checked[0].suggestion})" if checked[0].suggestion else ""))
    return checked


def readable_inputs(inputs: object, version: PromptVersion, evaluators: Sequence[Evaluator]) -> dict[str, Any]:
    """The input of a call. Raises UsageError where the prompt or an evaluator needs more than it holds."""
    if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
        raise UsageError(f"inputs are a mapping from names (text) to values, not {inputs!r}")
    values = dict(inputs)
    try:
        PromptTemplate(version.template).render(values, version.rules)
    except TaskError as error:
        raise UsageError(f"prompt {version.prompt_name!r}: {error}") from None
    for each in evaluators:
        for name in sorted(getattr(each, "placeholders", frozenset()) - (values.keys() - {TARGET})):
            hint = did_you_mean(name, values) or f"there is: {', '.join(map(str, values)) or 'nothing'}"
            raise UsageError(f"evaluator {each.id!r} uses {{{{ {name} }}}}, which the input lacks ({hint})")
    return values


def live_sample(inputs: Mapping[str, Any], redactor: Redactor) -> Sample:
    """An input as the sample that is stored: redacted, known by its hash, in a split as in any dataset.

    >>> sample = live_sample({"product": "mug"}, Redactor())
    >>> sample.id, sample.split
    ('aaeac1f8b9a85fc4', 'gate')
    """
    stored = redactor.inputs(inputs)
    sample_id = content_hash(stored)[:16]
    return Sample(id=sample_id, inputs=stored, split=assign_split(sample_id, _DATASET.splits))


def live_task(
    version: PromptVersion, evaluators: Sequence[Evaluator], redactor: Redactor | None = None, **sections: Any
) -> Task:
    """One task for all inputs of an application; ``sections`` are those of a task file.

    Raises UsageError where no evaluator has weight.
    """
    specs = [evaluator_section(each, redactor or Redactor()) for each in evaluators]
    values: dict[str, Any] = {
        "version": 1,
        "name": live_name(version.prompt_name),
        "prompt": PromptSpec(name=version.prompt_name, template=version.template),
        "dataset": _DATASET,
        "evaluators": tuple(arguments(EvaluatorSpec, **spec) for spec in specs),
        "template": version.template,
        "samples": (_STAND_IN,),
    }
    task = Task(**values, **sections)
    if len(task.watching) == len(task.evaluators):
        raise UsageError("every evaluator weighs 0, so that all of them only watch: give one a weight")
    return task


def recorded_task(store: LoopStore, prompt_name: str) -> Task:
    """The traffic of a prompt as a task under its head: the inputs sent last, judged as the newest calls are.

    Raises NotFoundError where nothing was recorded.
    """
    head = store.head(prompt_name)
    runs = store.runs(task_name=live_name(prompt_name), kind="live", limit=1)
    if not runs:
        raise NotFoundError(
            f"no calls of prompt {prompt_name!r} were recorded yet: loop.attempt and loop.observe record them"
        )
    task = with_samples(store, store.task(runs[0].task_hash))
    prompt = PromptSpec(name=prompt_name, template=head.template)
    return task.model_copy(update={"template": head.template, "prompt": prompt})


def with_samples(store: LoopStore, task: Task) -> Task:
    """A task of traffic with the inputs sent last, as far as they are kept; any other as it is."""
    prompt_name = live_prompt(task.name)
    kept = store.live_samples(prompt_name, limit=_NUM_SAMPLES) if prompt_name is not None else []
    return task.model_copy(update={"samples": tuple(kept)}) if kept else task


def refuse_live_objects(task: Task) -> None:
    """Raises UsageError where a task of traffic has evaluators that only the application's own process can make."""
    live = [spec.id for spec in task.evaluators if spec_problems(spec, task.folder)]
    if live:
        raise UsageError(
            f"the evaluators {', '.join(live)} of {task.name} are live objects of the application: call "
            f"loop.propose({task.name!r}) there after its first calls, or give it evaluators by specification"
        )


def engine_section(info: EngineInfo, asked: EngineSpec) -> EngineSpec:
    """The ``engine:`` that makes an application's engine in another process, as far as it says how; as it was asked."""
    try:
        made = EngineSpec.model_validate_json(info.reference or "null")
    except ValidationError:
        return asked
    return made.model_copy(update={name: getattr(asked, name) for name in asked.model_fields_set})


def evaluator_section(evaluator: Evaluator, redactor: Redactor) -> dict[str, Any]:
    """The entry under ``evaluators:`` that makes it in another process, where it says how."""
    reference = getattr(evaluator, "reference", None) or {"id": evaluator.id, "type": type(evaluator).__name__}
    return {key: value if key in ("id", "type") else redactor.value(value) for key, value in reference.items()}
