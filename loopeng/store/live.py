"""An application's traffic: its inputs as samples, its calls as repeats of them, and how long their texts are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.exc import StatementError
from sqlmodel import Session, col, func, select

from loopeng.errors import LoopError, StoreError
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

__all__ = ["LiveCall", "LiveRoom", "LiveSource", "Purge", "SavedCalls"]


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

    ``repeat`` is the one that its seeds were made with. It has that one in the database too, unless it is None or
    another call has it; ``attempts`` and ``result`` get what it has.
    """

    id: str
    source: LiveSource
    sample: Sample
    at: datetime
    repeat: int | None
    attempts: tuple[Attempt, ...]
    result: SampleResult
    failures: tuple[ShownFailure, ...] = ()  # of the first attempt, where its sample is one of the reflect split


@dataclass(frozen=True)
class SavedCalls:
    """By the calls' ids: run and repeat of those that are kept, and why others can never be."""

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class LiveRoom(Room):
    """The part of the store that keeps traffic."""

    def next_repeat(self, run_id: str, sample_id: str) -> int:
        """The repeat that the next call of a sample would be; which one it is, is decided when it is saved."""
        with self._database.read() as session:
            return _next_repeat(session, run_id, sample_id)

    def save_live_calls(self, calls: Iterable[LiveCall]) -> SavedCalls:
        """Keep calls in one step; one that is there already changes nothing.

        Raises StoreError where the database cannot be written now, and nothing is kept.
        """
        saved = SavedCalls()
        with self._database.write() as session:
            for call in calls:
                try:
                    with session.begin_nested():
                        saved.places[call.id] = _write(session, call)
                except StoreError:
                    raise
                except LoopError as error:  # what it was answered by cannot be adopted any more
                    saved.refused[call.id] = str(error)
                except StatementError as error:
                    if _may_work_later(error.orig):
                        raise
                    saved.refused[call.id] = str(error.orig)
                except Exception as error:  # noqa: BLE001  as of a number that SQLite cannot hold: it holds up no others
                    saved.refused[call.id] = f"{type(error).__name__}: {error}"
        return saved

    def live_samples(self, prompt_name: str, *, limit: int | None = None) -> list[Sample]:
        """The inputs that are kept of a prompt's traffic, those sent last first."""
        query = select(LiveSampleRow).where(LiveSampleRow.prompt_name == prompt_name)
        with self._database.read() as session:
            rows = session.exec(query.order_by(col(LiveSampleRow.seen_at).desc()).limit(limit))
            return [
                Sample.model_validate({"id": row.sample_id, "inputs": row.inputs, "split": row.split}) for row in rows
            ]

    def purge_live(
        self, *, before: datetime | None, keep_samples: int | None, limit: int, all_copies: bool = False
    ) -> Purge:
        """Take the texts of old calls out of the database, at most ``limit`` calls and samples of each kind at a time.

        Old is a call from before ``before``, and one of a sample that is not among the ``keep_samples`` of its prompt
        that were sent last. See ``live_purging`` for what goes and what stays.
        """
        with self._database.write() as session:
            done = purge(session, before=before, keep_samples=keep_samples, limit=limit, all_copies=all_copies)
        if done.num_calls or done.num_samples or all_copies:
            self._database.empty_log()
        return done


def _write(session: Session, call: LiveCall) -> tuple[str, int]:
    """Returns run and repeat of the call."""
    known: Any = select(LiveCallRow.run_id, LiveCallRow.repeat).where(LiveCallRow.id == call.id)
    if (row := session.exec(known).first()) is not None:
        return row[0], row[1]
    source = _with_known_version(session, call.source, call.at)
    run_id = _run(session, source, call.at)
    repeat = _place(session, call, run_id)
    place = {"run_id": run_id, "repeat": repeat}
    insert_once(session, SampleResultRow, values_of(call.result) | place)
    _write_sample(session, source.version.prompt_name, call)
    for attempt in call.attempts:
        add_attempt(session, attempt.model_copy(update=place))
    where = {"run_id": run_id, "sample_id": call.sample.id, "prompt_version_id": source.version.id}
    for failure in call.failures:
        add_occurrence(session, source.version.prompt_name, failure, where | {"created_at": call.at})
    return run_id, repeat


def _run(session: Session, source: LiveSource, at: datetime) -> str:
    run = source.run(at)
    if session.exec(select(RunRow.id).where(RunRow.id == run.id)).first() is None:
        write_task(session, source.task, at)
        insert_once(session, RunRow, values_of(run))
    return run.id


def _place(session: Session, call: LiveCall, run_id: str) -> int:
    """The repeat that the call's seeds were made with, or the next one where another call has it."""
    values = {"id": call.id, "run_id": run_id, "sample_id": call.sample.id, "purged": False, "created_at": call.at}
    if call.repeat is not None and insert_once(session, LiveCallRow, values | {"repeat": call.repeat}):
        return call.repeat
    repeat = _next_repeat(session, run_id, call.sample.id)
    insert_once(session, LiveCallRow, values | {"repeat": repeat})
    return repeat


def _next_repeat(session: Session, run_id: str, sample_id: str) -> int:
    last: Any = select(func.max(LiveCallRow.repeat))
    found = session.exec(last.where(LiveCallRow.run_id == run_id, LiveCallRow.sample_id == sample_id)).one()
    return 0 if found is None else int(found) + 1


def _write_sample(session: Session, prompt_name: str, call: LiveCall) -> None:
    values = {"prompt_name": prompt_name, "sample_id": call.sample.id, "inputs": call.sample.inputs}
    times = {"created_at": call.at, "seen_at": call.at}
    session.connection().execute(_sighting(), values | {"split": call.sample.split} | times)


@cache
def _sighting() -> Insert:
    table = LiveSampleRow.__table__  # type: ignore[attr-defined]
    statement = insert(table)
    latest = {"seen_at": func.max(table.c.seen_at, statement.excluded.seen_at)}
    return statement.on_conflict_do_update(index_elements=["prompt_name", "sample_id"], set_=latest)


def _with_known_version(session: Session, source: LiveSource, at: datetime) -> LiveSource:
    """Answers that were given while the database was away may be of a template that it does not know yet."""
    if session.exec(select(PromptVersionRow.id).where(PromptVersionRow.id == source.version.id)).first() is not None:
        return source
    return LiveSource(source.task, version_with_text(session, source.version, at), source.seed, source.engine)


def _may_work_later(error: BaseException | None) -> bool:
    """Whether it is the database that is at fault: locked, full, not writable, gone. A broken row stays broken."""
    lasting = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, lasting)
