"""kill -9 at any moment, then resume: the same rows as a run that was never killed, nothing twice.

A helper process imports everything once and forks a worker per run, so that a kill costs no start. A worker tells each
event; it is killed a drawn number of events and of milliseconds after its start: while it generates, evaluates, or
writes. Seeds are fixed, and every database takes five kills in a row.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopeng.store import LoopStore

ROOT = Path(__file__).parents[2]
NUM_SAMPLES, NUM_KILLS = 14, 5
HELPER = textwrap.dedent(
    """
    import os
    import sys
    from dataclasses import replace
    from pathlib import Path

    from loopeng.attempt.harness import Harness
    from loopeng.engines.scripted import Script, ScriptedEngine, ScriptedReply
    from loopeng.runner import run_suite
    from loopeng.store import LoopStore
    from tests.loopeng.attempt.making import make_samples, make_task

    LONG = "one two three four five six"
    ENGINE = ScriptedEngine(
        Script(
            replies=(
                ScriptedReply(when="mug (1|4|7).*not accepted", say="short one"),
                ScriptedReply(when="mug (2|5)$", say=(LONG + " seven", LONG + " eight", "brief")),
                ScriptedReply(when="mug 9", error="out of steam"),
            ),
            default=LONG,
            delay_s=0.003,
        )
    )
    TASK = make_task(make_samples(NUM_SAMPLES), max_attempts=4)

    def work(database):
        with LoopStore.open(database) as store:
            harness = Harness.build(store, TASK, engine=ENGINE, on_event=lambda event: os.write(1, b"event\\n"))
            harness = replace(harness, retry_delays_s=(0.001, 0.001))
            runs = store.runs()
            if not runs or runs[0].status != "finished":
                run_suite(harness, resume=bool(runs))

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                work(Path(line.strip()))
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.write(1, b"pid %d\\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"exit %d\\n" % os.waitstatus_to_exitcode(status))
    """
).replace("NUM_SAMPLES", str(NUM_SAMPLES))


class Helper:
    """Starts workers and kills them."""

    def __init__(self, folder: Path) -> None:
        script = folder / "helper.py"
        script.write_text(HELPER, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def start(self, database: Path) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{database}\n")
        return int(self._next("pid").split()[1])

    def run_to_its_end(self, database: Path) -> None:
        self.start(database)
        assert self._next("exit") == "exit 0"

    def kill(self, database: Path, after_events: int, after_s: float) -> None:
        pid = self.start(database)
        for _ in range(after_events):
            self._next("event")
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        assert self._next("exit") == f"exit {-signal.SIGKILL}", "the worker was still at work"

    def _next(self, word: str) -> str:
        """The next line that begins with ``word``; a worker's events and its helper's word may cross."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.strip()
        raise AssertionError("the helper ended")


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helper]:
    made = Helper(tmp_path_factory.mktemp("helper"))
    yield made
    made.process.communicate(timeout=60)


def rows(database: Path) -> dict[str, Any]:
    """Everything but ids, clocks and latencies."""
    with LoopStore.open(database) as store:
        (run,) = store.runs()
        return {
            "status": run.status,
            "attempts": [_without_clock(attempt.model_dump()) for attempt in store.attempts(run.id)],
            "results": [result.model_dump(exclude={"run_id"}) for result in store.sample_results(run.id)],
            "patterns": sorted((p.fingerprint, p.num_occurrences, p.num_samples) for p in store.patterns()),
            "occurrences": {p.fingerprint: {sample for _, sample in store.occurrences(p.id)} for p in store.patterns()},
            "usage": store.run_usage(run.id)[1],
        }


def _without_clock(attempt: dict[str, Any]) -> dict[str, Any]:
    results = tuple({**result, "latency_s": 0} for result in attempt["results"])
    return {**attempt, "run_id": "", "created_at": "", "latency_s": 0, "results": results}


@pytest.fixture(scope="module")
def expected(helper: Helper, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("unkilled") / "loop.db"
    helper.run_to_its_end(database)
    return rows(database)


def test_the_unkilled_run_shows_every_kind_of_attempt(expected: dict[str, Any]) -> None:
    """Otherwise the comparison below would prove little."""
    attempts = expected["attempts"]
    assert {attempt["verdict"] for attempt in attempts} == {"pass", "fail", "error"}
    assert {attempt["policy"] for attempt in attempts} == {"first", "critique", "resample"}
    assert any(attempt["duplicate_of"] is not None for attempt in attempts)
    assert len(expected["results"]) == NUM_SAMPLES and expected["patterns"]


@pytest.mark.parametrize("seed", range(3))
def test_after_five_kills_a_resumed_run_has_the_same_rows(
    tmp_path: Path, helper: Helper, expected: dict[str, Any], seed: int
) -> None:
    draw, database = random.Random(seed), tmp_path / "loop.db"
    attempts_before = 0
    for _ in range(NUM_KILLS):
        events = draw.randint(0, 7)
        helper.kill(database, after_events=events, after_s=draw.uniform(0, 0.012))
        with LoopStore.open(database) as store:
            attempts = sum(len(store.attempts(run.id)) for run in store.runs())
        assert attempts >= attempts_before, "a saved attempt is never lost"
        attempts_before = attempts
    assert sqlite3.connect(database).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    helper.run_to_its_end(database)
    assert rows(database) == expected
