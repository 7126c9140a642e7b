"""Where the database is, and how a follow-up command is written so that it works from the current folder."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from loopeng.errors import NotFoundError, UsageError
from loopeng.settings import DATABASE_PATH, Settings, read_settings

if TYPE_CHECKING:
    from loopeng.schema import Task
    from loopeng.store import LoopStore

__all__ = [
    "command",
    "find_database",
    "found_task_file",
    "from_here",
    "open_store",
    "placed_task",
    "program",
    "task_database",
    "task_file",
]


def program() -> str:
    """How this program was called: ``loopeng``, or its path where the shell would not find it, or with ``-m``."""
    called = Path(sys.argv[0])
    if (called.parent.name, called.name) == ("loopeng", "__main__.py"):
        return f"{_typed(Path(sys.executable))} -m loopeng"
    return _typed(called) if called.name == "loopeng" and called.is_file() else "loopeng"


def _typed(called: Path) -> str:
    """The bare name where the shell finds this very file by it, else the path."""
    on_path = shutil.which(called.name)
    same = on_path is not None and Path(on_path).absolute() == called.absolute()
    return called.name if same else shlex.quote(str(called))


def task_file(path: Path) -> Path:
    """The task file that was named, by itself or by its folder."""
    return path / "task.yaml" if path.is_dir() else path


def task_database(task_path: Path, chosen: Path | None) -> Path:
    """The database of commands that name a task file; it need not exist yet."""
    return read_settings().database(task_path, chosen)


def found_task_file(stored: Path | None, db: Path) -> Path | None:
    """Where the task file of a database is now: where it was, or beside the database if the folder was moved."""
    if stored is None or stored.is_file():
        return stored
    folder = db.absolute().parent
    beside = folder.parent / stored.name
    return beside if folder.name == DATABASE_PATH.parent.name and beside.is_file() else None


def placed_task(task: Task, db: Path) -> Task:
    """A stored task with the place its file has now."""
    return task.model_copy(update={"path": found_task_file(task.path, db) or task.path})


def find_database(chosen: Path | None) -> Path:
    """The database of commands without a task file: chosen, ``LOOPENG_DB``, or the nearest above this folder."""
    settings = read_settings()
    if chosen is not None or settings.db is not None:
        path = settings.database(chosen=chosen)
        if path.exists():  # what it is, the store says
            return path
        origin = "--db" if chosen is not None else "LOOPENG_DB"
        raise NotFoundError(f"there is no database {path} ({origin}); 'loopeng run task.yaml' makes one")
    found = _nearest(settings)
    if found is None:
        raise NotFoundError(
            f"no {DATABASE_PATH} in this folder or above it; name one with --db PATH or LOOPENG_DB, "
            "or make one with 'loopeng run task.yaml'"
        )
    return found


def open_store(chosen: Path | None) -> LoopStore:
    """The store of a command without a task file. Never makes a database."""
    from loopeng.store import LoopStore

    return LoopStore.open(find_database(chosen))


def command(*words: str, db: Path, task_path: Path | None = None) -> str:
    """A command line that works from the current folder; ``--db`` only where it would not be found by itself.

    ``task_path`` stands behind the words: the file as the user would name it from here.
    """
    parts = [*words]
    if task_path is not None:
        parts.append(from_here(task_path))
    if not _finds(db, task_path):
        parts += ["--db", from_here(db)]
    return f"{program()} {shlex.join(parts)}"


def _finds(db: Path, task_path: Path | None) -> bool:
    try:
        settings = read_settings()
    except UsageError:
        return False
    if task_path is not None or settings.db is not None:
        return settings.database(task_path).resolve() == db.resolve()
    found = _nearest(settings)
    return found is not None and found.resolve() == db.resolve()


def _nearest(settings: Settings) -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        candidate = settings.database(folder / "task.yaml")
        if candidate.is_file():
            return candidate
    return None


def from_here(path: Path) -> str:
    """A file as the user would name it: the shorter of the relative and the absolute name."""
    relative, absolute = os.path.relpath(path), str(path.resolve())
    return relative if len(relative) <= len(absolute) else absolute
