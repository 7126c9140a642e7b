"""What is written down at a commit, so that later runs can tell whether the failure stays away."""

from __future__ import annotations

from loopeng.schema import FailurePattern, GateReport, Proposal, Watch, utc_now
from loopeng.store import LoopStore

__all__ = ["watch_rows"]


def watch_rows(store: LoopStore, proposal: Proposal) -> list[Watch]:
    """One row per pattern of a committed proposal, with the failure rates that the gate counted."""
    version = store.commit_proposal(proposal.id)  # committed already: this only reads it
    if version is None:
        return []
    report = store.gate_report(proposal.id, store.revision(proposal.id).revision, "gate")
    rows = []
    for pattern_id in proposal.pattern_ids:
        before, after = _rates(store, proposal, store.pattern(pattern_id), report)
        rows.append(
            Watch(
                prompt_version_id=version.id,
                pattern_id=pattern_id,
                proposal_id=proposal.id,
                rate_before=before,
                rate_after=after,
                created_at=utc_now(),
            )
        )
    return rows


def _rates(
    store: LoopStore, proposal: Proposal, pattern: FailurePattern, report: GateReport | None
) -> tuple[float, float]:
    """Failure rates of the pattern's evaluator in both arms; without counts, the reflect split's rate for both."""
    pairs = report.by_evaluator.get(pattern.evaluator) if report else None
    if pairs is not None and pairs.num_pairs:
        return 1 - pairs.baseline_passed / pairs.num_pairs, 1 - pairs.candidate_passed / pairs.num_pairs
    samples = {sample.id for sample in store.task(proposal.task_hash).samples if sample.split == "reflect"}
    seen = {sample for _, sample in store.occurrences(pattern.id, prompt_version_id=proposal.base_version_id)}
    rate = len(seen & samples) / len(samples) if samples else 0.0
    return rate, rate
