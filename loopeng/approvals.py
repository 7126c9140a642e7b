"""Approve, edit, reject, snooze, rebase, roll back: the one way in which a person's word takes effect, for CLI, web and
Python.

A decision is a row first; only then is the graph woken, and whether it worked is read from the database. Nothing is
decided by default: who, and the hash of the text that was seen, are needed for every decision that settles a text. What
has to be tested again is queued: ``loopeng work`` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from loopeng.attempt.harness import Harness
from loopeng.cards import Card, card
from loopeng.errors import ConflictError, NotFoundError, StaleProposalError, UsageError
from loopeng.improve import NO_EVIDENCE, export_on_commit
from loopeng.improve.cycle import advance_or_look
from loopeng.improve.publishing import decision_evidence
from loopeng.improve.reflection.drafting import edited_revision
from loopeng.improve.reflection.rebasing import rebased_revision
from loopeng.schema import Decision, GateReport, PromptVersion, Proposal
from loopeng.schema.improvement import ProposalKind
from loopeng.schema.task import parse_duration
from loopeng.store import LoopStore

__all__ = [
    "Card",
    "Outcome",
    "approve",
    "card",
    "edit",
    "missing_evidence",
    "rebase",
    "reject",
    "rollback",
    "snooze",
]


@dataclass(frozen=True)
class Outcome:
    """What became of a decision. ``version`` is the new head after an approval was committed.

    An approval that another process will commit in a moment leaves ``version`` None and the proposal approved.
    """

    decision: Decision
    proposal: Proposal
    version: PromptVersion | None = None


def approve(
    store: LoopStore, proposal_id: str, *, by: str, seen: str, accept_untested: bool = False, reason: str = ""
) -> Outcome:
    """Approve the text whose hash begins with ``seen`` and make it the prompt's head.

    Raises UsageError where there is no evidence of improvement and ``accept_untested`` does not say that this is
    accepted; AlreadyDecidedError, StaleProposalError (also when the head moved before the commit),
    RevisionMismatchError or ConflictError where the proposal is not the pending one that was seen.
    """
    proposal, by = store.proposal(proposal_id), _name(by)
    store.check_decidable(proposal.id, proposal.revision, seen)  # the wrong text is the greater mistake
    missing = missing_evidence(store.gate_report(proposal.id, proposal.revision, "gate"), proposal.kind)
    if missing is not None and not accept_untested:
        raise UsageError(
            f"{proposal.id} has no evidence of improvement ({missing}): to approve it nevertheless pass "
            "accept_untested=True; the decision records it"
        )
    decision = store.decide(
        action="approve",
        proposal_id=proposal.id,
        revision=proposal.revision,
        seen_hash=seen,
        by=by,
        reason=reason.strip(),
        evidence=decision_evidence(store, proposal),
        accepted_untested=accept_untested and missing is not None,
    )
    proposal = advance_or_look(store, proposal.id)
    if proposal.state == "stale":
        raise StaleProposalError(f"the approval is recorded, but {proposal.id} is stale: {proposal.state_reason}")
    version = store.commit_proposal(proposal.id) if proposal.state == "committed" else None
    return Outcome(decision, proposal, version)


def missing_evidence(report: GateReport | None, kind: ProposalKind = "change") -> str | None:
    """Why an approval on this gate report has to say that it accepts a text without evidence; None where it need not.

    The evidence for a rollback is what its watch found, not a gate report.

    >>> missing_evidence(None)
    'no counts were made'
    """
    if kind == "rollback":
        return None
    if report is None:
        return "no counts were made"
    return report.note or report.verdict if report.verdict in NO_EVIDENCE else None


def reject(store: LoopStore, proposal_id: str, *, by: str, seen: str, reason: str) -> Outcome:
    """Refuse, with a reason that reaches the next reflection. Raises as ``approve``; UsageError without a reason."""
    proposal, by = store.proposal(proposal_id), _name(by)
    decision = store.decide(
        action="reject",
        proposal_id=proposal.id,
        revision=proposal.revision,
        seen_hash=seen,
        by=by,
        reason=_given(reason, "a rejection"),
        evidence=decision_evidence(store, proposal),
    )
    return Outcome(decision, advance_or_look(store, proposal.id))


def edit(
    store: LoopStore,
    proposal_id: str,
    *,
    by: str,
    seen: str,
    rules: Sequence[str],
    reason: str = "",
    now: bool = False,
    harness: Harness | None = None,
) -> Outcome:
    """Replace the proposed rules by this list: a new revision, to be tested and pending again afterwards.

    ``loopeng work`` tests it; with ``now`` it is tested before this returns, by ``harness`` or one made from the stored
    task. Raises as ``approve``, and UsageError where a guard refuses the rules, or for a rollback, which is approved or
    rejected as it is; then nothing is recorded.
    """
    proposal, by = store.proposal(proposal_id), _name(by)
    store.check_decidable(proposal.id, proposal.revision, seen)  # before the guards have their say
    if proposal.kind == "rollback":
        raise UsageError(f"{proposal.id} takes back a change; approve or reject it as it is")
    decision = store.decide(
        action="edit",
        proposal_id=proposal.id,
        revision=proposal.revision,
        seen_hash=seen,
        by=by,
        reason=reason.strip(),
        evidence=decision_evidence(store, proposal),
        new_revision=edited_revision(store, proposal, rules, by=by, reason=reason.strip()),
    )
    return Outcome(decision, advance_or_look(store, proposal.id, harness) if now else store.proposal(proposal.id))


def snooze(
    store: LoopStore,
    proposal_id: str,
    *,
    by: str,
    until: datetime | None = None,
    for_: str | timedelta | None = None,
    seen: str | None = None,
    reason: str = "",
) -> Outcome:
    """Put a proposal aside ``until`` a time, or ``for_`` a duration such as ``2d``; then it is pending again.

    The time asleep is added to its expiry, and it can be decided all the while. ``for_="0s"`` wakes one that sleeps.
    Raises UsageError where not exactly one of both is given, or it cannot be read, is past or too far away; and as
    ``approve`` where the proposal waits for no decision, or ``seen`` names another text.
    """
    if (until is None) == (for_ is None):
        raise UsageError("until when? give either until or for_")
    end = until if until is not None else _duration(for_)
    by, reason = _name(by), reason.strip()
    decision = store.snooze(proposal_id, until=end, by=by, reason=reason, seen_hash=seen)
    return Outcome(decision, store.proposal(proposal_id))


def rebase(
    store: LoopStore,
    proposal_id: str,
    *,
    by: str,
    reason: str = "",
    now: bool = False,
    harness: Harness | None = None,
) -> Outcome:
    """Make a stale proposal one for today's head: its operations on the rules as they are, as a new revision.

    It is tested as an edit is (``now``, ``harness``). Raises ConflictError where it is not stale, an open proposal is
    about the same patterns, or the head moves at the same moment; UsageError where nothing is left to change, a rule to
    change is gone or was reworded, a guard refuses the result, or it is a rollback.
    """
    proposal, by = store.proposal(proposal_id), _name(by)
    if proposal.state != "stale":
        raise ConflictError(f"{proposal.id} is {proposal.state}, not stale: there is nothing to rebase")
    if not proposal.revision or proposal.kind == "rollback":
        what = "takes back a change of an earlier version" if proposal.revision else "has no text yet"
        raise UsageError(f"{proposal.id} {what}: there is nothing to rebase; failures that come back lead to a new one")
    head = store.head(proposal.prompt_name)
    revision = rebased_revision(store, proposal, head, by=by)
    decision = store.rebase(proposal.id, revision, base_version_id=head.id, by=by, reason=reason.strip())
    return Outcome(decision, advance_or_look(store, proposal.id, harness) if now else store.proposal(proposal.id))


def rollback(store: LoopStore, prompt_name: str, *, to: str | int | None, by: str, reason: str) -> PromptVersion:
    """Move the head back to an earlier version, given by number or id; without one to the head's parent.

    Raises NotFoundError for an unknown version, UsageError for the head itself or without a reason, ConflictError when
    the head moves at the same moment.
    """
    by, reason, head = _name(by), _given(reason, "a rollback"), store.head(prompt_name)
    target = _version(store, head, to)
    if target.id == head.id:
        raise UsageError(f"version {head.number} is the head of {prompt_name!r} already")
    moved = store.rollback(prompt_name, to_version_id=target.id, seen_head_id=head.id, by=by, reason=reason)
    export_on_commit(store, prompt_name)
    return moved


def _duration(text: str | timedelta | None) -> timedelta:
    try:
        return text if isinstance(text, timedelta) else timedelta(seconds=parse_duration(text or ""))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"for how long? {error}") from error


def _name(by: str) -> str:
    return _given(by, "a decision", "a name: by")


def _given(text: str, what: str, needed: str = "a reason") -> str:
    if not text.strip():
        raise UsageError(f"{what} needs {needed}")
    return text.strip()


def _version(store: LoopStore, head: PromptVersion, to: str | int | None) -> PromptVersion:
    versions = store.prompt_versions(head.prompt_name)
    if to is None:
        if head.parent_id is None:
            raise UsageError(f"version {head.number} of {head.prompt_name!r} is the first: nothing to go back to")
        return store.prompt_version(head.parent_id)
    wanted = str(to).strip()
    numbered = [version for version in versions if str(version.number) == wanted.removeprefix("v")]
    found = numbered or [version for version in versions if wanted and version.id.startswith(wanted)]
    if len(found) != 1:
        known = ", ".join(f"{version.number} ({version.id})" for version in versions)
        raise NotFoundError(f"{head.prompt_name!r} has no version {to!r}; there are: {known}")
    return found[0]
