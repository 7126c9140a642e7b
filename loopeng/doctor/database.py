"""The database that commands from here would use: whether it can be worked with, and what was left in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loopeng.doctor.findings import Finding
from loopeng.errors import StoreError
from loopeng.store import DatabaseState, inspect_database

__all__ = ["examine_database"]

_SHOWN = 3


def examine_database(path: Path) -> Iterator[Finding]:
    """Look at a file that exists. Nothing is changed, an old schema included."""
    try:
        state = inspect_database(path, thorough=True)
    except StoreError as error:
        yield Finding("database", "fail", str(error), "name another with --db, or bring back a copy of it")
        return
    yield _file(state)
    if not state.is_current:
        return
    yield _runs(state)
    yield _proposals(state)
    yield _leases(state)


def _file(state: DatabaseState) -> Finding:
    text = f"{state.path}, schema {state.schema or 'none yet'}, journal {state.journal_mode}"
    if state.damage is not None:
        return Finding("database", "fail", f"{text}; damaged: {state.damage}", "bring back a copy of it")
    if state.schema is not None and state.schema > state.newest_schema:
        newer = f"{text}; written by a newer loopeng (here {state.newest_schema})"
        return Finding("database", "fail", newer, "upgrade loopeng")
    if not state.writable:
        remedy = "make the file and its folder writable, or name another with --db"
        return Finding("database", "warn", f"{text}; can be read, not written", remedy)
    if not state.is_current:
        remedy = f"nothing: the next command that opens it brings it to {state.newest_schema}; copy it before"
        return Finding("database", "warn", text, remedy)
    if state.journal_mode != "wal":
        return Finding("database", "warn", text, "nothing: the next command that opens it sets WAL")
    return Finding("database", "ok", text)


def _runs(state: DatabaseState) -> Finding:
    """Those of suites count more: where one is left, a rescore is not told of."""
    if state.unfinished_runs:
        text = f"not finished: {_listed(state.unfinished_runs)}"
        remedy = "'loopeng run --resume TASK' with the task's file goes on; a new run leaves it behind"
        return Finding("runs", "warn", text, remedy)
    if state.unfinished_rescores:
        text = f"not finished: rescore {_listed(state.unfinished_rescores)}"
        return Finding("runs", "warn", text, "'loopeng rescore RUN --resume' goes on with that of RUN")
    return Finding("runs", "ok", "none is unfinished")


def _proposals(state: DatabaseState) -> Finding:
    if state.unfinished_proposals:
        text = f"work goes on with {_listed(state.unfinished_proposals)}"
        return Finding("proposals", "warn", text, "'loopeng work' takes up what was left")
    if state.pending_proposals:
        text = f"waiting for a decision: {_listed(state.pending_proposals)}"
        return Finding("proposals", "ok", text, "see 'loopeng queue list'")
    return Finding("proposals", "ok", "none is waiting")


def _leases(state: DatabaseState) -> Finding:
    held = f"held: {_listed(state.held_leases)}" if state.held_leases else "none is held"
    if state.dead_leases:
        text = f"left by processes that were killed: {_listed(state.dead_leases)}; {held}"
        return Finding("leases", "warn", text, "nothing: the next command that needs one takes it over")
    return Finding("leases", "ok", held)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
