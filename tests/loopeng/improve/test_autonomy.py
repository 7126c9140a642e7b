"""How far the loop goes by itself: a report, a proposal, or a commit; and what it says of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loopeng.approvals import approve, card, reject, snooze
from loopeng.attempt.harness import Harness
from loopeng.errors import UsageError
from loopeng.improve import propose, recover
from loopeng.improve.publishing import why_not_automatic
from loopeng.improve.unproposed import find_unproposed
from loopeng.prompts import text_hash
from loopeng.report.history import history_text
from loopeng.schema import GateReport, PairedCount, Proposal, Revision, Rule, RuleOperation, Task, utc_now
from loopeng.schema.task import ApprovalSpec, AutoCommitSpec
from loopeng.store import LoopStore

BETTER = PairedCount(num_pairs=10, both_passed=1, fixed=8, broken=0, both_failed=1)
WORSE = PairedCount(num_pairs=10, both_passed=1, fixed=0, broken=1, both_failed=8)
NOTHING = PairedCount(num_pairs=0, both_passed=0, fixed=0, broken=0, both_failed=0)
COMMIT = ApprovalSpec(autonomy="commit")


def report(proposal: Proposal, split: str, **changes: Any) -> GateReport:
    fields = {"proposal_id": proposal.id, "revision": proposal.revision, "split": split, "verdict": "pass"}
    return GateReport.model_validate(fields | {"pairs": BETTER, "created_at": utc_now()} | changes)


def gated(store: LoopStore, task: Task, *, texts: tuple[str, ...] = ("Be kind.",), **reports: Any) -> Proposal:
    """A proposal whose test is over, but for the last step."""
    head = store.adopt_template(task.prompt.name, task.template, by="file")[0]
    started = store.create_proposal(task=task, base=head, pattern_ids=(), expires_at=None)
    rules = (*head.rules, *(Rule(id=f"{started.id}-{number}", text=text) for number, text in enumerate(texts)))
    revision = Revision(
        proposal_id=started.id,
        revision=1,
        operations=tuple(RuleOperation(op="add", text=text) for text in texts),
        rules=rules,
        text_hash=text_hash(head.template, rules),
        author="x",
        created_at=utc_now(),
    )
    store.save_revision(revision)
    store.move_proposal(started.id, to="testing", frm={"drafting"})
    proposal = store.proposal(started.id)
    for split in ("gate", "holdout"):
        store.save_gate_report(report(proposal, split, **reports.get(split, {})))
    return proposal


def published(store: LoopStore, task: Task, **options: Any) -> Proposal:
    proposal = gated(store, task, **options)
    recover(store, harness=Harness.build(store, task))
    return store.proposal(proposal.id)


def test_off_by_default(store: LoopStore, make_task: Callable[..., Task]) -> None:
    proposal = published(store, make_task())
    assert (proposal.state, proposal.state_reason) == ("pending", None)
    assert store.decisions() == []


def test_a_pass_within_the_limits_is_committed_and_marked(store: LoopStore, make_task: Callable[..., Task]) -> None:
    proposal = published(store, make_task(approval=COMMIT))
    assert proposal.state == "committed" and store.head("describe").created_by == "loopeng"
    (decision,) = store.decisions()
    assert (decision.action, decision.by, decision.automatic) == ("approve", "loopeng", True)
    assert decision.reason == "approval.autonomy is commit; a pass within max_operations: 3, " + (
        "approval.auto_commit.max_per_day: 1"
    )
    assert decision.evidence["gate"]["verdict"] == "pass" and not decision.accepted_untested
    assert store.deliveries() == []  # it never waited for anybody
    assert card(store, proposal.id).history[-1].what == "approve of revision 1, automatic"
    log = history_text(store.head("describe"), store.prompt_versions("describe"), store.decisions())
    assert f"{proposal.id} revision 1, saw {decision.seen_hash[:8]}, automatic, reason:" in log
    for statement in ("UPDATE decision SET automatic = 0", "DELETE FROM decision"):
        with closing(sqlite3.connect(store.path)) as connection, pytest.raises(sqlite3.IntegrityError, match="append"):
            connection.execute(statement)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"gate": {"verdict": "underpowered"}}, "the verdict is underpowered, not pass"),
        ({"gate": {"verdict": "untested"}}, "the verdict is untested, not pass"),
        ({"holdout": {"pairs": WORSE}}, "it is worse on the hold-out samples (2/10 -> 1/10"),
        ({"holdout": {"pairs": NOTHING}}, "nothing was counted on hold-out samples"),
        ({"texts": ("Be a.", "Be b.", "Be c.", "Be d.")}, "it changes 4 rules"),
    ],
)
def test_anything_else_waits_and_says_why(
    store: LoopStore, make_task: Callable[..., Task], options: dict[str, Any], reason: str
) -> None:
    proposal = published(store, make_task(approval=COMMIT), **options)
    assert proposal.state == "pending" and store.decisions() == []
    assert (proposal.state_reason or "").startswith(f"not committed automatically: {reason}")
    snooze(store, proposal.id, by="ana", for_="1d")
    snooze(store, proposal.id, by="ana", for_="0s")
    assert store.proposal(proposal.id).state_reason == proposal.state_reason


def test_one_a_day_and_prompt(store: LoopStore, database: Path, make_task: Callable[..., Task]) -> None:
    task = make_task(approval=COMMIT)
    assert published(store, task).state == "committed"
    second = published(store, task, texts=("Be honest.",))
    assert second.state == "pending"
    assert "as many as allowed were within 24 hours" in (second.state_reason or "")
    reject(store, second.id, by="ana", seen=card(store, second.id).text_hash, reason="no")
    with LoopStore.open(database, clock=lambda: utc_now() + timedelta(hours=25)) as tomorrow:
        assert published(tomorrow, task, texts=("Be brief.",)).state == "committed"
    assert [decision.automatic for decision in store.decisions()] == [True, False, True]


def test_a_person_does_not_use_up_the_limit(store: LoopStore, make_task: Callable[..., Task]) -> None:
    first = published(store, make_task())
    approve(store, first.id, by="ana", seen=card(store, first.id).text_hash)
    assert published(store, make_task(approval=COMMIT), texts=("Be honest.",)).state == "committed"


def test_a_kill_after_the_approval_still_commits(
    store: LoopStore, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(approval=COMMIT)
    proposal = gated(store, task)
    with monkeypatch.context() as patch:

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(LoopStore, "commit_proposal", killed)
        with pytest.raises(KeyboardInterrupt):
            recover(store, harness=Harness.build(store, task))
    assert store.proposal(proposal.id).state == "approved"
    recover(store)
    assert store.proposal(proposal.id).state == "committed" and len(store.decisions()) == 1


def test_a_report_proposes_nothing_by_itself(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task]
) -> None:
    task = make_task(approval=ApprovalSpec(autonomy="report"))
    quiet = Harness.build(store, task)
    assert propose(quiet) == [] and store.proposals() == []
    reasons = {each.reason for each in find_unproposed(store, task)}
    assert reasons == {"approval.autonomy is report; name it with --pattern to propose for it"}
    (proposal,) = propose(quiet, pattern_ids=[pattern.id for pattern in store.patterns("describe")])  # a person's word
    assert proposal.state == "pending"


def test_a_rollback_waits_for_a_person_and_needs_no_gate(store: LoopStore, make_task: Callable[..., Task]) -> None:
    """Its evidence is the watch: no flag for a missing test, but never without a person either."""
    task = make_task(approval=COMMIT)
    committed = published(store, task)
    head = store.head("describe")
    back = store.create_proposal(task=task, base=head, pattern_ids=(), expires_at=None, kind="rollback")
    store.save_revision(
        Revision(
            proposal_id=back.id,
            revision=1,
            operations=(RuleOperation(op="remove", rule_id=head.rules[0].id),),
            rules=(),
            text_hash=text_hash(head.template, ()),
            author="watch",
            created_at=utc_now(),
        )
    )
    revision = store.revision(back.id)
    no_evidence = why_not_automatic(store.proposal(back.id), revision, None, None, AutoCommitSpec())
    assert no_evidence == "it takes back a change"
    recover(store, harness=Harness.build(store, task))  # whoever drafted it was killed before it was published
    waiting = store.proposal(back.id)
    assert (waiting.state, waiting.state_reason) == ("pending", f"not committed automatically: {no_evidence}")
    assert store.runs(kind="gate") == [] and waiting.expires_at is not None
    outcome = approve(store, back.id, by="ana", seen=revision.text_hash)
    assert outcome.version is not None and (outcome.version.source, outcome.version.rules) == ("rollback", ())
    assert not outcome.decision.accepted_untested and outcome.proposal.state == "committed"
    assert recover(store) == [] and store.proposal(committed.id).state == "committed"


def test_a_rollback_is_taken_as_it_is(store: LoopStore, make_task: Callable[..., Task]) -> None:
    from loopeng.approvals import edit, rebase

    head = store.adopt_template("describe", make_task().template, by="file")[0]
    back = store.create_proposal(task=make_task(), base=head, pattern_ids=(), expires_at=None, kind="rollback")
    text = text_hash(head.template, ())
    store.save_revision(
        Revision(
            proposal_id=back.id, revision=1, operations=(), rules=(), text_hash=text, author="w", created_at=utc_now()
        )
    )
    store.move_proposal(back.id, to="pending", frm={"drafting"})
    with pytest.raises(UsageError, match="approve or reject it as it is"):
        edit(store, back.id, by="ana", seen=text, rules=["Be kind."])
    store.adopt_template("describe", "Another {{ product }}{{ rules }}", by="file")
    with pytest.raises(UsageError, match="nothing to rebase"):
        rebase(store, back.id, by="ana")


def test_the_limit_of_the_day_is_each_prompts_own(store: LoopStore, make_task: Callable[..., Task]) -> None:
    task = make_task(approval=COMMIT)
    other = task.model_copy(update={"name": "other", "prompt": task.prompt.model_copy(update={"name": "title"})})
    assert [published(store, each).state for each in (task, other)] == ["committed", "committed"]


def test_as_good_on_the_holdout_is_good_enough(store: LoopStore, make_task: Callable[..., Task]) -> None:
    same = PairedCount(num_pairs=10, both_passed=4, fixed=1, broken=1, both_failed=4)
    assert published(store, make_task(approval=COMMIT), holdout={"pairs": same}).state == "committed"


def test_as_many_changes_as_allowed_are_allowed(store: LoopStore, make_task: Callable[..., Task]) -> None:
    texts = tuple(f"Rule {number}." for number in range(AutoCommitSpec().max_operations))
    assert published(store, make_task(approval=COMMIT), texts=texts).state == "committed"
