from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

import loopeng.store.migrations
from loopeng.errors import StoreError
from loopeng.schema import AnchorReport, Sample
from loopeng.store import LiveCall, LiveSource, LoopStore
from loopeng.store.columns import Table
from loopeng.store.migrations import NEWEST

FOLDER = Path(loopeng.store.migrations.__file__).parent


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")
    return config


def build(path: Path, version: str) -> None:
    """A database as the loopeng of that schema left it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    engine.dispose()


def execute(path: Path, statement: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def test_newest_is_the_only_head() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [NEWEST]


def test_a_database_of_the_first_schema_is_brought_up_with_its_rows(database_path: Path) -> None:
    build(database_path, "0001")
    moment = "2026-01-01T00:00:00.000000+00:00"
    version = ("ver-1", "describe", 1, "T{{ rules }}", "[]", "ab" * 32, None, "task file", None, None, "ana", moment)
    execute(database_path, f"INSERT INTO prompt_version VALUES ({', '.join('?' * 12)})", *version)
    execute(database_path, "INSERT INTO prompt VALUES ('describe', 'ver-1')")
    with LoopStore.open(database_path) as store:
        assert store.head("describe").template == "T{{ rules }}"
        assert store.head("describe").created_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert execute(database_path, "SELECT version_num FROM alembic_version") == [(NEWEST,)]


def test_rows_of_the_first_schema_are_the_same_nouns_afterwards(store: LoopStore, make: Any, tmp_path: Path) -> None:
    """A row in every table that the second schema changes; what is new says what nobody could know then."""
    pattern_id = make.pattern()
    version = make.committed(pattern_ids=(pattern_id,))
    committed = store.proposals()[0]
    store.save_gate_report(make.gate_report(committed))
    store.save_watch(make.watch(version, committed, pattern_id))
    pending = make.pending(rule="Name the product.")
    old = tmp_path / "old.db"
    build(old, "0001")
    copy_rows(store.path, old)
    with LoopStore.open(old, clock=make.clock) as opened:
        assert opened.patterns() == store.patterns() and opened.proposals() == store.proposals()
        assert opened.revisions(pending.id) == store.revisions(pending.id)
        assert opened.gate_report(committed.id, 1) == store.gate_report(committed.id, 1)
        assert opened.decisions() == store.decisions() and len(opened.decisions()) == 1
        assert opened.watches("describe") == store.watches("describe")
        assert opened.prompt_versions("describe") == store.prompt_versions("describe")
        assert opened.looks("describe") == opened.deliveries() == opened.suggestions(committed.id) == []
        opened.snooze(pending.id, until=timedelta(days=1), by="ana")
        opened.mute_pattern(pattern_id, by="ana", reason="not a mistake")
        assert [each.action for each in opened.decisions()] == ["approve", "snooze", "mute"]
    assert execute(old, "PRAGMA foreign_key_check") == []
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        execute(old, "UPDATE decision SET automatic = 1")


def test_rows_of_the_second_schema_stay_and_judges_find_their_place(
    store: LoopStore, make: Any, tmp_path: Path
) -> None:
    pattern_id = make.pattern()
    version = make.committed(pattern_ids=(pattern_id,))
    store.save_watch(make.watch(version, store.proposals()[0], pattern_id))
    run = make.run()
    store.save_attempt(make.attempt(run.id))
    old = tmp_path / "old.db"
    build(old, "0002")
    assert execute(old, "SELECT name FROM sqlite_master WHERE name IN ('judge_reply', 'anchor_report')") == []
    copy_rows(store.path, old)
    with LoopStore.open(old, clock=make.clock) as opened:
        assert opened.runs() == store.runs() and opened.attempts(run.id) == store.attempts(run.id)
        assert opened.proposals() == store.proposals() and opened.decisions() == store.decisions()
        assert opened.watches("describe") == store.watches("describe")
        assert opened.judge_reply("key") is None and opened.anchor_reports(run.id) == []
        assert opened.save_judge_reply("key", "reply") and opened.judge_reply("key") == "reply"
        report = AnchorReport(evaluator="tone", num_anchors=0, criteria=(), min_agreement=0.5)
        assert opened.save_anchor_report(run.id, report) and opened.anchor_reports(run.id) == [report]
    assert execute(old, "PRAGMA foreign_key_check") == []
    assert execute(old, "SELECT version_num FROM alembic_version") == [(NEWEST,)]


def test_rows_of_the_third_schema_stay_and_traffic_finds_its_place(store: LoopStore, make: Any, tmp_path: Path) -> None:
    run = make.run(kind="live")
    store.save_attempt(make.attempt(run.id))
    store.save_sample_result(make.sample_result(run.id))
    pattern_id = make.pattern(run=run)
    old = tmp_path / "old.db"
    build(old, "0003")
    assert execute(old, "SELECT name FROM sqlite_master WHERE name IN ('live_call', 'live_sample')") == []
    copy_rows(store.path, old)
    with LoopStore.open(old, clock=make.clock) as opened:
        assert opened.runs() == store.runs() and opened.attempts(run.id) == store.attempts(run.id)
        assert opened.patterns() == store.patterns() and opened.occurrences(pattern_id) == [(run.id, "s1")]
        assert opened.live_samples("describe") == [] and opened.seen_samples(run.prompt_version_id, "live") == []
        source = LiveSource(make.task(name="live:describe"), make.head(), 0, {})
        sample = Sample(id="s1", inputs={"product": "mug"}, split="reflect")
        made = make.attempt(run.id), make.sample_result(run.id)
        call = LiveCall("call-1", source, sample, make.clock(), None, made[:1], made[1])
        place = source.run(make.clock()).id, 0
        assert opened.save_live_calls([call, call]).places == {"call-1": place}
        assert opened.live_samples("describe") == [sample] and opened.next_repeat(*place[:1], "s1") == 1
    assert execute(old, "PRAGMA foreign_key_check") == []
    assert execute(old, "SELECT version_num FROM alembic_version") == [(NEWEST,)]


def copy_rows(frm: Path, to: Path) -> None:
    """All that fits into the tables and columns there."""
    with closing(sqlite3.connect(to)) as connection, connection:
        connection.execute("ATTACH ? AS other", (str(frm),))
        tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            if table != "alembic_version":
                columns = ", ".join(f'"{row[1]}"' for row in connection.execute(f"PRAGMA main.table_info({table})"))
                connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM other.{table}")


def test_tables_and_migrations_agree(store: LoopStore) -> None:
    engine = create_engine(f"sqlite:///{store.path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Table.metadata) == []
        assert constraints(connection) == constraints(in_memory())
    engine.dispose()


def in_memory() -> Any:
    connection = create_engine("sqlite://").connect()
    Table.metadata.create_all(connection)
    return connection


def constraints(connection: Any) -> dict[str, Any]:
    """What compare_metadata does not look at on SQLite: keys by name, and primary keys."""
    found = inspect(connection)
    named = [
        (table, sorted(str(sorted(key.items(), key=str)) for key in keys))
        for table in found.get_table_names()
        if table != "alembic_version"
        for keys in (
            found.get_foreign_keys(table),
            found.get_unique_constraints(table),
            [found.get_pk_constraint(table)],
        )
    ]
    return {str(position): entry for position, entry in enumerate(sorted(named))}


def test_opening_twice_changes_nothing(store: LoopStore) -> None:
    before = execute(store.path, "SELECT sql FROM sqlite_master ORDER BY name")
    LoopStore.open(store.path).close()
    assert execute(store.path, "SELECT sql FROM sqlite_master ORDER BY name") == before


def test_an_up_to_date_database_opens_without_alembic(store: LoopStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "alembic", None)  # importing it raises
    LoopStore.open(store.path).close()


def test_a_newer_database_asks_for_an_upgrade(store: LoopStore) -> None:
    execute(store.path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer loopeng \(schema 9999, here .*upgrade loopeng"):
        LoopStore.open(store.path)


def test_another_programs_database_is_refused_and_left_alone(database_path: Path) -> None:
    execute(database_path, "CREATE TABLE customers (name TEXT)")
    before = database_path.read_bytes()
    with pytest.raises(StoreError, match="not a loopeng database: it has a table 'customers'"):
        LoopStore.open(database_path)
    assert database_path.read_bytes() == before


def test_a_migration_that_breaks_leaves_the_file_as_it_was(database_path: Path) -> None:
    """The last table is in the way; those before it are taken back."""
    execute(database_path, "CREATE TABLE alembic_version (version_num TEXT)")
    execute(database_path, "CREATE TABLE lease (name TEXT)")
    with pytest.raises(StoreError, match="table lease already exists"):
        LoopStore.open(database_path)
    names = [("alembic_version",), ("lease",)]
    assert execute(database_path, "SELECT name FROM sqlite_master ORDER BY name") == names
    execute(database_path, "DROP TABLE lease")
    LoopStore.open(database_path).close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decision SET action = 'reject'",
        "UPDATE decision SET reason = reason",
        "UPDATE decision SET automatic = 1",
        "UPDATE decision SET revision = 1 WHERE action = 'snooze'",
        "DELETE FROM decision WHERE revision IS NULL",
        "INSERT OR REPLACE INTO decision SELECT * FROM decision WHERE revision IS NULL",
        "DELETE FROM decision",
        "INSERT OR REPLACE INTO decision SELECT * FROM decision",
        "REPLACE INTO decision SELECT NULL, 'dec-other', 'reject', prompt_name, proposal_id, revision, version_id, "
        "'eve', reason, seen_hash, evidence, accepted_untested, created_at, automatic FROM decision",
    ],
)
def test_decisions_cannot_be_changed_even_by_hand(store: LoopStore, make: Any, statement: str) -> None:
    make.committed()
    store.snooze(make.pending(rule="another").id, until=timedelta(days=1), by="ana")  # a row without a revision
    before = execute(store.path, "SELECT * FROM decision")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        execute(store.path, statement)
    assert execute(store.path, "SELECT * FROM decision") == before
    assert len(before) == 2
