"""Several processes and threads on one file. Programs run in processes of their own, as `loopeng` would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from loopeng.errors import AlreadyDecidedError
from loopeng.schema import utc_now
from loopeng.store import LoopStore

WORKER = """
import json, sys
from loopeng.errors import ConflictError
from loopeng.schema import Attempt, Usage, utc_now
from loopeng.store import LoopStore, LeaseOwner
print("ready", flush=True)
for line in sys.stdin:
    program, path, number, arguments = json.loads(line)
    with LoopStore.open(path) as store:
        exec(program)
"""

WRITE = """
run_id, version_id = arguments
for step in range(30):
    for sample_id in (f"own-{number}-{step}", f"shared-{step}"):
        attempt = Attempt(run_id=run_id, sample_id=sample_id, seed=number, messages=(), text="t", verdict="fail",
                          usage=Usage(generated_tokens=1), created_at=utc_now())
        store.save_attempt(attempt)
    store.record_occurrence(prompt_name="describe", prompt_version_id=version_id, run_id=run_id,
                            sample_id=f"shared-{step}", fingerprint=f"f{step % 5}", evaluator="e", category="c",
                            reason="r", remedy=None, fault_side="model")
    store.run_usage(run_id)
print("done", flush=True)
"""

DECIDE = """
try:
    action = "approve" if number % 2 else "reject"
    store.decide(action=action, proposal_id=arguments[0], revision=1, seen_hash=arguments[1], by=str(number))
    print("won", flush=True)
except ConflictError as error:
    print(type(error).__name__, flush=True)
"""

RACE = """
from datetime import timedelta
proposal_id, seen_hash, *actions = arguments
action, decision = actions[number % len(actions)], {"proposal_id": proposal_id, "revision": 1, "seen_hash": seen_hash}
try:
    if action == "snooze":
        store.snooze(proposal_id, until=timedelta(days=1), by=str(number))
    elif action == "move the head":
        store.adopt_template("describe", f"Number {number}{{{{ rules }}}}", by=str(number))
    elif action == "rebase":
        head, text = store.head("describe"), store.revision(proposal_id, 1)
        text = text.model_copy(update={"revision": 2})
        store.rebase(proposal_id, text, base_version_id=head.id, by=str(number))
    elif action == "edit":
        text = store.revision(proposal_id, 1).model_copy(update={"text_hash": "e" * 64})
        store.decide(action="edit", by=str(number), new_revision=text, **decision)
    else:
        store.decide(action=action, by=str(number), **decision)
    print(action, flush=True)
except ConflictError as error:
    print(type(error).__name__, flush=True)
"""

COMMIT = """
print(store.commit_proposal(arguments[0]).id, flush=True)
"""

OPEN = """
head, is_new, _ = store.adopt_template("describe", "T{{ rules }}", by=str(number))
print(head.number, is_new, flush=True)
"""

LEASE = """
print(store.acquire_lease("proposal:1", LeaseOwner.current()), flush=True)
"""


class Workers:
    """Four processes that wait for a program and run it at the same moment."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "error", "-c", WORKER]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
        assert self.answers() == ["ready"] * 4

    def together(self, program: str, path: Path, *arguments: str) -> list[str]:
        """The line that each of them prints."""
        for number, process in enumerate(self.processes):
            assert process.stdin is not None
            process.stdin.write(json.dumps([program, str(path), number, arguments]) + "\n")
            process.stdin.flush()
        return self.answers()

    def answers(self) -> list[str]:
        return [process.stdout.readline().strip() for process in self.processes if process.stdout is not None]

    def stop(self) -> list[int]:
        for process in self.processes:
            process.communicate()
        return [process.returncode for process in self.processes]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    started = Workers()
    yield started
    assert started.stop() == [0] * 4


def test_four_writers_lose_nothing_and_count_nothing_twice(store: LoopStore, workers: Workers, make: Any) -> None:
    run = make.run()
    assert workers.together(WRITE, store.path, run.id, run.prompt_version_id) == ["done"] * 4
    assert store.run_usage(run.id)[0] == 4 * 30 + 30
    assert store.run_usage(run.id)[1].generated_tokens == 150
    assert len(store.attempts(run.id)) == 150
    patterns = store.patterns("describe")
    assert len(patterns) == 5
    assert [pattern.num_occurrences for pattern in patterns] == [6] * 5


def test_processes_that_decide_at_once(store: LoopStore, workers: Workers, make: Any) -> None:
    make.clock.now = utc_now()  # theirs is the real one
    proposal = make.pending()
    outputs = workers.together(DECIDE, store.path, proposal.id, make.seen(proposal)["seen_hash"])
    assert sorted(outputs) == ["AlreadyDecidedError"] * 3 + ["won"]
    (decision,) = store.decisions()
    assert decision.by == str(outputs.index("won"))
    expected = {"approve": "approved", "reject": "rejected"}[decision.action]
    assert store.proposal(proposal.id).state == expected


