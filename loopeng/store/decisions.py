"""What people decide, and what follows from it: commit and rollback. One write session each, all or nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from sqlmodel import Session, col, func, select

from loopeng.errors import AlreadyDecidedError, ConflictError, RevisionMismatchError, StaleProposalError, UsageError
from loopeng.prompts import names_text
from loopeng.schema import DECIDABLE_STATES, Decision, PromptVersion, Proposal, Revision
from loopeng.schema.improvement import ProposalState
from loopeng.store.improve_tables import DecisionRow, ProposalRow, RevisionRow
from loopeng.store.lifecycle import change_state, mark_patterns, settle
from loopeng.store.prompts import add_version, head_version, move_head
from loopeng.store.proposals import ProposalRoom, add_revision
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import PromptVersionRow

__all__ = ["DecisionRoom", "find_decidable"]

_STATE_AFTER: dict[str, ProposalState] = {"approve": "approved", "edit": "testing", "reject": "rejected"}


class DecisionRoom(ProposalRoom):
    """The part of the store where a person's word is kept and takes effect."""

    def decide(  # noqa: PLR0913  a decision records all of it
        self,
        *,
        action: Literal["approve", "edit", "reject"],
        proposal_id: str,
        revision: int,
        seen_hash: str,
        by: str,
        reason: str = "",
        evidence: dict[str, Any] | None = None,
        accepted_untested: bool = False,
        new_revision: Revision | None = None,
    ) -> Decision:
        """Keep a decision and move the proposal: approved, rejected, or testing with ``new_revision`` as the next one.

        Raises AlreadyDecidedError, StaleProposalError, RevisionMismatchError (another revision or text is pending), or
        ConflictError (the proposal has expired or is not pending); then nothing is written.
        """
        if (action == "edit") != (new_revision is not None):
            raise UsageError("an edit, and only an edit, brings a new revision")
        now = self._clock()
        self._settle()  # kept even if the decision is refused below
        with self._database.write() as session:
            settle(session, now)
            row = find_decidable(session, proposal_id, revision, seen_hash)
            decision = Decision(
                id=new_id(session, DecisionRow),
                action=action,
                prompt_name=row.prompt_name,
                proposal_id=row.id,
                revision=revision,
                by=by,
                reason=reason,
                seen_hash=seen_hash,
                evidence=evidence or {},
                accepted_untested=accepted_untested,
                created_at=now,
            )
            return _take_effect(session, row, decision, new_revision)

    def approve_automatically(
        self, proposal: Proposal, text_hash: str, *, reason: str, evidence: dict[str, Any], max_per_day: int
    ) -> Decision | None:
        """Approve a tested proposal without a person; None, and nothing is kept, where that may not be.

        It may not where the proposal has moved, or where within 24 hours ``max_per_day`` were approved so for its
        prompt. Nobody is asked, so it is never pending.
        """
        now = self._clock()
        with self._database.write() as session:
            settle(session, now)
            row = find(session, ProposalRow, proposal.id)
            num_today = _num_automatic(session, row.prompt_name, now - timedelta(days=1))
            if (row.state, row.revision) != ("testing", proposal.revision) or num_today >= max_per_day:
                return None
            decision = Decision(
                id=new_id(session, DecisionRow),
                action="approve",
                prompt_name=row.prompt_name,
                proposal_id=row.id,
                revision=row.revision,
                by="loopeng",
                reason=reason,
                seen_hash=text_hash,
                evidence=evidence,
                automatic=True,
                created_at=now,
            )
            return _take_effect(session, row, decision, None)

    def check_decidable(self, proposal_id: str, revision: int, seen_hash: str) -> None:
        """Raise what ``decide`` would raise for these, and keep nothing."""
        self._settle()
        with self._database.read() as session:
            find_decidable(session, proposal_id, revision, seen_hash)

    def decision(self, proposal_id: str, revision: int) -> Decision | None:
        """The decision on a revision, if there is one."""
        with self._database.read() as session:
            return _decision_on(session, proposal_id, revision)

    def decisions(self, *, prompt_name: str | None = None, proposal_id: str | None = None) -> list[Decision]:
        """Decisions, the oldest first."""
        query = select(DecisionRow).order_by(col(DecisionRow.seq))
        if prompt_name is not None:
            query = query.where(DecisionRow.prompt_name == prompt_name)
        if proposal_id is not None:
            query = query.where(DecisionRow.proposal_id == proposal_id)
        with self._database.read() as session:
            return [noun_of(Decision, row) for row in session.exec(query)]

    def commit_proposal(self, proposal_id: str) -> PromptVersion | None:
        """Make an approved proposal the head, once; None if the head moved meanwhile (the proposal is stale then).

        Its patterns are watched from here on (those of a rollback reopened), and open proposals for the same prompt go
        stale.
        Raises NotFoundError, and ConflictError where there is no approval.
        """
        now = self._clock()
        with self._database.write() as session:
            settle(session, now)
            row = find(session, ProposalRow, proposal_id)
            if row.state == "stale":
                return None
            if row.state == "committed":
                made = session.exec(select(PromptVersionRow).where(PromptVersionRow.proposal_id == row.id)).one()
                return noun_of(PromptVersion, made)
            approval = _decision_on(session, row.id, row.revision)
            if row.state != "approved" or approval is None or approval.action != "approve":
                raise ConflictError(f"{row.id} is {row.state}, not approved")
            version = _commit(session, noun_of(Proposal, row), approval)
            change_state(session, row, "committed", f"as {version.id}")
            if row.kind == "rollback":
                mark_patterns(session, row.pattern_ids, to="reopened", frm={"open", "proposed", "watching", "fixed"})
            else:
                mark_patterns(session, row.pattern_ids, to="watching", frm={"open", "proposed", "reopened"})
            settle(session, now)
            return version

    def rollback(
        self, prompt_name: str, *, to_version_id: str, seen_head_id: str, by: str, reason: str
    ) -> PromptVersion:
        """Move the head (back) to another version, as a decision; open proposals made for another head go stale.

        The patterns that the versions left behind were made for are reopened.
        Raises NotFoundError, UsageError for the head itself or a version of another prompt, and ConflictError if the
        head is not ``seen_head_id``.
        """
        now = self._clock()
        with self._database.write() as session:
            head = head_version(session, prompt_name)
            target = noun_of(PromptVersion, find(session, PromptVersionRow, to_version_id))
            if head.id != seen_head_id:
                raise ConflictError(f"the head of {prompt_name!r} is {head.id}, not {seen_head_id}")
            if target.prompt_name != prompt_name or target.id == head.id:
                raise UsageError(f"{target.id} is not another version of {prompt_name!r}")
            decision = Decision(
                id=new_id(session, DecisionRow),
                action="rollback",
                prompt_name=prompt_name,
                version_id=target.id,
                by=by,
                reason=reason,
                seen_hash=head.text_hash,
                evidence={"from_version_id": head.id},
                created_at=now,
            )
            insert_once(session, DecisionRow, values_of(decision))
            move_head(session, prompt_name, frm=head.id, to=target.id)
            _reopen_patterns(session, left=head, now_at=target)
            settle(session, now)
            return target


