"""How sure it must be that a failure is frequent, and how long a no from a person counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import UsageError
from loopeng.improve import propose
from loopeng.improve.unproposed import find_unproposed
from loopeng.patterns.miner import mine
from loopeng.patterns.standing import rate_at_least
from loopeng.patterns.trigger import find_triggers
from loopeng.prompts import text_hash
from loopeng.schema import EvalResult, EvaluatorSpec, Proposal, Revision, RuleOperation, SampleResult, Task
from loopeng.schema.task import ImproveSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import Script, make_attempt, make_harness, make_samples, make_task

NIGHT = timedelta(hours=9)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[LoopStore]:
    with LoopStore.open(tmp_path / "loop.db", clock=clock) as opened:
        yield opened


def task_of(num_samples: int, **improve: object) -> Task:
    return make_task(
        make_samples(num_samples, "reflect"),
        evaluators=tuple(EvaluatorSpec(id=name, type="length", max_words=5) for name in ("a", "b")),
        improve=ImproveSpec.model_validate(improve),
    )


def run_of(store: LoopStore, task: Task, failing: int, *, broken: int = 0, shows: tuple[str, ...] = ("a",)) -> None:
    """A suite run in which the first ``failing`` samples fail and the last ``broken`` cannot be judged."""
    version, _, _ = store.adopt_template(task.prompt.name, task.template, by="test")
    run = store.create_run(kind="suite", task=task, version=version, seed=0)
    for place, sample in enumerate(task.samples):
        verdict = "fail" if place < failing else "error" if place >= len(task.samples) - broken else "pass"
        wrong = EvalResult(evaluator="a", passed=False, score=0, reason="no", category="a.no", remedy="R")
        results = [wrong.model_copy(update={"evaluator": name}) for name in shows] if verdict == "fail" else []
        store.save_attempt(make_attempt(run_id=run.id, sample_id=sample.id, verdict=verdict, results=tuple(results)))
        store.save_sample_result(
            SampleResult(
                run_id=run.id,
                sample_id=sample.id,
                split="reflect",
                first_verdict=verdict,
                verdict=verdict,
                score=None,
                best_attempt_index=0,
                num_attempts=1,
            )
        )
    mine(store, run.id, task)


def start(store: LoopStore, task: Task) -> Proposal:
    (trigger,) = find_triggers(store, task)
    head = store.head("describe")
    proposal = store.create_proposal(task=task, base=head, pattern_ids=trigger.pattern_ids, expires_at=None)
    store.save_revision(
        Revision(
            proposal_id=proposal.id,
            revision=1,
            operations=(RuleOperation(op="add", text="R"),),
            rules=(),
            text_hash=text_hash(head.template, ()),
            author="hints",
            created_at=store.now(),
        )
    )
    store.move_proposal(proposal.id, to="pending", frm={"drafting"})
    return store.proposal(proposal.id)


def reject(store: LoopStore, task: Task) -> Proposal:
    proposal = start(store, task)
    seen = store.revision(proposal.id).text_hash
    store.decide(action="reject", proposal_id=proposal.id, revision=1, seen_hash=seen, by="ana", reason="no")
    return proposal


def why_not(store: LoopStore, task: Task) -> list[str]:
    return [each.reason for each in find_unproposed(store, task)]


@pytest.mark.parametrize(("num_failed", "num_judged", "low"), [(8, 40, 0.105), (3, 50, 0.021), (3, 20, 0.052)])
def test_the_least_rate_is_that_of_the_tables(num_failed: int, num_judged: int, low: float) -> None:
    assert rate_at_least(num_failed, num_judged) == pytest.approx(low, abs=5e-4)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=60, deadline=None)
def test_the_least_rate_is_below_the_rate_and_grows_with_the_failures(counts: tuple[int, int]) -> None:
    failed, judged = counts
    assert 0 <= rate_at_least(failed, judged) <= failed / judged
    assert failed == judged or rate_at_least(failed, judged) < rate_at_least(failed + 1, judged)


def test_many_occurrences_of_a_rare_failure_are_not_enough(store: LoopStore) -> None:
    """Three samples of 60 that fail every night come to any number of occurrences, and to a rate of 2 % at least."""
    task = task_of(60)
    for _ in range(4):
        run_of(store, task, failing=3)
    assert find_triggers(store, task) == []
    assert why_not(store, task) == [
        "it fails on 3 of 60 reflect samples, which is a rate of at least 1.7 % (at 95 %); a proposal needs 5.0 % "
        "(improve.min_rate), or name it with --pattern"
    ]
    assert len(find_triggers(store, task_of(60, min_rate=0.01))) == 1
    assert len(find_triggers(store, task_of(60, min_rate=0))) == 1


def test_samples_in_error_are_no_evidence_that_it_is_rare(store: LoopStore) -> None:
    """A night in which the engine was down for most samples must not make a failure look rare."""
    task = task_of(60)
    run_of(store, task, failing=5, broken=50)
    assert len(find_triggers(store, task)) == 1
    run_of(store, task, failing=0)
    assert find_triggers(store, task) == []  # 5 of 60: at least 3.6 %
    assert "5 of 60 reflect samples" in why_not(store, task)[0]


def test_a_rejected_change_rests_and_then_needs_fresh_failures(store: LoopStore, clock: Clock) -> None:
    """Else the next run proposes again what a person has just refused, from the very failures they have seen."""
    task = task_of(6)
    run_of(store, task, failing=5)
    proposal = reject(store, task)
    clock.now += NIGHT
    run_of(store, task, failing=5)
    assert find_triggers(store, task) == []
    assert why_not(store, task) == [
        f"{proposal.id} about it was rejected; it rests until 2026-01-02 00:00 UTC (improve.cool_down), "
        "or name it with --pattern"
    ]
    clock.now += 2 * NIGHT
    (trigger,) = find_triggers(store, task)  # five in one run since then, on five samples
    assert trigger.reason == "a: a.no 5 times on 5 samples"


def test_what_the_person_had_seen_counts_no_more(store: LoopStore, clock: Clock) -> None:
    task = task_of(6, cool_down="0s")
    run_of(store, task, failing=6)
    proposal = reject(store, task)
    assert find_triggers(store, task) == []
    clock.now += NIGHT
    run_of(store, task, failing=3)
    assert find_triggers(store, task) == []
    (told,) = find_unproposed(store, task)
    assert told.proposal_id == proposal.id
    assert told.reason.startswith(
        f"{proposal.id} about it was rejected, and only runs since then count: seen 3 times on 3 reflect samples"
    )
    run_of(store, task, failing=3)
    assert len(find_triggers(store, task)) == 1


def test_expiry_is_no_rejection(store: LoopStore) -> None:
    task = task_of(6)
    run_of(store, task, failing=5)
    proposal = start(store, task)
    assert why_not(store, task) == [f"{proposal.id} (pending) is about it already"]
    store.move_proposal(proposal.id, to="expired", frm={"pending"})
    assert len(find_triggers(store, task)) == 1


def test_a_rejection_counts_for_the_pattern_it_was_merged_into(store: LoopStore) -> None:
    """Merging must not be the way round a person's no."""
    task = task_of(6)
    run_of(store, task, failing=5)
    reject(store, task)
    store.adopt_template("describe", task.template + " ", by="test")  # other failures, under another head
    changed = task.model_copy(update={"template": task.template + " "})
    run_of(store, changed, failing=5, shows=("b",))
    (fresh,) = find_triggers(store, changed)
    (rejected,) = [pattern.id for pattern in store.patterns() if pattern.evaluator == "a"]
    store.merge_patterns(rejected, fresh.pattern_ids[0], by="ana")
    assert find_triggers(store, changed) == []
    assert "it rests until" in why_not(store, changed)[0]