def test_snoozing_and_approving_at_once(store: LoopStore, workers: Workers, make: Any) -> None:
    """Whatever came first, an approval stands in the end: who sleeps can be decided, who is decided cannot sleep."""
    make.clock.now = utc_now()
    proposal = make.pending()
    outputs = workers.together(RACE, store.path, proposal.id, make.seen(proposal)["seen_hash"], "snooze", "approve")
    assert outputs.count("approve") == 1
    decided = store.proposal(proposal.id)
    assert (decided.state, decided.snoozed_until) == ("approved", None)
    actions = [decision.action for decision in store.decisions()]
    assert actions == ["snooze"] * outputs.count("snooze") + ["approve"]
    late = {"AlreadyDecidedError"}
    assert {output for output in outputs if output not in ("snooze", "approve")} <= late


def test_approving_what_expires_at_that_moment(store: LoopStore, workers: Workers, make: Any) -> None:
    """Nobody wins half: all four come too late, and there is no decision."""
    make.clock.now = utc_now() - timedelta(days=7)
    proposal = make.pending()
    arguments = (proposal.id, make.seen(proposal)["seen_hash"], "approve", "snooze", "edit", "reject")
    assert workers.together(RACE, store.path, *arguments) == ["ConflictError"] * 4
    make.clock.now = utc_now()
    assert store.proposal(proposal.id).state == "expired" and store.decisions() == []


def test_editing_and_approving_at_once(store: LoopStore, workers: Workers, make: Any) -> None:
    """The one text is approved, or the other waits for its test; never is the edited one approved untested."""
    make.clock.now = utc_now()
    proposal = make.pending()
    outputs = workers.together(RACE, store.path, proposal.id, make.seen(proposal)["seen_hash"], "edit", "approve")
    (won,) = (output for output in outputs if output in ("edit", "approve"))
    assert sorted(outputs)[:3] == ["AlreadyDecidedError"] * 3
    moved = store.proposal(proposal.id)
    assert (moved.state, moved.revision) == (("testing", 2) if won == "edit" else ("approved", 1))
    assert [decision.action for decision in store.decisions()] == [won]


def test_rebasing_while_the_head_moves(store: LoopStore, workers: Workers, make: Any) -> None:
    """A rebase is one for the head of that moment, or refused; what moved afterwards makes it stale again."""
    make.clock.now = utc_now()
    proposal = make.pending()
    store.adopt_template("describe", "Another {{ product }}{{ rules }}", by="file")
    arguments = (proposal.id, make.seen(proposal)["seen_hash"], "rebase", "move the head")
    outputs = workers.together(RACE, store.path, *arguments)
    assert outputs[1] == outputs[3] == "move the head" and outputs.count("rebase") <= 1
    moved, head = store.proposal(proposal.id), store.head("describe")
    assert head.number == 4
    assert moved.state == ("testing" if moved.base_version_id == head.id else "stale")
    assert moved.revision == 1 + outputs.count("rebase") == 1 + len(store.decisions())


def test_processes_that_commit_at_once_make_one_version(store: LoopStore, workers: Workers, make: Any) -> None:
    proposal = make.pending()
    store.decide(action="approve", by="ana", **make.seen(proposal))
    outputs = workers.together(COMMIT, store.path, proposal.id)
    assert set(outputs) == {store.head("describe").id}
    assert len(store.prompt_versions("describe")) == 2


def test_processes_that_open_a_new_database_at_once(workers: Workers, database_path: Path) -> None:
    """One migrates and one makes version 1 (mlflow#20586: two writers created the same version number)."""
    outputs = workers.together(OPEN, database_path)
    assert sorted(outputs) == ["1 False"] * 3 + ["1 True"]


def test_processes_that_want_one_lease(store: LoopStore, workers: Workers) -> None:
    assert sorted(workers.together(LEASE, store.path)) == ["False"] * 3 + ["True"]


def test_threads_of_one_store_that_decide_at_once(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    seen = make.seen(proposal)
    barrier = Barrier(8)

    def decide(number: int) -> str:
        barrier.wait()
        try:
            store.decide(action="approve" if number % 2 else "reject", by=str(number), **seen)
        except AlreadyDecidedError:
            return "late"
        return "won"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(decide, range(8))) == ["late"] * 7 + ["won"]
    assert len(store.decisions()) == 1


def test_threads_of_one_store_read_and_write_at_once(store: LoopStore, make: Any) -> None:
    run = make.run()

    def work(number: int) -> int:
        for step in range(10):
            store.save_attempt(make.attempt(run.id, sample_id=f"s{step}", repeat=number))
            assert len(store.attempts(run.id, f"s{step}", number)) == 1
        return store.run_usage(run.id)[0]

    with ThreadPoolExecutor(16) as pool:
        assert max(pool.map(work, range(16))) == 160


def test_threads_that_open_new_databases_at_once(tmp_path: Path) -> None:
    """Alembic keeps what it works on in a global; ours takes turns."""

    def open_one(number: int) -> list[str]:
        with LoopStore.open(tmp_path / f"{number}.db") as opened:
            return opened.prompt_names()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_one, range(4))) == [[]] * 4
