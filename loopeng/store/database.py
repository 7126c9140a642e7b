"""One SQLite file: its connections, and the two kinds of session.

A read session is a plain BEGIN, a snapshot. A write session is BEGIN IMMEDIATE: it waits for its turn at the start, so
what it has read is still true when it writes, and it meets no lock half-way. Sessions are short: no model or network
call belongs inside one. WAL lets readers and the one writer work at the same time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import StatementError
from sqlmodel import Session

from loopeng.errors import StoreError, WrongDatabaseError
from loopeng.store.migrations import migrate

__all__ = ["BUSY_TIMEOUT_S", "Database", "after_commit"]

BUSY_TIMEOUT_S = 30.0
_AFTER_COMMIT = "after commit"
_SCHEME = "sqlite:///"
_WRONG_FILE = {
    sqlite3.SQLITE_NOTADB: "is not a loopeng database: it is no SQLite file",
    sqlite3.SQLITE_READONLY: "is not writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: it or its folder is missing, not readable or not writable",
    sqlite3.SQLITE_PERM: "cannot be opened: no permission",
}


class Database:
    """An open file, migrated to the newest schema. Usable from any thread; not across a fork.

    Every method raises StoreError where the file cannot be used: locked for too long, damaged, not a database. One that
    may only be read can be read; writing it raises WrongDatabaseError.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._reader = _make_engine(path, busy_timeout_s)
        self._writer = self._reader.execution_options(begin="BEGIN IMMEDIATE")

    @classmethod
    def open(cls, path: Path | str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
        """Open a file, or make it and the folders above it. ``sqlite:///`` URLs are taken too."""
        file = _file_of(path)
        if file.is_dir():
            raise WrongDatabaseError(f"{file} is a folder, not a database file")
        database = cls(file, busy_timeout_s=busy_timeout_s)
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
            with database._errors():
                migrate(database._writer)  # first: it leaves alone what is not ours
                if not _is_read_only(file):
                    _use_write_ahead_log(database._reader, busy_timeout_s)
        except OSError as error:
            database.close()
            raise WrongDatabaseError(f"{file} cannot be made: {error}") from error
        except StoreError:
            database.close()
            raise
        return database

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one moment of the database and writes nothing."""
        with self._errors(), Session(self._reader) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that is alone in writing; it commits at the end, or leaves no trace if the block raises."""
        with self._errors(), Session(self._writer) as session:
            session.connection()  # BEGIN IMMEDIATE now, not at the first statement
            yield session
            session.commit()
            for work in session.info.pop(_AFTER_COMMIT, ()):
                work()

    def empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it off, unless somebody is reading: it holds old texts too."""
        with self._errors():
            pooled = self._reader.raw_connection()
            try:
                driver = pooled.driver_connection
                assert driver is not None
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                pooled.close()

    def close(self) -> None:
        self._reader.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (StatementError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, StatementError) else error
            if _is_locked(cause):
                raise StoreError(f"{self.path} is locked: another process has kept writing for too long") from error
            if (what := _WRONG_FILE.get(_kind(cause))) is not None:
                raise WrongDatabaseError(f"{self.path} {what}") from error
            raise StoreError(f"{self.path}: {cause}") from error


def after_commit(session: Session, work: Callable[[], None]) -> None:
    """Do ``work`` once a write session has committed; never where it leaves no trace."""
    session.info.setdefault(_AFTER_COMMIT, []).append(work)


def _file_of(path: Path | str) -> Path:
    if isinstance(path, str) and path.startswith(_SCHEME):
        path = path.removeprefix(_SCHEME)
    if "://" in str(path) or str(path) in ("", ":memory:"):
        raise StoreError(f"a database is a file, named by its path or as {_SCHEME}PATH, not {str(path)!r}")
    return Path(path)


def _make_engine(path: Path, busy_timeout_s: float) -> Engine:
    engine = create_engine(
        _url(path), connect_args={"timeout": busy_timeout_s}, max_overflow=-1, execution_options={"path": path}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver must not open transactions: begin() below does
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        statement = connection.get_execution_options().get("begin", "BEGIN")
        driver = connection.connection.driver_connection
        assert driver is not None
        try:
            driver.execute(statement)
        except sqlite3.OperationalError as error:
            if not _is_locked(error):
                raise
            driver.execute(statement)  # one retry

    return engine


def _url(path: Path) -> URL:
    """What may only be read is opened so that SQLite makes no files beside it; a log that lies there is read too."""
    if not _is_read_only(path):
        return URL.create("sqlite", database=str(path))
    mode = {"mode": "ro"} if path.with_name(f"{path.name}-wal").exists() else {"mode": "ro", "immutable": "1"}
    return URL.create("sqlite", database=path.absolute().as_uri(), query=mode | {"uri": "true"})


def _is_read_only(path: Path) -> bool:
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _use_write_ahead_log(engine: Engine, timeout_s: float) -> None:
    """A lasting property of the file. SQLite's busy timeout does not cover the change, so two openers wait here."""
    deadline = time.monotonic() + timeout_s
    pooled = engine.raw_connection()
    try:
        driver = pooled.driver_connection
        assert driver is not None
        while driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                driver.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        pooled.close()


def _kind(error: BaseException | None) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF  # the rest of an extended code says more than is asked here


def _is_locked(error: BaseException | None) -> bool:
    return _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
