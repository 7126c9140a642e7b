"""Runs: one pass over samples under one prompt version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from loopeng.errors import UsageError
from loopeng.schema import PromptVersion, Run, Task, content_hash
from loopeng.schema.attempts import Arm, RunKind, RunStatus
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import RunEngineRow, RunRow
from loopeng.store.tasks import write_task

__all__ = ["RunRoom"]


class RunRoom(Room):
    """The part of the store that keeps runs."""

    def create_run(
        self,
        *,
        kind: RunKind,
        task: Task,
        version: PromptVersion,
        seed: int,
        proposal_id: str | None = None,
        revision: int | None = None,
        arm: Arm | None = None,
        engine: dict[str, Any] | None = None,
    ) -> Run:
        """Start a run, or return the one there is: a proposal has one by (kind, revision, arm). Keeps the task too."""
        now = self._clock()
        with self._database.write() as session:
            if proposal_id is not None:
                existing = _run_for_proposal(session, kind, proposal_id, revision, arm)
                if existing is not None:
                    return noun_of(Run, existing)
            run = Run(
                id=new_id(session, RunRow),
                kind=kind,
                task_name=task.name,
                task_hash=write_task(session, task, now),
                prompt_name=version.prompt_name,
                prompt_version_id=version.id,
                proposal_id=proposal_id,
                revision=revision,
                arm=arm,
                seed=seed,
                engine=engine or {},
                created_at=now,
            )
            insert_once(session, RunRow, values_of(run))
            return run

    def run(self, run_id: str) -> Run:
        """A run by its id or the beginning of it. Raises NotFoundError."""
        with self._database.read() as session:
            return noun_of(Run, find(session, RunRow, run_id))

    def runs(
        self,
        *,
        task_name: str | None = None,
        kind: RunKind | Sequence[RunKind] | None = None,
        proposal_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Run]:
        """Runs, the newest first, of one kind or several; no ``limit`` is all of them."""
        query = select(RunRow).order_by(col(RunRow.seq).desc()).limit(limit)
        if task_name is not None:
            query = query.where(RunRow.task_name == task_name)
        if kind is not None:
            query = query.where(col(RunRow.kind).in_([kind] if isinstance(kind, str) else kind))
        if proposal_id is not None:
            query = query.where(RunRow.proposal_id == proposal_id)
        with self._database.read() as session:
            return [noun_of(Run, row) for row in session.exec(query)]

    def resumable_run(self, task: Task) -> Run | None:
        """The newest suite run of the task with this name that is not finished."""
        query = select(RunRow).where(RunRow.task_name == task.name, RunRow.kind == "suite", RunRow.status != "finished")
        with self._database.read() as session:
            row = session.exec(query.order_by(col(RunRow.seq).desc())).first()
            return noun_of(Run, row) if row is not None else None

    def note_run_engine(self, run_id: str, engine: dict[str, Any]) -> None:
        """Append what a resumed run says of its engine, if it differs from what is known. Raises NotFoundError."""
        engine_hash = content_hash(engine)
        with self._database.write() as session:
            run = find(session, RunRow, run_id)
            if content_hash(run.engine) != engine_hash:
                values = {"run_id": run.id, "engine_hash": engine_hash, "engine": engine, "created_at": self._clock()}
                insert_once(session, RunEngineRow, values)

    def run_engines(self, run_id: str) -> list[dict[str, Any]]:
        """Every description of the run's engine, the first one first. Raises NotFoundError."""
        with self._database.read() as session:
            run = noun_of(Run, find(session, RunRow, run_id))
            later = select(RunEngineRow.engine).where(RunEngineRow.run_id == run.id).order_by(col(RunEngineRow.seq))
            return [run.engine, *session.exec(later)]

    def finish_run(self, run_id: str, status: RunStatus, stop_reason: str | None = None) -> Run:
        """End a run. Said again in the same words, nothing changes. Raises NotFoundError."""
        if status == "running":
            raise UsageError("a run does not end as 'running'; reopen_run() starts it again")
        return self._set_status(run_id, status, stop_reason, finished_at=self._clock())

    def reopen_run(self, run_id: str) -> Run:
        """Let a run go on. Raises NotFoundError."""
        return self._set_status(run_id, "running", None, finished_at=None)

    def _set_status(
        self, run_id: str, status: RunStatus, stop_reason: str | None, *, finished_at: datetime | None
    ) -> Run:
        with self._database.write() as session:
            row = find(session, RunRow, run_id)
            if (row.status, row.stop_reason) != (status, stop_reason):
                row.status, row.stop_reason, row.finished_at = status, stop_reason, finished_at
                session.add(row)
                session.flush()
            return noun_of(Run, row)


def _run_for_proposal(
    session: Session, kind: RunKind, proposal_id: str, revision: int | None, arm: Arm | None
) -> RunRow | None:
    query = select(RunRow).where(
        RunRow.kind == kind,
        RunRow.proposal_id == proposal_id,
        col(RunRow.revision).is_not_distinct_from(revision),
        col(RunRow.arm).is_not_distinct_from(arm),
    )
    return session.exec(query).first()
