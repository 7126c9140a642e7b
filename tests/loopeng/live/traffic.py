"""An application whose model is too wordy until a rule forbids it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from loopeng import LiveSettings, Loop, TextRequest
from loopeng.engines.scripted import ScriptedEngine
from loopeng.results import AttemptResult

TEMPLATE = "Describe {{ product }}{{ rules }}"
SPECS = [{"id": "short", "type": "length", "max_words": 5}]
LONG = "This is a very fine product that everyone will want to have."
SHORT = "A fine thing."


def say(request: TextRequest) -> str:
    """Too long unless told not to be."""
    return SHORT if "at most" in request.messages[-1].content else LONG


def open_loop(path: Path, **settings: Any) -> Loop:
    """With an engine that another process could make, so that a gate runs."""
    return Loop.open(path, engine=ScriptedEngine(say, reference="{}"), live=LiveSettings(**settings))


def ask(loop: Loop, product: str = "mug", **options: Any) -> AttemptResult:
    return loop.attempt("describe", {"product": product}, **({"evaluators": SPECS, "template": TEMPLATE} | options))


def traffic(loop: Loop, count: int = 40, **options: Any) -> None:
    """So many inputs, one call each."""
    for number in range(count):
        ask(loop, f"thing {number}", **({"max_attempts": 1} | options))


def rows(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query, values).fetchall()


def num_calls(path: Path) -> int:
    """Calls that are kept whole."""
    query = (
        "SELECT count(*) FROM live_call JOIN sample_result USING (run_id, sample_id, repeat) "
        "JOIN attempt USING (run_id, sample_id, repeat) WHERE attempt_index = 0"
    )
    return int(rows(path, query)[0][0])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program has begun to write and does not come to its end. With a write-ahead log, reading goes on."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
