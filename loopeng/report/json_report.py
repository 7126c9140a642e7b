"""A run as one JSON document: run, task, rates, and every sample with all its attempts and their results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from loopeng.report.judges import judge_document
from loopeng.report.layout import plain_value
from loopeng.report.run_report import REASONS_NOTE, Records, RunReport
from loopeng.run_rates import PartRates, Rate
from loopeng.run_records import Record

__all__ = ["json_report", "json_text", "rate_document", "with_list"]


def json_report(report: RunReport, records: Records, *, targets: bool = False) -> Iterator[str]:
    """Pieces of one document, so that no more than a sample is in memory.

    Expected answers are left out unless ``targets``; the evaluators' reasons may hold them all the same.
    """
    summary, task = report.summary, report.task
    head = {
        "run": report.run,
        "rescore_of": report.run.rescore_of,
        "task": task.model_dump(mode="json", by_alias=True, exclude={"samples", "file_rules"})
        | {"num_samples": len(task.samples)},
        "prompt": report.version,
        "note": REASONS_NOTE,
        "exit_code": summary.exit_code(task),
        "interval": report.interval_note,
        "rates": {name: _part(part) for name, part in report.rates.items()},
        "judges": [judge_document(view) for view in report.judges],
        "cost": {
            "of": report.run.rescore_of or report.run.id,
            "attempts": summary.attempts,
            "error_attempts": summary.error_attempts,
            "usage": summary.usage,
            "latency_s": summary.latency_s,
            "tokens_per_second": summary.tokens_per_second,
            "acceptance_length": summary.acceptance_length,
        },
    }
    yield from with_list(head, "samples", (_sample(record, targets) for record in records))


def _part(part: PartRates) -> dict[str, Any]:
    document: dict[str, Any] = {
        "samples": part.samples,
        "first": rate_document(part.first),
        "final": rate_document(part.final),
        "evaluators": {
            name: {"first": rate_document(each.first), "final": rate_document(each.final)}
            for name, each in part.evaluators.items()
        },
    }
    if part.pass_at_repeats is not None:
        some, every = part.pass_at_repeats
        document["repeats"] = {
            "k": part.repeats,
            "pass_at_k": some,
            "pass_hat_k": every,
            "samples": part.repeated_samples,
        }
    return document


def rate_document(rate: Rate) -> dict[str, Any]:
    """A rate as plain values; ``rate`` is null where nothing was judged."""
    low, high = rate.interval
    counts = {"passed": rate.passed, "judged": rate.judged, "errors": rate.errors}
    return counts | {"rate": rate.share, "low": low, "high": high, "clusters": len(rate.clusters)}


def _sample(record: Record, targets: bool) -> dict[str, Any]:
    sample = record.sample
    about: dict[str, Any] = {}
    if sample is not None:
        about = {"group": sample.group, "inputs": sample.inputs} | ({"target": sample.target} if targets else {})
    return (
        {"id": record.result.sample_id}
        | record.result.model_dump(mode="json", exclude={"run_id", "sample_id"})
        | about
        | {"attempts": [each.model_dump(mode="json", exclude={"run_id", "sample_id"}) for each in record.attempts]}
    )


def with_list(
    head: dict[str, Any], name: str, items: Iterable[Any], tail: dict[str, Any] | None = None
) -> Iterator[str]:
    """A document in pieces: the keys of ``head``, then ``name`` with its items a line each, then the keys of ``tail``.

    >>> "".join(with_list({"a": 1}, "items", [{"b": 2}], {"c": 3}))
    '{"a":1,"items":[\\n{"b":2}\\n],"c":3}\\n'
    """
    yield json_text(head)[:-1] + ("," if head else "") + f"{json_text(name)}:["
    separator = "\n"
    for item in items:
        yield separator + json_text(item)
        separator = ",\n"
    yield "\n]" + (f",{json_text(tail)[1:]}" if tail else "}") + "\n"


def json_text(value: Any) -> str:
    """Strict JSON on one line: a number that JSON lacks becomes null.

    >>> json_text({"a": float("nan"), "b": [1.5]})
    '{"a":null,"b":[1.5]}'
    """
    try:
        return _dumps(value)
    except ValueError:
        return _dumps(_finite(json.loads(json.dumps(value, default=plain_value))))


def _dumps(value: Any) -> str:
    return json.dumps(value, default=plain_value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
