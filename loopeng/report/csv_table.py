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

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_report(
    report: RunReport, records: Records, *, rows: Literal["samples", "attempts"] = "samples", targets: bool = False
) -> Iterator[str]:
    """The table line by line. Of a sample, output and results are those of the attempt that was kept.

    Expected answers have a column with ``targets`` only; the evaluators' reasons may hold them all the same.
    """
    evaluators = list(report.total.evaluators)
    head: list[str] | None = None
    for record in records:
        attempts = (record.best,) if rows == "samples" else record.attempts
        for attempt in attempts:
            own = _of_sample(record) if rows == "samples" else _of_attempt(record, attempt)
            cells = own | _about(record, targets) | _judged(attempt, evaluators)
            if head is None:
                head = list(cells)
                yield _line(head)
            yield _line(list(cells.values()))


def _of_sample(record: Record) -> dict[str, Any]:
    result, usage = record.result, record.usage
    return {
        "sample": result.sample_id,
        "repeat": result.repeat,
        "split": result.split,
        "verdict": result.verdict,
        "first_verdict": result.first_verdict,
        "score": result.score,
        "attempts": result.num_attempts,
        "best_attempt": result.best_attempt_index,
        "prompt_tokens": usage.prompt_tokens,
        "generated_tokens": usage.generated_tokens,
        "latency_s": round(record.latency_s, 6),
    }


def _of_attempt(record: Record, attempt: Attempt) -> dict[str, Any]:
    return {
        "sample": attempt.sample_id,
        "repeat": attempt.repeat,
        "split": record.result.split,
        "attempt": attempt.attempt_index,
        "kept": attempt.attempt_index == record.result.best_attempt_index,
        "policy": attempt.policy,
        "temperature": attempt.temperature,
        "seed": attempt.seed,
        "verdict": attempt.verdict,
        "score": attempt.score,
        "finish_reason": attempt.finish_reason,
        "duplicate_of": attempt.duplicate_of,
        "prompt_tokens": attempt.usage.prompt_tokens,
        "generated_tokens": attempt.usage.generated_tokens,
        "latency_s": round(attempt.latency_s, 6),
    }


def _about(record: Record, targets: bool) -> dict[str, Any]:
    sample = record.sample
    cells: dict[str, Any] = {"inputs": None if sample is None else sample.inputs}
    return cells | ({"target": None if sample is None else sample.target} if targets else {})


def _judged(attempt: Attempt, evaluators: list[str]) -> dict[str, Any]:
    cells: dict[str, Any] = {"output": attempt.text, "error": attempt.error}
    results = {result.evaluator: result for result in attempt.results}
    for name in evaluators:
        result = results.get(name)
        cells |= {f"{name}.passed": None, f"{name}.score": None, f"{name}.category": None, f"{name}.reason": None}
        if result is not None:
            cells |= _result_cells(name, result)
    return cells


def _result_cells(name: str, result: EvalResult) -> dict[str, Any]:
    return {
        f"{name}.passed": "error" if result.error is not None else result.passed,
        f"{name}.score": result.score,
        f"{name}.category": result.category,
        f"{name}.reason": result.error or result.reason,
    }


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
