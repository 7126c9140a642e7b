"""Tasks, whole, by the hash of what decides a run."""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError
from sqlalchemy.dialects.sqlite import insert
from sqlmodel import Session, col, func, select

from loopeng.errors import NotFoundError, StoreError
from loopeng.schema import Task
from loopeng.store.room import Room
from loopeng.store.tables import TaskVersionRow

__all__ = ["TaskRoom", "write_task"]


class TaskRoom(Room):
    """The part of the store that keeps task files, so that another process can take up their work."""

    def save_task(self, task: Task) -> None:
        """Keep a task. One saved before with the same content changes only where its file is."""
        with self._database.write() as session:
            write_task(session, task, self._clock())

    def task(self, task_hash: str) -> Task:
        """The task with this ``version_hash``, samples included. Raises NotFoundError."""
        with self._database.read() as session:
            row = session.get(TaskVersionRow, task_hash)
            if row is None:
                names = session.exec(select(TaskVersionRow.name).distinct().order_by(col(TaskVersionRow.name))).all()
                raise NotFoundError(f"no task {task_hash!r}; there are versions of: {', '.join(names) or 'none'}")
            return _task_of(row)


def write_task(session: Session, task: Task, now: datetime) -> str:
    """Insert a task, or move it to its new path. Returns its hash."""
    task_hash, path = task.version_hash, task.path and str(task.path)
    here = func.json_extract(col(TaskVersionRow.content), "$.path")
    known = select(TaskVersionRow.hash).where(TaskVersionRow.hash == task_hash, here.is_not_distinct_from(path))
    if session.exec(known).first() is not None:
        return task_hash  # written again for every run it would cost as much as all its samples
    content = task.model_dump(mode="json", by_alias=True, fallback=repr)
    values = {"hash": task_hash, "name": task.name, "content": content, "created_at": now}
    table = TaskVersionRow.__table__  # type: ignore[attr-defined]
    session.exec(insert(table).values(values).on_conflict_do_update(index_elements=["hash"], set_={"content": content}))
    return task_hash


def _task_of(row: TaskVersionRow) -> Task:
    try:
        return Task.model_validate(row.content)
    except ValidationError as error:
        raise StoreError(f"broken row in table 'task_version', hash={row.hash!r}: {error}") from error
