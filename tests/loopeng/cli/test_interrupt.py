"""Stopped in the middle, by a key, a signal or a kill: nothing is lost and nothing counts twice."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopeng.cli import main
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

Started = Callable[..., subprocess.Popen[str]]


def wait_for_attempts(db: Path, number: int) -> None:
    """Until the run has saved so many attempts."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if db.is_file():
            with LoopStore.open(db) as store:
                runs = store.runs()
                if runs and len(store.attempts(runs[0].id)) >= number:
                    return
        time.sleep(0.05)
    raise AssertionError("the run made no attempts")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_where_it_was(
    shop: Shop, invoke: Invoke, started: Started, signum: signal.Signals
) -> None:
    shop.slow(0.05)
    LoopStore.open(shop.db).close()
    process = started("run", "--no-improve")
    wait_for_attempts(shop.db, 3)
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stderr
    resume = ["run", "--resume", "--no-improve", "task.yaml"]
    if signum == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert stdout == ""
        assert re.search(r"interrupted in run run-\w+; \d+ of 15 samples are finished, everything is saved", stderr)
        words = shlex.split(stderr.splitlines()[-1])
        assert words[words.index("loopeng") + 1 :] == resume
    with LoopStore.open(shop.db) as store:
        (run,) = store.runs()
        before = store.attempts(run.id)
        assert 3 <= len(before) < 25

    shop.slow(0)
    document = json.loads(invoke(*resume, "--json", code=3).stdout)
    assert document["run"]["id"] == run.id
    assert (document["attempts"], document["total"]["samples"]) == (25, 15)
    with LoopStore.open(shop.db) as store:
        after = {(attempt.sample_id, attempt.attempt_index): attempt for attempt in store.attempts(run.id)}
    assert all(after[attempt.sample_id, attempt.attempt_index] == attempt for attempt in before)


def test_stopped_before_there_is_a_run(shop: Shop, started: Started, invoke: Invoke) -> None:
    """Loading takes its time; here it is a script that waits when it is imported."""
    shop.write("waiting.py", "import time\nopen('waits', 'w').close()\ntime.sleep(60)\n")
    shop.change("script: script.yaml", 'script: "waiting:answer"')
    process = started("run")
    while not (shop.folder / "waits").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "interrupted\n")


def test_an_engine_that_was_loading_leaves_nothing_to_resume(
    shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(engine: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("loopeng.engines.scripted.ScriptedEngine.describe", interrupted)
    result = invoke("run", "--limit", "3", code=130)
    assert result.stderr == "interrupted before the run began. Go on with:\n  loopeng run --limit 3 task.yaml\n"


def test_stopped_while_proposals_are_tested(shop: Shop, started: Started, invoke: Invoke) -> None:
    """SIGTERM is taken like Ctrl-C."""
    shop.slow(0.05)
    LoopStore.open(shop.db).close()
    process = started("run")
    end = time.monotonic() + 60
    with LoopStore.open(shop.db) as store:
        while not store.runs(kind="gate"):
            assert time.monotonic() < end
            time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the run itself is complete" in stderr
    assert stderr.splitlines()[-1].endswith("loopeng propose task.yaml")
    shop.slow(0)
    assert "gate 0/5 -> 5/5" in invoke("propose", "task.yaml").stdout


def test_a_key_while_the_program_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The imports take a second, and a person who has mistyped presses Ctrl-C within it."""

    class Interrupted(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "loopeng.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "loopeng.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as left:
            main(["runs", "list"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (left.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_live_progress_on_a_terminal(shop: Shop, started: Started) -> None:
    """Seen by stderr alone: stdout stays clean text for a pipe."""
    shop.slow(0.02)
    master, slave = pty.openpty()
    process = started("run", stderr=slave)
    os.close(slave)
    seen = read_all(master)
    assert process.stdout is not None
    stdout = process.stdout.read()
    assert process.wait(timeout=60) == 3
    assert re.search(r"run · samples \d+/15 · attempts \d+ · passed \d+/\d+ \(\d+ %\)", seen)
    assert "tokens/s" not in seen  # a script decodes nothing
    assert re.search(r"gate (baseline|candidate) · samples \d/5", seen)
    assert "\x1b" in seen
    assert "\x1b" not in stdout
    assert "goal: " in stdout


def read_all(master: int) -> str:
    """Everything a program writes to a terminal until it closes it."""
    chunks = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(master)
    return b"".join(chunks).decode(errors="replace")
