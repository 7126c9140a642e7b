from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from loopeng.errors import NotFoundError, StoreError
from loopeng.store import LoopStore
from loopeng.store.columns import UtcDateTime

DIALECT = SQLiteDialect()


def execute(store: LoopStore, statement: str) -> None:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE run SET status = 'dancing'", r"broken row in table 'run', id='run-.*status"),
        ("UPDATE run SET engine = '{'", r"broken row in table 'run', id='run-.*engine cannot be read"),
        ("UPDATE run SET created_at = 'yesterday'", r"broken row in table 'run', id='run-.*created_at cannot be read"),
        ("UPDATE run SET seed = 'many'", r"broken row in table 'run', id='run-.*seed cannot be read"),
    ],
)
def test_a_broken_row_names_its_table_and_key(store: LoopStore, make: Any, statement: str, message: str) -> None:
    run = make.run()
    execute(store, statement)
    with pytest.raises(StoreError, match=f"(?s){message}"):
        store.run(run.id)


def test_a_broken_row_without_an_id_names_its_whole_key(store: LoopStore, make: Any) -> None:
    run = make.run()
    store.save_attempt(make.attempt(run.id))
    execute(store, "UPDATE attempt SET trajectory = 'tr'")
    key = f"run_id='{run.id}', sample_id='s1', repeat=0, attempt_index=0"
    with pytest.raises(StoreError, match=f"table 'attempt', {key}: trajectory cannot be read"):
        store.attempts(run.id)


def test_a_broken_task_names_its_hash(store: LoopStore, make: Any) -> None:
    store.save_task(make.task())
    execute(store, "UPDATE task_version SET content = '{}'")
    with pytest.raises(StoreError, match=f"table 'task_version', hash='{make.task().version_hash}'"):
        store.task(make.task().version_hash)


def test_a_unique_beginning_of_an_id_is_enough(store: LoopStore, make: Any) -> None:
    run = make.run()
    assert store.run(run.id[:-1]) == run
    proposal = make.proposal()
    assert store.proposal(proposal.id[:-1]) == proposal


def test_an_ambiguous_beginning_lists_the_candidates(store: LoopStore, make: Any) -> None:
    runs = [make.run(), make.run()]
    with pytest.raises(NotFoundError, match="run 'run-' is ambiguous") as raised:
        store.run("run-")
    assert all(run.id in str(raised.value) for run in runs)


@pytest.mark.parametrize("wrong", ["", "%", "run_", "nothing"])
def test_an_unknown_id_lists_what_there_is(store: LoopStore, make: Any, wrong: str) -> None:
    with pytest.raises(NotFoundError, match="there is none"):
        store.run(wrong)
    run = make.run()
    with pytest.raises(NotFoundError, match=f"no run {wrong!r}; there are: {run.id}"):
        store.run(wrong)


def test_times_keep_their_moment_and_sort_as_text() -> None:
    column = UtcDateTime()
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    in_tokyo = noon.astimezone(timezone(timedelta(hours=9)))
    assert column.process_bind_param(in_tokyo, DIALECT) == "2026-01-01T12:00:00.000000+00:00"
    assert column.process_result_value("2026-01-01T12:00:00.000000+00:00", DIALECT) == noon
    moments = [noon + timedelta(microseconds=step) for step in (0, 1, 10, 1_000_000)]
    stored = [column.process_bind_param(moment, DIALECT) for moment in moments]
    assert stored == sorted(stored, key=str)


def test_a_time_without_a_zone_is_refused(store: LoopStore, make: Any) -> None:
    attempt = make.attempt(make.run().id, created_at=datetime(2026, 1, 1))
    with pytest.raises(StoreError, match="a time without a zone"):
        store.save_attempt(attempt)
