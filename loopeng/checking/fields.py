"""Which fields of the samples are used, by whom, and where they are missing or empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopeng.evaluators.parts import walk_parts
from loopeng.evaluators.python import FunctionEvaluator
from loopeng.ports import Evaluator
from loopeng.prompts import PromptTemplate
from loopeng.schema import Task

__all__ = ["FieldUse", "find_field_use"]


@dataclass(frozen=True)
class FieldUse:
    """By field, in the order of the data. Ids, groups, splits and targets have their use and are not among them."""

    unused: tuple[str, ...]  # in no template and no evaluator's parameters
    lacking: dict[str, tuple[str, ...]]  # samples without the field, where others have it
    empty: dict[str, tuple[str, ...]]  # samples in which a field of the template is empty
    read_by_code: bool  # a function sees whole samples: it may use any field


def find_field_use(task: Task, evaluators: Sequence[Evaluator]) -> FieldUse:
    """Look at every sample. A field that the template or a parameter needs is in all of them: loading sees to it.

    An evaluator says of itself, or its parts do, which fields it looks for besides (``read_fields``), or that it may
    show any of them to a model (``reads_all_inputs``).
    """
    samples = task.samples
    shown = PromptTemplate(task.template).placeholders
    everyone = [each for _, each in walk_parts(evaluators)]
    used = shown.union(*(getattr(each, "placeholders", frozenset()) for each in evaluators))
    used = used.union(*(getattr(each, "read_fields", frozenset()) for each in everyone))
    used |= {name for name in (task.dataset.id, task.dataset.group) if name is not None}
    fields = dict.fromkeys(name for sample in samples for name in sample.inputs)
    lacking = {name: tuple(each.id for each in samples if name not in each.inputs) for name in fields}
    if any(getattr(each, "reads_all_inputs", False) for each in everyone):
        used |= fields.keys()
    empty = {name: tuple(each.id for each in samples if _is_empty(each.inputs.get(name))) for name in sorted(shown)}
    return FieldUse(
        unused=tuple(name for name in fields if name not in used),
        lacking={name: ids for name, ids in lacking.items() if ids},
        empty={name: ids for name, ids in empty.items() if ids},
        read_by_code=task.agent.kind != "llm" or any(isinstance(each, FunctionEvaluator) for each in everyone),
    )


def _is_empty(value: object) -> bool:
    """Nothing would stand in the prompt; 0 and false would."""
    return value is None or (isinstance(value, str) and not value.strip())
