"""Attempts with their results, and how each sample ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, case, col, func, select

from loopeng.schema import Attempt, EvalResult, SampleResult, Usage
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of
from loopeng.store.tables import AttemptRow, EvalResultRow, SampleResultRow

__all__ = ["AttemptRoom", "RunTotals", "add_attempt"]

_USAGE = tuple(Usage.model_fields)


@dataclass(frozen=True)
class RunTotals:
    """What the attempts of a run came to, added up by the database."""

    num_attempts: int
    num_errors: int  # engine, agent or evaluator broke
    usage: Usage
    latency_s: float
    num_decoded_tokens: int  # in decode passes: without the token that prefill yields, one an attempt


class AttemptRoom(Room):
    """The part of the store that keeps what happened to samples."""

    def save_attempt(self, attempt: Attempt) -> bool:
        """Keep an attempt and its results, both or neither. False, and nothing changes, if it is there already."""
        with self._database.write() as session:
            return add_attempt(session, attempt)

    def attempts(
        self, run_id: str, sample_id: str | Collection[str] | None = None, repeat: int | None = None
    ) -> list[Attempt]:
        """The attempts of a run, of one of its samples or of several, by sample, repeat and attempt index."""
        query = select(AttemptRow).where(AttemptRow.run_id == run_id)
        if sample_id is not None:
            query = query.where(col(AttemptRow.sample_id).in_(_several(sample_id)))
        if repeat is not None:
            query = query.where(AttemptRow.repeat == repeat)
        ordered = query.order_by(col(AttemptRow.sample_id), col(AttemptRow.repeat), col(AttemptRow.attempt_index))
        with self._database.read() as session:
            results = _results_of(session, run_id, sample_id)
            return [
                _attempt_of(row, results[row.sample_id, row.repeat, row.attempt_index]) for row in session.exec(ordered)
            ]

    def save_sample_result(self, result: SampleResult) -> bool:
        """Keep how a sample ended. False, and nothing changes, if that is known already."""
        with self._database.write() as session:
            return insert_once(session, SampleResultRow, values_of(result))

    def sample_results(self, run_id: str) -> list[SampleResult]:
        """How the samples of a run ended, by sample and repeat."""
        query = select(SampleResultRow).where(SampleResultRow.run_id == run_id)
        with self._database.read() as session:
            rows = session.exec(query.order_by(col(SampleResultRow.sample_id), col(SampleResultRow.repeat)))
            return [noun_of(SampleResult, row) for row in rows]

    def run_usage(self, run_id: str) -> tuple[int, Usage]:
        """How many attempts a run made, and what they cost together."""
        totals = self.run_totals(run_id)
        return totals.num_attempts, totals.usage

    def run_totals(self, run_id: str) -> RunTotals:
        """The sums over a run's attempts, without reading them: a run may have many."""
        decoded = case((col(AttemptRow.decode_passes) > 0, col(AttemptRow.generated_tokens) - 1), else_=0)
        error = case((col(AttemptRow.verdict) == "error", 1), else_=0)
        terms = [error, col(AttemptRow.latency_s), decoded, *(getattr(AttemptRow, name) for name in _USAGE)]
        sums = [func.coalesce(func.sum(term), 0) for term in terms]
        query: Any = select(func.count(col(AttemptRow.run_id)), *sums).where(AttemptRow.run_id == run_id)
        with self._database.read() as session:
            num_attempts, num_errors, latency_s, num_decoded, *usage = session.exec(query).one()
        return RunTotals(
            num_attempts=num_attempts,
            num_errors=num_errors,
            usage=Usage(**dict(zip(_USAGE, usage, strict=True))),
            latency_s=float(latency_s),
            num_decoded_tokens=num_decoded,
        )


def add_attempt(session: Session, attempt: Attempt) -> bool:
    """Insert an attempt with its results; whether it was inserted."""
    values = values_of(attempt, exclude={"results", "usage"}) | attempt.usage.model_dump()
    if not insert_once(session, AttemptRow, values):
        return False
    key = {name: values[name] for name in ("run_id", "sample_id", "repeat", "attempt_index")}
    for position, result in enumerate(attempt.results):
        insert_once(session, EvalResultRow, key | {"position": position} | values_of(result))
    return True


def _results_of(
    session: Session, run_id: str, sample_id: str | Collection[str] | None
) -> defaultdict[tuple[str, int, int], list[EvalResult]]:
    query = select(EvalResultRow).where(EvalResultRow.run_id == run_id)
    if sample_id is not None:
        query = query.where(col(EvalResultRow.sample_id).in_(_several(sample_id)))
    results = defaultdict(list)
    for row in session.exec(query.order_by(col(EvalResultRow.position))):
        results[row.sample_id, row.repeat, row.attempt_index].append(noun_of(EvalResult, row))
    return results


def _several(sample_id: str | Collection[str]) -> Collection[str]:
    return [sample_id] if isinstance(sample_id, str) else sample_id


def _attempt_of(row: AttemptRow, results: list[EvalResult]) -> Attempt:
    usage = Usage(**{name: getattr(row, name) for name in _USAGE})
    return noun_of(Attempt, row, usage=usage, results=tuple(results))
