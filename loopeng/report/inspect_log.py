"""A run in the shape of inspect_ai's EvalLog as JSON, format version 2.

A sample is an epoch of inspect's: epoch = repeat + 1. Scores are those of the attempt that was kept, "C" or "I" for
the task's verdict and by evaluator, with our score in the metadata; an evaluator that broke has no score, and a sample
that nobody could judge carries an ``error``. Expected answers are part of the shape: this file is for people and tools,
never for a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

from loopeng.report.json_report import json_text, with_list
from loopeng.report.run_report import Records, RunReport
from loopeng.run_rates import Rate
from loopeng.run_records import Record
from loopeng.schema import Attempt, JudgeUsage, Usage

__all__ = ["inspect_export"]

_FORMAT_VERSION = 2
_VERDICT = "loopeng/verdict"  # no evaluator's id has a slash
_STATUS = {"finished": "success", "running": "started"}  # what was stopped is cancelled
_STOP_REASONS = {"stop": "stop", "eos": "stop", "length": "max_tokens"}


def inspect_export(report: RunReport, records: Records) -> Iterator[str]:
    """Pieces of one JSON document, with the keys in inspect's order."""
    run = report.run
    head = {
        "version": _FORMAT_VERSION,
        "status": _STATUS.get(run.status, "cancelled"),
        "eval": _spec(report),
        "plan": _plan(report),
        "results": _results(report),
        "stats": {
            "started_at": _time(run.created_at),
            "completed_at": "" if run.finished_at is None else _time(run.finished_at),
            "model_usage": {_model(report): _usage(report.summary.usage)},
            "role_usage": {"grader": _usage(report.judge_usage)} if report.judges else {},
        },
        "invalidated": False,
        "tags": [],
        "metadata": {},
    }
    yield from with_list(head, "samples", (_sample(report, record) for record in records))


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _model(report: RunReport) -> str:
    engine = report.run.engine
    return f"loopeng/{engine.get('model') or engine.get('kind') or 'unknown'}"


def _spec(report: RunReport) -> dict[str, Any]:
    run, task = report.run, report.task
    return {
        "eval_id": run.id,
        "run_id": run.id,
        "created": _time(run.created_at),
        "task": task.name,
        "task_id": run.task_hash[:22],
        "task_version": 0,
        "task_file": None if task.path is None else task.path.name,
        "task_attribs": {},
        "task_args": {},
        "task_args_passed": {},
        "dataset": {
            "name": task.name,
            "location": task.dataset.path,
            "samples": len(task.samples),
            "sample_ids": [sample.id for sample in task.samples],
            "shuffled": False,
        },
        "model": _model(report),
        "model_generate_config": {},
        "model_args": {},
        "config": {"epochs": report.total.repeats, "epochs_reducer": ["mean"]},
        "packages": {"loopeng": version("loopeng")},
        "metadata": {"loopeng": {"kind": run.kind, "prompt": report.version.prompt_name, "task_hash": run.task_hash}},
        "scorers": [
            {"name": _VERDICT, "options": {"pass": task.pass_.model_dump(mode="json")}},
            *({"name": spec.id, "options": {"type": spec.type}} for spec in task.evaluators),
        ],
    }


def _plan(report: RunReport) -> dict[str, Any]:
    task = report.task
    params = {"agent": task.agent.kind, "max_attempts": task.loop.max_attempts, "retry": task.retry}
    config = {"max_tokens": task.engine.max_tokens, "temperature": task.temperature(0), "seed": report.run.seed}
    step = {"solver": "loopeng/attempts", "params": params, "params_passed": params}
    return {"name": "plan", "steps": [step], "config": config}


def _results(report: RunReport) -> dict[str, Any]:
    total = report.total
    return {
        "total_samples": total.samples,
        "completed_samples": total.samples - total.final.errors,
        "scores": [
            _eval_score(_VERDICT, total.final),
            *(_eval_score(name, each.final) for name, each in total.evaluators.items()),
        ],
    }


