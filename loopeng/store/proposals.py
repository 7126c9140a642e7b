"""Proposals, their revisions and gate reports."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from loopeng.errors import ConflictError, NotFoundError, RevisionMismatchError, UsageError
from loopeng.schema import Decision, GateReport, PromptVersion, Proposal, Revision, Task
from loopeng.schema.improvement import PatternState, ProposalKind, ProposalState
from loopeng.store.deliveries import put_into_outbox
from loopeng.store.improve_tables import DecisionRow, GateReportRow, ProposalRow, RevisionRow
from loopeng.store.lifecycle import change_state, mark_patterns, open_proposals_about, overdue, settle
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tasks import write_task

__all__ = ["PROPOSABLE_STATES", "ProposalRoom", "add_revision", "insert_proposal", "refuse_shared_patterns"]

PROPOSABLE_STATES: frozenset[PatternState] = frozenset({"open", "reopened", "watching", "fixed"})
_BY_DECISION = frozenset({"approved", "rejected", "committed"})


class ProposalRoom(Room):
    """The part of the store that keeps proposals up to their decision."""

    def create_proposal(
        self,
        *,
        task: Task,
        base: PromptVersion,
        pattern_ids: Collection[str],
        expires_at: datetime | None,
        kind: ProposalKind = "change",
        revision: Revision | None = None,
    ) -> Proposal:
        """Start a proposal in drafting, or in testing where its first ``revision`` is there already, in one step.

        Its patterns become "proposed"; the revision's proposal id and number are set here.

        Raises ConflictError if an open proposal for the same prompt has one of the patterns. A base that is not the
        head is no error here: the proposal is stale when it is read.
        """
        now = self._clock()
        with self._database.write() as session:
            settle(session, now)
            refuse_shared_patterns(session, base.prompt_name, pattern_ids)
            row = insert_proposal(
                session,
                task,
                base,
                revision,
                pattern_ids=tuple(pattern_ids),
                kind=kind,
                state="drafting" if revision is None else "testing",
                expires_at=expires_at,
                created_at=now,
            )
            return noun_of(Proposal, row)

    def save_revision(self, revision: Revision) -> Revision:
        """Keep the next revision and make it the current one; a second time, return the one kept the first time.

        Raises NotFoundError, or RevisionMismatchError if it is not the next.
        """
        with self._database.write() as session:
            return add_revision(session, find(session, ProposalRow, revision.proposal_id), revision)

    def revision(self, proposal_id: str, revision: int | None = None) -> Revision:
        """A revision, by default the current one. Raises NotFoundError."""
        with self._database.read() as session:
            row = find(session, ProposalRow, proposal_id)
            number = row.revision if revision is None else revision
            kept = session.get(RevisionRow, (row.id, number))
            if kept is None:
                raise NotFoundError(f"{row.id} has no revision {number}; there are: 1 to {row.revision}")
            return noun_of(Revision, kept)

    def revisions(self, proposal_id: str) -> list[Revision]:
        """All revisions, the first one first. Raises NotFoundError."""
        with self._database.read() as session:
            row = find(session, ProposalRow, proposal_id)
            query = select(RevisionRow).where(RevisionRow.proposal_id == row.id).order_by(col(RevisionRow.revision))
            return [noun_of(Revision, kept) for kept in session.exec(query)]

    def move_proposal(
        self,
        proposal_id: str,
        *,
        to: ProposalState,
        frm: Collection[str],
        reason: str | None = None,
        expires_at: datetime | None = None,
        webhook_url: str | None = None,
        revision: int | None = None,
    ) -> bool:
        """Compare and swap on the state: False, and nothing changes, when it is not one of ``frm``.

        With ``revision`` that must be the current one, too: what is said of one text must not move another.
        ``expires_at`` sets until when somebody must decide: the time runs from publication, not from drafting. With
        ``webhook_url`` the call that tells of the current revision is put into the outbox in the same step.

        A state that frees the patterns (archived, stale, expired) puts them back to "open". A committed proposal never
        moves. Raises NotFoundError, and UsageError for states that only ``decide`` and ``commit_proposal`` give.
        """
        if to in _BY_DECISION:
            raise UsageError(f"a proposal becomes {to!r} by decide() or commit_proposal(), which leave a record")
        now = self._clock()
        with self._database.write() as session:
            settle(session, now)
            row = find(session, ProposalRow, proposal_id)
            if row.state not in frm or row.state == "committed" or revision not in (None, row.revision):
                return False
            change_state(session, row, to, reason)
            row.expires_at = expires_at or row.expires_at
            if webhook_url is not None:
                put_into_outbox(session, row, webhook_url, now)
            return True

    def proposal(self, proposal_id: str) -> Proposal:
        """A proposal by its id or the beginning of it, expired or stale if it is by now. Raises NotFoundError."""
        self._settle()
        with self._database.read() as session:
            return noun_of(Proposal, find(session, ProposalRow, proposal_id))

    def proposals(self, *, prompt_name: str | None = None, states: Collection[str] | None = None) -> list[Proposal]:
        """Proposals, the oldest first, expired or stale if they are by now."""
        self._settle()
        query = select(ProposalRow).order_by(col(ProposalRow.seq))
        if prompt_name is not None:
            query = query.where(ProposalRow.prompt_name == prompt_name)
        if states is not None:
            query = query.where(col(ProposalRow.state).in_(states))
        with self._database.read() as session:
            return [noun_of(Proposal, row) for row in session.exec(query)]

    def save_gate_report(self, report: GateReport) -> GateReport:
        """Keep the evidence for a revision on a split; a second time, return what was kept the first time."""
        with self._database.write() as session:
            insert_once(session, GateReportRow, values_of(report))
            kept = session.get_one(GateReportRow, (report.proposal_id, report.revision, report.split))
            return noun_of(GateReport, kept)

    def gate_report(self, proposal_id: str, revision: int, split: str = "gate") -> GateReport | None:
        """The evidence for a revision on a split, if there is any yet."""
        with self._database.read() as session:
            row = session.get(GateReportRow, (proposal_id, revision, split))
            return noun_of(GateReport, row) if row is not None else None

    def gate_reports(self, proposal_id: str, revision: int) -> dict[str, GateReport]:
        """All of it by split, the gate before the hold-out."""
        reports = {split: self.gate_report(proposal_id, revision, split) for split in ("gate", "holdout")}
        return {split: report for split, report in reports.items() if report is not None}

    def rejected(self, prompt_name: str) -> list[tuple[Proposal, Revision, Decision]]:
        """What people rejected for this prompt and why, the oldest first. Expired and stale ones are not among it."""
        this_revision = (col(RevisionRow.proposal_id) == DecisionRow.proposal_id) & (
            col(RevisionRow.revision) == DecisionRow.revision
        )
        query = (
            select(ProposalRow, RevisionRow, DecisionRow)
            .join(DecisionRow, col(DecisionRow.proposal_id) == ProposalRow.id)
            .join(RevisionRow, this_revision)
            .where(DecisionRow.prompt_name == prompt_name, DecisionRow.action == "reject")
            .order_by(col(DecisionRow.seq))
        )
        with self._database.read() as session:
            return [
                (noun_of(Proposal, proposal), noun_of(Revision, revision), noun_of(Decision, decision))
                for proposal, revision, decision in session.exec(query)
            ]

    def _settle(self) -> None:
        now = self._clock()
        with self._database.read() as session:
            any_overdue = bool(overdue(session, now))
        if any_overdue:
            with self._database.write() as session:
                settle(session, now)


def insert_proposal(
    session: Session, task: Task, base: PromptVersion, revision: Revision | None, *, created_at: datetime, **fields: Any
) -> ProposalRow:
    """Insert a new proposal with its first revision, if it has one; its patterns become "proposed"."""
    proposal = Proposal(
        id=new_id(session, ProposalRow),
        prompt_name=base.prompt_name,
        task_name=task.name,
        task_hash=write_task(session, task, created_at),
        base_version_id=base.id,
        created_at=created_at,
        **fields,
    )
    insert_once(session, ProposalRow, values_of(proposal))
    row = find(session, ProposalRow, proposal.id)
    if revision is not None:
        add_revision(session, row, revision.model_copy(update={"proposal_id": row.id, "revision": 1}))
    mark_patterns(session, proposal.pattern_ids, to="proposed", frm=PROPOSABLE_STATES)
    return row


def add_revision(session: Session, proposal: ProposalRow, revision: Revision) -> Revision:
    """Insert the next revision of a proposal, or return the one with its number."""
    kept = session.get(RevisionRow, (proposal.id, revision.revision))
    if kept is not None:
        return noun_of(Revision, kept)
    if revision.revision != proposal.revision + 1:
        raise RevisionMismatchError(
            f"the next revision of {proposal.id} is {proposal.revision + 1}, not {revision.revision}"
        )
    insert_once(session, RevisionRow, values_of(revision))
    proposal.revision = revision.revision
    session.add(proposal)
    session.flush()
    return revision


def refuse_shared_patterns(session: Session, prompt_name: str, pattern_ids: Collection[str]) -> None:
    """Raise ConflictError where an open proposal for the prompt is about one of the patterns already."""
    for row in open_proposals_about(session, prompt_name, pattern_ids):
        shared = sorted(set(pattern_ids) & set(row.pattern_ids))
        raise ConflictError(f"{row.id} ({row.state}) is about {', '.join(shared)} already")
