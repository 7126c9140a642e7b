from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from loopeng.errors import StoreError, WrongDatabaseError
from loopeng.store import LoopStore
from loopeng.store.database import Database

pytestmark = pytest.mark.filterwarnings("error")


def pragma(database: Database, name: str) -> object:
    with database.read() as session:
        return session.connection().exec_driver_sql(f"PRAGMA {name}").scalar()


def test_connections_are_durable_and_patient(database_path: Path) -> None:
    with closing(Database.open(database_path)) as database:
        assert pragma(database, "journal_mode") == "wal"
        assert pragma(database, "synchronous") == 2  # FULL
        assert pragma(database, "foreign_keys") == 1
        assert pragma(database, "busy_timeout") == 30_000


def test_a_read_session_sees_one_moment(database_path: Path) -> None:
    with closing(Database.open(database_path)) as database:
        names = text("SELECT count(*) FROM lease")
        with database.read() as reading:
            assert reading.connection().execute(names).scalar() == 0
            with database.write() as writing:
                insert_lease(writing)
            assert reading.connection().execute(names).scalar() == 0
        with database.read() as reading:
            assert reading.connection().execute(names).scalar() == 1


def test_a_write_session_that_raises_leaves_no_trace(database_path: Path) -> None:
    with closing(Database.open(database_path)) as database:
        with contextlib.suppress(RuntimeError), database.write() as session:
            insert_lease(session)
            raise RuntimeError("half-way")
        with database.read() as session:
            assert session.connection().exec_driver_sql("SELECT count(*) FROM lease").scalar() == 0


def test_a_writer_waits_for_another_and_then_says_that_the_file_is_locked(database_path: Path) -> None:
    """The lock is met at BEGIN IMMEDIATE, so nothing is half-done; afterwards the database works on."""
    Database.open(database_path).close()
    with (
        closing(Database.open(database_path, busy_timeout_s=0.05)) as database,
        closing(sqlite3.connect(database_path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked"), database.write():
            pytest.fail("the session was entered")
        assert pragma(database, "foreign_keys") == 1  # readers are not in anybody's way
        other.execute("COMMIT")
        with database.write() as session:
            insert_lease(session)


def test_the_one_retry_outlasts_a_lock_of_one_and_a_half_timeouts(database_path: Path) -> None:
    Database.open(database_path).close()
    other = sqlite3.connect(database_path, isolation_level=None, check_same_thread=False)
    with closing(Database.open(database_path, busy_timeout_s=0.4)) as database, closing(other):
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.6, other.execute, ["COMMIT"])
        timer.start()
        with database.write() as session:
            insert_lease(session)
        timer.join()


def test_opening_makes_the_folders_above(tmp_path: Path) -> None:
    path = tmp_path / "a b?#%" / "ü" / "loop.db"
    LoopStore.open(path).close()
    assert path.is_file()


def test_a_url_names_the_same_file(database_path: Path) -> None:
    with LoopStore.open(f"sqlite:///{database_path}") as store:
        assert store.path == database_path


@pytest.mark.parametrize("path", [":memory:", "", "postgresql://localhost/loop"])
def test_what_is_not_a_file_is_refused(path: str) -> None:
    with pytest.raises(StoreError, match="a database is a file"):
        LoopStore.open(path)


@pytest.mark.parametrize("content", [b"hello", b"name: shop\n" * 1000])
def test_a_file_that_is_not_a_database_is_refused_and_left_alone(database_path: Path, content: bytes) -> None:
    database_path.write_bytes(content)
    with pytest.raises(StoreError, match=r"loop\.db is not a loopeng database"):
        LoopStore.open(database_path)
    assert database_path.read_bytes() == content


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        LoopStore.open(tmp_path)


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        LoopStore.open(tmp_path / "file" / "loop.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(StoreError, match="not writable"):
        LoopStore.open(tmp_path / "loop.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("log_lies_there", [False, True])
def test_what_may_not_be_written_can_be_read(tmp_path: Path, log_lies_there: bool) -> None:
    """A colleague's project, or a mounted archive: looking needs no right to write. Writing says what is missing."""
    folder = tmp_path / "a b?#%"
    store = LoopStore.open(folder / "loop.db")
    store.adopt_template("describe", "Describe {{ product }}", by="ana")
    if not log_lies_there:
        store.close()
    assert (folder / "loop.db-wal").exists() == log_lies_there
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with LoopStore.open(folder / "loop.db") as reader:
        assert reader.head("describe").created_by == "ana"
        with pytest.raises(WrongDatabaseError, match=r"loop\.db is not writable"):
            reader.adopt_template("describe", "Tell of {{ product }}", by="ana")
    folder.chmod(stat.S_IRWXU)
    store.close()


def test_importing_the_store_is_light() -> None:
    program = "import sys, loopeng.store; print(sorted({'torch', 'alembic', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def insert_lease(session: object) -> None:
    session.connection().exec_driver_sql("INSERT INTO lease VALUES ('a', 'host', 1, 't', '2026-01-01T00:00:00+00:00')")  # type: ignore[attr-defined]
