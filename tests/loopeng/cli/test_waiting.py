"""``--wait`` on a clock of its own, and what progress adds up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopeng.approvals import reject
from loopeng.attempt.events import (
    EngineChanged,
    EngineRetried,
    GateProgress,
    ProposalMoved,
    RunStarted,
    TemplateChanged,
)
from loopeng.cli.progress import Progress, remark
from loopeng.cli.waiting import wait_for_decisions
from loopeng.schema import Sample
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Shop


class Clock:
    """Time passes only in ``sleep``."""

    def __init__(self) -> None:
        self.now, self.sleeps = 0.0, 0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now += seconds


def test_the_time_ends_exactly(ran: Shop, pending: dict[str, Any]) -> None:
    clock = Clock()
    with LoopStore.open(ran.db) as store:
        left = wait_for_decisions(store, [pending["id"]], timeout_s=1.2, clock=clock, sleep=clock.sleep)
    assert (left, clock.now, clock.sleeps) == ([pending["id"]], 1.2, 3)


def test_a_decision_ends_the_waiting(ran: Shop, pending: dict[str, Any]) -> None:
    clock = Clock()
    with LoopStore.open(ran.db) as store:

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if clock.sleeps == 2:
                reject(store, pending["id"], by="ben", seen=pending["text_hash"], reason="no")

        assert wait_for_decisions(store, [pending["id"]], clock=clock, sleep=sleep) == []
    assert clock.sleeps == 2


def test_an_approval_is_waited_for_until_it_is_committed(ran: Shop, pending: dict[str, Any]) -> None:
    """Another process has written its decision and is about to commit: the report must not say half of it."""
    clock, seen = Clock(), {"proposal_id": pending["id"], "revision": 1, "seen_hash": pending["text_hash"]}
    with LoopStore.open(ran.db) as store:
        store.decide(action="approve", by="ben", accepted_untested=True, **seen)

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if clock.sleeps == 2:
                store.commit_proposal(pending["id"])

        assert wait_for_decisions(store, [pending["id"]], clock=clock, sleep=sleep) == []
    assert clock.sleeps == 2


def test_an_approval_that_nobody_commits_is_not_waited_for_forever(ran: Shop, pending: dict[str, Any]) -> None:
    clock, seen = Clock(), {"proposal_id": pending["id"], "revision": 1, "seen_hash": pending["text_hash"]}
    with LoopStore.open(ran.db) as store:
        store.decide(action="approve", by="ben", accepted_untested=True, **seen)
        assert wait_for_decisions(store, [pending["id"]], clock=clock, sleep=clock.sleep) == []
    assert clock.now == 5.0


def test_a_key_ends_the_waiting(ran: Shop, pending: dict[str, Any]) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with LoopStore.open(ran.db) as store:
        assert wait_for_decisions(store, [pending["id"]], sleep=interrupted) == [pending["id"]]


def test_progress_follows_the_events(ran: Shop) -> None:
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        head = store.head("describe")
    progress = Progress()
    progress.observe(RunStarted(run, 15, 4))
    assert progress.text() == "run · samples 4/15 · attempts 0"
    progress.observe(GateProgress("prop-1", "gate", "candidate", 2, 5))
    assert progress.text() == "gate candidate · samples 2/5 · attempts 0"
    progress.observe(ProposalMoved("prop-1", "pending"))
    assert progress.text().startswith("prop-1 pending")
    sample = Sample(id="p-1", inputs={}, split="gate")
    for number in (1, 2):
        progress.observe(EngineRetried(sample, 0, number, "connection refused"))
    assert progress.text().endswith('\ntried again 2 times after "connection refused"')
    assert remark(RunStarted(run, 15, 4)) is None
    assert "another engine" in str(remark(EngineChanged(run, {})))
    assert remark(TemplateChanged(head, ("prop-1",))) == (
        "the template changed: prompt describe is at version 1, it has no rules; stale now: prop-1"
    )
