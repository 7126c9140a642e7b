"""What ``loopeng check`` says of a task: samples, evaluators, the first prompt, what improvement has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loopeng.prompts import PromptTemplate
from loopeng.report.layout import count
from loopeng.schema import Task

__all__ = ["check_text", "improvement_remarks"]

_SPLITS = ("reflect", "gate", "holdout")


def check_text(task: Task, prompt: str, null_passes: Mapping[str, Sequence[str]], num_tried: int) -> str:
    """The whole page. ``null_passes``: for each do-nothing answer, which of the ``num_tried`` samples it passes."""
    number_in = {split: sum(sample.split == split for sample in task.samples) for split in _SPLITS}
    engine = task.engine
    lines = [
        f"task {task.name}: {task.path or 'made in Python'}",
        f"samples     {len(task.samples)}: " + ", ".join(f"{split} {number}" for split, number in number_in.items()),
        f"engine      {engine.kind} {engine.script if engine.kind == 'scripted' else engine.model}",
        f"attempts    up to {task.loop.max_attempts}, retry {task.loop.retry}",
        f"evaluators  {', '.join(f'{spec.id} ({spec.type})' for spec in task.evaluators)}; pass: {task.pass_.mode}",
        "",
        f"the first sample ({task.samples[0].id}) as the model gets it:",
        *(f"    {line}" for line in prompt.splitlines()),
        "",
        *improvement_remarks(task),
        *_null_remarks(null_passes, num_tried, len(task.samples)),
    ]
    return "\n".join(lines)


def improvement_remarks(task: Task) -> list[str]:
    """What the improvement loop can and cannot do with this task."""
    improve, number_in = task.improve, {split: sum(each.split == split for each in task.samples) for split in _SPLITS}
    if not improve.enabled:
        return ["improvement is off (improve.enabled: false)"]
    remarks = [
        f"improvement: reads failures on {count(number_in['reflect'], 'reflect sample')} (a pattern counts from "
        f"{improve.min_occurrences} occurrences over {count(improve.min_samples, 'sample')}), compares on "
        f"{count(min(number_in['gate'], task.gate.samples), 'gate sample')}, shows {number_in['holdout']} held out"
    ]
    if not PromptTemplate(task.template).has_rules_slot:
        remarks.append("warning: the template has no {{ rules }}, so no rule can be proposed")
    if number_in["reflect"] < improve.min_samples:
        remarks.append(
            f"warning: {count(number_in['reflect'], 'reflect sample')} cannot reach improve.min_samples "
            f"({improve.min_samples}); give more samples or a larger reflect share"
        )
    elif number_in["reflect"] * task.run.repeats < improve.min_occurrences:
        remarks.append(
            f"note: one run shows a pattern at most {number_in['reflect']} times; "
            f"{improve.min_occurrences} occurrences need several runs"
        )
    if min(number_in["gate"], task.gate.samples) < (least := _least_pairs(task.gate.alpha)):
        tested = count(min(number_in["gate"], task.gate.samples), "gate sample")
        remarks.append(f"warning: {tested} can never be evidence of improvement; give at least {least}")
    if number_in["holdout"] == 0:
        remarks.append("note: no hold-out samples, so a change is never looked at on unused data")
    return [*remarks, *_autonomy_remarks(task)]


def _least_pairs(alpha: float) -> int:
    """So many fixed pairs, and none broken, does the first look need: it is tested at half of ``alpha``.

    >>> _least_pairs(0.05)
    6
    """
    return math.ceil(1 - math.log2(alpha))


def _autonomy_remarks(task: Task) -> list[str]:
    approval = task.approval
    if approval.autonomy == "commit":
        limits = approval.auto_commit
        return [
            f"note: approval.autonomy is commit: a change that passes the gate is put in use unasked (at most "
            f"{count(limits.max_operations, 'rule')} a change, {limits.max_per_day} a day)"
        ]
    if approval.autonomy == "report":
        return ["note: approval.autonomy is report: failures are counted, and nothing is proposed unasked"]
    return []


def _null_remarks(null_passes: Mapping[str, Sequence[str]], num_tried: int, num_samples: int) -> list[str]:
    tried = count(num_tried, "sample") if num_tried == num_samples else f"{num_tried} tried ({num_samples} samples)"
    return [
        f"warning: {answer} passes {len(passed)} of the {tried}, {passed[0]} among them: "
        "the evaluators cannot tell it from a real answer"
        for answer, passed in null_passes.items()
        if passed
    ]
