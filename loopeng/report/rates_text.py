"""A run's rates for a terminal: by split and by evaluator, with intervals, and the samples that did not pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from loopeng.report.judges import judges_text
from loopeng.report.layout import both_errors, columns, count, excerpt
from loopeng.report.run_report import Records, RunReport, share_text
from loopeng.report.terminal import goal_text
from loopeng.run_records import Record

__all__ = ["text_report"]

_MOST_FAILING = 10
_WIDTH = 160


def text_report(report: RunReport, records: Records) -> Iterator[str]:
    """Pieces of one text."""
    run = report.run
    status = run.status + (f" ({run.stop_reason})" if run.stop_reason else "")
    yield f"run {run.id}  {run.task_name}, prompt {run.prompt_name} version {report.version.number}: {status}\n"
    if run.rescore_of is not None:
        yield f"outputs of {run.rescore_of}, judged again\n"
    if run.kind in ("suite", "rescore"):
        yield f"{goal_text(report.summary, report.task.run)}\n"
    if report.progress_note:
        yield f"{report.progress_note}\n"
    yield f"\n{_rates(report)}\n\n{_evaluators(report)}\n\n"
    yield f"in brackets: {report.interval_note}, in per cent\n"
    if report.repeats_note:
        yield f"{report.repeats_note}\n"
    if report.judges:
        yield f"\n{judges_text(report.judges)}\n"
    yield from _failing(report, records)


def _rates(report: RunReport) -> str:
    rows = [("", "samples", "first attempt", "final", "errors")]
    for name, part in report.rates.items():
        errors = both_errors(part.first.errors, part.final.errors)
        rows.append((name, str(part.samples), share_text(part.first), share_text(part.final), errors))
    return columns(rows, right=(1, 4), indent="  ")


def _evaluators(report: RunReport) -> str:
    rows = [("evaluator", "first attempt", "final", "errors")]
    for name, each in report.total.evaluators.items():
        errors = both_errors(each.first.errors, each.final.errors)
        rows.append((name, share_text(each.first), share_text(each.final), errors))
    return columns(rows, right=(3,), indent="  ")


def _failing(report: RunReport, records: Records) -> Iterator[str]:
    counted = report.counted
    number = counted.judged - counted.passed + counted.errors
    if not number:
        return
    yield f"\n{count(number, 'sample')} did not pass\n"
    on = report.task.run.on
    failing = (record for record in records if record.verdict_on(on) != "pass")
    for record in islice(failing, _MOST_FAILING):
        yield _sample(report, record)
    if number > _MOST_FAILING:
        yield f"  ... and {number - _MOST_FAILING} more; --format json or csv has all of them\n"


def _sample(report: RunReport, record: Record) -> str:
    attempt = record.attempt_on(report.task.run.on)
    repeat = f" (repeat {record.result.repeat})" if report.total.repeats > 1 else ""
    lines = [f"  {record.result.sample_id}{repeat}: {excerpt(attempt.text)}"]
    lines += [f"      {' '.join(line.split())[:_WIDTH]}" for line in report.why(attempt)]
    return "\n".join(lines) + "\n"