def _decision_on(session: Session, proposal_id: str, revision: int) -> Decision | None:
    on = DecisionRow.proposal_id == proposal_id, DecisionRow.revision == revision
    row = session.exec(select(DecisionRow).where(*on)).first()
    return noun_of(Decision, row) if row is not None else None


def find_decidable(session: Session, proposal_id: str, revision: int, seen_hash: str | None) -> ProposalRow:
    """The proposal, if it waits for a decision on this text (None: on any); else the ConflictError that says why."""
    row = find(session, ProposalRow, proposal_id)
    if earlier := _decision_on(session, row.id, revision):
        done = f"{earlier.action} by {earlier.by} at {earlier.created_at:%Y-%m-%d %H:%M} UTC"
        raise AlreadyDecidedError(f"{row.id} revision {revision} is decided: {done}")
    if row.state == "stale":
        raise StaleProposalError(f"{row.id} is stale: {row.state_reason}")
    if revision != row.revision:
        raise RevisionMismatchError(f"{row.id} is at revision {row.revision}, not {revision}: look again")
    if row.state not in DECIDABLE_STATES or revision == 0:
        raise ConflictError(f"{row.id} is {row.state}: {row.state_reason or 'it is not waiting for a decision'}")
    if seen_hash is None:
        return row
    text_hash = noun_of(Revision, session.get_one(RevisionRow, (row.id, revision))).text_hash
    if not names_text(seen_hash, text_hash):
        raise RevisionMismatchError(
            f"{row.id} revision {revision} has the text {text_hash[:8]}, not {seen_hash!r}: look again"
        )
    return row


def _take_effect(session: Session, row: ProposalRow, decision: Decision, new_revision: Revision | None) -> Decision:
    if not insert_once(session, DecisionRow, values_of(decision)):
        raise AlreadyDecidedError(f"{row.id} revision {decision.revision} is decided")
    if new_revision is not None:
        numbered = {"proposal_id": row.id, "revision": row.revision + 1}
        add_revision(session, row, new_revision.model_copy(update=numbered))
    reason = f"edited by {decision.by}; 'loopeng work' tests it" if decision.action == "edit" else decision.reason
    change_state(session, row, _STATE_AFTER[decision.action], reason or None)
    return decision


def _num_automatic(session: Session, prompt_name: str, since: datetime) -> int:
    """Approvals without a person for a prompt."""
    made = (
        DecisionRow.prompt_name == prompt_name,
        DecisionRow.action == "approve",
        col(DecisionRow.automatic),
        col(DecisionRow.created_at) > since,
    )
    return session.exec(select(func.count()).select_from(DecisionRow).where(*made)).one()


def _commit(session: Session, proposal: Proposal, approval: Decision) -> PromptVersion:
    head = head_version(session, proposal.prompt_name)
    revision = noun_of(Revision, session.get_one(RevisionRow, (proposal.id, proposal.revision)))
    version = add_version(
        session,
        parent=head,
        prompt_name=head.prompt_name,
        template=head.template,
        rules=revision.rules,
        text_hash=revision.text_hash,
        source="rollback" if proposal.kind == "rollback" else "proposal",
        proposal_id=proposal.id,
        revision=revision.revision,
        created_by=approval.by,
        created_at=approval.created_at,
    )
    move_head(session, head.prompt_name, frm=proposal.base_version_id, to=version.id)
    return version


def _reopen_patterns(session: Session, *, left: PromptVersion, now_at: PromptVersion) -> None:
    """The rules of proposals that are in ``left`` and not in ``now_at`` work no more: their failures may come back."""
    undone = _proposals_in(session, left) - _proposals_in(session, now_at)
    for row in session.exec(select(ProposalRow).where(col(ProposalRow.id).in_(undone))):
        mark_patterns(session, row.pattern_ids, to="reopened", frm={"watching", "fixed"})


def _proposals_in(session: Session, version: PromptVersion) -> set[str]:
    """The proposals committed on the way from the first version to this one."""
    found: set[str] = set()
    step: PromptVersionRow | None = session.get_one(PromptVersionRow, version.id)
    while step is not None:
        found |= {step.proposal_id} if step.proposal_id else set()
        step = session.get(PromptVersionRow, step.parent_id) if step.parent_id else None
    return found
