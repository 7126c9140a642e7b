"""A run as Markdown, for a pull request: rates, evaluators, what failed and why, what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from loopeng.report.layout import both_errors, count, excerpt
from loopeng.report.run_report import REASONS_NOTE, Records, RunReport, share_text
from loopeng.report.terminal import goal_text
from loopeng.run_rates import EvaluatorRates, PartRates
from loopeng.run_records import Record

__all__ = ["markdown_report", "markdown_table", "markdown_text"]

_MOST_FAILING = 20
_WIDTH = 160
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$@])")


def markdown_report(report: RunReport, records: Records) -> Iterator[str]:
    """Pieces of one page."""
    yield from _head(report)
    yield from _tables(report)
    yield from _failing(report, records)
    yield from _judges(report)
    yield from _cost(report)


def _head(report: RunReport) -> Iterator[str]:
    run, task, rate = report.run, report.task, report.counted
    yield f"## {markdown_text(run.task_name)}: {rate.passed} of {rate.judged} pass"
    yield "" if task.run.on == "final" else " at the first attempt"
    yield (f", {rate.errors} could not be judged" if rate.errors else "") + "\n\n"
    if report.progress_note:
        yield f"**{markdown_text(report.progress_note)}**\n\n"
    engine = " ".join(str(run.engine[key]) for key in ("kind", "model") if run.engine.get(key)) or "not recorded"
    facts = [
        f"run {_code(run.id)} ({run.kind}, {markdown_text(run.stop_reason or run.status)})",
        f"prompt {_code(run.prompt_name)} version {report.version.number}",
        f"engine {_code(engine)}",
        f"seed {run.seed}",
    ]
    if run.own_agent is not None:
        facts.append(f"agent {_code(run.own_agent)}")
    if run.rescore_of is not None:
        facts.append(f"outputs of {_code(run.rescore_of)} judged again")
    yield " · ".join(facts) + "\n"
    if run.kind in ("suite", "rescore"):
        yield f"\n{markdown_text(goal_text(report.summary, task.run))}\n"


def _tables(report: RunReport) -> Iterator[str]:
    rows = [
        (name, str(part.samples), share_text(part.first), share_text(part.final), _errors(part))
        for name, part in report.rates.items()
    ]
    yield "\n" + markdown_table(("split", "samples", "first attempt", "final", "errors"), rows)
    evaluators = [
        (markdown_text(name), share_text(each.first), share_text(each.final), _errors(each))
        for name, each in report.total.evaluators.items()
    ]
    yield "\n" + markdown_table(("evaluator", "first attempt", "final", "errors"), evaluators)
    notes = [f"In brackets: {report.interval_note}, in per cent.", report.repeats_note]
    yield "\n" + " ".join(note for note in notes if note) + "\n"


def _errors(rates: PartRates | EvaluatorRates) -> str:
    return both_errors(rates.first.errors, rates.final.errors)


def _failing(report: RunReport, records: Records) -> Iterator[str]:
    """The first samples that did not pass; the other formats have all of them."""
    on, counted = report.task.run.on, report.counted
    number = counted.judged - counted.passed + counted.errors
    if not number:
        return
    yield f"\n### {count(number, 'sample')} did not pass\n\n"
    shown = _first_failing(records, on)
    yield markdown_table(
        ("sample", "verdict", "why", "feedback for the model", "answer"), [_row(report, r) for r in shown]
    )
    if number > len(shown):
        yield f"\n… and {number - len(shown)} more; `--format json` has all of them.\n"
    yield f"\n{REASONS_NOTE}\n"


def _first_failing(records: Records, on: Literal["final", "first"]) -> list[Record]:
    shown = []
    for record in records:
        if record.verdict_on(on) != "pass":
            shown.append(record)
            if len(shown) == _MOST_FAILING:
                break
    return shown


def _row(report: RunReport, record: Record) -> tuple[str, ...]:
    on = report.task.run.on
    attempt, verdict = record.attempt_on(on), record.verdict_on(on)
    name = record.result.sample_id
    name += f" (repeat {record.result.repeat})" if report.total.repeats > 1 else ""
    feedback = [each.feedback for each in report.failed_or_broken(attempt) if each.feedback]
    return (
        markdown_text(name),
        verdict,
        _cut("; ".join(report.why(attempt))),
        _cut(" ".join(feedback)),
        markdown_text(excerpt(attempt.text, _WIDTH)),
    )


def _judges(report: RunReport) -> Iterator[str]:
    if report.judges:
        yield "\n### Judges\n\n"
    for view in report.judges:
        first, *others = map(markdown_text, view.lines)
        yield "".join([f"- {first}\n", *(f"  - {line}\n" for line in others)])


def _cost(report: RunReport) -> Iterator[str]:
    summary = report.summary
    parts = [
        count(summary.attempts, "attempt"),
        f"{summary.usage.generated_tokens:,} tokens generated",
        f"{summary.usage.prompt_tokens:,} prompt tokens",
        f"{summary.latency_s:,.1f} s of generation",
    ]
    if summary.acceptance_length is not None:
        parts.append(f"acceptance length {summary.acceptance_length:.2f}")
    original = report.run.rescore_of
    head = "Cost" if original is None else f"Nothing was generated; the cost of {_code(original)}"
    yield f"\n{head}: {' · '.join(parts)}\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already.

    >>> print(markdown_table(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, *rows]
    written = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]]) + "\n"


def markdown_text(text: str) -> str:
    """Text that shows as it is: one line, no markup, no mention of a user, no control characters.

    >>> markdown_text("a|b <img>\\n@you")
    'a\\\\|b \\\\<img\\\\> \\\\@you'
    """
    line = "".join(char if char.isprintable() else "�" for char in " ".join(text.split()))
    return _SPECIAL.sub(r"\\\1", line)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return markdown_text(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…")


def _code(text: str) -> str:
    return f"`{''.join(char if char.isprintable() and char != '`' else '?' for char in text)}`"
