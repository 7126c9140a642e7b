"""Leases: one process at a time works on a thing.

A lease is a row with its owner and the time of the last heartbeat. It is free when the heartbeat is 30 s old, or at
once when the owner's process is gone from this host; the start time tells a process from a later one with its number.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import ColumnElement
from sqlmodel import col, delete, update

from loopeng.errors import StoreError
from loopeng.store.room import Room
from loopeng.store.tables import LeaseRow

__all__ = ["LeaseOwner", "LeaseRoom", "hold_lease", "is_free"]

_HEARTBEAT_S = 5.0
_EXPIRES_S = 30.0


@dataclass(frozen=True)
class LeaseOwner:
    """A process. ``started_at`` is the operating system's word for when it started, of use only in comparisons."""

    host: str
    pid: int
    started_at: str

    @classmethod
    def current(cls) -> LeaseOwner:
        """This process."""
        return cls(host=socket.gethostname(), pid=os.getpid(), started_at=_started_at(os.getpid()) or "")

    @property
    def gone(self) -> bool:
        """Whether the process has certainly ended; of a process on another host nobody here knows."""
        return self.host == socket.gethostname() and self.started_at != (_started_at(self.pid) or "")


def is_free(row: LeaseRow, now: datetime) -> bool:
    """Whether anybody may take a lease over: its heart stopped beating, or its owner is gone."""
    expired = row.heartbeat_at <= now - timedelta(seconds=_EXPIRES_S)
    return expired or LeaseOwner(row.host, row.pid, row.started_at).gone


class LeaseRoom(Room):
    """The part of the store that keeps two processes off one thing."""

    def acquire_lease(self, name: str, owner: LeaseOwner) -> bool:
        """Take the lease if it is free, expired, its owner is gone, or it is the owner's already."""
        now = self._clock()
        with self._database.write() as session:
            row = session.get(LeaseRow, name)
            if row is not None:
                holder = LeaseOwner(row.host, row.pid, row.started_at)
                if not (holder == owner or is_free(row, now)):
                    return False
            taken = LeaseRow(name=name, host=owner.host, pid=owner.pid, started_at=owner.started_at, heartbeat_at=now)
            session.merge(taken)
            return True

    def renew_lease(self, name: str, owner: LeaseOwner) -> bool:
        """Say that the owner is still at work; False if the lease is another's by now."""
        with self._database.write() as session:
            renewal = update(LeaseRow).where(*_held_by(name, owner)).values(heartbeat_at=self._clock())
            return session.exec(renewal).rowcount == 1

    def release_lease(self, name: str, owner: LeaseOwner) -> None:
        """Give the lease back, if it is the owner's."""
        with self._database.write() as session:
            session.exec(delete(LeaseRow).where(*_held_by(name, owner)))


@contextmanager
def hold_lease(store: LeaseRoom, name: str, *, heartbeat_s: float = _HEARTBEAT_S) -> Iterator[bool]:
    """Hold a lease during a block. The value says whether it was to be had; a thread renews it until the block ends.

    A lease belongs to a process: two threads of one process may hold it at once, and the first to leave gives it back.
    """
    owner = LeaseOwner.current()
    if not store.acquire_lease(name, owner):
        yield False
        return
    done = threading.Event()
    heart = threading.Thread(
        target=_beat, args=(store, name, owner, heartbeat_s, done), name=f"lease {name}", daemon=True
    )
    heart.start()
    try:
        yield True
    finally:
        done.set()
        heart.join()
        store.release_lease(name, owner)


def _beat(store: LeaseRoom, name: str, owner: LeaseOwner, heartbeat_s: float, done: threading.Event) -> None:
    while not done.wait(heartbeat_s):
        try:
            if not store.renew_lease(name, owner):
                return  # taken over after a long sleep: what the block writes is still guarded by natural keys
        except StoreError:
            continue  # a busy database is no reason to give up; the next beat may pass


def _held_by(name: str, owner: LeaseOwner) -> tuple[ColumnElement[bool], ...]:
    return (
        col(LeaseRow.name) == name,
        col(LeaseRow.host) == owner.host,
        col(LeaseRow.pid) == owner.pid,
        col(LeaseRow.started_at) == owner.started_at,
    )


def _started_at(pid: int) -> str | None:
    """When a process started; None if there is none with this number."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
        return None if state in "ZX" else fields[18]  # field 22 of proc(5): clock ticks since boot
    listed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip() or None
