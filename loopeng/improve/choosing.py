"""Which samples of a split are run, and what makes two of them the same."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from loopeng.prompts import find_placeholders
from loopeng.schema import Sample, Split, Task, content_hash

__all__ = ["choose_samples", "order_key", "sample_key", "sample_keys"]


def choose_samples(task: Task, split: Split) -> list[Sample]:
    """At most ``gate.samples`` of a split, the same ones every time, in the task's order.

    Of samples that ask and expect the same only one, as counting it twice is no more evidence. None that stands in the
    reflect split too, under another name, as the change was made from it.
    """
    names = _names_only(task)
    shown = (sample for sample in task.samples if sample.split == "reflect" != split)
    taken = {sample_key(sample, names) for sample in shown}
    candidates = [sample for sample in task.samples if sample.split == split]
    chosen = set[str]()
    for sample in sorted(candidates, key=lambda it: order_key(it.id)):
        if len(chosen) < task.gate.samples and (key := sample_key(sample, names)) not in taken:
            taken.add(key)
            chosen.add(sample.id)
    return [sample for sample in candidates if sample.id in chosen]


def order_key(sample_id: str) -> str:
    """Sorts samples in an order that says nothing of them, the same every time."""
    return hashlib.sha256(sample_id.encode()).hexdigest()


def sample_keys(task: Task, samples: Iterable[Sample]) -> frozenset[str]:
    """What a look at samples of a task is entered under in the alpha ledger."""
    names = _names_only(task)
    return frozenset(sample_key(sample, names) for sample in samples)


def sample_key(sample: Sample, names: Collection[str] = ()) -> str:
    """Hash of what a sample asks and expects: another name for it, or for its file, makes it no new sample.

    ``names`` are the inputs that only name it.
    """
    asked = {name: value for name, value in sample.inputs.items() if name not in names}
    return content_hash({"inputs": asked or sample.inputs, "target": sample.target})


def _names_only(task: Task) -> frozenset[str]:
    """``dataset.id`` and ``dataset.group``, which are inputs like the rest, unless the template shows them.

    What an agent of the user's own reads of its input nobody knows: there they are part of the question.
    """
    if task.agent.kind != "llm":
        return frozenset()
    named = {name for name in (task.dataset.id, task.dataset.group) if name is not None}
    return frozenset(named - find_placeholders(task.template))
