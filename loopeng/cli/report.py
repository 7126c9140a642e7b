"""``loopeng report`` and ``loopeng export``: a run as text, JSON, Markdown, JUnit XML, CSV, or another tool's log."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.options import Db
from loopeng.cli.writing import Output

if TYPE_CHECKING:
    from loopeng.report.run_report import RunReport
    from loopeng.run_records import RunRecords

__all__ = ["ExportFormat", "ReportFormat", "Rows", "export", "register", "report"]

_Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its unique beginning, or 'latest'.")]


class ReportFormat(StrEnum):
    """What ``--format`` of a report may be."""

    text = "text"
    json = "json"
    md = "md"
    junit = "junit"
    csv = "csv"


class ExportFormat(StrEnum):
    """What ``--format`` of an export may be."""

    promptfoo = "promptfoo"
    inspect = "inspect"


class Rows(StrEnum):
    """What a row of the CSV stands for."""

    samples = "samples"
    attempts = "attempts"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    app.command()(export)


def report(
    run: _Run = "latest",
    format: Annotated[  # noqa: A002  the option's name
        ReportFormat, typer.Option("--format", "-f", help="text, json, md (for a pull request), junit (for CI), csv.")
    ] = ReportFormat.text,
    output: Output = None,
    rows: Annotated[Rows, typer.Option("--rows", help="csv: a row per sample (and repeat), or per attempt.")] = (
        Rows.samples
    ),
    targets: Annotated[bool, typer.Option("--targets", help="json, csv: include the expected answers.")] = False,
    db: Db = None,
) -> None:
    """Write a run: rates with intervals per split and evaluator, and its samples.

    Reports are for people: the evaluators' reasons may hold expected answers, also without --targets. In csv, text
    that begins with = + - or @ gets an apostrophe in front, so that no spreadsheet runs it as a formula.

    'loopeng runs show' has the failures a run showed and the proposals; 'loopeng runs diff' compares two runs.
    Exits with 0 whatever the run came to.

    \b
    Example:
      loopeng report latest
      loopeng report run-1a2b3c4d --format junit -o results.xml
      loopeng report latest --format csv --rows attempts > attempts.csv
    """
    from loopeng.cli.places import open_store
    from loopeng.cli.run_names import named_run, read_report
    from loopeng.cli.writing import write_pieces

    with open_store(db) as store:
        found, records = read_report(store, named_run(store, run))
        write_pieces(_written(format, found, records, rows, targets), output)


def _written(chosen: ReportFormat, report: RunReport, records: RunRecords, rows: Rows, targets: bool) -> Iterable[str]:
    match chosen:
        case ReportFormat.json:
            from loopeng.report.json_report import json_report

            return json_report(report, records, targets=targets)
        case ReportFormat.md:
            from loopeng.report.markdown import markdown_report

            return markdown_report(report, records)
        case ReportFormat.junit:
            from loopeng.report.junit import junit_report

            return junit_report(report, records)
        case ReportFormat.csv:
            from loopeng.report.csv_table import csv_report

            return csv_report(report, records, rows=rows.value, targets=targets)
        case ReportFormat.text:
            from loopeng.cli.output import printable
            from loopeng.report.rates_text import text_report

            return map(printable, text_report(report, records))


def export(
    run: _Run = "latest",
    format: Annotated[  # noqa: A002  the option's name
        ExportFormat, typer.Option("--format", "-f", help="promptfoo (output file, version 3) or inspect (EvalLog, 2).")
    ] = ExportFormat.promptfoo,
    output: Output = None,
    db: Db = None,
) -> None:
    """Write a run in the shape of another tool's log. Expected answers are part of both shapes.

    \b
    Example:
      loopeng export latest --format inspect -o log.json
    """
    from loopeng.cli.places import open_store
    from loopeng.cli.run_names import named_run, read_report
    from loopeng.cli.writing import write_pieces
    from loopeng.report.inspect_log import inspect_export
    from loopeng.report.promptfoo import promptfoo_export

    write = promptfoo_export if format is ExportFormat.promptfoo else inspect_export
    with open_store(db) as store:
        write_pieces(write(*read_report(store, named_run(store, run))), output)
