"""An application's traffic: its inputs as samples, its calls as repeats of them, and how long their texts are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import StatementError
from sqlmodel import Session, col, func, select

from loopeng.errors import ConflictError
from loopeng.schema import Attempt, PromptVersion, Run, Sample, SampleResult, Task, content_hash
from loopeng.store.attempts import add_attempt
from loopeng.store.live_purging import Purge, purge
from loopeng.store.live_tables import LiveCallRow, LiveSampleRow
from loopeng.store.patterns import ShownFailure, add_occurrence
from loopeng.store.prompts import version_with_text
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, values_of
from loopeng.store.tables import PromptVersionRow, RunRow, SampleResultRow
from loopeng.store.tasks import write_task

__all__ = ["LiveCall", "LiveRoom", "LiveSource", "Purge"]


@dataclass(frozen=True)
class LiveSource:
    """What calls that share a run have in common, but for the day (UTC)."""

    task: Task
    version: PromptVersion
    seed: int
    engine: Mapping[str, Any]

    @cached_property
    def _task_hash(self) -> str:
        return self.task.version_hash  # takes longer than a call should

    @cached_property
    def _hash(self) -> str:
        return content_hash([self._task_hash, self.version.id, self.seed, self.engine])

    def run(self, at: datetime) -> Run:
        """The run of a day. Its id says what it is of, so that all processes mean the same without asking.

        It is finished at any time: every call in it is whole, and nothing of it is ever resumed.
        """
        day = at.astimezone(UTC).date()
        return Run(
            id=f"live-{content_hash([self._hash, day.isoformat()])[:16]}",
            kind="live",
            task_name=self.task.name,
            task_hash=self._task_hash,
            prompt_name=self.version.prompt_name,
            prompt_version_id=self.version.id,
            seed=self.seed,
            status="finished",
            engine=dict(self.engine),
            created_at=at,
        )


@dataclass(frozen=True)
class LiveCall:
    """One call, answered: kept whole or not at all. ``id`` is its own, so that it can be written but once.

    ``attempts`` and ``result`` get the run and repeat that the call has in the database.
    """

    id: str
    source: LiveSource
    sample: Sample
    at: datetime
    attempts: tuple[Attempt, ...]
    result: SampleResult
    failures: tuple[ShownFailure, ...] = ()  # of the first attempt, where its sample is one of the reflect split


class LiveRoom(Room):
    """The part of the store that keeps traffic."""

    def begin_live_call(self, call_id: str, source: LiveSource, sample_id: str, at: datetime) -> tuple[str, int] | None:
        """The run of a call and which repeat of its sample it is; said twice, the same. Makes the run if need be.

        None where the prompt's version is not known here: that is mended when the call is saved.
        """
        with self._database.write() as session:
            return _place(session, call_id, source, sample_id, at) if _is_known(session, source) else None

    def save_live_calls(self, calls: Iterable[LiveCall]) -> dict[str, str]:
        """Keep calls in one step; one that is there already changes nothing.

        Returns by id why a call can never be kept; the others are. Raises StoreError where the database cannot be
        written now, and nothing is kept.
        """
        refused = {}
        with self._database.write() as session:
            for call in calls:
                try:
                    with session.begin_nested():
                        _write(session, call)
                except ConflictError as error:
                    refused[call.id] = str(error)
                except StatementError as error:
                    if _may_work_later(error.orig):
                        raise
                    refused[call.id] = str(error.orig)
        return refused

    def live_samples(self, prompt_name: str, *, limit: int | None = None) -> list[Sample]:
        """The inputs that are kept of a prompt's traffic, those sent last first."""
        query = select(LiveSampleRow).where(LiveSampleRow.prompt_name == prompt_name)
        with self._database.read() as session:
            rows = session.exec(query.order_by(col(LiveSampleRow.seen_at).desc()).limit(limit))
            return [
                Sample.model_validate({"id": row.sample_id, "inputs": row.inputs, "split": row.split}) for row in rows
            ]

    def purge_live(self, *, before: datetime | None, keep_samples: int | None, limit: int) -> Purge:
        """Take the texts of old calls out of the database, at most ``limit`` calls and samples of each kind at a time.

        Old is a call from before ``before``, and one of a sample that is not among the ``keep_samples`` of its prompt
        that were sent last. See ``live_purging`` for what goes and what stays.
        """
        with self._database.write() as session:
            done = purge(session, before=before, keep_samples=keep_samples, limit=limit)
        if done.num_calls or done.num_samples:
            self._database.empty_log()
        return done


def _place(session: Session, call_id: str, source: LiveSource, sample_id: str, at: datetime) -> tuple[str, int]:
    known = session.exec(select(LiveCallRow.run_id, LiveCallRow.repeat).where(LiveCallRow.id == call_id)).first()
    if known is not None:
        run_id, repeat = known
        return run_id, repeat
    run = source.run(at)
    if session.exec(select(RunRow.id).where(RunRow.id == run.id)).first() is None:
        write_task(session, source.task, at)
        insert_once(session, RunRow, values_of(run))
    same = LiveCallRow.run_id == run.id, LiveCallRow.sample_id == sample_id
    last = session.exec(select(func.max(LiveCallRow.repeat)).where(*same)).one()
    repeat = 0 if last is None else last + 1
    values = {"id": call_id, "run_id": run.id, "sample_id": sample_id, "repeat": repeat, "purged": False}
    insert_once(session, LiveCallRow, values | {"created_at": at})
    return run.id, repeat


def _write(session: Session, call: LiveCall) -> None:
    source = _with_known_version(session, call.source, call.at)
    run_id, repeat = _place(session, call.id, source, call.sample.id, call.at)
    place = {"run_id": run_id, "repeat": repeat}
    if not insert_once(session, SampleResultRow, values_of(call.result) | place):
        return
    _write_sample(session, source.version.prompt_name, call)
    for attempt in call.attempts:
        add_attempt(session, attempt.model_copy(update=place))
    where = {"run_id": run_id, "sample_id": call.sample.id, "prompt_version_id": source.version.id}
    for failure in call.failures:
        add_occurrence(session, source.version.prompt_name, failure, where | {"created_at": call.at})


def _write_sample(session: Session, prompt_name: str, call: LiveCall) -> None:
    values = {"prompt_name": prompt_name, "sample_id": call.sample.id, "inputs": call.sample.inputs}
    values |= {"split": call.sample.split, "created_at": call.at, "seen_at": call.at}
    table = LiveSampleRow.__table__  # type: ignore[attr-defined]
    statement = insert(table).values(values)
    latest = {"seen_at": func.max(table.c.seen_at, statement.excluded.seen_at)}
    session.exec(statement.on_conflict_do_update(index_elements=["prompt_name", "sample_id"], set_=latest))


def _with_known_version(session: Session, source: LiveSource, at: datetime) -> LiveSource:
    """Answers that were given while the database was away may be of a template that it does not know yet."""
    if _is_known(session, source):
        return source
    return LiveSource(source.task, version_with_text(session, source.version, at), source.seed, source.engine)


def _is_known(session: Session, source: LiveSource) -> bool:
    return session.exec(select(PromptVersionRow.id).where(PromptVersionRow.id == source.version.id)).first() is not None


def _may_work_later(error: BaseException | None) -> bool:
    """Whether it is the database that is at fault: locked, full, not writable, gone. A broken row stays broken."""
    lasting = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, lasting)
