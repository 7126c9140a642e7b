"""Failure patterns and their occurrences. A count is a COUNT over unique rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlmodel import Session, and_, col, func, select

from loopeng.schema import FailurePattern, FaultSide
from loopeng.schema.improvement import PatternState
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import FailurePatternRow, OccurrenceRow, PromptRow

__all__ = ["PatternRoom"]


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
        """Note that a sample showed a failure: once per pattern, run and sample. Returns the pattern's id."""
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

    def failing_samples(self, prompt_version_id: str) -> dict[str, frozenset[str]]:
        """The samples that failed under a version, each with the ids of the patterns it showed."""
        query = select(OccurrenceRow.sample_id, OccurrenceRow.pattern_id).distinct()
        patterns = defaultdict(set)
        with self._database.read() as session:
            for sample_id, pattern_id in session.exec(
                query.where(OccurrenceRow.prompt_version_id == prompt_version_id)
            ):
                patterns[sample_id].add(pattern_id)
        return {sample_id: frozenset(ids) for sample_id, ids in sorted(patterns.items())}

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
    if pattern.remedy and row.remedy != pattern.remedy:  # the task's evaluator has another one by now
        row.remedy = pattern.remedy
        session.add(row)
        session.flush()
    return row.id


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
