"""A small task that passes every station of the circle, as the commands of people; and all that it leaves behind."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from loopeng.api import Loop
from loopeng.improve import recover
from loopeng.schema import DECIDABLE_STATES
from loopeng.task_file import load_task

__all__ = ["LATER", "STATIONS", "Tell", "everything", "make_folder", "tell_of_writes", "whole_circle"]

LATER = {"stays away": "good.yaml", "comes back": "worse.yaml"}  # the engine of the run after the commit
Tell = Callable[[str, str], object]

_BAD = "A fine thing. It is good for everything you might ever want to do with it at home or at work or on the road."
_SPLITS = {"reflect": 4, "gate": 6, "holdout": 1}
_TASK = """
version: 1
name: descriptions
prompt: {name: describe, file: describe.md, export: on_commit}
dataset: {path: samples.jsonl, id: id, split: split}
engine: {kind: scripted, script: SCRIPT}
evaluators:
  - {id: one-sentence, type: sentences, max: 1}
  - {id: short, type: length, max_words: 12}
loop: {max_attempts: 1, temperatures: [0.7]}
improve:
  reflector: llm
  candidates: 2
  min_occurrences: 3
  engine: {kind: scripted, script: reflections.yaml}
approval:
  webhook: {url: URL}
"""
_TIMES, _OF_A_MOMENT = (
    re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:\+00:00|Z)?"),
    {"seq", "latency_s", "seed", "num_tries", "delivered_at", "last_error"},
)
_STATION_OF = {
    "create_proposal": "start",
    "create_run reproduce": "reproduce",
    "create_run reflect": "reflect",
    "save_suggestions": "suggestions",
    "create_run screen": "screen",
    "save_revision": "suggestions",
    "reserve_look": "gate",
    "create_run holdout": "holdout",
    "move_proposal pending": "publish",
    "claim_delivery": "call",
    "decide": "decide",
    "commit_proposal": "commit",
    "save_watch": "watch",
    "create_run suite": "later run",
    "record_occurrence": "mining",
    "save_watch_check": "check",
    "propose_rollback": "rollback",
}
STATIONS = frozenset(_STATION_OF.values())


def make_folder(folder: Path, url: str) -> None:
    """The files, and a database after the first suite run."""
    folder.mkdir()
    samples = [
        {"id": f"{split}-{number}", "product": f"teapot-{split}-{number}", "split": split}
        for split, count in _SPLITS.items()
        for number in range(count)
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in samples))
    (folder / "describe.md").write_text("Describe this product: {{ product }}{{ rules }}")
    helped = 'replies: [{when: "one sentence.*at most 9 words", say: "A fine thing."}]'
    (folder / "good.yaml").write_text(f'{helped}\ndefault: "{_BAD}"\n')
    (folder / "worse.yaml").write_text(f'default: "{_BAD}"\n')
    rules = ("Write one sentence.", "Write one sentence of at most 9 words.")
    replies = [json.dumps({"operations": [{"op": "add", "text": rule}], "rationale": "It helps."}) for rule in rules]
    (folder / "reflections.yaml").write_text(json.dumps({"default": [each for each in replies for _ in range(2)]}))
    for script in LATER.values():
        (folder / f"task-{script}").write_text(_TASK.replace("SCRIPT", script).replace("URL", url))
    with Loop.open(_database(folder)) as loop:
        assert loop.run(folder / "task-good.yaml", improve=False).failures


def whole_circle(folder: Path, later: str) -> None:
    """Propose, approve, run again, approve what that led to. Said once more, it goes on where it was."""
    with Loop.open(_database(folder)) as loop:
        recover(loop.store)
        if not loop.store.proposals(states=["committed"]):
            loop.propose(folder / "task-good.yaml")
            _approve(loop)
        task = load_task(folder / f"task-{LATER[later]}")
        if sum(run.status == "finished" for run in loop.store.runs(kind="suite")) == 1:
            loop.run(task, resume=loop.store.resumable_run(task) is not None)
        loop.propose(task)
        _approve(loop)


def _approve(loop: Loop) -> None:
    for proposal in loop.store.proposals(states=DECIDABLE_STATES):
        loop.approve(proposal.id, by="ana", seen=loop.store.revision(proposal.id).text_hash)


def tell_of_writes(tell: Tell, monkeypatch: Any) -> None:
    """Call ``tell`` with station and method before every write session of this process, but those of a heartbeat."""
    import sys

    from loopeng.store.database import Database

    write, station = Database.write, "start"

    def told(database: Database) -> Any:
        nonlocal station
        caller = sys._getframe(1)
        name = caller.f_code.co_name
        detail = caller.f_locals.get("kind" if name == "create_run" else "to" if name == "move_proposal" else "", "")
        station = _STATION_OF.get(f"{name} {detail}".strip(), station)
        if name != "renew_lease":
            tell(station, name)
        return write(database)

    monkeypatch.setattr(Database, "write", told)


def everything(folder: Path) -> dict[str, Any]:
    """Every row of every table without ids, times and tries; the prompt's file; the checkpoints."""
    with closing(sqlite3.connect(_database(folder))) as connection:
        connection.row_factory = sqlite3.Row
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = {row["id"]: f"<version {row['number']}>" for row in connection.execute("SELECT * FROM prompt_version")}
        for kind, table in (
            ("pattern", "failure_pattern"),
            ("proposal", "proposal"),
            ("run", "run"),
            ("decision", "decision"),
        ):
            rows = connection.execute(f"SELECT id FROM {table} ORDER BY seq")
            names |= {row["id"]: f"<{kind} {number}>" for number, row in enumerate(rows, start=1)}
        left = sorted(set(tables) - {"lease", "alembic_version"})
        found: dict[str, Any] = {
            table: sorted(_plain(row, names, folder) for row in connection.execute(f"SELECT * FROM {table}"))
            for table in left
        }
    with closing(sqlite3.connect(_database(folder).with_name("checkpoints.db"))) as connection:
        found["threads"] = connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    found["file"] = (folder / "describe.md").read_text()
    return found


def _plain(row: sqlite3.Row, names: dict[str, str], folder: Path) -> str:
    values = {name: row[name] for name in row.keys() if name not in _OF_A_MOMENT}  # noqa: SIM118
    text = _TIMES.sub("<time>", json.dumps(values, sort_keys=True)).replace(str(folder), "<folder>")
    for key, name in names.items():
        text = text.replace(key, name)
    return text


def _database(folder: Path) -> Path:
    return folder / ".loopeng" / "loop.db"
