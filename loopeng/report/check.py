"""The page of ``loopeng check``: the task, its first prompt, what was tried, what a gate and a run will take."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from loopeng.checking import Baselines, CostEstimate, GateForecast, LastRun, Spending, TaskCheck
from loopeng.improve.rules import CHARS_PER_TOKEN
from loopeng.report.check_remarks import Remark, number_in_splits
from loopeng.report.layout import columns, count
from loopeng.schema import Task
from loopeng.schema.task import AgentSpec, EngineSpec

__all__ = ["check_document", "check_text"]


def check_text(check: TaskCheck, remarks: Sequence[Remark]) -> str:
    """The whole page."""
    parts = [
        _task_text(check.task),
        _prompt_text(check),
        _improvement_text(check.task),
        _self_tests_text(check),
        _baselines_text(check.baselines, len(check.task.samples)),
        _forecast_text(check.forecast),
        _cost_text(check.cost, check.last_run),
        "\n".join(map(str, remarks)),
    ]
    return "\n\n".join(part for part in parts if part)


def check_document(check: TaskCheck, remarks: Sequence[Remark]) -> dict[str, Any]:
    """The same as plain values."""
    tried = check.baselines
    return {
        "task": check.task.name,
        "agent": check.task.agent.model_dump(mode="json", exclude_defaults=True) | {"kind": check.task.agent.kind},
        "samples": number_in_splits(check.task),
        "first_prompt": check.first_prompt,
        "fields": vars(check.fields),
        "self_tests": [vars(each) for each in check.self_tests],
        "samples_tried": tried.num_samples,
        "baselines": [vars(each) for each in tried.baselines],
        "targets": [vars(each) for each in tried.targets],
        "evaluator_errors": {name: {"samples": ids, "error": error} for name, (ids, error) in tried.errors.items()},
        "evaluators_left_out": check.left_out,
        "last_run": None if check.last_run is None else vars(check.last_run),
        "gate": None if check.forecast is None else asdict(check.forecast),
        "cost": asdict(check.cost),
        "improvement": _improvement_text(check.task),
        "remarks": [vars(each) for each in remarks],
        "num_problems": sum(each.kind == "problem" for each in remarks),
        "num_warnings": sum(each.kind == "warning" for each in remarks),
    }


def _task_text(task: Task) -> str:
    engine = task.engine
    splits = ", ".join(f"{split} {number}" for split, number in number_in_splits(task).items())
    lines = [
        f"task {task.name}: {task.path or 'made in Python'}",
        f"samples     {len(task.samples)}: {splits}",
        f"engine      {engine.kind} {_engine_name(engine)}",
        *_agent_lines(task.agent),
        f"attempts    up to {task.loop.max_attempts}, retry {task.retry}",
        f"evaluators  {', '.join(f'{spec.id} ({spec.type})' for spec in task.evaluators)}; pass: {task.pass_.mode}",
    ]
    return "\n".join(lines)


def _engine_name(engine: EngineSpec) -> str | None:
    if engine.kind == "openai":
        return f"{engine.model} at {engine.base_url}"
    return engine.script if engine.kind == "scripted" else engine.model


def _agent_lines(agent: AgentSpec) -> Iterator[str]:
    """The built-in agent goes without saying."""
    if agent.kind != "llm":
        again = "" if agent.replayable else ", not run again by reproduction, gate and hold-out"
        yield f"agent       {agent.kind} {agent.python or shlex.join(agent.command or ())}{again}"


def _prompt_text(check: TaskCheck) -> str:
    head = f"the first sample ({check.task.samples[0].id}) as the model gets it:"
    return "\n".join([head, *(f"    {line}" for line in check.first_prompt.splitlines())])


def _improvement_text(task: Task) -> str:
    improve, number_in = task.improve, number_in_splits(task)
    if not improve.enabled:
        return "improvement is off (improve.enabled: false)"
    return (
        f"improvement: reads failures on {count(number_in['reflect'], 'reflect sample')} (a pattern counts from "
        f"{improve.min_occurrences} occurrences over {count(improve.min_samples, 'sample')}), compares on "
        f"{count(min(number_in['gate'], task.gate.samples), 'gate sample')}, shows {number_in['holdout']} held out"
    )


def _self_tests_text(check: TaskCheck) -> str:
    if not check.self_tests:
        return ""
    passed = sum(each.passed for each in check.self_tests)
    return f"self-tests of evaluators: {passed} of {len(check.self_tests)} passed"


def _baselines_text(tried: Baselines, num_samples: int) -> str:
    """One row per evaluator, one column per do-nothing answer."""
    if not tried.baselines:
        return ""
    rows: list[tuple[str, ...]] = [("passed by", *(each.name for each in tried.baselines))]
    for evaluator in tried.baselines[0].by_evaluator:
        rows.append((evaluator, *(str(each.by_evaluator[evaluator]) for each in tried.baselines)))
    rows.append(("all together", *(str(len(each.passed)) for each in tried.baselines)))
    scores = ("-" if each.score is None else f"{each.score:.2f}" for each in tried.baselines)
    rows.append(("mean score", *scores))
    head = f"answers that do nothing, on {tried.num_samples} of {count(num_samples, 'sample')}:"
    return f"{head}\n{columns(rows, right=range(1, len(rows[0])), indent='    ')}"


def _forecast_text(forecast: GateForecast | None) -> str:
    if forecast is None:
        return ""
    look = f"{count(forecast.num_samples, 'sample')}, look {forecast.look} at alpha {forecast.alpha:.3g}"
    rows: list[tuple[str, ...]] = [("passing now", "power", f"samples for {forecast.min_power:.0%}")]
    for each in forecast.powers:
        needed = f"{each.samples_needed:,}" if each.samples_needed else "thousands"
        rows.append((f"{each.base_rate:.0%}", f"{each.power:.0%}", needed))
    source = f" (base rate of {forecast.base_rate_from})" if forecast.base_rate_from else ""
    head = f"the gate: {look}; its power where a change mends half of what fails and breaks 2 % of the rest{source}:"
    return f"{head}\n{columns(rows, right=range(3), indent='    ')}".replace("%", " %").replace("2  %", "2 %")


def _cost_text(cost: CostEstimate, last_run: LastRun | None) -> str:
    """What a run takes at least and at most, and what it would take if it went as the last one."""
    attempts = _range(cost.least.attempts, cost.most.attempts)
    lines = [f"a run: {attempts} attempts on {count(cost.num_samples, 'sample')}"]
    if cost.least.tokens is not None and cost.most.tokens is not None:
        tokens = _range(cost.least.tokens, cost.most.tokens)
        lines.append(f"    {tokens} tokens, prompts estimated at {CHARS_PER_TOKEN} characters a token")
    if cost.least.price is not None and cost.most.price is not None:
        lines.append(f"    price {cost.least.price:.3g} to {cost.most.price:.3g}, at the prices of the evaluator")
    if cost.judge_calls:
        anchors = f" and {cost.anchor_calls:,} about anchors" if cost.anchor_calls else ""
        lines.append(f"    plus up to {cost.judge_calls:,} calls of judges{anchors}; their tokens are not estimated")
    if cost.expected is not None and last_run is not None:
        at_once = f", {cost.num_at_once} samples at a time" if cost.num_at_once > 1 else ""
        lines.append(
            f"    as {last_run.run_id} went: {_expected_text(cost.expected, last_run.tokens_per_second)}{at_once}"
        )
    return "\n".join(lines)


def _expected_text(expected: Spending, tokens_per_second: float | None) -> str:
    parts = [f"{expected.attempts:,.0f} attempts", f"{expected.tokens or 0:,.0f} tokens"]
    speed = "" if tokens_per_second is None else f" ({tokens_per_second:,.0f} tokens/s)"
    parts.append(f"{_duration(expected.seconds or 0.0)} of generation{speed}")
    return ", ".join(parts if expected.price is None else [*parts, f"price {expected.price:.3g}"])


def _range(least: float, most: float) -> str:
    return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
