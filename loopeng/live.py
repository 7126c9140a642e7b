"""One input of an application as a run of kind live: the task that stands for it, and what can be refused before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from loopeng.errors import TaskError, UsageError
from loopeng.evaluators.base import TARGET
from loopeng.ports import Evaluator
from loopeng.prompts import PromptTemplate
from loopeng.schema import EvaluatorSpec, Noun, PromptVersion, Sample, Task, content_hash
from loopeng.schema.task import DatasetSpec, PromptSpec
from loopeng.validation import did_you_mean, validated

__all__ = ["arguments", "live_sample", "live_task"]

N = TypeVar("N", bound=Noun)


def arguments(model: type[N], **values: Any) -> N:
    """Arguments of a call as a part of a task. Raises UsageError that names the first wrong one."""
    checked = validated(model, values)
    if isinstance(checked, list):
        raise UsageError(checked[0].message + (f" ({checked[0].suggestion})" if checked[0].suggestion else ""))
    return checked


def live_sample(inputs: object, version: PromptVersion, evaluators: Sequence[Evaluator]) -> Sample:
    """The input as a sample. Raises UsageError where the prompt or an evaluator needs more than it holds."""
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
    return Sample(id=f"input-{content_hash(values)[:12]}", inputs=values, split="reflect")


def live_task(version: PromptVersion, evaluators: Sequence[Evaluator], **sections: Noun) -> Task:
    """One task for all inputs of an application: its only sample is a stand-in, never run.

    Raises UsageError where no evaluator has weight.
    """
    specs = [getattr(each, "reference", None) or {"id": each.id, "type": type(each).__name__} for each in evaluators]
    values: dict[str, Any] = {
        "version": 1,
        "name": f"{version.prompt_name} (live)",
        "prompt": PromptSpec(name=version.prompt_name, template=version.template),
        "dataset": DatasetSpec(samples=({},)),
        "evaluators": tuple(arguments(EvaluatorSpec, **spec) for spec in specs),
        "template": version.template,
        "samples": (Sample(id="stand-in", inputs={}, split="reflect"),),
    }
    task = Task(**values, **sections)
    if len(task.watching) == len(task.evaluators):
        raise UsageError("every evaluator weighs 0, so that all of them only watch: give one a weight")
    return task
