"""Tasks, whole, by the hash of what decides a run."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.dialects.sqlite import insert
from sqlmodel import Session, col, func, select

from loopeng.errors import NotFoundError, StoreError
from loopeng.schema import Task
from loopeng.schema.task import PromptSpec
from loopeng.store.room import Room
from loopeng.store.tables import RunRow, TaskVersionRow

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

    def evaluator_ids(self, task_hash: str) -> frozenset[str]:
        """Of a task, without reading its samples. Empty for an unknown one."""
        query = select(func.json_extract(col(TaskVersionRow.content), "$.evaluators"))
        with self._database.read() as session:
            found = session.exec(query.where(TaskVersionRow.hash == task_hash)).first()
        return frozenset(spec["id"] for spec in json.loads(found or "[]"))

    def prompt_source(self, prompt_name: str) -> tuple[PromptSpec, Path | None] | None:
        """What the newest suite run's task says of a prompt, and where that task's file is; None without such a run."""
        keys = [func.json_extract(col(TaskVersionRow.content), key) for key in ("$.prompt", "$.path")]
        query: Any = select(*keys).join(RunRow, col(RunRow.task_hash) == TaskVersionRow.hash)
        query = query.where(RunRow.prompt_name == prompt_name, RunRow.kind == "suite")
        with self._database.read() as session:
            found = session.exec(query.order_by(col(RunRow.seq).desc()).limit(1)).first()
        if found is None:
            return None
        prompt, path = found
        return PromptSpec.model_validate(json.loads(prompt)), None if path is None else Path(path)


def write_task(session: Session, task: Task, now: datetime) -> str:
    """Insert a task, or move it to its new path. Returns its hash."""
    task_hash, path = task.version_hash, task.path and str(task.path)
    here = func.json_extract(col(TaskVersionRow.content), "$.path")
    known = select(TaskVersionRow.hash).where(TaskVersionRow.hash == task_hash, here.is_not_distinct_from(path))
    if session.exec(known).first() is not None:
        return task_hash  # written again for every run it would cost as much as all its samples
    content = task.model_dump(mode="json", by_alias=True, exclude={"file_rules"}, fallback=repr)  # the head has them
    values = {"hash": task_hash, "name": task.name, "content": content, "created_at": now}
    table = TaskVersionRow.__table__  # type: ignore[attr-defined]
    session.exec(insert(table).values(values).on_conflict_do_update(index_elements=["hash"], set_={"content": content}))
    return task_hash


def _task_of(row: TaskVersionRow) -> Task:
    try:
        return Task.model_validate(row.content)
    except ValidationError as error:
        raise StoreError(f"broken row in table 'task_version', hash={row.hash!r}: {error}") from error
