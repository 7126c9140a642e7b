"""What ``loopeng check`` has to say of its findings: problems, warnings, notes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loopeng.checking import Baselines, CostEstimate, FieldUse, GateForecast, SelfTestResult, TaskCheck
from loopeng.engines.specdec_endpoint import can_serve
from loopeng.prompts import PromptTemplate
from loopeng.report.layout import count, excerpt
from loopeng.schema import Task

__all__ = ["Remark", "check_remarks", "number_in_splits"]

_SPLITS = ("reflect", "gate", "holdout")
_SHOWN_IDS = 3


@dataclass(frozen=True)
class Remark:
    """A problem must be mended, a warning looked at; a note is good to know."""

    kind: Literal["problem", "warning", "note"]
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check_remarks(check: TaskCheck) -> list[Remark]:
    """All of them, in the order of the page."""
    return [
        *_of_fields(check.fields, len(check.task.samples)),
        *_of_improvement(check.task),
        *_of_agent(check.task),
        *_of_self_tests(check.self_tests),
        *_of_baselines(check.baselines, len(check.task.samples), all_tried=not check.left_out),
        *_of_left_out(check.left_out),
        *_of_forecast(check.forecast),
        *_of_cost(check.cost),
        *([Remark("warning", check.database_error)] if check.database_error is not None else []),
    ]


def number_in_splits(task: Task) -> dict[str, int]:
    """How many samples each split has, the one that proposals are made from first."""
    return {split: sum(each.split == split for each in task.samples) for split in _SPLITS}


def _of_fields(use: FieldUse, num_samples: int) -> Iterator[Remark]:
    for name, ids in use.empty.items():
        yield Remark("warning", f"the template's field {name!r} is empty in {_ids(ids)}")
    for name, ids in use.lacking.items():
        yield Remark("note", f"the field {name!r} is missing in {len(ids)} of {num_samples} samples: {_listed(ids)}")
    if use.unused:
        names = ", ".join(map(repr, use.unused))
        who = "; a function may read them" if use.read_by_code else ""
        yield Remark("note", f"neither the template nor a key of an evaluator uses the fields {names}{who}")


def _of_improvement(task: Task) -> Iterator[Remark]:
    """What the improvement loop cannot do with this task, or does unasked."""
    improve, number_in = task.improve, number_in_splits(task)
    if not improve.enabled:
        return
    if not PromptTemplate(task.template).has_rules_slot:
        yield Remark("warning", "the template has no {{ rules }}, so no rule can be proposed")
    reflect = count(number_in["reflect"], "reflect sample")
    if number_in["reflect"] < improve.min_samples:
        hint = "give more samples or a larger reflect share"
        yield Remark("warning", f"{reflect} cannot reach improve.min_samples ({improve.min_samples}); {hint}")
    elif number_in["reflect"] < improve.min_occurrences:  # repeats of a sample are no further occurrences
        seen = f"one run shows a pattern at most {number_in['reflect']} times"
        yield Remark("note", f"{seen}; {improve.min_occurrences} occurrences need several runs")
    if min(number_in["gate"], task.gate.samples) < (least := _least_pairs(task.gate.alpha)):
        tested = count(min(number_in["gate"], task.gate.samples), "gate sample")
        yield Remark("warning", f"{tested} can never be evidence of improvement; give at least {least}")
    if number_in["holdout"] == 0:
        yield Remark("note", "no hold-out samples, so a change is never looked at on unused data")
    yield from _of_autonomy(task)


def _of_agent(task: Task) -> Iterator[Remark]:
    if task.improve.enabled and task.agent.kind != "llm" and not task.agent.replayable:
        hint = "say 'replayable: true' if it has no side effects"
        yield Remark("note", f"the agent is not run again, so no proposal of this task is tested; {hint}")
    if task.agent.command is not None and task.engine.kind == "specdec" and not can_serve():
        hint = "the extra [serve] is not installed"
        yield Remark("note", f"the agent's program will find no endpoint to ask the engine at: {hint}")


def _least_pairs(alpha: float) -> int:
    """So many fixed pairs, and none broken, does the first look need: it is tested at half of ``alpha``.

    >>> _least_pairs(0.05)
    6
    """
    return math.ceil(1 - math.log2(alpha))


def _of_autonomy(task: Task) -> Iterator[Remark]:
    approval = task.approval
    if approval.autonomy == "commit":
        limits = approval.auto_commit
        at_most = f"at most {count(limits.max_operations, 'rule')} a change, {limits.max_per_day} a day"
        what = f"a change that passes the gate is put in use unasked ({at_most})"
        yield Remark("note", f"approval.autonomy is commit: {what}")
    if approval.autonomy == "report":
        yield Remark("note", "approval.autonomy is report: failures are counted, and nothing is proposed unasked")


def _of_self_tests(results: Sequence[SelfTestResult]) -> Iterator[Remark]:
    for each in results:
        if not each.passed:
            what = f"self-test {each.number} of evaluator {each.evaluator!r} expects {each.expected}"
            yield Remark("problem", f"{what} and finds {each.found}: {excerpt(each.reason)}")


def _of_baselines(tried: Baselines, num_samples: int, *, all_tried: bool) -> Iterator[Remark]:
    number = tried.num_samples
    of_all = count(number, "sample") if number == num_samples else f"{number} tried ({num_samples} samples)"
    for each in tried.baselines:
        passes = f"{each.name} passes {len(each.passed)} of the {of_all}"
        if each.passed and each.is_guess:
            yield Remark("note", f"{passes}, without a look at the input: this is what a pass rate has to beat")
        elif each.passed and all_tried:
            among = f"{each.passed[0]} among them"
            yield Remark("warning", f"{passes}, {among}: the evaluators cannot tell it from a real answer")
        elif each.passed:
            yield Remark("note", f"{passes}, as far as it was tried: only the evaluators left out can tell")
    for trial in tried.targets:
        if trial.failed:
            what = (
                f"the target as the answer fails {trial.evaluator!r} on {len(trial.failed)} of {trial.num_tried} tried"
            )
            yield Remark("note", f"{what}, {trial.failed[0]} first: {excerpt(trial.reason)}")
    for evaluator, (ids, error) in tried.errors.items():
        if evaluator in tried.never:
            every = "every sample of a run would be in error"
            yield Remark("problem", f"evaluator {evaluator!r} could judge nothing, so {every}: {excerpt(error, 200)}")
            continue
        yield Remark("warning", f"evaluator {evaluator!r} cannot judge {_ids(ids)}: {excerpt(error, 200)}")


def _of_left_out(reasons: Mapping[str, str]) -> Iterator[Remark]:
    for evaluator, reason in reasons.items():
        yield Remark("note", f"evaluator {evaluator!r} is given no answers here: {reason}")


def _of_forecast(forecast: GateForecast | None) -> Iterator[Remark]:
    if forecast is None or not forecast.is_underpowered:
        return
    best = max(forecast.powers, key=lambda each: each.power)
    at = f"where {best.base_rate:.0%} pass now" if forecast.base_rate_from else "even where none passes now"
    few = f"{count(forecast.num_samples, 'gate sample')} give a power of {best.power:.0%} {at}"
    need = f"about {best.samples_needed:,} give" if best.samples_needed else "thousands would be needed for"
    yield Remark("warning", f"{few}; {need} {forecast.min_power:.0%} (gate.min_power)".replace("%", " %"))


def _of_cost(cost: CostEstimate) -> Iterator[Remark]:
    words = {"least": "needs at least", "expected": "needs about", "most": "may need up to"}
    for each in cost.limits:
        kind: Literal["warning", "note"] = "note" if each.by == "most" else "warning"
        by = " by the last run's averages" if each.by == "expected" else ""
        stops = "may stop" if each.by == "most" else "stops"
        yield Remark(kind, f"{each.key} ({each.limit:,g}) {stops} the run: it {words[each.by]} {each.needed:,.0f}{by}")


def _ids(ids: Sequence[str]) -> str:
    return f"{count(len(ids), 'sample')} ({_listed(ids)})"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_SHOWN_IDS]) + (" ..." if len(ids) > _SHOWN_IDS else "")
