"""Proposals that shall not be decided now: put to sleep for a while, or made anew for a head that moved."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from sqlmodel import Session

from loopeng.errors import ConflictError, RevisionMismatchError, StaleProposalError, UsageError
from loopeng.schema import Decision, Revision
from loopeng.schema.improve_sections import LONGEST_WAIT_S
from loopeng.store.decisions import find_decidable
from loopeng.store.improve_tables import DecisionRow, ProposalRow, RevisionRow
from loopeng.store.lifecycle import change_state, mark_patterns, settle
from loopeng.store.prompts import head_version
from loopeng.store.proposals import PROPOSABLE_STATES, ProposalRoom, add_revision, refuse_shared_patterns
from loopeng.store.rows import find, insert_once, new_id, values_of
from loopeng.store.tables import PromptVersionRow

__all__ = ["PostponingRoom"]

_LONGEST_SLEEP = timedelta(seconds=LONGEST_WAIT_S)


class PostponingRoom(ProposalRoom):
    """The part of the store where a proposal is kept for later. Its decisions settle no revision."""

    def snooze(
        self, proposal_id: str, *, until: datetime | timedelta, by: str, reason: str = "", seen_hash: str | None = None
    ) -> Decision:
        """Let a proposal sleep; the time asleep is added to its expiry. ``until`` now wakes one that sleeps.

        A duration counts from now. Raises UsageError for a time that is past or more than ten years away, and as
        ``decide`` where the proposal waits for no decision, or (with ``seen_hash``) is not the text that was seen.
        """
        now = self._clock()
        self._settle()
        with self._database.write() as session:
            settle(session, now)
            found = find(session, ProposalRow, proposal_id)
            row = find_decidable(session, found.id, found.revision, seen_hash)
            wake_at = _wake_at(row, until, now)
            asleep_until = row.snoozed_until or now
            if row.expires_at is not None:
                row.expires_at += wake_at - asleep_until
            row.snoozed_until = wake_at
            evidence = {"revision": row.revision, "until": wake_at.isoformat(timespec="seconds")}
            change_state(session, row, "snoozed" if wake_at > now else "pending", row.state_reason)
            return _record(session, row, "snooze", by=by, reason=reason, now=now, evidence=evidence, seen=seen_hash)

    def rebase(
        self, proposal_id: str, revision: Revision, *, base_version_id: str, by: str, reason: str = ""
    ) -> Decision:
        """Make a stale proposal one for ``base_version_id`` with ``revision`` as its next text, to be tested.

        Raises ConflictError where the proposal is not stale (any more), its revision is not the one that ``revision``
        follows, the head is not ``base_version_id``, or an open proposal is about one of its patterns.
        """
        now = self._clock()
        self._settle()
        with self._database.write() as session:
            settle(session, now)
            row = find(session, ProposalRow, proposal_id)
            if row.state != "stale":
                raise ConflictError(f"{row.id} is {row.state}, not stale: there is nothing to rebase")
            head = head_version(session, row.prompt_name)
            if head.id != base_version_id:
                raise StaleProposalError(
                    f"the head of {row.prompt_name!r} moved to version {head.number}: rebase again"
                )
            if revision.revision != row.revision + 1:
                raise RevisionMismatchError(f"{row.id} is at revision {row.revision} by now: rebase again")
            refuse_shared_patterns(session, row.prompt_name, row.pattern_ids)
            base = session.get_one(PromptVersionRow, row.base_version_id)
            evidence: dict[str, Any] = {
                "revision": row.revision,
                "from_version": base.number,
                "from_version_id": base.id,
                "to_version": head.number,
                "to_version_id": head.id,
            }
            decision = _record(session, row, "rebase", by=by, reason=reason, now=now, evidence=evidence)
            add_revision(session, row, revision)
            row.base_version_id, row.expires_at = head.id, None  # the time to decide runs from publication
            change_state(session, row, "testing", f"rebased by {by}; 'loopeng work' tests it")
            mark_patterns(session, row.pattern_ids, to="proposed", frm=PROPOSABLE_STATES)
            return decision


def _wake_at(row: ProposalRow, until: datetime | timedelta, now: datetime) -> datetime:
    """When the proposal is to wake; now for one that sleeps wakes it at once."""
    if isinstance(until, datetime) and until.tzinfo is None:
        raise UsageError(f"until when? {until.isoformat()} names no time zone")
    duration = until - now if isinstance(until, datetime) else until
    if duration < timedelta(0) or (duration == timedelta(0) and row.state != "snoozed"):
        raise UsageError(f"{row.id} can only sleep until some later time" + _hint(row))
    if duration > _LONGEST_SLEEP:
        raise UsageError("a proposal sleeps at most ten years (520w); reject it if it shall not come back")
    return now + duration


def _hint(row: ProposalRow) -> str:
    return "; to wake it now snooze it for 0s" if row.state == "snoozed" else f"; it is {row.state} now"


def _record(
    session: Session,
    row: ProposalRow,
    action: Literal["snooze", "rebase"],
    *,
    by: str,
    reason: str,
    now: datetime,
    evidence: dict[str, Any],
    seen: str | None = None,
) -> Decision:
    text_hash = session.get_one(RevisionRow, (row.id, row.revision)).text_hash
    decision = Decision(
        id=new_id(session, DecisionRow),
        action=action,
        prompt_name=row.prompt_name,
        proposal_id=row.id,
        by=by,
        reason=reason,
        seen_hash=seen or text_hash,
        evidence=evidence,
        created_at=now,
    )
    insert_once(session, DecisionRow, values_of(decision))
    return decision
