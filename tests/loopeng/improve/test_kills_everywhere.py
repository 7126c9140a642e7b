"""kill -9 anywhere from reproduction to the proposal that takes a change back: no row is lost, none is there twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from loopeng.improve.webhook import deliver_due
from loopeng.schema import DECIDABLE_STATES, utc_now
from loopeng.store import LoopStore
from tests.loopeng.improve.whole_circle import LATER, STATIONS, everything, make_folder, tell_of_writes, whole_circle

Child = Callable[[Callable[[], object]], int]


@pytest.fixture
def calls(tmp_path: Path, child: Child) -> Iterator[tuple[str, Path]]:
    """The URL of a receiver in a process of its own, and the file where it notes each call's ``webhook-id``."""
    log = tmp_path / "calls"
    log.touch()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with log.open("a") as file:
                file.write(self.headers["webhook-id"] + "\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(HTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # the caller was killed

    with Server(("127.0.0.1", 0), Receiver) as server:
        pid = child(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", log
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@dataclass
class Circle:
    """The same work again and again, each time in a copy of the folder as it is after the first suite run."""

    folder: Path
    child: Child
    monkeypatch: pytest.MonkeyPatch
    num_copies: int = 0

    def copy(self) -> Path:
        self.num_copies += 1
        return Path(shutil.copytree(self.folder, self.folder.with_name(f"copy-{self.num_copies}")))

    def killed(self, folder: Path, later: str, num_writes: int, delay_s: float) -> bool:
        """Work until so many write sessions have begun and some time is over; whether the kill came before the end."""
        stations = self._start(folder, later)
        for _ in range(num_writes):
            next(stations, None)
        time.sleep(delay_s)
        os.kill(self.pid, signal.SIGKILL)
        return os.WIFSIGNALED(self._end())

    def undisturbed(self, folder: Path, later: str) -> list[tuple[str, float]]:
        """The station of every write session, and when it began."""
        found = [(station, time.monotonic()) for station in self._start(folder, later)]
        assert self._end() == 0
        return found

    def _start(self, folder: Path, later: str) -> Iterator[str]:
        self.reader, writer = os.pipe()

        def work() -> None:
            tell_of_writes(lambda station, _: os.write(writer, f"{station}\n".encode()), self.monkeypatch)
            whole_circle(folder, later)

        self.pid = self.child(work)
        os.close(writer)
        return self._stations()

    def _stations(self) -> Iterator[str]:
        line = b""
        while byte := os.read(self.reader, 1):  # no byte more than asked for: the next one is a later moment
            line += byte
            if byte == b"\n":
                yield line.decode().strip()
                line = b""

    def _end(self) -> int:
        os.close(self.reader)
        return os.waitpid(self.pid, 0)[1]


@pytest.fixture
def circle(tmp_path: Path, child: Child, calls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Circle:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOOPENG_WEBHOOK_SECRET", "a secret")
    make_folder(tmp_path / "folder", calls[0])
    return Circle(tmp_path / "folder", child, monkeypatch)


def test_killed_a_few_times_anywhere(circle: Circle, calls: tuple[str, Path]) -> None:
    killed_anywhere(circle, calls[1], num_kills=8)


@pytest.mark.slow
def test_killed_a_hundred_times_anywhere(circle: Circle, calls: tuple[str, Path]) -> None:
    hit, num_open = killed_anywhere(circle, calls[1], num_kills=100)
    assert hit.keys() == STATIONS and min(hit.values()) >= 3, hit
    assert num_open >= 5


def killed_anywhere(circle: Circle, log: Path, num_kills: int) -> tuple[Counter[str], int]:
    """Every station in turn, at one of its write sessions or between it and the next one.

    Returns the kills that came before the end by station, and how many of all left a proposal that waits.
    """
    chance, hit, num_open = random.Random(20260101), Counter[str](), 0
    whole = {later: circle.copy() for later in LATER}
    traces = {later: circle.undisturbed(folder, later) for later, folder in whole.items()}
    expected = {later: everything(settled(folder)) for later, folder in whole.items()}
    assert [len(each["proposal"]) for each in expected.values()] == [1, 2]  # the second one takes the first back
    stations = list(dict.fromkeys(station for station, _ in traces["comes back"]))
    assert log.read_text().count("\n") == 3
    chance.shuffle(stations)
    for number in range(num_kills):
        station, folder = stations[number % len(stations)], circle.copy()
        later = chance.choice([each for each, trace in traces.items() if station in dict(trace)])
        trace, before = traces[later], log.read_text().count("\n")
        index = chance.choice([place for place, (name, _) in enumerate(trace) if name == station])
        gap_s = trace[index + 1][1] - trace[index][1] if index + 1 < len(trace) else 0.01
        if circle.killed(folder, later, index + 1, chance.uniform(0, gap_s)):
            hit[station] += 1
        num_open += can_be_decided(folder)
        for again in ("", ", once more"):
            whole_circle(folder, later)
            found = everything(settled(folder))
            different = {name: (found[name], rows) for name, rows in expected[later].items() if found[name] != rows}
            assert not different, f"kill {number} ({station}, write {index}, {later}){again}"
        assert log.read_text().count("\n") - before <= len(expected[later]["delivery"]) + 1
        shutil.rmtree(folder)
    assert hit.total() >= 0.8 * num_kills  # else the moments were too late to prove anything
    return hit, num_open


def can_be_decided(folder: Path) -> int:
    """Every proposal that waits can be approved as it was left. Returns how many do."""
    with LoopStore.open(folder / ".loopeng" / "loop.db") as store:
        waiting = store.proposals(states=DECIDABLE_STATES)
        for proposal in waiting:
            store.check_decidable(proposal.id, proposal.revision, store.revision(proposal.id).text_hash)
            assert [each.proposal_id for each in store.deliveries(proposal.id)] == [proposal.id]
        return len(waiting)


def settled(folder: Path) -> Path:
    """A while later, when a call that was cut off is due again."""
    with LoopStore.open(folder / ".loopeng" / "loop.db", clock=lambda: utc_now() + timedelta(hours=1)) as store:
        deliver_due(store)
        for each in store.deliveries():
            assert (each.delivered_at is not None) is (each.last_error is None)
            assert each.delivered_at or (each.last_error or "").startswith("not sent: ")
    return folder
