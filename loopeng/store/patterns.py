"""Failure patterns and their occurrences. A count is a COUNT over unique rows.

A pattern that was merged keeps its row, which leads its fingerprint on to the pattern it was merged into.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, and_, case, col, func, select

from loopeng.schema import FailurePattern, FaultSide
from loopeng.schema.improvement import PatternState
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import FailurePatternRow, OccurrenceRow, PromptRow, RunRow, SampleResultRow

__all__ = ["Failure", "PatternRoom", "SeenSample", "root_of"]


@dataclass(frozen=True)
class Failure:
    """One occurrence, with the beginning of its run."""

    pattern_id: str
    run_id: str
    sample_id: str
    at: datetime


@dataclass(frozen=True)
class SeenSample:
    """A sample of the reflect split that a suite run finished."""

    sample_id: str
    judged: bool  # a first attempt was not in error
    at: datetime  # the run's beginning


class PatternRoom(Room):
    """The part of the store that remembers mistakes."""

    def record_occurrence(  # noqa: PLR0913  all that is known of a failure
        self,
        *,
        prompt_name: str,
        prompt_version_id: str,
        run_id: str,
        sample_id: str,
        fingerprint: str,
        evaluator: str,
        category: str,
        reason: str,
        remedy: str | None,
        fault_side: FaultSide,
    ) -> str:
        """Note that a sample showed a failure: once per pattern, run and sample. Returns the pattern's id.

        The fingerprint of a pattern that was merged counts for the one it was merged into.
        """
        now = self._clock()
        with self._database.write() as session:
            pattern = FailurePattern(
                id=new_id(session, FailurePatternRow),
                prompt_name=prompt_name,
                fingerprint=fingerprint,
                evaluator=evaluator,
                category=category,
                reason=reason,
                remedy=remedy,
                fault_side=fault_side,
                created_at=now,
            )
            pattern_id = _known_or_new(session, pattern)
            occurrence = {"pattern_id": pattern_id, "run_id": run_id, "sample_id": sample_id}
            insert_once(
                session, OccurrenceRow, occurrence | {"prompt_version_id": prompt_version_id, "created_at": now}
            )
            return pattern_id

    def patterns(self, prompt_name: str | None = None) -> list[FailurePattern]:
        """The patterns with their counts under the current head, the most frequent first."""
        query = _counted()
        if prompt_name is not None:
            query = query.where(FailurePatternRow.prompt_name == prompt_name)
        with self._database.read() as session:
            return [_pattern_of(*counted) for counted in session.exec(query)]

    def pattern(self, pattern_id: str) -> FailurePattern:
        """A pattern by its id or the beginning of it. Raises NotFoundError."""
        with self._database.read() as session:
            found = find(session, FailurePatternRow, pattern_id)
            return _pattern_of(*session.exec(_counted().where(FailurePatternRow.id == found.id)).one())

    def occurrences(self, pattern_id: str, *, prompt_version_id: str | None = None) -> list[tuple[str, str]]:
        """(run id, sample id) of every occurrence, the oldest first. Raises NotFoundError."""
        order = col(OccurrenceRow.created_at), col(OccurrenceRow.run_id), col(OccurrenceRow.sample_id)
        query = select(OccurrenceRow.run_id, OccurrenceRow.sample_id).order_by(*order)
        if prompt_version_id is not None:
            query = query.where(OccurrenceRow.prompt_version_id == prompt_version_id)
        with self._database.read() as session:
            found = find(session, FailurePatternRow, pattern_id)
            return [(run, sample) for run, sample in session.exec(query.where(OccurrenceRow.pattern_id == found.id))]

    def patterns_of_run(self, run_id: str) -> list[FailurePattern]:
        """The patterns that a run showed, with their counts under the current head."""
        shown = select(OccurrenceRow.pattern_id).where(OccurrenceRow.run_id == run_id)
        with self._database.read() as session:
            return [_pattern_of(*each) for each in session.exec(_counted().where(col(FailurePatternRow.id).in_(shown)))]

    def failures_under(self, prompt_version_id: str) -> list[Failure]:
        """Every occurrence under a version, the oldest first."""
        query = (
            select(OccurrenceRow.pattern_id, OccurrenceRow.run_id, OccurrenceRow.sample_id, RunRow.created_at)
            .join(RunRow, col(RunRow.id) == OccurrenceRow.run_id)
            .where(OccurrenceRow.prompt_version_id == prompt_version_id)
            .order_by(col(RunRow.created_at), col(RunRow.seq), col(OccurrenceRow.sample_id))
        )
        with self._database.read() as session:
            return [Failure(*values) for values in session.exec(query)]

    def seen_samples(self, prompt_version_id: str) -> list[SeenSample]:
        """The reflect samples that suite runs under a version finished, one entry per (run, sample)."""
        judged = func.max(case((col(SampleResultRow.first_verdict) != "error", 1), else_=0))
        query: Any = (
            select(SampleResultRow.sample_id, judged, RunRow.created_at)
            .join(RunRow, col(RunRow.id) == SampleResultRow.run_id)
            .where(RunRow.prompt_version_id == prompt_version_id, RunRow.kind == "suite")
            .where(SampleResultRow.split == "reflect")
            .group_by(col(SampleResultRow.run_id), col(SampleResultRow.sample_id))
        )
        with self._database.read() as session:
            return [SeenSample(sample_id, bool(was_judged), at) for sample_id, was_judged, at in session.exec(query)]

    def pattern_of_fingerprint(self, prompt_name: str, fingerprint: str) -> str | None:
        """The id of the pattern that failures with this fingerprint count for, if there is one."""
        same = FailurePatternRow.prompt_name == prompt_name, FailurePatternRow.fingerprint == fingerprint
        with self._database.read() as session:
            row = session.exec(select(FailurePatternRow).where(*same)).first()
            return None if row is None else root_of(session, row).id

    def set_pattern_state(self, pattern_id: str, state: PatternState) -> None:
        """Raises NotFoundError."""
        with self._database.write() as session:
            row = find(session, FailurePatternRow, pattern_id)
            row.state = state
            session.add(row)


def _known_or_new(session: Session, pattern: FailurePattern) -> str:
    insert_once(session, FailurePatternRow, values_of(pattern, exclude={"num_occurrences", "num_samples"}))
    same = FailurePatternRow.prompt_name == pattern.prompt_name, FailurePatternRow.fingerprint == pattern.fingerprint
    row = session.exec(select(FailurePatternRow).where(*same)).one()
    root = root_of(session, row)
    for known in (row, root) if root.evaluator == row.evaluator else (row,):
        if pattern.remedy and known.remedy != pattern.remedy:  # the task's evaluator has another one by now
            known.remedy = pattern.remedy
            session.add(known)
            session.flush()
    return root.id


def root_of(session: Session, row: FailurePatternRow) -> FailurePatternRow:
    """The pattern that a row's failures count for: itself, or where its merges lead to. They make no circle."""
    while row.merged_into is not None:
        row = session.exec(select(FailurePatternRow).where(FailurePatternRow.id == row.merged_into)).one()
    return row


def _counted() -> Any:
    """Patterns, each with its occurrences under the head and the distinct samples among them."""
    num_occurrences = func.count(col(OccurrenceRow.pattern_id))
    num_samples = func.count(col(OccurrenceRow.sample_id).distinct())
    under_head = and_(
        col(OccurrenceRow.pattern_id) == FailurePatternRow.id,
        col(OccurrenceRow.prompt_version_id) == PromptRow.head_id,
    )
    return (
        select(FailurePatternRow, num_occurrences, num_samples)
        .outerjoin(PromptRow, col(PromptRow.name) == FailurePatternRow.prompt_name)
        .outerjoin(OccurrenceRow, under_head)
        .group_by(col(FailurePatternRow.seq))
        .order_by(num_occurrences.desc(), num_samples.desc(), col(FailurePatternRow.seq))
    )


def _pattern_of(row: FailurePatternRow, num_occurrences: int, num_samples: int) -> FailurePattern:
    return noun_of(FailurePattern, row, num_occurrences=num_occurrences, num_samples=num_samples)
