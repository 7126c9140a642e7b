"""What doctor says of a database: whether it can be worked with, and what was left in it. It changes nothing."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loopeng.doctor import examine_database
from loopeng.store import LeaseOwner, LoopStore
from tests.loopeng.cli.conftest import Shop
from tests.loopeng.doctor.conftest import by_name


def test_what_was_left_behind(ran: Shop) -> None:
    host = socket.gethostname()
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        store.reopen_run(run.id)
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner(host, 2**22 - 1, "before the last start"))
        assert store.acquire_lease("proposal:x", LeaseOwner.current())
    told = by_name(examine_database(ran.db))
    assert told["runs"].status == "warn" and run.id in told["runs"].text
    assert told["leases"].status == "warn"
    assert told["leases"].text == f"left by processes that were killed: run:{run.id}; held: proposal:x"
    with LoopStore.open(ran.db) as store:
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner.current())
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].status) == ("ok", "ok"), "that run is under way"


def test_a_rescore_that_was_stopped_is_told(ran: Shop) -> None:
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        version, task = store.prompt_version(run.prompt_version_id), store.task(run.task_hash)
        again = store.create_run(kind="rescore", task=task, version=version, seed=0, engine={"rescore_of": run.id})
    told = by_name(examine_database(ran.db))["runs"]
    assert (told.status, told.text) == ("warn", f"not finished: rescore {again.id}")
    assert "rescore RUN --resume" in (told.remedy or "")
    with LoopStore.open(ran.db) as store:
        store.finish_run(again.id, "finished")
    assert by_name(examine_database(ran.db))["runs"].status == "ok"


def test_a_process_on_another_machine_that_went_silent_holds_nothing(ran: Shop) -> None:
    """Nobody here can see whether it lives; its heartbeat says so. Its run is left behind, not under way."""
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        store.reopen_run(run.id)
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner("elsewhere", 7, "long ago"))
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].text) == ("ok", f"held: run:{run.id}")
    change(ran.db, "UPDATE lease SET heartbeat_at = '2001-01-01T00:00:00.000000+00:00'")
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].status) == ("warn", "warn")
    assert told["leases"].text == f"left by processes that were killed: run:{run.id}; none is held"


def test_a_proposal_past_its_time_waits_no_more(ran: Shop) -> None:
    assert "waiting for a decision" in by_name(examine_database(ran.db))["proposals"].text
    change(ran.db, "UPDATE proposal SET expires_at = '2001-01-01T00:00:00.000000+00:00'")
    assert by_name(examine_database(ran.db))["proposals"].text == "none is waiting"
    change(ran.db, "UPDATE proposal SET state = 'testing', expires_at = NULL")
    told = by_name(examine_database(ran.db))["proposals"]
    assert told.status == "warn" and told.remedy == "'loopeng work' takes up what was left"


@pytest.mark.parametrize(("schema", "status"), [("0001", "warn"), ("9999", "fail")])
def test_a_database_of_another_schema_is_not_touched(ran: Shop, schema: str, status: str) -> None:
    change(ran.db, f"UPDATE alembic_version SET version_num = '{schema}'")
    (found,) = examine_database(ran.db)
    assert found.status == status and f"schema {schema}" in found.text and found.remedy
    with closing(sqlite3.connect(ran.db)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (schema,)


def test_files_that_are_no_database_of_ours(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("a text, and long enough to be looked at as a database" * 40)
    change(other, "CREATE TABLE song (name TEXT)")
    for path, told in ((text, "is no SQLite file"), (other, "has a table 'song'")):
        (found,) = examine_database(path)
        assert found.status == "fail" and told in found.text and found.remedy


def test_a_damaged_database_is_found(ran: Shop) -> None:
    with closing(sqlite3.connect(ran.db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'ix_run_task_name_kind'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(ran.db.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    ran.db.write_bytes(content)
    found = next(iter(examine_database(ran.db)))
    assert found.status == "fail" and found.remedy == "bring back a copy of it"


def change(db: Path, statement: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(statement)