def test_muted_and_merged_patterns_lead_to_nothing_even_by_name(store: LoopStore) -> None:
    task = task_of(6)
    run_of(store, task, failing=5, shows=("a", "b"))
    a, b = sorted(store.patterns(), key=lambda pattern: pattern.evaluator)
    harness = make_harness(store, Script("x"), task)
    store.mute_pattern(a.id, by="ana", reason="long names")
    assert [trigger.pattern_ids for trigger in find_triggers(store, task)] == [(b.id,)]
    with pytest.raises(UsageError, match=rf"{a.id}: it is muted \(long names\)"):
        propose(harness, pattern_ids=[a.id])
    store.merge_patterns(b.id, a.id, by="ana")
    assert find_triggers(store, task) == []
    assert why_not(store, task) == ["it is muted (long names)"]
    with pytest.raises(UsageError, match=f"{b.id}: it was merged into {a.id}: name that one"):
        propose(harness, pattern_ids=[b.id])


def test_a_rollback_that_was_not_wanted_lets_no_pattern_rest(store: LoopStore) -> None:
    task = task_of(6)
    run_of(store, task, failing=5)
    (trigger,) = find_triggers(store, task)
    head = store.head("describe")
    back = store.create_proposal(
        task=task, base=head, pattern_ids=trigger.pattern_ids, expires_at=None, kind="rollback"
    )
    text = text_hash(head.template, ())
    store.save_revision(
        Revision(
            proposal_id=back.id, revision=1, operations=(), rules=(), text_hash=text, author="watch",
            created_at=store.now(),
        )
    )  # fmt: skip
    store.move_proposal(back.id, to="pending", frm={"drafting"})
    store.decide(action="reject", proposal_id=back.id, revision=1, seen_hash=text, by="ana", reason="keep it")
    assert len(find_triggers(store, task)) == 1


def test_the_rate_after_a_rejection_is_of_what_was_judged_since(store: LoopStore, clock: Clock) -> None:
    task = task_of(60, cool_down="0s")
    run_of(store, task, failing=9)
    reject(store, task)
    clock.now += NIGHT
    run_of(store, task, failing=5, broken=50)
    assert len(find_triggers(store, task)) == 1  # 5 of 10, not 5 of 60
