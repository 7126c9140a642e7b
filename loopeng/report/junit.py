"""A run as JUnit XML, for CI: a test case per (sample, repeat), a suite per split.

A case passes as the task's ``run.on`` says: by the attempt kept in the end, or by the first one. A failed evaluator is
a ``failure``; what could not be judged is an ``error``, never a failure. A run that is not complete has a case more,
in error, so that it is not taken for a success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from loopeng.report.run_report import Records, RunReport
from loopeng.run_rates import PartRates
from loopeng.run_records import Record

__all__ = ["junit_report", "xml_text"]

_MOST_OUTPUT = 10_000  # characters of an answer; enough to see what went wrong
_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def junit_report(report: RunReport, records: Records) -> Iterator[str]:
    """Pieces of one XML document."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    more = 1 if report.progress_note else 0
    yield f"<testsuites name={_quoted(report.run.task_name)} {_counts(report, report.total, more)}"
    yield f' time="{report.summary.latency_s:.3f}">\n'
    if more:
        yield from _unfinished(report)
    for split, part in report.rates.items():
        if split != "total":
            yield from _suite(report, split, part, records)
    yield "</testsuites>\n"


def _counts(report: RunReport, part: PartRates, more: int = 0) -> str:
    rate = report.rate_of(part)
    return f'tests="{part.samples + more}" failures="{rate.judged - rate.passed}" errors="{rate.errors + more}"'


def _unfinished(report: RunReport) -> Iterator[str]:
    suite = _quoted(f"{report.run.task_name}.run")
    message, kind = _quoted(report.progress_note), _quoted(report.run.status)
    yield f'  <testsuite name={suite} tests="1" failures="0" errors="1" skipped="0" time="0">\n'
    yield f'    <testcase classname={suite} name="the run is complete" time="0">\n'
    yield f"      <error message={message} type={kind}/>\n    </testcase>\n  </testsuite>\n"


def _suite(report: RunReport, split: str, part: PartRates, records: Records) -> Iterator[str]:
    run = report.run
    seconds = sum(_seconds(record) for record in records if record.result.split == split)
    yield (
        f"  <testsuite name={_quoted(f'{run.task_name}.{split}')} {_counts(report, part)} "
        f'skipped="0" time="{seconds:.3f}" timestamp="{_moment(run.created_at)}">\n'
    )
    properties = {
        "run": run.id,
        "prompt": f"{run.prompt_name} version {report.version.number}",
        "engine": " ".join(str(run.engine[key]) for key in ("kind", "model") if run.engine.get(key)),
        **({"agent": run.own_agent} if run.own_agent is not None else {}),
        "seed": str(run.seed),
        "status": run.status,
        "judged_by": f"{report.task.run.on} attempt",
    }
    judges = {f"judge {view.evaluator}": "; ".join(view.lines) for view in report.judges}
    yield from _properties(properties | judges, "    ")
    for record in records:
        if record.result.split == split:
            yield from _case(report, record)
    yield "  </testsuite>\n"


def _case(report: RunReport, record: Record) -> Iterator[str]:
    result, on = record.result, report.task.run.on
    attempt, verdict = record.attempt_on(on), record.verdict_on(on)
    name = result.sample_id if report.total.repeats == 1 else f"{result.sample_id} [repeat {result.repeat}]"
    suite = f"{report.run.task_name}.{result.split}"
    yield f'    <testcase classname={_quoted(suite)} name={_quoted(name)} time="{_seconds(record):.3f}">\n'
    properties = {
        "sample": result.sample_id,
        "repeat": str(result.repeat),
        "attempts": str(result.num_attempts),
        "first_verdict": result.first_verdict,
        "verdict": result.verdict,
    }
    yield from _properties(properties | ({} if attempt.score is None else {"score": f"{attempt.score:g}"}), "      ")
    if verdict != "pass":
        categories = [each.category or "error" for each in report.failed_or_broken(attempt)]
        yield _problem(verdict, report.why(attempt), categories)
    output = attempt.text if len(attempt.text) <= _MOST_OUTPUT else f"{attempt.text[:_MOST_OUTPUT]}\n… (cut)"
    yield f"      <system-out>{xml_text(output)}</system-out>\n    </testcase>\n"


def _seconds(record: Record) -> float:
    """Generating and judging, all attempts together."""
    return record.latency_s + sum(each.latency_s for one in record.attempts for each in one.results)


def _moment(when: datetime) -> str:
    """Universal time, without the offset that the schema of JUnit refuses."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _problem(verdict: str, lines: list[str], categories: list[str]) -> str:
    tag = "error" if verdict == "error" else "failure"
    message, kind = lines[0] if lines else verdict, ",".join(dict.fromkeys(categories)) or verdict
    body = xml_text("\n".join(lines))
    return f"      <{tag} message={_quoted(message)} type={_quoted(kind)}>{body}</{tag}>\n"


def _properties(values: dict[str, str], indent: str) -> Iterator[str]:
    yield f"{indent}<properties>\n"
    for name, value in values.items():
        yield f"{indent}  <property name={_quoted(name)} value={_quoted(value)}/>\n"
    yield f"{indent}</properties>\n"


def xml_text(text: str) -> str:
    """Text as XML content: markup escaped, characters that XML does not know replaced.

    >>> xml_text("a<b>\\x00 ]]>")
    'a&lt;b&gt;\\ufffd ]]&gt;'
    """
    return escape(_NOT_XML.sub("\ufffd", text), {"\r": "&#13;"})


def _quoted(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))
