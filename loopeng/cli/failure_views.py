"""Failure patterns with real outputs, for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loopeng.patterns.miner import faults_of
from loopeng.report.terminal import FailureView

if TYPE_CHECKING:
    from loopeng.schema import FailurePattern, Run
    from loopeng.store import LoopStore

__all__ = ["failure_document", "failure_views", "shown_example"]


def failure_views(store: LoopStore, run: Run, reasons: Mapping[str, str] | None = None) -> list[FailureView]:
    """The model's own failures that this run showed, most frequent first, each with one real output.

    ``reasons`` says by pattern why it leads to no proposal. What broke is reported as an error.
    """
    views, why = [], reasons or {}
    for pattern in store.patterns(run.prompt_name):
        if pattern.fault_side != "model":
            continue
        samples = sorted(sample for run_id, sample in store.occurrences(pattern.id) if run_id == run.id)
        if samples:
            example = shown_example(store, pattern, run.id, samples[0])
            views.append(FailureView(pattern, len(samples), **(example or {}), unproposed=why.get(pattern.id, "")))
    return sorted(views, key=lambda view: -view.num_samples)


def failure_document(view: FailureView) -> dict[str, Any]:
    """A failure of a run as plain values."""
    example = {"sample_id": view.sample_id, "reason": view.reason, "output": view.output} if view.sample_id else None
    return {
        "pattern": view.pattern,
        "num_samples": view.num_samples,
        "example": example,
        "no_proposal": view.unproposed or None,
    }


def shown_example(store: LoopStore, pattern: FailurePattern, run_id: str, sample_id: str) -> dict[str, str] | None:
    """What a first attempt of an occurrence came to, and what was wrong with it.

    An occurrence that a merge brought may be of another category or evaluator than the pattern's.
    """
    firsts = [attempt for attempt in store.attempts(run_id, sample_id) if attempt.attempt_index == 0]
    found = [(attempt, fault) for attempt in firsts for fault in faults_of(attempt) if fault.side == pattern.fault_side]
    if not found:
        return None
    wanted = pattern.category, pattern.evaluator
    attempt, fault = max(found, key=lambda it: (it[1].source == wanted[1], it[1].category == wanted[0]))
    return {"sample_id": sample_id, "reason": fault.reason, "output": attempt.text}