def _eval_score(name: str, rate: Rate) -> dict[str, Any]:
    """Accuracy with the standard error of inspect's ``stderr()``, clustered where outcomes go together."""
    metrics = {} if rate.share is None else {"accuracy": rate.share, "stderr": _standard_error(rate, rate.share)}
    return {
        "name": name,
        "scorer": name,
        "scored_samples": rate.judged,
        "unscored_samples": rate.errors,
        "params": {},
        "metrics": {key: {"name": key, "value": value, "params": {}} for key, value in metrics.items()},
    }


def _standard_error(rate: Rate, share: float) -> float:
    number = len(rate.clusters)
    if number < 2:
        return 0.0
    squares = sum((cluster.passed - share * cluster.total) ** 2 for cluster in rate.clusters)
    return math.sqrt(number / (number - 1) * squares) / rate.judged


def _sample(report: RunReport, record: Record) -> dict[str, Any]:
    attempt, result = record.best, record.result
    answer = {"role": "assistant", "content": attempt.text, "source": "generate", "model": _model(report)}
    asked = [message.model_dump() for message in attempt.messages]
    document = {
        "id": result.sample_id,
        "epoch": result.repeat + 1,
        "input": _input(record.first),
        "target": _target(None if record.sample is None else record.sample.target),
        "messages": [*asked, answer],
        "output": {
            "model": _model(report),
            "choices": [{"message": answer, "stop_reason": _STOP_REASONS.get(attempt.finish_reason or "", "unknown")}],
            "completion": attempt.text,
            "usage": _usage(attempt.usage),
            "time": attempt.latency_s,
        },
        "scores": _scores(report, record),
        "metadata": _metadata(record),
        "store": {},
        "events": [],
        "model_usage": {_model(report): _usage(record.usage)},
        "role_usage": {},
        "total_time": record.latency_s,
        "attachments": {},
    }
    if result.verdict == "error":
        document["error"] = {"message": "\n".join(report.why(attempt)), "traceback": "", "traceback_ansi": ""}
    return document


def _input(attempt: Attempt) -> str | list[dict[str, Any]]:
    """The first prompt: its text where it is one message of the user's."""
    if len(attempt.messages) == 1 and attempt.messages[0].role == "user":
        return attempt.messages[0].content
    return [message.model_dump() for message in attempt.messages]


def _target(target: Any) -> str | list[str]:
    """Text, or a list of texts: anything else is written as JSON."""
    if target is None:
        return ""
    if isinstance(target, list):
        return [each if isinstance(each, str) else json_text(each) for each in target]
    return target if isinstance(target, str) else json_text(target)


def _scores(report: RunReport, record: Record) -> dict[str, Any]:
    """The task's verdict first; nothing of what could not be judged."""
    attempt, verdict = record.best, record.result.verdict
    scores = {}
    if verdict != "error":
        why = "" if verdict == "pass" else "\n".join(report.why(attempt))
        scores[_VERDICT] = _score(verdict == "pass", attempt, why, {"score": attempt.score})
    for each in attempt.results:
        if each.error is None:
            metadata = {"score": each.score, "category": each.category, "feedback": each.feedback}
            scores[each.evaluator] = _score(bool(each.passed), attempt, each.reason, metadata)
    return scores


def _score(passed: bool, attempt: Attempt, explanation: str, metadata: dict[str, Any]) -> dict[str, Any]:
    value = "C" if passed else "I"
    return {"value": value, "answer": attempt.text, "explanation": explanation, "metadata": metadata, "history": []}


def _usage(usage: Usage | JudgeUsage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.generated_tokens,
        "total_tokens": usage.total_tokens,
    }


def _metadata(record: Record) -> dict[str, Any]:
    result, sample = record.result, record.sample
    return {
        "split": result.split,
        "inputs": None if sample is None else sample.inputs,
        "verdict": result.verdict,
        "first_verdict": result.first_verdict,
        "score": result.score,
        "num_attempts": result.num_attempts,
        "best_attempt_index": result.best_attempt_index,
    }
