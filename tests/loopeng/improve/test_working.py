"""The worker: tests what waits for a test, for every prompt, and what breaks in between breaks alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from loopeng.approvals import approve, card, edit
from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import StoreError, TaskError
from loopeng.improve import propose, recover, work
from loopeng.improve.graph import thread_name
from loopeng.schema import Proposal, Task
from loopeng.schema.task import BudgetSpec, ImproveSpec, PromptSpec
from loopeng.store import LeaseOwner, LoopStore

ELSEWHERE = LeaseOwner(host="elsewhere", pid=1, started_at="1")


def do(store: LoopStore, path: Path) -> list[tuple[str, str, str]]:
    """Work with what the stored tasks say."""
    steps = work(store, harness_for=lambda task: Harness.build(store, task.model_copy(update={"path": path})))
    return [(step.before.state, step.after.state, step.outcome) for step in steps]


def edited(store: LoopStore, proposal: Proposal, rule: str = "Use at most 20 words, one sentence.") -> None:
    edit(store, proposal.id, by="ben", seen=card(store, proposal.id).text_hash, rules=[rule])


def test_an_edit_waits_for_the_worker(store: LoopStore, pending: Proposal, tmp_path: Path) -> None:
    edited(store, pending)
    queued = store.proposal(pending.id)
    assert (queued.state, queued.revision) == ("testing", 2)
    assert queued.state_reason == "edited by ben; 'loopeng work' tests it"
    assert len(store.runs(kind="gate")) == 2  # nothing was generated for it yet
    assert do(store, tmp_path / "task.yaml") == [("testing", "pending", "moved")]
    assert len(store.runs(kind="gate")) == 4 and store.proposal(pending.id).expires_at is not None
    assert do(store, tmp_path / "task.yaml") == []


def test_an_edit_that_fails_its_test_does_not_cost_the_text_that_passed(
    store: LoopStore, pending: Proposal, harness: Harness, tmp_path: Path
) -> None:
    """It says nothing of what the reflector proposed: that is proposed once more."""
    edited(store, pending, "Be kind.")
    assert do(store, tmp_path / "task.yaml") == [("testing", "archived", "moved")]
    (again,) = propose(harness)
    assert again.state == "pending"
    assert store.revision(again.id).text_hash == store.revision(pending.id, 1).text_hash


def test_every_prompt_is_worked_on_and_one_that_breaks_breaks_alone(
    store: LoopStore, make_task: Callable[..., Task], pending: Proposal, tmp_path: Path
) -> None:
    other = make_task(name="names", prompt=PromptSpec(name="name", template="Name {{ product }}{{ rules }}"))
    base, _, _ = store.adopt_template("name", "Name {{ product }}{{ rules }}", by="file")
    broken = store.create_proposal(task=other, base=base, pattern_ids=(), expires_at=None)
    edited(store, pending)

    def harness_for(task: Task) -> Harness:
        if task.name == "names":
            raise TaskError("the agent is gone")
        return Harness.build(store, task.model_copy(update={"path": tmp_path / "task.yaml"}))

    steps = work(store, harness_for=harness_for)
    assert {step.before.id: step.outcome for step in steps} == {broken.id: "broken", pending.id: "moved"}
    assert str(next(step.error for step in steps if step.error is not None)) == "the agent is gone"
    left = store.proposal(broken.id)
    assert (left.state, left.state_reason) == ("drafting", "the agent is gone")
    again = work(store, harness_for=harness_for, skip=[left])
    assert again == []  # as it was left: not tried in vain


def test_what_is_approved_is_committed_without_a_harness(store: LoopStore, pending: Proposal) -> None:
    store.acquire_lease(thread_name(pending.id), ELSEWHERE)
    approve(store, pending.id, by="ana", seen=card(store, pending.id).text_hash, accept_untested=True)
    (held,) = work(store, harness_for=lambda _: pytest.fail("nothing to generate"))
    assert (held.outcome, held.after.state) == ("held", "approved")
    store.release_lease(thread_name(pending.id), ELSEWHERE)
    (step,) = work(store, harness_for=lambda _: pytest.fail("nothing to generate"))
    assert (step.outcome, step.after.state) == ("moved", "committed")
    assert len(store.watches("describe")) == 2


def test_an_approval_counts_where_the_stored_task_cannot_be_read(store: LoopStore, pending: Proposal) -> None:
    """A commit reads no task. Its watch does: that one is told, and made good later."""

    def broken(*_: object) -> Task:
        raise StoreError("broken row in table 'task_version'")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopStore, "task", broken)
        with pytest.raises(StoreError, match="task_version"):
            approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
        assert (store.proposal(pending.id).state, store.head("describe").number) == ("committed", 2)
    recover(store)
    assert len(store.watches("describe")) == 2


def test_a_limit_stops_the_work_and_says_which(
    store: LoopStore, make_task: Callable[..., Task], harness: Harness, tmp_path: Path
) -> None:
    task = make_task(improve=ImproveSpec(limits=BudgetSpec(attempts=3)))
    pattern = store.patterns("describe")[0]
    store.create_proposal(task=task, base=store.head("describe"), pattern_ids=[pattern.id], expires_at=None)
    assert do(store, tmp_path / "task.yaml") == [("drafting", "testing", "limit")]
    (left,) = store.proposals()
    assert (left.state_reason or "").startswith("budget: improve.limits.attempts")


def test_an_edit_that_comes_while_the_worker_is_at_it(store: LoopStore, pending: Proposal, tmp_path: Path) -> None:
    edited(store, pending)
    told: list[str] = []

    def edit_once(event: ProgressEvent) -> None:
        if getattr(event, "state", None) == "pending" and not told:
            told.append("edited")
            edited(store, pending, "Write one sentence of at most 20 words.")

    work(
        store,
        harness_for=lambda task: Harness.build(store, task.model_copy(update={"path": tmp_path / "task.yaml"})),
        on_event=edit_once,
    )
    assert told and (store.proposal(pending.id).state, store.proposal(pending.id).revision) == ("pending", 3)


def test_a_worker_that_is_killed_hands_over_to_the_next(
    database: Path, store: LoopStore, pending: Proposal, tmp_path: Path, child: Callable[[Callable[[], object]], int]
) -> None:
    edited(store, pending)

    def die(event: ProgressEvent) -> None:
        if getattr(event, "split", None) == "holdout":
            os.kill(os.getpid(), signal.SIGKILL)

    def working() -> None:
        with LoopStore.open(database) as own:
            harness = Harness.build(own, own.task(pending.task_hash), on_event=die)
            work(own, harness_for=lambda _: harness, on_event=die)

    assert os.WIFSIGNALED(os.waitpid(child(working), 0)[1])
    assert store.proposal(pending.id).state == "testing" and store.gate_report(pending.id, 2) is not None
    assert do(store, tmp_path / "task.yaml") == [("testing", "pending", "moved")]
    assert len(store.runs(kind="gate")) == 4  # no run was made twice
