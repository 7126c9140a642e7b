"""Ctrl-C while samples are side by side: whatever the threads wait for ends at once, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from loopeng.agents import CommandAgent, PythonAgent
from loopeng.agents.programs import ProgramLimits
from loopeng.attempt.events import ProgressEvent, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.ports import AgentContext, AgentResult
from loopeng.run_summary import summarize
from loopeng.runner import run_suite
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import SHORT
from tests.loopeng.engines.openai_server import Call, ChatServer, hangs, says
from tests.loopeng.test_side_by_side import make, no_threads_left


def test_ctrl_c_ends_at_once_what_waits_for_the_server_and_loses_nothing(store: LoopStore) -> None:
    """Three samples are answered; then the server falls silent, and somebody presses the key."""
    events: list[ProgressEvent] = []
    silent = threading.Semaphore(0)

    def falls_silent(call: Call) -> None:
        silent.release()
        hangs(call)

    def on_event(event: ProgressEvent) -> None:
        events.append(event)
        if sum(isinstance(each, SampleFinished) for each in events) == 3:
            for _ in range(4):
                assert silent.acquire(timeout=30)  # all four threads wait in vain now
            raise KeyboardInterrupt

    with ChatServer(says(SHORT), says(SHORT), says(SHORT), falls_silent) as server:
        with pytest.raises(KeyboardInterrupt):
            run_suite(Harness.build(store, make(server, 9, 4), on_event=on_event))
        assert no_threads_left()
        (run,) = store.runs()
        assert run.status == "interrupted" and summarize(store, run.id).attempts == 3
        server.behaviours = [says(SHORT)]
        done = run_suite(Harness.build(store, make(server, 9, 2)), resume=True)
    assert (done.run.id, done.run.status, done.attempts) == (run.id, "finished", 9)


def _sleeping_agents(started: threading.Semaphore, folder: Path) -> dict[str, Any]:
    """One of each kind: they say that they began, and would take five minutes."""

    async def waits(context: AgentContext) -> str:
        started.release()
        await asyncio.sleep(300)
        return SHORT

    def cannot_be_stopped(context: AgentContext) -> str:
        started.release()
        threading.Event().wait(300)
        return SHORT

    class Tells(CommandAgent):
        def __call__(self, context: AgentContext) -> AgentResult:
            started.release()
            return super().__call__(context)

    script = f"echo $$ >> {folder / 'pids'}; exec sleep 300"
    return {
        "async": waits,
        "limited": PythonAgent(cannot_be_stopped, time_limit_s=300),
        "command": Tells(("sh", "-c", script), folder=folder, limits=ProgramLimits(300, 1000)),
    }


@pytest.mark.parametrize("kind", ["async", "limited", "command"])
def test_ctrl_c_reaches_the_users_agents_in_their_threads(store: LoopStore, tmp_path: Path, kind: str) -> None:
    """The key is pressed once both threads wait for their agents; the run ends at once, and no program is left."""
    started = threading.Semaphore(0)

    def press() -> None:
        assert started.acquire(timeout=30) and started.acquire(timeout=30)
        os.kill(os.getpid(), signal.SIGINT)

    with ChatServer(says(SHORT)) as server:
        harness = Harness.build(store, make(server, 4, 2), agent=_sleeping_agents(started, tmp_path)[kind])
        threading.Thread(target=press, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            run_suite(harness)
    assert no_threads_left() and store.runs()[0].status == "interrupted"
    pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
