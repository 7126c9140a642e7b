"""kill -9 at any moment of proposing and approving: the next command makes good, and nothing counts twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopeng.approvals import approve
from loopeng.attempt.harness import Harness
from loopeng.errors import AlreadyDecidedError
from loopeng.improve import propose, recover
from loopeng.improve.cycle import checkpoints_path
from loopeng.schema import Task
from loopeng.schema.task import GateSpec
from loopeng.store import LoopStore

Child = Callable[[Callable[[], object]], int]
NUM_KILLS = 14


def propose_and_approve(database: Path, task: Task) -> None:
    """What a person does with two commands; also what the next person does after a crash."""
    with LoopStore.open(database) as store:
        harness = Harness.build(store, task)
        recover(store, harness=harness)
        propose(harness)
        for proposal in store.proposals(states=["pending"]):
            approve(store, proposal.id, by="ana", seen=store.revision(proposal.id).text_hash, accept_untested=True)


def all_there_is(database: Path) -> dict[str, Any]:
    """The end state without ids and times."""
    with LoopStore.open(database) as store:
        (proposal,) = store.proposals()
        runs = [run for run in store.runs() if run.proposal_id == proposal.id]
        with closing(sqlite3.connect(checkpoints_path(store))) as connection:
            threads = connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
        return {
            "proposal": (proposal.state, proposal.revision),
            "versions": [(each.number, each.source, each.text_hash) for each in store.prompt_versions("describe")],
            "head": store.head("describe").number,
            "decisions": [(each.action, each.by, each.accepted_untested) for each in store.decisions()],
            "runs": sorted((run.kind, run.arm, run.status, store.run_usage(run.id)[0]) for run in runs),
            "results": sorted(len(store.sample_results(run.id)) for run in runs),
            "revisions": len(store.revisions(proposal.id)),
            "gate": [_counts(store, proposal.id, split) for split in ("gate", "holdout")],
            "looks": [(each.number, each.revision, each.void) for each in store.looks("describe")],
            "watches": sorted((each.rate_before, each.rate_after) for each in store.watches("describe")),
            "patterns": [pattern.state for pattern in store.patterns()],
            "threads": threads,
        }


def _counts(store: LoopStore, proposal_id: str, split: str) -> str | None:
    report = store.gate_report(proposal_id, 1, split)
    return report and f"{report.verdict} {report.summary} {report.num_errors}"


def copy_of(folder: Path, name: str) -> Path:
    shutil.copytree(folder, folder.parent / name)
    return folder.parent / name / "loop.db"


@pytest.fixture
def ready(after_a_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(after_a_run, tmp_path / "ready")
    return tmp_path / "ready"


def test_killed_at_random_moments(ready: Path, make_task: Callable[..., Task], child: Child) -> None:
    task = make_task(gate=GateSpec(samples=2))
    started = time.monotonic()
    whole = copy_of(ready, "whole")
    assert os.waitpid(child(lambda: propose_and_approve(whole, task)), 0)[1] == 0
    duration = time.monotonic() - started
    expected = all_there_is(whole)
    assert expected["proposal"] == ("committed", 1) and expected["head"] == 2 and len(expected["runs"]) == 4
    chance, num_killed = random.Random(20260101), 0
    for number in range(NUM_KILLS):
        database = copy_of(ready, f"kill-{number}")
        pid = child(lambda database=database: propose_and_approve(database, task))  # type: ignore[misc]
        time.sleep(chance.uniform(0, duration))
        os.kill(pid, signal.SIGKILL)
        num_killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        propose_and_approve(database, task)
        assert all_there_is(database) == expected, f"kill {number}"
        propose_and_approve(database, task)
        assert all_there_is(database) == expected, f"kill {number}, once more"
    assert num_killed >= NUM_KILLS // 3  # else the moments were too late to prove anything


@pytest.mark.parametrize("station", ["testing", "gate", "holdout", "pending", "committed"])
def test_killed_at_a_station(ready: Path, make_task: Callable[..., Task], child: Child, station: str) -> None:
    """The process kills itself at the first event that tells of the station."""
    task, database = make_task(gate=GateSpec(samples=2)), ready / "loop.db"

    def die(event: object) -> None:
        if station in (getattr(event, "state", None), getattr(event, "split", None)):
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with LoopStore.open(database) as store:
            harness = Harness.build(store, task, on_event=die)
            (proposal,) = propose(harness)
            store.decide(
                action="approve", proposal_id=proposal.id, revision=1, by="ana",
                seen_hash=store.revision(proposal.id).text_hash, accepted_untested=True,
            )  # fmt: skip
            recover(store, harness=harness)

    assert os.WIFSIGNALED(os.waitpid(child(work), 0)[1])
    propose_and_approve(database, task)
    there = all_there_is(database)
    assert (there["proposal"], there["head"], len(there["decisions"])) == (("committed", 1), 2, 1)
    assert len(there["runs"]) == 4 and len(there["watches"]) == 2 and there["threads"] == []
    assert there["looks"] == [(1, 1, False)]
    assert [attempts for *_, attempts in there["runs"]] == [2, 2, 2, 2]


def test_several_processes_recover_at_once(ready: Path, make_task: Callable[..., Task], child: Child) -> None:
    """Leases keep them apart; who comes too late to approve hears of it."""
    task, database = make_task(gate=GateSpec(samples=2)), ready / "loop.db"
    with LoopStore.open(database) as store:
        patterns = [pattern.id for pattern in store.patterns()]
        store.create_proposal(task=task, base=store.head("describe"), pattern_ids=patterns, expires_at=None)
    codes = {
        os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for pid in [child(lambda: propose_and_approve(database, task)) for _ in range(3)]
    }
    assert codes <= {0, AlreadyDecidedError.exit_code}
    propose_and_approve(database, task)
    there = all_there_is(database)
    assert (there["proposal"], there["head"], len(there["decisions"])) == (("committed", 1), 2, 1)
    assert [attempts for *_, attempts in there["runs"]] == [2, 2, 2, 2]
