"""Failure patterns and their occurrences. A count is a COUNT over unique rows.

A pattern that was merged keeps its row, which leads its fingerprint on to the pattern it was merged into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, and_, case, col, func, select

from loopeng.schema import FailurePattern, FaultSide
from loopeng.schema.improvement import PatternState
from loopeng.schema.live import Source
from loopeng.store.live_tables import LiveCallRow
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import FailurePatternRow, OccurrenceRow, PromptRow, RunRow, SampleResultRow

__all__ = ["Failure", "PatternRoom", "SeenSample", "ShownFailure", "add_occurrence", "root_of"]


@dataclass(frozen=True)
class Failure:
    """One occurrence, with the beginning of its run; of an application's call, when it was noted."""

    pattern_id: str
    run_id: str
    sample_id: str
    at: datetime


@dataclass(frozen=True)
class SeenSample:
    """A sample of the reflect split that a suite run finished, or that an application sent."""

    sample_id: str
    judged: bool  # a first attempt was not in error
    at: datetime  # the run's beginning; the latest of an application's calls


@dataclass(frozen=True)
class ShownFailure:
    """What a first attempt showed, by the names that a pattern has for it."""

    fingerprint: str
    evaluator: str
    category: str
    reason: str
    remedy: str | None
    fault_side: FaultSide


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
        shown = ShownFailure(fingerprint, evaluator, category, reason, remedy, fault_side)
        where = {"run_id": run_id, "sample_id": sample_id, "prompt_version_id": prompt_version_id}
        with self._database.write() as session:
            return add_occurrence(session, prompt_name, shown, where | {"created_at": self._clock()})

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

    def failures_under(self, prompt_version_id: str, source: Source | None = None) -> list[Failure]:
        """Every occurrence under a version, the oldest first; only those of runs, or of an application's calls."""
        is_live = col(RunRow.kind) == "live"
        at = case((is_live, col(OccurrenceRow.created_at)), else_=col(RunRow.created_at))
        query: Any = (
            select(OccurrenceRow.pattern_id, OccurrenceRow.run_id, OccurrenceRow.sample_id, at)
            .join(RunRow, col(RunRow.id) == OccurrenceRow.run_id)
            .where(OccurrenceRow.prompt_version_id == prompt_version_id)
            .order_by(at, col(RunRow.seq), col(OccurrenceRow.sample_id))
        )
        if source is not None:
            query = query.where(is_live if source == "live" else ~is_live)
        with self._database.read() as session:
            return [Failure(*values) for values in session.exec(query)]

    def seen_samples(self, prompt_version_id: str, source: Source = "suite") -> list[SeenSample]:
        """The reflect samples that suite runs under a version finished, one entry per (run, sample); or those that an
        application sent.
        """
        judged = func.max(case((col(SampleResultRow.first_verdict) != "error", 1), else_=0))
        at = func.max(col(LiveCallRow.created_at)) if source == "live" else col(RunRow.created_at)
        query: Any = (
            select(SampleResultRow.sample_id, judged, at)
            .join(RunRow, col(RunRow.id) == SampleResultRow.run_id)
            .where(RunRow.prompt_version_id == prompt_version_id, RunRow.kind == source)
            .where(SampleResultRow.split == "reflect")
            .group_by(col(SampleResultRow.run_id), col(SampleResultRow.sample_id))
        )
        if source == "live":
            query = query.join(
                LiveCallRow,
                and_(
                    col(LiveCallRow.run_id) == SampleResultRow.run_id,
                    col(LiveCallRow.sample_id) == SampleResultRow.sample_id,
                    col(LiveCallRow.repeat) == SampleResultRow.repeat,
                ),
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


def add_occurrence(session: Session, prompt_name: str, shown: ShownFailure, where: Mapping[str, Any]) -> str:
    """Insert an occurrence, and its pattern where it is new. Returns the pattern's id.

    ``where`` are the columns of the occurrence but for its pattern.
    """
    pattern = FailurePattern(
        id=new_id(session, FailurePatternRow), prompt_name=prompt_name, created_at=where["created_at"], **vars(shown)
    )
    pattern_id = _known_or_new(session, pattern)
    insert_once(session, OccurrenceRow, {"pattern_id": pattern_id, **where})
    return pattern_id


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
