"""Candidates for the guards: one new rule for a task with the targets and inputs that a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopeng.improve.guards.candidate import Candidate
from loopeng.improve.rules import apply_operations
from loopeng.prompts import text_hash
from loopeng.schema import EvaluatorSpec, PromptVersion, RuleOperation, Sample, Task
from loopeng.schema.base import utc_now
from loopeng.schema.task import DatasetSpec, PromptSpec

TEMPLATE = "Answer the question.\n{{ text }}{{ rules }}"


def samples_with(targets: Sequence[Any], inputs: Mapping[str, Any] | None = None, split: str = "gate") -> list[Sample]:
    return [
        Sample(id=f"s-{number}", inputs=dict(inputs or {"text": "?"}), target=target, split=split)  # type: ignore[arg-type]
        for number, target in enumerate(targets)
    ]


def candidate_for(
    *rules: str,
    samples: Sequence[Sample] = (),
    template: str = TEMPLATE,
    params: Mapping[str, Any] | None = None,
    operations: Sequence[RuleOperation] | None = None,
    base_rules: Sequence[str] = (),
) -> Candidate:
    """``operations`` on ``base_rules`` or, without them, ``rules`` added to them."""
    before = apply_operations((), [RuleOperation(op="add", text=text) for text in base_rules])
    if operations is None:
        operations = [RuleOperation(op="add", text=text) for text in rules]
    task = Task(
        version=1,
        name="answers",
        prompt=PromptSpec(name="answer", template=template),
        dataset=DatasetSpec(samples=()),
        evaluators=(EvaluatorSpec(id="right", type="python", **(params or {})),),
        template=template,
        samples=tuple(samples) or tuple(samples_with([None])),
    )
    base = PromptVersion(
        id="ver-1", prompt_name="answer", number=1, template=template, rules=before,
        text_hash=text_hash(template, before), source="task file", created_by="ana", created_at=utc_now(),
    )  # fmt: skip
    return Candidate(task=task, base=base, rules=apply_operations(before, operations), rejected={})
