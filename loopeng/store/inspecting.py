"""A database as it lies there: looked at without making, migrating or settling anything."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection
from sqlmodel import Session, col, select

from loopeng.errors import NotFoundError
from loopeng.schema import utc_now
from loopeng.schema.attempts import RESCORE_OF, RunKind
from loopeng.store.database import Database
from loopeng.store.improve_tables import ProposalRow
from loopeng.store.leases import is_free
from loopeng.store.lifecycle import overdue
from loopeng.store.migrations import NEWEST, schema_version
from loopeng.store.tables import LeaseRow, RunRow

__all__ = ["DatabaseState", "inspect_database"]

_BUSY_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class DatabaseState:
    """What was found. Of a schema that is not the newest nothing but its number is known, and the rest is empty."""

    path: Path
    schema: str | None  # None for an empty file
    newest_schema: str
    journal_mode: str
    writable: bool  # the file, and the folder where SQLite keeps its log
    unfinished_runs: tuple[str, ...] = ()  # of each task the newest suite run, where it has not come to its end
    unfinished_rescores: tuple[str, ...] = ()  # of each run the newest one, where it has not come to its end
    pending_proposals: tuple[str, ...] = ()
    unfinished_proposals: tuple[str, ...] = ()  # drafting, testing or approved: work goes on with them
    dead_leases: tuple[str, ...] = ()  # of processes that are gone, or have given no sign of life for long
    held_leases: tuple[str, ...] = ()
    damage: str | None = None  # what SQLite's own check found first, where it was asked for

    @property
    def is_current(self) -> bool:
        """Whether this loopeng can read it as it is."""
        return self.schema == self.newest_schema


def inspect_database(path: Path, *, thorough: bool = False) -> DatabaseState:
    """Look at a file; ``thorough`` reads all of it for damage.

    Raises NotFoundError where there is none, StoreError where it cannot be read, WrongDatabaseError for another kind.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no database {path}")
    database = Database(path, busy_timeout_s=_BUSY_TIMEOUT_S)
    try:
        with database.read() as session:
            connection = session.connection()
            state = DatabaseState(
                path=path,
                schema=schema_version(connection),
                newest_schema=NEWEST,
                journal_mode=str(connection.exec_driver_sql("PRAGMA journal_mode").scalar()),
                damage=_damage(connection) if thorough else None,
                writable=os.access(path, os.W_OK) and os.access(path.parent, os.W_OK),
            )
            return _with_rows(session, state) if state.is_current else state
    finally:
        database.close()


def _damage(connection: Connection) -> str | None:
    found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    return None if found == "ok" else found


def _with_rows(session: Session, state: DatabaseState) -> DatabaseState:
    now = utc_now()
    leases = {row.name: is_free(row, now) for row in session.exec(select(LeaseRow)).all()}
    held = {name for name, free in leases.items() if not free}
    due = {row.id: what for row, what, _ in overdue(session, now)}
    by_state: dict[str, list[str]] = {}
    for row in session.exec(select(ProposalRow).order_by(col(ProposalRow.seq))).all():
        state_now = "pending" if due.get(row.id) == "awake" else due.get(row.id, row.state)
        by_state.setdefault(state_now, []).append(row.id)
    at_work = [name for state_name in ("drafting", "testing", "approved") for name in by_state.get(state_name, ())]
    return replace(
        state,
        unfinished_runs=tuple(run for run in _unfinished(session, "suite") if f"run:{run}" not in held),
        unfinished_rescores=tuple(run for run in _unfinished(session, "rescore") if f"run:{run}" not in held),
        pending_proposals=tuple(by_state.get("pending", ())),
        unfinished_proposals=tuple(at_work),
        dead_leases=tuple(sorted(leases.keys() - held)),
        held_leases=tuple(sorted(held)),
    )


def _unfinished(session: Session, kind: RunKind) -> list[str]:
    newest: dict[str, RunRow] = {}
    for row in session.exec(select(RunRow).where(RunRow.kind == kind).order_by(col(RunRow.seq))).all():
        newest[row.task_name if kind == "suite" else str(row.engine.get(RESCORE_OF))] = row
    return [row.id for row in newest.values() if row.status != "finished"]
