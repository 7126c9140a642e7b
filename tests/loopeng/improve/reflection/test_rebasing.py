"""A proposal whose prompt moved on under it: rebased, tested again, and never at the cost of somebody else's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopeng.approvals import approve, card, edit, rebase, reject
from loopeng.attempt.events import GateProgress, ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import ConflictError, UsageError
from loopeng.improve import propose, recover, work
from loopeng.improve.reflection.rebasing import rebased_operations
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion, Proposal, Revision, Rule, RuleOperation, Task, utc_now
from loopeng.store import LoopStore

HINTS = ["Write exactly one sentence.", "Use at most 20 words."]


def add(text: str) -> RuleOperation:
    return RuleOperation(op="add", text=text)


def head_with(store: LoopStore, task: Task, *texts: str, ids: str = "abc") -> PromptVersion:
    """Another proposal, about no pattern, was committed meanwhile."""
    head = store.head("describe")
    rules = tuple(Rule(id=rule_id, text=text) for rule_id, text in zip(ids, texts, strict=False))
    other = store.create_proposal(task=task, base=head, pattern_ids=(), expires_at=None)
    text = text_hash(head.template, rules)
    store.save_revision(
        Revision(
            proposal_id=other.id, revision=1, operations=(), rules=rules, text_hash=text, author="x",
            created_at=utc_now(),
        )
    )  # fmt: skip
    store.move_proposal(other.id, to="pending", frm={"drafting"})
    store.decide(action="approve", proposal_id=other.id, revision=1, seen_hash=text, by="x")
    version = store.commit_proposal(other.id)
    assert version is not None
    return version


def texts(store: LoopStore, proposal: Proposal) -> list[str]:
    return [rule.text for rule in store.revision(proposal.id).rules]


def test_the_head_got_another_rule(
    store: LoopStore, make_task: Callable[..., Task], harness: Harness, pending: Proposal
) -> None:
    """Both stay: a full text would have taken the other one away."""
    head = head_with(store, make_task(), "Name the product.")
    stale = store.proposal(pending.id)
    assert stale.state == "stale" and f"'loopeng queue rebase {pending.id}'" in (stale.state_reason or "")
    outcome = rebase(store, pending.id, by="ana", reason="still wanted", now=True, harness=harness)
    assert (outcome.proposal.state, outcome.proposal.revision) == ("pending", 2)
    assert outcome.proposal.base_version_id == head.id and outcome.proposal.expires_at is not None
    assert texts(store, pending) == ["Name the product.", *HINTS]
    report = store.gate_report(pending.id, 2)
    assert report is not None and report.pairs.fixed == 4  # counted again, against the new head
    shown = card(store, pending.id)
    assert [each.pattern.num_samples for each in shown.patterns] == [6, 6]  # nobody ran the new head yet
    told = [(entry.who, entry.what, entry.reason) for entry in shown.history]
    assert ("ana", "rebase of revision 1 from version 1 to version 2", "still wanted") in told
    done = approve(store, pending.id, by="ana", seen=shown.text_hash, accept_untested=True)
    assert done.version is not None and [rule.text for rule in done.version.rules] == ["Name the product.", *HINTS]


@pytest.mark.parametrize("split", ["gate", "holdout"])
def test_rebased_while_its_test_runs(
    store: LoopStore, make_task: Callable[..., Task], harness: Harness, split: str
) -> None:
    """What is still being counted is about the old text; the new one waits for a test of its own."""
    task = make_task()

    def move_the_head(event: ProgressEvent) -> None:
        if isinstance(event, GateProgress) and event.split == split and len(store.prompt_versions("describe")) == 1:
            head_with(store, task, "Name the product.")
            (stale,) = store.proposals(states=["stale"])
            rebase(store, stale.id, by="ana")

    (left,) = propose(Harness.build(store, task, on_event=move_the_head))
    assert (left.state, left.revision) == ("testing", 2)
    assert store.gate_report(left.id, 2) is None and store.gate_report(left.id, 2, "holdout") is None
    (step,) = work(store, harness_for=lambda _: harness)
    assert (step.after.state, step.after.revision) == ("pending", 2)
    report = store.gate_report(left.id, 2)
    assert report is not None and report.pairs.fixed == 4


def test_the_head_got_one_of_the_rules(store: LoopStore, make_task: Callable[..., Task], pending: Proposal) -> None:
    head_with(store, make_task(), "write exactly ONE sentence")
    outcome = rebase(store, pending.id, by="ana")
    assert outcome.proposal.state == "testing"
    assert texts(store, pending) == ["write exactly ONE sentence", "Use at most 20 words."]
    assert [operation.text for operation in store.revision(pending.id).operations] == ["Use at most 20 words."]


def test_the_head_got_all_of_the_rules(store: LoopStore, make_task: Callable[..., Task], pending: Proposal) -> None:
    head_with(store, make_task(), *HINTS)
    with pytest.raises(UsageError, match="nothing left to change: version 2 says all of it already"):
        rebase(store, pending.id, by="ana")
    assert store.proposal(pending.id).state == "stale" and store.decisions(proposal_id=pending.id) == []


def test_the_rule_to_change_is_gone(store: LoopStore, make_task: Callable[..., Task], harness: Harness) -> None:
    task = make_task()
    head_with(store, task, "Be kind.", "Be honest.")
    (proposal,) = propose(harness, pattern_ids=[pattern.id for pattern in store.patterns("describe")])
    edit(store, proposal.id, by="ana", seen=card(store, proposal.id).text_hash, rules=["Be very kind.", "Be honest."])
    head_with(store, task, "Be honest.", ids="b")
    with pytest.raises(UsageError, match=r"cannot update rule a \('Be kind.'\): it is gone"):
        rebase(store, proposal.id, by="ana")
    assert store.proposal(proposal.id).revision == 2


@pytest.mark.parametrize(
    ("operation", "now", "message"),
    [
        (RuleOperation(op="remove", rule_id="a"), [], "cannot remove rule a .'Be kind.'.: it is gone"),
        (RuleOperation(op="update", rule_id="a", text="Be very kind."), ["Be nice."], "reworded meanwhile"),
        (RuleOperation(op="remove", rule_id="a"), ["Be nice."], "cannot remove rule a: it was reworded"),
    ],
)
def test_what_somebody_else_wrote_is_not_overwritten(operation: RuleOperation, now: list[str], message: str) -> None:
    before = (Rule(id="a", text="Be kind."),)
    with pytest.raises(UsageError, match=message):
        rebased_operations(tuple(Rule(id="a", text=text) for text in now), (operation,), before=before)


def test_what_the_head_says_already_is_dropped() -> None:
    rules = (Rule(id="a", text="Be very kind."), Rule(id="b", text="Be honest."))
    change = (RuleOperation(op="update", rule_id="a", text="be very kind"), add("Be honest"), add("Be brief."))
    assert rebased_operations(rules, change, before=(Rule(id="a", text="Be kind."),)) == (add("Be brief."),)


def test_a_template_that_lost_its_place_for_rules(store: LoopStore, pending: Proposal) -> None:
    store.adopt_template("describe", "Say what this is: {{ product }}", by="file")
    with pytest.raises(UsageError, match="the template has no"):
        rebase(store, pending.id, by="ana")
    assert store.proposal(pending.id).state == "stale"


def test_a_text_that_was_rejected_does_not_come_back_by_a_rebase(
    store: LoopStore, harness: Harness, pending: Proposal
) -> None:
    """It goes stale while the same text is rejected in another proposal for the new head."""
    store.adopt_template("describe", "Say what this is: {{ product }}{{ rules }}", by="file")
    (other,) = propose(harness, pattern_ids=pending.pattern_ids)
    with pytest.raises(ConflictError, match=f"{other.id} .* is about"):
        rebase(store, pending.id, by="ana")
    reject(store, other.id, by="ana", seen=card(store, other.id).text_hash, reason="too strict")
    with pytest.raises(UsageError, match="rejected before: 'too strict'"):
        rebase(store, pending.id, by="ana")


def test_only_stale_proposals_with_a_text(store: LoopStore, harness: Harness, make_task: Callable[..., Task]) -> None:
    pattern = store.patterns("describe")[0]
    drafting = store.create_proposal(
        task=make_task(), base=store.head("describe"), pattern_ids=[pattern.id], expires_at=None
    )
    with pytest.raises(ConflictError, match="is drafting, not stale"):
        rebase(store, drafting.id, by="ana")
    store.adopt_template("describe", "Say what this is: {{ product }}{{ rules }}", by="file")
    assert "propose again" in (store.proposal(drafting.id).state_reason or "")
    with pytest.raises(UsageError, match="has no text yet"):
        rebase(store, drafting.id, by="ana")


def test_a_kill_before_the_test_loses_nothing(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    """The rebase is a row; the old thread still waits at revision 1, and the next command goes on with revision 2."""
    store.adopt_template("describe", "Say what this is: {{ product }}{{ rules }}", by="file")
    rebase(store, pending.id, by="ana")
    moved: list[Any] = [(each.id, each.state, each.revision) for each in recover(store, harness=harness)]
    assert moved == [(pending.id, "pending", 2)]
    assert recover(store, harness=harness) == []
