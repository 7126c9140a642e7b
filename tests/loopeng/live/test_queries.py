"""The way of a call through the database is as long with a million calls as with one: every statement uses an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.loopeng.live.traffic import ask, open_loop, traffic

_SMALL = {"prompt", "proposal", "alembic_version", "sqlite_master"}  # as many rows as people look at


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        seen.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def scanned(path: Path, seen: list[tuple[str, Any]]) -> list[str]:
    """Tables that a statement reads from end to end."""
    import sqlite3

    found = []
    with closing(sqlite3.connect(path)) as connection:
        for statement, parameters in seen:
            if statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters):
                    table = re.match(r"SCAN (?!CONSTANT)(\w+)", row[3])
                    if table and table[1] not in _SMALL:
                        found.append(f"{row[3]}: {statement}")
    return found


@pytest.mark.parametrize("kept", [{}, {"keep_days": 1, "keep_samples": 1}])
def test_no_statement_of_a_call_scans_a_table(path: Path, kept: dict[str, Any]) -> None:
    with open_loop(path, head_seconds=0, **kept) as loop:
        with statements() as first:
            ask(loop, "first")
        with statements() as seen:
            traffic(loop, 20)
            ask(loop, "thing 1")
            loop.observe("describe", {"product": "x"}, "y", evaluators=[{"id": "a", "type": "length", "max_words": 3}])
            if kept:
                loop.purge()
    written = {statement.split()[2] for statement, _ in seen if statement.startswith("INSERT")}
    assert {"live_call", "live_sample", "attempt", "eval_result", "sample_result", "occurrence"} <= written
    assert scanned(path, [*first, *seen]) == []


def test_the_check_sees_a_scan(path: Path) -> None:
    assert scanned(path, [("SELECT * FROM attempt WHERE text = ?", ("x",))])


def test_a_call_makes_as_many_statements_however_many_there_were(path: Path) -> None:
    with open_loop(path, head_seconds=3600) as loop:
        traffic(loop, 3)
        counts = []
        for _ in range(2):
            with statements() as seen:
                ask(loop, "thing 0", max_attempts=1)
            counts.append(len(seen))
            traffic(loop, 20)
    assert counts[0] == counts[1] < 25
