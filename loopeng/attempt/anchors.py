"""The anchors of a run's judges: judged once in every run, at its end."""

from __future__ import annotations

from loopeng.attempt.harness import Harness
from loopeng.evaluators.parts import walk_parts
from loopeng.ports import AnchoredEvaluator, EvaluationContext
from loopeng.schema import Run

__all__ = ["judge_anchors"]


def judge_anchors(harness: Harness, run: Run) -> None:
    """Judge the anchors that this run has not judged yet, and keep the agreement. The cache has no part in it."""
    known = {report.evaluator for report in harness.store.anchor_reports(run.id)}
    context = EvaluationContext(engine=harness.engine, retry_delays_s=harness.retry_delays_s)
    for name, evaluator in walk_parts(harness.evaluators):
        if isinstance(evaluator, AnchoredEvaluator) and name not in known:
            report = evaluator.judge_anchors(context)
            if report is not None:
                harness.store.save_anchor_report(run.id, report.model_copy(update={"evaluator": name}))
