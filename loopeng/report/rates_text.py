"""A run's rates for a terminal: by split and by evaluator, with intervals, and the samples that did not pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from loopeng.report.layout import columns, count, excerpt
from loopeng.report.run_report import Records, RunReport, share_text
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
    yield f"\n{_rates(report)}\n\n{_evaluators(report)}\n\n"
    yield f"in brackets: {report.interval_note}, in per cent\n"
    if report.repeats_note:
        yield f"{report.repeats_note}\n"
    yield from _failing(report, records)


def _rates(report: RunReport) -> str:
    rows = [("", "samples", "first attempt", "final", "errors")]
    for name, part in report.rates.items():
        rows.append((name, str(part.samples), share_text(part.first), share_text(part.final), str(part.final.errors)))
    return columns(rows, right=(1, 4), indent="  ")


def _evaluators(report: RunReport) -> str:
    rows = [("evaluator", "first attempt", "final", "errors")]
    for name, each in report.total.evaluators.items():
        rows.append((name, share_text(each.first), share_text(each.final), str(each.final.errors)))
    return columns(rows, right=(3,), indent="  ")


def _failing(report: RunReport, records: Records) -> Iterator[str]:
    counted = report.total.first if report.task.run.on == "first" else report.total.final
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
