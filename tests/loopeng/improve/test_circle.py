"""The whole circle on a real database: patterns, proposal, decision, commit, and a better next run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from langgraph.types import Command

from loopeng.approvals import approve, edit, reject, rollback
from loopeng.attempt.harness import Harness
from loopeng.errors import ConflictError, StaleProposalError, UsageError
from loopeng.improve import LeaseHeldError, advance, propose, recover
from loopeng.improve.cycle import checkpoints_path
from loopeng.improve.graph import _checkpoint_saver, improve_graph, thread_name
from loopeng.improve.nodes import ImproveContext
from loopeng.improve.reflection.reflectors import reflection_context
from loopeng.runner import run_suite
from loopeng.schema import Proposal, Task, utc_now
from loopeng.schema.task import BudgetSpec, ImproveSpec
from loopeng.store import LeaseOwner, LoopStore

EDITED = "Use at most 20 words, one sentence."


def seen(store: LoopStore, proposal: Proposal) -> str:
    return store.revision(proposal.id).text_hash


def threads(store: LoopStore) -> list[str]:
    with closing(sqlite3.connect(checkpoints_path(store))) as connection:
        return [name for (name,) in connection.execute("SELECT DISTINCT thread_id FROM checkpoints")]


def test_the_time_to_decide_runs_from_publication(store: LoopStore, pending: Proposal) -> None:
    """A proposal that was tested for days must not expire the moment it reaches the queue."""
    assert pending.expires_at is not None
    assert timedelta(days=6, hours=23) < pending.expires_at - utc_now() <= timedelta(days=7)


def test_from_failures_to_a_better_run(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    before = run_suite(harness)
    assert threads(store) == [thread_name(pending.id)]
    outcome = approve(
        store, pending.id, by="ana", seen=seen(store, pending)[:8], accept_untested=True, reason="looks right"
    )
    head = store.head("describe")
    assert outcome.version == head and outcome.proposal.state == "committed"
    assert [rule.text for rule in head.rules] == ["Write exactly one sentence.", "Use at most 20 words."]
    assert (head.number, head.source, head.proposal_id, head.created_by) == (2, "proposal", pending.id, "ana")
    assert threads(store) == []
    after = run_suite(harness)
    assert (before.total.first_passed, after.total.first_passed) == (1, 14)
    assert propose(harness) == []


def test_each_pattern_is_watched_with_the_rates_of_the_gate(store: LoopStore, pending: Proposal) -> None:
    outcome = approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    assert outcome.version is not None
    watches = store.watches("describe")
    assert {watch.pattern_id for watch in watches} == set(pending.pattern_ids)
    for watch in watches:
        assert (watch.prompt_version_id, watch.rate_before, watch.rate_after) == (outcome.version.id, 0.8, 0.0)
    assert {pattern.state for pattern in store.patterns()} == {"watching"}


def test_a_kill_between_two_watch_rows_loses_none(store: LoopStore, pending: Proposal) -> None:
    """A kill at random found it: with one row there, the proposal counted as watched, and the other never came."""
    approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    before = store.watches("describe")
    assert len(before) == 2
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM watch WHERE pattern_id = ?", (before[1].pattern_id,))
        connection.commit()
    assert [each.id for each in recover(store)] == [pending.id]
    assert [each.pattern_id for each in store.watches("describe")] == [each.pattern_id for each in before]
    assert recover(store) == []


@pytest.mark.parametrize("what", ["deleted", "damaged"])
def test_the_checkpoint_file_may_go_at_any_time(store: LoopStore, pending: Proposal, what: str) -> None:
    path = checkpoints_path(store)
    assert path.exists()
    if what == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"this is no database" * 1000)
    outcome = approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    assert outcome.proposal.state == "committed" and store.head("describe").number == 2


def test_waking_without_a_decision_changes_nothing(store: LoopStore, pending: Proposal) -> None:
    for _ in range(3):
        assert advance(store, pending.id) == pending
    checkpoints_path(store).unlink()
    assert advance(store, pending.id) == pending
    assert len(store.runs(kind="gate")) == 2


def test_what_the_graph_is_resumed_with_is_no_decision(store: LoopStore, pending: Proposal) -> None:
    """Anybody with LangGraph at hand may resume the thread: only the decision row counts."""
    context = ImproveContext(store, lambda _: pytest.fail("nothing to generate"), BudgetSpec, lambda _: None)
    with _checkpoint_saver(checkpoints_path(store)) as saver:
        graph = improve_graph(saver)
        thread = {"configurable": {"thread_id": thread_name(pending.id)}}
        for answer in ("approve", True, {"action": "approve", "by": "mallory"}):
            result = graph.invoke(Command(resume=answer), thread, context=context)
            assert result["__interrupt__"][0].value == {"proposal_id": pending.id, "revision": 1}
    assert store.proposal(pending.id).state == "pending" and store.head("describe").number == 1


def test_the_checkpoint_holds_ids_and_small_values_only(store: LoopStore, pending: Proposal) -> None:
    with _checkpoint_saver(checkpoints_path(store)) as saver:
        (saved,) = saver.list({"configurable": {"thread_id": thread_name(pending.id)}})
    values = saved.checkpoint["channel_values"]
    state = {key: value for key, value in values.items() if not key.startswith("branch:")}
    assert state == {"proposal_id": pending.id, "going": True}


def test_the_graph_shows_the_circle() -> None:
    edges = {(edge.source, edge.target) for edge in improve_graph().get_graph().edges}
    assert {("AWAIT", "route"), ("route", "commit"), ("commit", "watch"), ("publish", "AWAIT")} <= edges
    assert {source for source, target in edges if target == "AWAIT"} == {"route", "publish"}
    assert {source for source, target in edges if target == "publish"} == {"holdout", "route"}


def test_a_rejection_reaches_the_next_reflection(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], pending: Proposal
) -> None:
    text_hash = seen(store, pending)
    outcome = reject(store, pending.id, by="ana", seen=text_hash, reason="we want two sentences")
    assert (outcome.proposal.state, outcome.proposal.state_reason) == ("rejected", "we want two sentences")
    assert store.head("describe").number == 1 and threads(store) == []
    assert propose(harness) == []  # its patterns rest

    harness = Harness.build(store, make_task(improve=ImproveSpec(cool_down="0s")))
    assert propose(harness) == []  # what the person has seen counts no more
    run_suite(harness)
    (again,) = propose(harness)
    context = reflection_context(store, harness, again)
    ((operations, reason),) = context.rejected
    assert reason == "we want two sentences" and operations[0].text == "Write exactly one sentence."
    assert again.state == "archived" and "rejected before: 'we want two sentences'" in (again.state_reason or "")
    assert store.revision(again.id).findings[0].guard == "duplicates"
    assert len(store.runs(kind="gate")) == 2  # no compute for the second
    assert propose(harness) == []  # nor a third


def test_an_edit_is_counted_again(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    text_hash = seen(store, pending)
    outcome = edit(store, pending.id, by="ben", seen=text_hash, rules=[EDITED], now=True, harness=harness)
    assert (outcome.proposal.state, outcome.proposal.revision, outcome.version) == ("pending", 2, None)
    revision = store.revision(pending.id)
    assert (revision.author, [rule.text for rule in revision.rules]) == ("ben", [EDITED])
    first, second = store.gate_report(pending.id, 1), store.gate_report(pending.id, 2)
    assert first is not None and second is not None
    assert first.pairs.fixed == second.pairs.fixed == 4 and first.arms[0].run_id != second.arms[0].run_id
    assert store.gate_report(pending.id, 2, "holdout") is not None
    with pytest.raises(ConflictError):
        approve(store, pending.id, by="ana", seen=text_hash, accept_untested=True)
    approve(store, pending.id, by="ana", seen=revision.text_hash, accept_untested=True)
    assert [rule.text for rule in store.head("describe").rules] == [EDITED]
    assert [decision.action for decision in store.decisions(proposal_id=pending.id)] == ["edit", "approve"]


def test_an_edit_needs_no_harness_in_another_process(store: LoopStore, pending: Proposal) -> None:
    outcome = edit(
        store, pending.id, by="ben", seen=seen(store, pending), rules=["Use at most 20 words, one sentence."], now=True
    )
    assert outcome.proposal.state == "pending"
    assert outcome.proposal.revision == 2 and len(store.runs(kind="gate")) == 4


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["Name {{ product }}."], "placeholders"),
        ([], "nothing would change"),
        (["Be kind.", "be  KIND"], "stands twice"),
        (["Write exactly one sentence.", "Use at most 20 words."], "those of the current revision"),
    ],
)
def test_an_edit_that_a_guard_refuses_leaves_no_trace(
    store: LoopStore, pending: Proposal, rules: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        edit(store, pending.id, by="ben", seen=seen(store, pending), rules=rules)
    assert store.proposal(pending.id) == pending and store.decisions() == []


def test_a_moved_head_makes_a_proposal_stale(store: LoopStore, pending: Proposal) -> None:
    text_hash = seen(store, pending)
    _, _, stale = store.adopt_template("describe", "Say what this is: {{ product }}{{ rules }}", by="file")
    assert stale == (pending.id,)
    for decide in (
        lambda: approve(store, pending.id, by="ana", seen=text_hash, accept_untested=True),
        lambda: reject(store, pending.id, by="ana", seen=text_hash, reason="late"),
        lambda: edit(store, pending.id, by="ana", seen=text_hash, rules=["Be kind."]),
    ):
        with pytest.raises(StaleProposalError) as caught:
            decide()
        assert caught.value.exit_code == 7
    assert store.decisions() == [] and recover(store) == [] and threads(store) == []


def test_a_head_that_moves_between_approval_and_commit(store: LoopStore, pending: Proposal) -> None:
    """The decision is kept, the commit is not made: it would have overwritten what somebody else changed."""
    owner = LeaseOwner(host="elsewhere", pid=1, started_at="1")
    assert store.acquire_lease(thread_name(pending.id), owner)
    outcome = approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    assert (outcome.proposal.state, outcome.version) == ("approved", None)
    store.adopt_template("describe", "Say what this is: {{ product }}{{ rules }}", by="file")
    store.release_lease(thread_name(pending.id), owner)
    assert recover(store) == []
    assert store.proposal(pending.id).state == "stale" and store.head("describe").number == 2


def test_whoever_comes_next_commits_what_was_approved(store: LoopStore, pending: Proposal) -> None:
    owner = LeaseOwner(host="elsewhere", pid=1, started_at="1")
    store.acquire_lease(thread_name(pending.id), owner)
    approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    with pytest.raises(LeaseHeldError, match="another process"):
        advance(store, pending.id)
    assert [each.state for each in recover(store)] == ["approved"]
    store.release_lease(thread_name(pending.id), owner)
    assert [each.state for each in recover(store)] == ["committed"]
    assert recover(store) == [] and len(store.watches("describe")) == 2


def test_expiry_is_no_rejection(
    database: Path, make_task: Callable[..., Task], harness: Harness, pending: Proposal
) -> None:
    later = utc_now() + timedelta(days=8)
    with LoopStore.open(database, clock=lambda: later) as store:
        text_hash = store.revision(pending.id).text_hash
        with pytest.raises(ConflictError, match="expired"):
            approve(store, pending.id, by="ana", seen=text_hash, accept_untested=True)
        assert store.proposal(pending.id).state == "expired" and store.rejected("describe") == []
        assert threads(store) == [thread_name(pending.id)]
        recover(store)
        assert threads(store) == []


def test_rollback_restores_the_earlier_text(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    first = store.head("describe")
    approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    assert rollback(store, "describe", to=None, by="ana", reason="customers complain") == first
    assert store.head("describe") == first
    assert run_suite(harness).total.first_passed == 1
    assert rollback(store, "describe", to=2, by="ben", reason="they do not").number == 2
    assert [(each.action, each.by) for each in store.decisions()][1:] == [("rollback", "ana"), ("rollback", "ben")]


def test_what_was_rolled_back_is_not_proposed_again(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    """The failures under the old head count again, and the same remedies would make the same text."""
    approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    rollback(store, "describe", to=None, by="ana", reason="customers complain")
    (again,) = propose(harness)
    assert again.state == "archived" and "customers complain" in (again.state_reason or "")
    assert propose(harness) == []


def test_named_patterns_need_no_threshold(store: LoopStore, harness: Harness) -> None:
    (pattern, other) = store.patterns("describe")
    (alone,) = propose(harness, pattern_ids=[pattern.id])
    assert alone.pattern_ids == (pattern.id,) and alone.state == "archived"  # one rule mends nothing here
    (both,) = propose(harness, pattern_ids=[pattern.id, other.id])
    assert both.state == "pending"
    with pytest.raises(ConflictError, match=both.id):
        propose(harness, pattern_ids=[pattern.id])
    with pytest.raises(UsageError, match="1 to 3 patterns"):
        propose(harness, pattern_ids=[])


def test_a_remedy_that_is_there_already_is_not_proposed_again(
    store: LoopStore, harness: Harness, pending: Proposal
) -> None:
    approve(store, pending.id, by="ana", seen=seen(store, pending), accept_untested=True)
    (again,) = propose(harness, pattern_ids=pending.pattern_ids)
    assert again.state == "archived" and (again.state_reason or "").startswith("nothing to propose")
