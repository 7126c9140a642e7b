"""After a commit: do its failures stay away? Later runs say it, and a change that is no better may be taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from loopeng.approvals import approve, card, reject, rollback
from loopeng.attempt.harness import Harness
from loopeng.improve import check_watches, propose, recover
from loopeng.improve.watch.undoing import inverse_operations, propose_rollbacks
from loopeng.improve.watch.watching import _judge, lower_bound, upper_bound
from loopeng.report.terminal_card import card_text
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, Proposal, Rule, RuleOperation, Sample, Task, Watch
from loopeng.schema.task import ApprovalSpec, WebhookSpec
from loopeng.store import LoopStore
from tests.loopeng.improve.conftest import SCRIPT, task_in

LONG = (
    "A fine thing. It is good for everything you might ever want to do with it at home or at work or in the garden. "
    * 2
)

Later = Callable[..., Harness]


def late_task(folder: Path, number: int, split: str = "reflect", well: int = 0, **changes: object) -> Task:
    """The task with samples that no rule helps, and ``well`` more that the rules do help."""
    task = task_in(folder)
    late = f'\n  - {{when: "teapot-late-", say: "{LONG}"}}'
    (folder / "script.yaml").write_text(SCRIPT.replace("replies:", f"replies:{late}"), encoding="utf-8")
    samples = [
        Sample(id=f"late-{split}-{each}", inputs={"product": f"teapot-late-{each}"}, split=split)  # type: ignore[arg-type]
        for each in range(number)
    ]
    samples += [
        Sample(id=f"well-{each}", inputs={"product": f"teapot-well-{each}"}, split="reflect") for each in range(well)
    ]
    return task.model_copy(update={"samples": (*task.samples, *samples), **changes})


@pytest.fixture
def committed(store: LoopStore, pending: Proposal) -> Proposal:
    """Watched from here on: both patterns had 4 of 5 gate samples before, none after."""
    seen = store.revision(pending.id).text_hash
    return approve(store, pending.id, by="ana", seen=seen, accept_untested=True).proposal


@pytest.fixture
def later(store: LoopStore, tmp_path: Path) -> Later:
    """A run after the commit; the harness it was made with."""

    def run(number: int = 0, split: str = "reflect", well: int = 0, **changes: object) -> Harness:
        made = Harness.build(store, late_task(tmp_path, number, split, well, **changes))
        run_suite(made)
        check_watches(store, "describe")
        return made

    return run


def outcomes(store: LoopStore) -> set[str | None]:
    return {watch.check and watch.check.outcome for watch in store.watches("describe")}


def states(store: LoopStore) -> set[str]:
    return {pattern.state for pattern in store.patterns("describe")}


def test_the_rates_are_those_of_the_pattern_itself(store: LoopStore, committed: Proposal) -> None:
    for watch in store.watches("describe"):
        assert (watch.rate_before, watch.rate_after, watch.upper_bound) == (0.8, 0.0, upper_bound(0, 5))
        assert watch.lower_bound == lower_bound(4, 5)
        assert watch.check is None


def test_another_failure_of_the_same_evaluator_is_not_the_pattern(store: LoopStore, pending: Proposal) -> None:
    """The rates of a whole evaluator would blame the change for mistakes it was never about."""
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute(
            "UPDATE failure_pattern SET fingerprint = fingerprint || '-another' WHERE evaluator = 'short'"
        )
        connection.commit()
    approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
    short = next(each for each in store.patterns("describe") if each.evaluator == "short")
    rates = {watch.pattern_id: watch.rate_before for watch in store.watches("describe")}
    assert rates.pop(short.id) == 0.0 and set(rates.values()) == {0.8}


def test_a_pattern_that_nothing_can_show_any_more_is_not_called_fixed(
    store: LoopStore, committed: Proposal, later: Later
) -> None:
    """Its fingerprint is from before the normaliser changed: silence is no proof."""
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE failure_pattern SET fingerprint = 'v0:' || id")
        connection.commit()
    later()
    assert outcomes(store) == {None} and states(store) == {"watching"}


def test_a_commit_without_counts_is_held_to_half_the_rate(store: LoopStore, pending: Proposal) -> None:
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM gate_report")
        connection.commit()
    approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
    for watch in store.watches("describe"):
        assert (watch.rate_before, watch.rate_after, watch.upper_bound) == (1.0, 1.0, 0.5)


def test_without_counts_a_sample_that_was_run_often_counts_once(
    store: LoopStore, pending: Proposal, tmp_path: Path
) -> None:
    """Failing at some time in ten runs is likelier than failing at once: a change that does nothing would look good."""
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM gate_report")
        run_id = connection.execute("SELECT id FROM run WHERE kind = 'suite'").fetchone()[0]
        connection.execute("UPDATE eval_result SET passed = 1 WHERE run_id = ? AND sample_id <> 'reflect-0'", (run_id,))
        connection.commit()
    run_suite(Harness.build(store, task_in(tmp_path)))  # fails everywhere
    approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
    assert {watch.rate_before for watch in store.watches("describe")} == {1 / 6}


def test_what_stays_away_is_fixed(store: LoopStore, committed: Proposal, later: Later) -> None:
    later()
    assert outcomes(store) == {"watching"}  # 4 of 5 may have been a third: nine clean samples are not enough
    later(well=3)
    assert outcomes(store) == {"fixed"} and states(store) == {"fixed"}
    (watch, _) = store.watches("describe")
    assert watch.check is not None
    assert (watch.check.num_failures, watch.check.num_samples) == (0, 12)  # those of the gate do not count


def test_what_comes_back_is_reopened(store: LoopStore, committed: Proposal, later: Later) -> None:
    harness = later(25)
    assert outcomes(store) == {"reopened"} and states(store) == {"reopened"}
    assert [each.kind for each in recover(store, harness=harness)] == []  # worse than promised, better than before


def test_a_sample_counts_once(store: LoopStore, committed: Proposal, later: Later) -> None:
    """Ten runs of the same failing samples are no ten times the evidence."""
    for _ in range(4):
        later(5)
    assert outcomes(store) <= {"watching", "fixed"}
    assert {watch.check and watch.check.num_samples for watch in store.watches("describe")} == {14}


def test_a_fixed_failure_may_come_back(store: LoopStore, committed: Proposal, later: Later) -> None:
    later(well=3)
    assert states(store) == {"fixed"}
    later(50, well=3)
    assert states(store) == {"reopened"}
    later(50, well=3)
    assert outcomes(store) == {"no_better"} and states(store) == {"reopened"}


def test_the_same_samples_answered_by_another_model_are_news(
    store: LoopStore, committed: Proposal, later: Later, tmp_path: Path
) -> None:
    """The model was exchanged and the old failure is back on every sample: a fixed data set must not hide that."""
    later(well=3)
    assert states(store) == {"fixed"}
    task = late_task(tmp_path, 0, well=3)
    (tmp_path / "script.yaml").write_text(f'default: "{LONG}"', encoding="utf-8")
    run_suite(Harness.build(store, task))
    check_watches(store, "describe")
    assert states(store) == {"reopened"}
    for _ in range(2):  # the same model again is no news
        counts = [(each.check.num_failures, each.check.num_samples) for each in store.watches("describe") if each.check]
        assert counts == [(12, 12)] * 2
        run_suite(Harness.build(store, task))
        check_watches(store, "describe")


def test_samples_of_the_gate_split_say_nothing(store: LoopStore, committed: Proposal, later: Later) -> None:
    later(40, "gate", well=3)
    assert outcomes(store) == {"fixed"}


def test_a_run_without_the_evaluator_says_nothing(store: LoopStore, committed: Proposal, later: Later) -> None:
    """Another task with the same prompt: its samples do not show the failure because nobody looks."""
    later(0, "reflect", evaluators=(EvaluatorSpec(id="one-sentence", type="sentences", max=1),), name="other")
    by_evaluator = {store.pattern(watch.pattern_id).evaluator: watch.check for watch in store.watches("describe")}
    assert by_evaluator["short"] is None and by_evaluator["one-sentence"] is not None


def test_runs_after_the_change_is_gone_say_nothing(store: LoopStore, committed: Proposal, later: Later) -> None:
    rollback(store, "describe", to=None, by="ana", reason="customers complain")
    later(40)
    assert outcomes(store) == {None}


def test_a_run_that_was_under_way_when_the_change_was_replaced_moves_no_pattern(
    store: LoopStore, committed: Proposal, tmp_path: Path
) -> None:
    """The next change for the same failure has a watch of its own, which has only begun."""
    task = late_task(tmp_path, 40)
    run_suite(Harness.build(store, task))
    head, patterns = store.head("describe"), committed.pattern_ids
    other = store.create_proposal(task=task, base=head, pattern_ids=patterns, expires_at=None)
    text = {"proposal_id": other.id, "rules": (Rule(id="x", text="Be brief."),), "text_hash": "0" * 64}
    store.save_revision(store.revision(committed.id).model_copy(update=text))
    store.move_proposal(other.id, to="pending", frm={"drafting"})
    approve(store, other.id, by="ana", seen="0" * 64, accept_untested=True)
    assert len(store.watches("describe")) == 4
    recover(store)
    assert outcomes(store) == {None} and states(store) == {"watching"}


def test_a_pattern_merged_into_a_watched_one_is_no_relapse(
    store: LoopStore, committed: Proposal, tmp_path: Path
) -> None:
    """What is counted with the pattern from then on was there before and at the gate: it is counted there too."""
    by_evaluator = {pattern.evaluator: pattern for pattern in store.patterns("describe")}
    kept, gone = by_evaluator["one-sentence"], by_evaluator["short"]
    run_suite(Harness.build(store, task_in(tmp_path)))
    with closing(sqlite3.connect(store.path)) as connection:  # as if no rule had been about the length, or helped it
        connection.execute("DELETE FROM watch WHERE pattern_id = ?", (gone.id,))
        connection.execute("UPDATE failure_pattern SET state = 'open' WHERE id = ?", (gone.id,))
        failed = "SELECT category, reason, fault_side FROM eval_result WHERE evaluator = 'short' AND passed = 0"
        connection.execute(
            f"UPDATE eval_result SET passed = 0, (category, reason, fault_side) = ({failed} LIMIT 1) "
            "WHERE evaluator = 'short' AND run_id IN (SELECT id FROM run WHERE kind = 'suite' OR arm = 'candidate')"
        )
        connection.commit()
    store.merge_patterns(gone.id, kept.id, by="ana")
    assert len(check_watches(store, "describe")) == 1
    (watch,) = store.watches("describe")
    assert watch.check is not None and (watch.check.num_failures, watch.check.num_samples) == (9, 9)
    assert (watch.rate_before, watch.rate_after, watch.upper_bound) == (0.8, 1.0, 1.0)
    assert watch.check.outcome == "watching" and store.pattern(kept.id).state == "watching"


def test_a_later_version_is_watched_too(store: LoopStore, committed: Proposal, later: Later) -> None:
    store.adopt_template("describe", "Please describe this product: {{ product }}{{ rules }}", by="file")
    later(0, well=3, template="Please describe this product: {{ product }}{{ rules }}")
    assert outcomes(store) == {"fixed"}


def test_looking_twice_changes_nothing(store: LoopStore, committed: Proposal, later: Later) -> None:
    harness = later(40)
    before = store.watches("describe")
    assert check_watches(store, "describe") == []
    recover(store, harness=harness)
    assert store.watches("describe") == before


def test_a_kill_after_the_run_loses_no_check(store: LoopStore, committed: Proposal, tmp_path: Path) -> None:
    run_suite(Harness.build(store, late_task(tmp_path, 25)))
    assert outcomes(store) == {None}
    recover(store)
    assert outcomes(store) == {"reopened"} and states(store) == {"reopened"}


def test_a_change_that_is_no_better_may_be_taken_back(store: LoopStore, committed: Proposal, later: Later) -> None:
    first, second = store.prompt_versions("describe")
    harness = later(40)
    assert outcomes(store) == {"no_better"}
    (asked,) = recover(store, harness=harness)
    assert (asked.kind, asked.state, asked.base_version_id) == ("rollback", "pending", second.id)
    assert asked.expires_at is not None and set(asked.pattern_ids) == set(committed.pattern_ids)
    revision = store.revision(asked.id)
    assert (revision.author, revision.rules, revision.text_hash) == ("watch", (), first.text_hash)
    assert [each.op for each in revision.operations] == ["remove", "remove"]
    assert "version 2" in revision.rationale and "40 of 49 samples: no better" in revision.rationale
    assert states(store) == {"proposed"}
    shown = card_text(card(store, asked.id), None)
    assert shown.startswith(f"rollback {asked.id}") and "40 of 49 samples" in shown and "gate: not run" not in shown
    assert recover(store, harness=harness) == []  # asked once


def test_the_webhook_is_told_of_a_rollback_too(store: LoopStore, committed: Proposal, later: Later) -> None:
    harness = later(40, approval=ApprovalSpec(webhook=WebhookSpec(url="http://127.0.0.1:9/hook")))
    (asked,) = propose_rollbacks(store, harness.task)
    (delivery,) = store.deliveries()
    assert (delivery.proposal_id, delivery.revision, delivery.num_tries) == (asked.id, 1, 0)
    assert [each.proposal_id for each in store.due_deliveries()] == [asked.id]


def test_what_was_taken_back_is_not_proposed_again(store: LoopStore, committed: Proposal, later: Later) -> None:
    """Else the same remedies go round in circles: committed, no better, taken back, committed."""
    (asked,) = recover(store, harness=later(40))
    approve(store, asked.id, by="ana", seen=store.revision(asked.id).text_hash, accept_untested=True)
    assert store.head("describe").rules == ()
    harness = later(40)
    assert recover(store, harness=harness) == []  # taking back is not watched
    assert {watch.proposal_id for watch in store.watches("describe")} == {committed.id}
    (again,) = propose(harness)
    assert again.state == "archived" and f"{asked.id} took it back" in (again.state_reason or "")


def test_after_a_no_nobody_is_asked_again(store: LoopStore, committed: Proposal, later: Later) -> None:
    (asked,) = recover(store, harness=later(40))
    reject(store, asked.id, by="ana", seen=store.revision(asked.id).text_hash, reason="the samples are odd")
    assert recover(store, harness=later(41)) == []
    assert len(store.proposals()) == 2


def test_a_question_that_went_stale_is_asked_anew(store: LoopStore, committed: Proposal, later: Later) -> None:
    (asked,) = recover(store, harness=later(40))
    template = "Please describe this product: {{ product }}{{ rules }}"
    head, _, stale = store.adopt_template("describe", template, by="file")
    assert stale == (asked.id,)
    (again,) = recover(store, harness=later(40, template=template))
    assert (again.kind, again.base_version_id) == ("rollback", head.id)


def test_an_open_proposal_about_the_failure_comes_first(store: LoopStore, committed: Proposal, later: Later) -> None:
    """Two open questions about one failure would make each other stale."""
    harness = later(40)
    patterns = committed.pattern_ids[:1]
    head = store.head("describe")
    other = store.create_proposal(task=harness.task, base=head, pattern_ids=patterns, expires_at=None)
    assert propose_rollbacks(store, harness.task) == []
    store.move_proposal(other.id, to="archived", frm={"drafting"})
    assert [each.kind for each in propose_rollbacks(store, harness.task)] == ["rollback"]


@pytest.mark.parametrize("why", ["report", "muted", "gone"])
def test_nobody_is_asked_in_vain(store: LoopStore, committed: Proposal, later: Later, why: str) -> None:
    harness = later(40)
    if why == "muted":
        for pattern_id in committed.pattern_ids:
            store.set_pattern_state(pattern_id, "muted")
    if why == "gone":
        task = harness.task
        store.adopt_template("describe", task.template, by="file", rules=(Rule(id="mine", text="Be kind."),))
    changes = {"approval": ApprovalSpec(autonomy="report")} if why == "report" else {}
    assert propose_rollbacks(store, harness.task.model_copy(update=changes)) == []


def test_what_others_reworded_since_is_theirs() -> None:
    old, new = Rule(id="a", text="Be brief."), Rule(id="a", text="Use at most 20 words.")
    added, kept = Rule(id="b", text="One sentence."), Rule(id="c", text="Be kind.")
    back = inverse_operations([old], [new, added], [new, added, kept])
    assert back == (
        RuleOperation(op="remove", rule_id="b"),
        RuleOperation(op="update", rule_id="a", text="Be brief."),
    )
    reworded = [rule.model_copy(update={"text": f"{rule.text} Please."}) for rule in (new, added)]
    assert inverse_operations([old], [new, added], reworded) == ()


def test_a_check_of_the_same_run_is_kept_once(store: LoopStore, committed: Proposal, later: Later) -> None:
    later(well=3)
    watch: Watch = store.watches("describe")[0]
    assert watch.check is not None
    assert not store.save_watch_check(watch, watch.check.model_copy(update={"outcome": "reopened"}))
    assert outcomes(store) == {"fixed"} == states(store)


def test_what_was_reopened_stays_so(store: LoopStore, committed: Proposal) -> None:
    """Hundreds of clean samples afterwards do not undo it for this watch."""
    watch, run = store.watches("describe")[0], store.runs(limit=1)[0]
    assert _judge(watch, [(10, 10)], run).outcome == "no_better"
    assert _judge(watch, [(10, 10), (10, 500)], run).outcome == "reopened"
