"""What is watched after a commit, what later runs say about it, and the proposals to take a commit back."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlmodel import Session, and_, col, select

from loopeng.schema import (
    EvalResult,
    PromptVersion,
    Proposal,
    Revision,
    Run,
    Task,
    Watch,
    WatchCheck,
)
from loopeng.schema.improvement import PatternState
from loopeng.store.deliveries import put_into_outbox
from loopeng.store.improve_tables import ProposalRow, WatchRow
from loopeng.store.lifecycle import mark_patterns, open_proposals_about, settle
from loopeng.store.prompts import head_version
from loopeng.store.proposals import insert_proposal
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of
from loopeng.store.tables import AttemptRow, EvalResultRow, PromptVersionRow, RunRow, SampleResultRow

__all__ = ["WatchRoom"]

_STATE_AFTER: dict[str, tuple[PatternState, frozenset[PatternState]]] = {
    "reopened": ("reopened", frozenset({"watching", "fixed"})),
    "no_better": ("reopened", frozenset({"watching", "fixed"})),
    "fixed": ("fixed", frozenset({"watching"})),
}
_ASKED_AGAIN = frozenset({"stale", "expired"})  # nobody has answered


class WatchRoom(Room):
    """The part of the store that keeps an eye on committed changes."""

    def save_watch(self, watch: Watch) -> None:
        """Keep a watch; a second time nothing changes."""
        with self._database.write() as session:
            insert_once(session, WatchRow, values_of(watch))

    def watches(self, prompt_name: str) -> list[Watch]:
        """What is being watched for a prompt, the oldest first."""
        query = (
            select(WatchRow)
            .join(PromptVersionRow, col(PromptVersionRow.id) == WatchRow.prompt_version_id)
            .where(PromptVersionRow.prompt_name == prompt_name)
            .order_by(col(PromptVersionRow.number), col(WatchRow.pattern_id))
        )
        with self._database.read() as session:
            return [noun_of(Watch, row) for row in session.exec(query)]

    def save_watch_check(self, watch: Watch, check: WatchCheck) -> bool:
        """Keep what a run says of a watch, and move the pattern as it says. False if that run has spoken already.

        The rates it was held against are kept with it: merging another pattern into the watched one changes them.
        """
        with self._database.write() as session:
            row = session.get_one(WatchRow, (watch.prompt_version_id, watch.pattern_id))
            known = noun_of(Watch, row).check
            if known is not None and known.run_id == check.run_id:
                return False
            row.check = check.model_dump(mode="json")
            for name in ("rate_before", "rate_after", "lower_bound", "upper_bound"):
                setattr(row, name, getattr(watch, name))
            session.add(row)
            session.flush()
            if check.outcome in _STATE_AFTER:
                to, frm = _STATE_AFTER[check.outcome]
                mark_patterns(session, [watch.pattern_id], to=to, frm=frm)
            return True

    def finished_suite_runs(self, version_ids: Collection[str]) -> list[Run]:
        """The finished suite runs under any of the versions, in the order in which they finished."""
        query = select(RunRow).where(RunRow.kind == "suite", RunRow.status == "finished")
        query = query.where(col(RunRow.prompt_version_id).in_(version_ids))
        with self._database.read() as session:
            rows = session.exec(query.order_by(col(RunRow.finished_at), col(RunRow.seq)))
            return [noun_of(Run, row) for row in rows]

    def first_judged(self, run_id: str) -> list[tuple[str, int, str]]:
        """(sample id, repeat, split) of every first attempt of a run that is not in error, by sample and repeat."""
        query = select(SampleResultRow.sample_id, SampleResultRow.repeat, SampleResultRow.split)
        query = query.where(SampleResultRow.run_id == run_id, SampleResultRow.first_verdict != "error")
        with self._database.read() as session:
            rows = session.exec(query.order_by(col(SampleResultRow.sample_id), col(SampleResultRow.repeat)))
            return [(sample_id, repeat, split) for sample_id, repeat, split in rows]

    def first_failures(self, run_id: str) -> dict[tuple[str, int], list[EvalResult]]:
        """By sample and repeat, what did not pass at the first attempt. Errors are no failures."""
        same = and_(
            col(EvalResultRow.run_id) == AttemptRow.run_id,
            col(EvalResultRow.sample_id) == AttemptRow.sample_id,
            col(EvalResultRow.repeat) == AttemptRow.repeat,
            col(EvalResultRow.attempt_index) == AttemptRow.attempt_index,
        )
        query = select(EvalResultRow).join(AttemptRow, same).where(AttemptRow.run_id == run_id)
        query = query.where(AttemptRow.attempt_index == 0, col(EvalResultRow.passed).is_(False))
        found: dict[tuple[str, int], list[EvalResult]] = {}
        with self._database.read() as session:
            for row in session.exec(query.order_by(col(EvalResultRow.position))):
                found.setdefault((row.sample_id, row.repeat), []).append(noun_of(EvalResult, row))
        return found

    def rollbacks_asked_for(self, watch: Watch) -> list[Proposal]:
        """The proposals to take back the watched commit, the oldest first."""
        with self._database.read() as session:
            watched = session.exec(select(ProposalRow).where(ProposalRow.id == watch.proposal_id)).one()
            return [noun_of(Proposal, row) for row in _rollbacks_of(session, watched, watch.created_at)]

    def propose_rollback(
        self, watch: Watch, *, task: Task, base: PromptVersion, revision: Revision, expires_at: datetime
    ) -> Proposal | None:
        """Ask whether the watched commit shall be taken back: a pending proposal with ``revision`` as its first.

        The call of the task's webhook that tells of it is put into the outbox in the same step.

        Once per commit: None where somebody was asked and has answered or may still do so, where the head is no longer
        ``base``, or while an open proposal is about one of the patterns; that one has to be decided first.
        """
        now = self._clock()
        with self._database.write() as session:
            settle(session, now)
            watched = session.exec(select(ProposalRow).where(ProposalRow.id == watch.proposal_id)).one()
            if not _may_be_asked(session, watched, watch, base):
                return None
            row = insert_proposal(
                session,
                task,
                base,
                revision,
                pattern_ids=tuple(watched.pattern_ids),
                kind="rollback",
                state="pending",
                expires_at=expires_at,
                created_at=now,
            )
            if task.approval.webhook is not None:
                put_into_outbox(session, row, task.approval.webhook.url, now)
            return noun_of(Proposal, row)


def _may_be_asked(session: Session, watched: ProposalRow, watch: Watch, base: PromptVersion) -> bool:
    asked = {row.state for row in _rollbacks_of(session, watched, watch.created_at)}
    if asked - _ASKED_AGAIN or head_version(session, base.prompt_name).id != base.id:
        return False
    return not open_proposals_about(session, base.prompt_name, watched.pattern_ids)


def _rollbacks_of(session: Session, watched: ProposalRow, since: datetime) -> list[ProposalRow]:
    """A later commit for the same patterns has watches of its own: what was asked since a watch began is about it."""
    query = select(ProposalRow).where(
        ProposalRow.kind == "rollback", ProposalRow.prompt_name == watched.prompt_name, ProposalRow.created_at >= since
    )
    rows = session.exec(query.order_by(col(ProposalRow.seq)))
    return [row for row in rows if set(row.pattern_ids) == set(watched.pattern_ids)]
