from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from loopeng.store import LeaseOwner, LoopStore, hold_lease

ELSEWHERE = LeaseOwner(host="another-host", pid=1, started_at="1")
ME = LeaseOwner.current()


def test_this_process_is_known_and_alive() -> None:
    assert (ME.host, ME.pid) == (socket.gethostname(), os.getpid())
    assert LeaseOwner.current() == ME
    assert ME.started_at
    assert not ME.gone


def test_a_held_lease_is_refused_to_others(store: LoopStore) -> None:
    assert store.acquire_lease("proposal:1", ME) is True
    assert store.acquire_lease("proposal:1", ME) is True  # its own
    assert store.acquire_lease("proposal:1", ELSEWHERE) is False
    assert store.acquire_lease("proposal:2", ELSEWHERE) is True


def test_only_the_holder_renews_and_releases(store: LoopStore) -> None:
    assert store.renew_lease("a", ME) is False
    store.acquire_lease("a", ME)
    assert store.renew_lease("a", ELSEWHERE) is False
    store.release_lease("a", ELSEWHERE)
    assert store.renew_lease("a", ME) is True
    store.release_lease("a", ME)
    store.release_lease("a", ME)
    assert store.acquire_lease("a", ELSEWHERE) is True


def test_a_lease_is_free_30_s_after_the_last_heartbeat(store: LoopStore, clock: Any) -> None:
    store.acquire_lease("a", ELSEWHERE)
    clock.advance(seconds=20)
    assert store.renew_lease("a", ELSEWHERE)
    clock.advance(seconds=29)
    assert store.acquire_lease("a", ME) is False
    clock.advance(seconds=1)
    assert store.acquire_lease("a", ME) is True
    assert store.renew_lease("a", ELSEWHERE) is False


def test_the_lease_of_a_dead_process_is_free_at_once(store: LoopStore) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = owner_of(process.pid)
        assert store.acquire_lease("a", owner)
        assert store.acquire_lease("a", ME) is False
        process.kill()
        until(lambda: owner.gone)  # a zombie is gone too: nobody has waited for it yet
        assert process.returncode is None
        assert store.acquire_lease("a", ME) is True


def test_a_recycled_process_number_is_another_process(store: LoopStore) -> None:
    earlier = replace(ME, started_at="1")
    assert earlier.gone
    store.acquire_lease("a", earlier)
    assert store.acquire_lease("a", ME) is True


def test_nobody_knows_whether_a_process_elsewhere_is_gone() -> None:
    assert not ELSEWHERE.gone


def test_holding_renews_and_releases(store: LoopStore, clock: Any) -> None:
    with hold_lease(store, "a", heartbeat_s=0.01) as held:
        assert held is True
        clock.advance(seconds=60)
        until(lambda: heartbeat(store) == clock())
        assert store.acquire_lease("a", ELSEWHERE) is False
    assert store.acquire_lease("a", ELSEWHERE) is True
    assert not any(thread.name == "lease a" for thread in threading.enumerate())


def test_holding_says_when_it_is_taken(store: LoopStore) -> None:
    store.acquire_lease("a", ELSEWHERE)
    with hold_lease(store, "a") as held:
        assert held is False
    assert store.renew_lease("a", ELSEWHERE) is True


def test_a_block_that_raises_gives_the_lease_back(store: LoopStore) -> None:
    with pytest.raises(RuntimeError), hold_lease(store, "a"):
        raise RuntimeError
    assert store.acquire_lease("a", ELSEWHERE) is True


def owner_of(pid: int) -> LeaseOwner:
    program = f"from loopeng.store.leases import _started_at; print(_started_at({pid}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return LeaseOwner(host=socket.gethostname(), pid=pid, started_at=done.stdout.strip())


def heartbeat(store: LoopStore) -> datetime:
    with closing(sqlite3.connect(store.path)) as connection:
        ((text,),) = connection.execute("SELECT heartbeat_at FROM lease")
    return datetime.fromisoformat(text)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
