"""The last station before a person: into the queue, or past it where the task allows that and the evidence is there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from loopeng.attempt.events import ProgressEvent, ProposalMoved
from loopeng.improve.watch.undoing import watches_behind
from loopeng.improve.webhook import deliver_due
from loopeng.schema import GateReport, Proposal, Revision, utc_now
from loopeng.schema.task import AutoCommitSpec, parse_duration
from loopeng.store import LoopStore

__all__ = ["decision_evidence", "publish_proposal", "why_not_automatic"]


def publish_proposal(store: LoopStore, proposal: Proposal, on_event: Callable[[ProgressEvent], None]) -> bool:
    """Let a tested proposal (or a rollback) wait for a person, and tell the task's webhook; the time to decide begins.

    At the autonomy level ``commit`` a pass within ``approval.auto_commit`` is approved instead, as a decision of its
    own kind; what is not says why. False when somebody else has moved the proposal.
    """
    approval = store.task(proposal.task_hash).approval
    reason = None
    if approval.autonomy == "commit":
        reason = _approve(store, proposal, approval.auto_commit)
        if reason is None:
            on_event(ProposalMoved(proposal.id, "approved", "automatically"))
            return True
        reason = f"not committed automatically: {reason}"
    moved = store.move_proposal(
        proposal.id,
        to="pending",
        frm={"testing"} if proposal.kind == "change" else {"drafting", "testing"},
        reason=reason,
        expires_at=utc_now() + timedelta(seconds=parse_duration(approval.expires)),
        webhook_url=approval.webhook.url if approval.webhook is not None else None,
        revision=proposal.revision,
    )
    if moved:
        on_event(ProposalMoved(proposal.id, "pending", reason))
        if approval.webhook is not None:
            deliver_due(store, proposal_id=proposal.id, on_event=on_event)
    return moved


def why_not_automatic(
    proposal: Proposal, revision: Revision, gate: GateReport | None, holdout: GateReport | None, limits: AutoCommitSpec
) -> str | None:
    """What keeps a proposal from being committed without a person, but for the number of the day; None if nothing does.

    Denied by default: evidence that is not there is a reason.
    """
    if proposal.kind != "change":
        return "it takes back a change"
    if gate is None or gate.verdict != "pass":
        return f"the verdict is {gate.verdict}, not pass" if gate is not None else "there is no gate report"
    if holdout is None or not holdout.pairs.num_pairs:
        return "nothing was counted on hold-out samples"
    if holdout.pairs.candidate_passed < holdout.pairs.baseline_passed:
        return f"it is worse on the hold-out samples ({holdout.summary})"
    if len(revision.operations) > limits.max_operations:
        limit = f"approval.auto_commit.max_operations: {limits.max_operations}"
        return f"it changes {len(revision.operations)} rules ({limit})"
    return None


def decision_evidence(store: LoopStore, proposal: Proposal) -> dict[str, Any]:
    """What there is to see at the moment of a decision; of a rollback, what its watches found."""
    evidence: dict[str, Any] = {
        split: {
            "verdict": report.verdict,
            "note": report.note,
            "pairs": report.pairs.model_dump(),
            "num_errors": report.num_errors,
            "test": None if report.test is None else report.test.model_dump(),
            "by_evaluator": {name: count.model_dump() for name, count in report.by_evaluator.items()},
        }
        for split, report in store.gate_reports(proposal.id, proposal.revision).items()
    }
    if proposal.kind == "rollback":
        evidence["watch"] = [
            watch.model_dump(mode="json", exclude={"created_at"})
            for watch in watches_behind(store, proposal)
            if watch.check is not None
        ]
    return evidence


def _approve(store: LoopStore, proposal: Proposal, limits: AutoCommitSpec) -> str | None:
    """Approve without a person; why not, where that may not be."""
    revision = store.revision(proposal.id, proposal.revision)
    reports = store.gate_reports(proposal.id, proposal.revision)
    refusal = why_not_automatic(proposal, revision, reports.get("gate"), reports.get("holdout"), limits)
    if refusal is not None:
        return refusal
    per_day = f"approval.auto_commit.max_per_day: {limits.max_per_day}"
    decision = store.approve_automatically(
        proposal,
        revision.text_hash,
        reason=f"approval.autonomy is commit; a pass within max_operations: {limits.max_operations}, {per_day}",
        evidence=decision_evidence(store, proposal),
        max_per_day=limits.max_per_day,
    )
    return None if decision is not None else f"as many as allowed were within 24 hours ({per_day})"
