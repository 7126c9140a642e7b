"""Which run a word on the command line means, and what a report of it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopeng.errors import NotFoundError

if TYPE_CHECKING:
    from loopeng.report.run_report import RunReport
    from loopeng.run_records import RunRecords
    from loopeng.schema import Run
    from loopeng.schema.attempts import RunKind
    from loopeng.store import LoopStore

__all__ = ["LATEST", "named_run", "read_report"]

LATEST = "latest"


def named_run(store: LoopStore, name: str, kinds: Sequence[RunKind] = ("suite", "rescore")) -> Run:
    """A run by its id, its beginning, or ``latest``: the newest of these kinds. Raises NotFoundError."""
    if name != LATEST:
        return store.run(name)
    newest = store.runs(kind=kinds, limit=1)
    if not newest:
        raise NotFoundError("there is no run yet; 'loopeng run task.yaml' makes one")
    return newest[0]


def read_report(store: LoopStore, run: Run) -> tuple[RunReport, RunRecords]:
    """What a report begins with, and the samples to go through."""
    from loopeng.cli.judge_views import judge_views
    from loopeng.report.run_report import RunReport
    from loopeng.run_rates import rates_of
    from loopeng.run_records import RunRecords
    from loopeng.run_summary import summarize

    task = store.task(run.task_hash)
    records = RunRecords(store, run, task)
    report = RunReport(
        summary=summarize(store, run.id),
        task=task,
        version=store.prompt_version(run.prompt_version_id),
        rates=rates_of(records, [spec.id for spec in task.evaluators]),
        judges=tuple(judge_views(store, run.id)),
    )
    return report, records
