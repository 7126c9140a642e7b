"""What people do with patterns: merge two that are one mistake, mute one that is none. Each is a decision that stays.

A decision about patterns settles no revision; its evidence names the patterns. It is written in the session in which it
takes effect.
"""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, col, select

from loopeng.errors import ConflictError, UsageError
from loopeng.schema import Decision, FailurePattern
from loopeng.schema.improvement import Action, PatternState
from loopeng.store.improve_tables import DecisionRow, ProposalRow
from loopeng.store.lifecycle import open_proposals_about, settle
from loopeng.store.patterns import PatternRoom, root_of
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import FailurePatternRow, OccurrenceRow

__all__ = ["MergingRoom"]

_ABOUT_PATTERNS: tuple[Action, ...] = ("merge", "mute", "unmute")


class MergingRoom(PatternRoom):
    """The part of the store where people put patterns in order. Nothing here happens by itself."""

    def merge_patterns(self, source: str, into: str, *, by: str, reason: str = "") -> FailurePattern:
        """Count the failures of one pattern, past and future ones, with another. Returns the other.

        ``source`` keeps its row, without occurrences. Raises NotFoundError; UsageError for a pattern and itself, two
        prompts, or faults of different sides; ConflictError where one of them is merged already, or where a proposal or
        a watch needs the source as it is.
        """
        by = _name(by)
        with self._database.write() as session:
            settle(session, self._clock())
            gone, kept = find(session, FailurePatternRow, source), find(session, FailurePatternRow, into)
            _refuse_what_does_not_go_together(session, gone, kept)
            num_moved = _move_occurrences(session, gone.id, kept.id)
            evidence = {"reasons": [gone.reason, kept.reason], "num_occurrences": num_moved}
            self._decide(session, "merge", (gone, kept), by, reason, evidence)
            gone.merged_into, gone.state_reason = kept.id, _because(f"merged into {kept.id} by {by}", reason)
            session.add(gone)
            session.flush()
            kept_id = kept.id
        return self.pattern(kept_id)

    def mute_pattern(self, pattern_id: str, *, by: str, reason: str) -> FailurePattern:
        """Let a pattern lead to no proposal; its failures are counted as before.

        Raises NotFoundError, UsageError without a name or a reason, ConflictError where it is muted or merged already.
        """
        by = _name(by)
        if not reason.strip():
            raise UsageError("muting a failure needs a reason")
        with self._database.write() as session:
            row = find(session, FailurePatternRow, pattern_id)
            _refuse_merged(session, row)
            if row.state == "muted":
                raise ConflictError(f"{row.id} is muted already: {row.state_reason or 'no reason is known'}")
            self._decide(session, "mute", (row,), by, reason, {"state": row.state})
            _set_state(session, row, "muted", reason.strip())
        return self.pattern(pattern_id)

    def unmute_pattern(self, pattern_id: str, *, by: str, reason: str = "") -> FailurePattern:
        """Give a muted pattern the state it had. Raises NotFoundError, and ConflictError where it is not muted."""
        by = _name(by)
        with self._database.write() as session:
            settle(session, self._clock())
            row = find(session, FailurePatternRow, pattern_id)
            _refuse_merged(session, row)
            if row.state != "muted":
                raise ConflictError(f"{row.id} is {row.state}, not muted")
            self._decide(session, "unmute", (row,), by, reason, {"state": row.state})
            _set_state(session, row, _state_before_mute(session, row), None)
        return self.pattern(pattern_id)

    def pattern_decisions(self, pattern_id: str) -> list[Decision]:
        """What people decided about a pattern itself, the oldest first. Raises NotFoundError."""
        with self._database.read() as session:
            return _decisions_about(session, find(session, FailurePatternRow, pattern_id))

    def _decide(
        self,
        session: Session,
        action: Action,
        rows: tuple[FailurePatternRow, ...],
        by: str,
        reason: str,
        evidence: dict[str, Any],
    ) -> None:
        decision = Decision(
            id=new_id(session, DecisionRow),
            action=action,
            prompt_name=rows[0].prompt_name,
            by=by,
            reason=reason.strip(),
            seen_hash=rows[0].fingerprint,
            evidence={"pattern_ids": [row.id for row in rows]} | evidence,
            created_at=self._clock(),
        )
        insert_once(session, DecisionRow, values_of(decision))


def _refuse_what_does_not_go_together(session: Session, gone: FailurePatternRow, kept: FailurePatternRow) -> None:
    if gone.id == kept.id:
        raise UsageError(f"{gone.id} cannot be merged into itself")
    if gone.prompt_name != kept.prompt_name:
        raise UsageError(
            f"{gone.id} is a failure of prompt {gone.prompt_name!r}, {kept.id} one of {kept.prompt_name!r}: "
            "only failures of one prompt can be merged"
        )
    if gone.fault_side != kept.fault_side:
        raise UsageError(
            f"{gone.id} is the fault of the {gone.fault_side}, {kept.id} of the {kept.fault_side}: "
            "counted together they would mislead"
        )
    _refuse_merged(session, gone)
    _refuse_merged(session, kept)
    about_it = _open_proposal(session, gone)
    if about_it is not None:
        raise ConflictError(
            f"{about_it.id} ({about_it.state}) is about {gone.id}: decide it first, or merge the other way round"
        )
    if gone.state == "watching":
        raise ConflictError(
            f"{gone.id} is being watched after a commit, which counts its failures: merge the other way round"
        )


def _refuse_merged(session: Session, row: FailurePatternRow) -> None:
    if row.merged_into is not None:
        raise ConflictError(f"{row.id} was merged: name {root_of(session, row).id}, which its failures count for")


def _open_proposal(session: Session, pattern: FailurePatternRow) -> ProposalRow | None:
    return next(iter(open_proposals_about(session, pattern.prompt_name, [pattern.id])), None)


def _move_occurrences(session: Session, frm: str, to: str) -> int:
    """A (run, sample) that showed both counts once. Returns how many the source had."""
    rows = session.exec(select(OccurrenceRow).where(OccurrenceRow.pattern_id == frm)).all()
    for row in rows:
        insert_once(session, OccurrenceRow, row.model_dump() | {"pattern_id": to})
        session.delete(row)
    session.flush()
    return len(rows)


def _set_state(session: Session, row: FailurePatternRow, state: PatternState, reason: str | None) -> None:
    row.state, row.state_reason = state, reason
    session.add(row)
    session.flush()


def _state_before_mute(session: Session, row: FailurePatternRow) -> PatternState:
    """What it was when it was muted; proposed only where a proposal is open now."""
    if _open_proposal(session, row) is not None:
        return "proposed"
    mutes = [each for each in _decisions_about(session, row) if each.action == "mute"]
    before: PatternState = mutes[-1].evidence.get("state", "open") if mutes else "open"
    return "open" if before == "proposed" else before


def _decisions_about(session: Session, row: FailurePatternRow) -> list[Decision]:
    query = select(DecisionRow).where(DecisionRow.prompt_name == row.prompt_name)
    query = query.where(col(DecisionRow.action).in_(_ABOUT_PATTERNS)).order_by(col(DecisionRow.seq))
    return [noun_of(Decision, each) for each in session.exec(query) if row.id in each.evidence.get("pattern_ids", ())]


def _because(what: str, reason: str) -> str:
    return f"{what}: {reason.strip()}" if reason.strip() else what


def _name(by: str) -> str:
    if not by.strip():
        raise UsageError("a decision needs a name: by")
    return by.strip()
