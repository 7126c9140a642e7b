"""A run as CSV (RFC 4180, UTF-8), for spreadsheets: a row per (sample, repeat), or a row per attempt.

A cell that a spreadsheet would take for a formula gets an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Literal

from loopeng.report.run_report import Records, RunReport
from loopeng.run_records import Record
from loopeng.schema import Attempt, EvalResult

__all__ = ["csv_report", "safe_cell"]

_SAMPLE = (
    *("sample", "repeat", "split", "verdict", "first_verdict", "score", "attempts", "best_attempt"),
    *("prompt_tokens", "generated_tokens", "latency_s"),
)
_ATTEMPT = (
    *("sample", "repeat", "split", "attempt", "kept", "policy", "temperature", "seed", "verdict", "score"),
    *("finish_reason", "duplicate_of", "prompt_tokens", "generated_tokens", "latency_s"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_report(
    report: RunReport, records: Records, *, rows: Literal["samples", "attempts"] = "samples", targets: bool = False
) -> Iterator[str]:
    """The table line by line. Of a sample, output and results are those of the attempt that was kept.

    Expected answers have a column with ``targets`` only; the evaluators' reasons may hold them all the same.
    """
    evaluators = list(report.total.evaluators) or [spec.id for spec in report.task.evaluators]
    about = ("inputs", "target") if targets else ("inputs",)
    own = _SAMPLE if rows == "samples" else _ATTEMPT
    judged = [f"{name}.{part}" for name in evaluators for part in ("passed", "score", "category", "reason")]
    yield _line([*own, *about, "output", "error", *judged])
    for record in records:
        for attempt in (record.best,) if rows == "samples" else record.attempts:
            cells = _of_sample(record) if rows == "samples" else _of_attempt(record, attempt)
            yield _line([*cells, *_about(record, targets), *_judged(attempt, evaluators)])


def _of_sample(record: Record) -> list[Any]:
    result, usage = record.result, record.usage
    return [
        result.sample_id,
        result.repeat,
        result.split,
        result.verdict,
        result.first_verdict,
        result.score,
        result.num_attempts,
        result.best_attempt_index,
        usage.prompt_tokens,
        usage.generated_tokens,
        round(record.latency_s, 6),
    ]


def _of_attempt(record: Record, attempt: Attempt) -> list[Any]:
    return [
        attempt.sample_id,
        attempt.repeat,
        record.result.split,
        attempt.attempt_index,
        attempt.attempt_index == record.result.best_attempt_index,
        attempt.policy,
        attempt.temperature,
        attempt.seed,
        attempt.verdict,
        attempt.score,
        attempt.finish_reason,
        attempt.duplicate_of,
        attempt.usage.prompt_tokens,
        attempt.usage.generated_tokens,
        round(attempt.latency_s, 6),
    ]


def _about(record: Record, targets: bool) -> list[Any]:
    sample = record.sample
    inputs, target = (None, None) if sample is None else (sample.inputs, sample.target)
    return [inputs, target] if targets else [inputs]


def _judged(attempt: Attempt, evaluators: list[str]) -> list[Any]:
    results = {result.evaluator: result for result in attempt.results}
    return [attempt.text, attempt.error, *(cell for name in evaluators for cell in _result_cells(results.get(name)))]


def _result_cells(result: EvalResult | None) -> list[Any]:
    """passed, score, category, reason."""
    if result is None:
        return [None] * 4
    passed = "error" if result.error is not None else result.passed
    return [passed, result.score, result.category, result.error or result.reason]


def _line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([safe_cell(cell) for cell in cells])
    return line.getvalue()


def safe_cell(value: Any) -> str | int | float:
    """A value as a cell. Text that a spreadsheet would run as a formula is made text by an apostrophe.

    >>> safe_cell("=1+1"), safe_cell("a=1"), safe_cell(-1.5), safe_cell(True), safe_cell(None), safe_cell({"a": 1})
    ("'=1+1", 'a=1', -1.5, 'true', '', '{"a": 1}')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace("\x00", "\ufffd")
    return f"'{text}" if text.lstrip(" \xa0").startswith(_FORMULA) else text
