"""A run in the shape of promptfoo's output file (``promptfoo eval -o results.json``), with results of version 3.

One result per (sample, repeat): the attempt that was kept. What promptfoo has no word for is in ``metadata``. Expected
answers are part of the shape (``vars.target``): this file is for people and tools, never for a prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from loopeng.prompts import rendered_template
from loopeng.report.json_report import json_text, with_list
from loopeng.report.run_report import Records, RunReport
from loopeng.run_records import Record
from loopeng.schema import Attempt, EvalResult, JudgeUsage, Usage

__all__ = ["promptfoo_export"]

_PASSED, _ASSERTION, _ERROR = 0, 1, 2  # promptfoo's ResultFailureReason
_TARGET = "target"


def promptfoo_export(report: RunReport, records: Records) -> Iterator[str]:
    """Pieces of one JSON document."""
    run, task, total = report.run, report.task, report.total.final
    inner = {
        "version": 3,
        "timestamp": run.created_at.isoformat(),
        "prompts": [_prompt(report) | {"provider": _provider(report)["id"], "metrics": _metrics(report, records)}],
        "stats": {
            "successes": total.passed,
            "failures": total.judged - total.passed,
            "errors": total.errors,
            "tokenUsage": _token_usage(report.summary.usage, report.summary.attempts, report.judge_usage),
            "durationMs": _duration_ms(report),
        },
    }
    tail = {
        "config": {
            "description": task.name,
            "prompts": [_prompt(report)["raw"]],
            "providers": [_provider(report)],
            "metadata": {"loopeng": {"run": run.model_dump(mode="json"), "task_hash": run.task_hash}},
        },
        "shareableUrl": None,
    }
    yield f'{{"evalId":{json_text(run.id)},"results":'
    yield from with_list(inner, "results", (_result(report, number, each) for number, each in enumerate(records)))
    yield f",{json_text(tail)[1:]}\n"


def _provider(report: RunReport) -> dict[str, str]:
    engine = report.run.engine
    model = str(engine.get("model") or engine.get("kind") or "unknown")
    return {"id": f"loopeng:{model}", "label": model}


def _prompt(report: RunReport) -> dict[str, Any]:
    version = report.version
    label = f"{version.prompt_name} version {version.number}"
    return {"id": version.text_hash, "raw": rendered_template(version.template, version.rules), "label": label}


def _metrics(report: RunReport, records: Records) -> dict[str, Any]:
    """``score`` and ``namedScores`` are sums of scores, as promptfoo adds them up."""
    total, summary = report.total, report.summary
    score, named = 0.0, defaultdict[str, float](float)
    for record in records:
        score += record.best.score or 0
        for name, each in _named_scores(record.best).items():
            named[name] += each
    evaluators = {name: each.final for name, each in total.evaluators.items()}
    return {
        "score": score,
        "testPassCount": total.final.passed,
        "testFailCount": total.final.judged - total.final.passed,
        "testErrorCount": total.final.errors,
        "assertPassCount": sum(rate.passed for rate in evaluators.values()),
        "assertFailCount": sum(rate.judged - rate.passed for rate in evaluators.values()),
        "totalLatencyMs": round(summary.latency_s * 1000),
        "tokenUsage": _token_usage(summary.usage, summary.attempts, report.judge_usage),
        "namedScores": dict(named),
        "namedScoresCount": {name: rate.judged for name, rate in evaluators.items()},
        "cost": 0,
    }


def _duration_ms(report: RunReport) -> int:
    run = report.run
    seconds = (run.finished_at - run.created_at).total_seconds() if run.finished_at else report.summary.latency_s
    return round(seconds * 1000)


def _token_usage(usage: Usage, num_requests: int, judges: JudgeUsage) -> dict[str, Any]:
    """``assertions`` is what judges took."""
    counts = {
        "prompt": usage.prompt_tokens,
        "completion": usage.generated_tokens,
        "cached": 0,
        "total": usage.total_tokens,
        "numRequests": num_requests,
        "completionDetails": {"reasoning": 0, "acceptedPrediction": 0, "rejectedPrediction": 0},
    }
    assertions = {
        "prompt": judges.prompt_tokens,
        "completion": judges.generated_tokens,
        "cached": 0,
        "total": judges.total_tokens,
        "numRequests": judges.num_calls,
    }
    return counts | {"assertions": assertions | {"completionDetails": counts["completionDetails"]}}


def _result(report: RunReport, number: int, record: Record) -> dict[str, Any]:
    attempt, verdict = record.best, record.result.verdict
    variables = _variables(record)
    asked = (JudgeUsage.of(each.metadata) for one in record.attempts for each in one.results)
    judges = sum((each for each in asked if each is not None), JudgeUsage())
    usage = _token_usage(record.usage, len(record.attempts), judges)
    reasons = {"pass": _PASSED, "fail": _ASSERTION, "error": _ERROR}
    told = {"error": "\n".join(report.why(attempt))} if verdict == "error" else {}
    return told | {
        "id": f"{report.run.id}:{record.result.sample_id}:{record.result.repeat}",
        "description": record.result.sample_id,
        "promptIdx": 0,
        "testIdx": number,
        "testCase": {
            "description": record.result.sample_id,
            "vars": variables,
            "assert": [_assertion(each) for each in attempt.results],
            "metadata": {"split": record.result.split, "repeat": record.result.repeat},
        },
        "promptId": report.version.text_hash,
        "provider": _provider(report),
        "prompt": {"raw": _asked(attempt), "label": _prompt(report)["label"]},
        "vars": variables,
        "response": {"output": attempt.text, "tokenUsage": usage, "cached": False}
        | ({} if attempt.finish_reason is None else {"finishReason": attempt.finish_reason}),
        "failureReason": reasons[verdict],
        "success": verdict == "pass",
        "score": attempt.score or 0,
        "latencyMs": round(record.latency_s * 1000),
        "gradingResult": None if verdict == "error" else _grading(report, attempt, verdict == "pass"),
        "namedScores": _named_scores(attempt),
        "cost": 0,
        "metadata": _metadata(record),
        "tokenUsage": usage,
    }


def _variables(record: Record) -> dict[str, Any]:
    sample = record.sample
    if sample is None:
        return {}
    return dict(sample.inputs) | ({} if sample.target is None else {_TARGET: sample.target})


def _asked(attempt: Attempt) -> str:
    """The conversation as promptfoo keeps it: the text of a single message, else the messages as JSON."""
    if len(attempt.messages) == 1:
        return attempt.messages[0].content
    return json_text([message.model_dump() for message in attempt.messages])


def _assertion(result: EvalResult) -> dict[str, str]:
    """promptfoo's types are a closed set: what it would run as code of its own is what all of ours are to it."""
    return {"type": "python", "value": f"loopeng evaluator {result.evaluator}", "metric": result.evaluator}


def _grading(report: RunReport, attempt: Attempt, passed: bool) -> dict[str, Any]:
    return {
        "pass": passed,
        "score": attempt.score or 0,
        "reason": "All assertions passed" if passed else "\n".join(report.why(attempt)),
        "namedScores": _named_scores(attempt),
        "componentResults": [
            {
                "pass": bool(result.passed),
                "score": _score(result),
                "reason": result.reason,
                "assertion": _assertion(result),
            }
            for result in attempt.results
        ],
    }


def _named_scores(attempt: Attempt) -> dict[str, float]:
    return {result.evaluator: _score(result) for result in attempt.results if result.error is None}


def _score(result: EvalResult) -> float:
    return float(bool(result.passed)) if result.score is None else result.score


def _metadata(record: Record) -> dict[str, Any]:
    result = record.result
    return {
        "split": result.split,
        "repeat": result.repeat,
        "firstVerdict": result.first_verdict,
        "attempts": result.num_attempts,
        "bestAttempt": result.best_attempt_index,
        "acceptedTokens": record.usage.accepted_tokens,
        "draftTokens": record.usage.draft_tokens,
    }
