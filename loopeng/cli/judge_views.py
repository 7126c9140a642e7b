"""The judges of a run, from its rows to the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopeng.report.judges import JudgeView
from loopeng.schema import JudgeUsage

if TYPE_CHECKING:
    from loopeng.store import LoopStore

__all__ = ["judge_views"]


def judge_views(store: LoopStore, run_id: str) -> list[JudgeView]:
    """What judges cost in a run and how they did on their anchors."""
    usages = store.judge_usage(run_id)
    reports = {report.evaluator: report for report in store.anchor_reports(run_id)}
    names = [*usages, *(name for name in reports if name not in usages)]
    return [JudgeView(name, usages.get(name, JudgeUsage()), reports.get(name)) for name in names]
