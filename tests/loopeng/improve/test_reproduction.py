"""Failing samples are run again before a change is thought of: what comes back, what was chance, what that costs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopeng.approvals import card
from loopeng.attempt.events import GateProgress, ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import EngineError
from loopeng.improve import propose, recover
from loopeng.improve.reflection.reflectors import reflection_context
from loopeng.improve.replaying import replay_seed
from loopeng.improve.reproduction import Reproduction, confirmed_patterns, reproduction
from loopeng.improve.unproposed import find_unproposed
from loopeng.patterns import fingerprint as fingerprints
from loopeng.ports import EngineInfo, TextReply, TextRequest
from loopeng.report.terminal_card import card_document, card_text
from loopeng.runner import run_suite
from loopeng.schema import Proposal, Sample, Task
from loopeng.schema.task import BudgetSpec, ImproveSpec, LoopSpec
from loopeng.store import LoopStore

EVERYTHING = "everything you might ever want to do with it at home or at work or in the garden or on the road."
BAD = f"A fine thing. It is good for {EVERYTHING}"
LONG = f"A fine thing that is good for {EVERYTHING}"
GOOD = "A fine thing."


class Engine:
    """Answers by ``say``; another process could make it, and the same request may get another answer."""

    def __init__(self, say: Callable[[TextRequest], str], *, deterministic: bool = False) -> None:
        self.say, self.deterministic = say, deterministic
        self.requests: list[TextRequest] = []

    def generate(self, request: TextRequest) -> TextReply:
        self.requests.append(request)
        return TextReply(text=self.say(request), fingerprint="callable:1")

    def describe(self) -> EngineInfo:
        return EngineInfo(
            kind="callable", deterministic=self.deterministic, fingerprint="callable:1", reference="tests"
        )


def always_bad(request: TextRequest) -> str:
    return GOOD if "Rules:" in request.messages[-1].content else BAD


def harness_of(store: LoopStore, task: Task, say: Callable[[TextRequest], str] = always_bad, **more: Any) -> Harness:
    made = Harness.build(store, task, engine=Engine(say), **more)
    return Harness(**{**vars(made), "retry_delays_s": ()})


def engine_of(harness: Harness) -> Engine:
    assert isinstance(harness.engine, Engine)
    return harness.engine


@pytest.fixture
def sampled(make_task: Callable[..., Task]) -> Task:
    """Twelve reflect samples, more than are run again, at a temperature."""
    samples = [
        Sample(id=f"{split}-{number}", inputs={"product": f"teapot-{split}-{number}"}, split=split)  # type: ignore[arg-type]
        for split, count in (("reflect", 12), ("gate", 3), ("holdout", 1))
        for number in range(count)
    ]
    return make_task(samples=tuple(samples), loop=LoopSpec(max_attempts=1, temperatures=(0.7,)))


def reproduced(store: LoopStore, proposal: Proposal) -> Reproduction:
    found = reproduction(store, proposal)
    assert found is not None
    return found


def runs_again(store: LoopStore) -> list[str]:
    return [attempt.sample_id for run in store.runs(kind="reproduce") for attempt in store.attempts(run.id)]


def test_eight_failing_samples_are_run_again_with_other_seeds(store: LoopStore, sampled: Task) -> None:
    harness = harness_of(store, sampled)
    run_suite(harness)
    seeds = {request.seed for request in engine_of(harness).requests}
    (proposal,) = propose(harness)
    assert proposal.state == "pending"
    (run,) = store.runs(kind="reproduce")
    assert (run.arm, run.revision, run.proposal_id, run.status) == (None, None, proposal.id, "finished")
    attempts = store.attempts(run.id)
    assert len({attempt.sample_id for attempt in attempts}) == len(attempts) == 8
    assert all(attempt.sample_id.startswith("reflect-") for attempt in attempts)
    assert {(attempt.temperature, attempt.attempt_index) for attempt in attempts} == {(0.7, 0)}
    assert not seeds & {attempt.seed for attempt in attempts}
    assert [(check.num_shown, check.num_run, check.confirmed) for check in reproduced(store, proposal).patterns] == [
        (8, 8, True),
        (8, 8, True),
    ]


def test_the_card_says_what_came_back(store: LoopStore, sampled: Task) -> None:
    run_suite(harness_of(store, sampled))
    (proposal,) = propose(harness_of(store, sampled))
    text = card_text(card(store, proposal.id), None)
    assert "reproduction (failing samples again, new seed)\n" in text
    for pattern_id in proposal.pattern_ids:
        assert f"    {pattern_id} came back on 8 of 8 samples: confirmed\n" in text
    assert len(card_document(card(store, proposal.id), None)["reproduction"]["patterns"]) == 2


def test_a_failure_that_was_chance_ends_the_proposal_before_any_reflection(store: LoopStore, sampled: Task) -> None:
    """One unlucky night: all fail in the suite, none when it is looked at again."""
    run_suite(harness_of(store, sampled))
    lucky = harness_of(store, sampled, lambda request: GOOD)
    (proposal,) = propose(lucky)
    assert (proposal.state, proposal.revision) == ("archived", 0)
    one, other = proposal.pattern_ids
    assert proposal.state_reason == (
        f"not reproduced: {one} came back on 0 of 8 samples; {other} came back on 0 of 8 samples"
    )
    assert len(store.runs(proposal_id=proposal.id)) == 1 and len(engine_of(lucky).requests) == 8
    assert propose(lucky) == []  # it is not tried again and again
    reasons = [each.reason for each in find_unproposed(store, sampled)]
    assert len(reasons) == 2 and all(reason.endswith("; to look again, name it with --pattern") for reason in reasons)


def test_once_of_eight_is_not_enough_twice_is(store: LoopStore, sampled: Task) -> None:
    run_suite(harness_of(store, sampled))
    patterns = [pattern.id for pattern in store.patterns()]
    for num_bad, state in ((1, "archived"), (2, "pending")):
        calls: list[int] = []

        def say(request: TextRequest, num_bad: int = num_bad, calls: list[int] = calls) -> str:
            calls.append(1)
            lucky = num_bad < len(calls) <= 8  # the gate sees it as bad as ever
            return GOOD if lucky else always_bad(request)

        (proposal,) = propose(harness_of(store, sampled, say), pattern_ids=patterns)
        assert proposal.state == state
        assert {check.num_shown for check in reproduced(store, proposal).patterns} == {num_bad}


def test_only_what_came_back_reaches_the_reflector(store: LoopStore, sampled: Task) -> None:
    """Two failures together; one of them was chance. A rule against it would be a rule against nothing."""
    run_suite(harness_of(store, sampled))
    one_sentence = lambda request: GOOD if "Rules:" in request.messages[-1].content else LONG  # noqa: E731
    harness = harness_of(store, sampled, one_sentence)
    (proposal,) = propose(harness)
    (confirmed,) = confirmed_patterns(store, proposal)
    assert store.pattern(confirmed).category == "length.too_long" and len(proposal.pattern_ids) == 2
    context = reflection_context(store, harness, proposal)
    assert [pattern.id for pattern in context.patterns] == [confirmed] and context.examples
    assert [rule.text for rule in store.revision(proposal.id).rules] == ["Use at most 20 words."]
    assert "not confirmed" in card_text(card(store, proposal.id), None)


@pytest.mark.parametrize(
    ("temperature", "deterministic", "runs"), [(0.0, True, 0), (0.0, False, 8), (0.7, True, 8), (0.7, False, 8)]
)
def test_it_is_skipped_where_the_same_would_come_again(
    store: LoopStore, sampled: Task, temperature: float, deterministic: bool, runs: int
) -> None:
    task = sampled.model_copy(update={"loop": LoopSpec(max_attempts=1, temperatures=(temperature,))})
    harness = Harness.build(store, task, engine=Engine(always_bad, deterministic=deterministic))
    run_suite(harness)
    (proposal,) = propose(harness)
    assert proposal.state == "pending" and len(runs_again(store)) == runs
    found = reproduced(store, proposal)
    assert (found.skipped is None) == bool(runs)
    if not runs:
        text = card_text(card(store, proposal.id), None)
        assert "    skipped: decoding is greedy and deterministic: the same outputs would come again\n" in text


def test_an_agent_of_the_users_own_is_run_again_only_if_it_says_so(store: LoopStore, sampled: Task) -> None:
    """It may send letters."""
    run_suite(harness_of(store, sampled, agent=letters))
    harness = harness_of(store, sampled, agent=letters)
    (proposal,) = propose(harness)
    assert proposal.state == "pending" and runs_again(store) == [] and engine_of(harness).requests == []
    skipped = reproduced(store, proposal).skipped
    assert skipped is not None and skipped.startswith("the agent may have side effects")
    assert f"    skipped: {skipped}\n" in card_text(card(store, proposal.id), None)
    assert confirmed_patterns(store, proposal) == proposal.pattern_ids


def letters(context: Any) -> str:
    return str(context.engine.generate(context.messages).text)


def test_a_limit_leaves_it_in_drafting_and_more_lets_it_go_on(store: LoopStore, sampled: Task) -> None:
    poor = sampled.model_copy(update={"improve": ImproveSpec(limits=BudgetSpec(attempts=3))})
    run_suite(harness_of(store, poor))
    (proposal,) = propose(harness_of(store, poor))
    assert proposal.state == "drafting"
    assert (proposal.state_reason or "").startswith("budget: improve.limits.attempts: 3 of 3")
    assert reproduction(store, proposal) is None
    rich = sampled.model_copy(update={"improve": ImproveSpec(limits=BudgetSpec(attempts=40))})
    harness = harness_of(store, rich)
    (proposal,) = recover(store, harness=harness)
    assert (proposal.state, proposal.state_reason) == ("pending", None)
    assert len(runs_again(store)) == len(set(runs_again(store))) == 8
    assert len(store.runs(kind="reproduce")) == 1


def test_killed_in_the_middle_it_goes_on_where_it_was(
    store: LoopStore, sampled: Task, child: Callable[[Callable[[], object]], int], tmp_path: Path
) -> None:
    run_suite(harness_of(store, sampled))

    def die(event: ProgressEvent) -> None:
        if isinstance(event, GateProgress) and (event.split, event.num_finished) == ("reproduce", 3):
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with LoopStore.open(store.path) as own:
            propose(harness_of(own, sampled, on_event=die))

    assert os.WIFSIGNALED(os.waitpid(child(work), 0)[1])
    assert len(runs_again(store)) == 3
    harness = harness_of(store, sampled)
    (proposal,) = recover(store, harness=harness)
    assert proposal.state == "pending"
    assert len(runs_again(store)) == len(set(runs_again(store))) == 8


def test_errors_are_not_counted_and_errors_alone_refute_nothing(store: LoopStore, sampled: Task) -> None:
    """An engine that is down does not show that a failure was chance."""
    run_suite(harness_of(store, sampled))

    def down(request: TextRequest) -> str:
        raise EngineError("down")

    calls: list[int] = []

    def shaky(request: TextRequest) -> str:
        calls.append(1)
        return down(request) if len(calls) in (2, 3) else always_bad(request)

    patterns = [pattern.id for pattern in store.patterns() if pattern.fault_side == "model"]
    (proposal,) = propose(harness_of(store, sampled, shaky), pattern_ids=patterns[:1])
    assert [(check.num_shown, check.num_run) for check in reproduced(store, proposal).patterns] == [(6, 6)]
    assert "2 attempts in error, not counted" in card_text(card(store, proposal.id), None)

    (proposal,) = propose(harness_of(store, sampled, down), pattern_ids=patterns[1:])
    assert reproduced(store, proposal).skipped == "nothing could be judged: all 8 attempts were in error"
    assert proposal.state == "testing" and confirmed_patterns(store, proposal) == proposal.pattern_ids


def test_a_pattern_of_an_earlier_version_of_the_fingerprints_can_come_back(
    store: LoopStore, sampled: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own fingerprint never will: it is known by evaluator and category."""
    monkeypatch.setattr(fingerprints, "FINGERPRINT_VERSION", "v1")
    run_suite(harness_of(store, sampled))
    monkeypatch.undo()
    (proposal,) = propose(harness_of(store, sampled))
    assert [check.num_shown for check in reproduced(store, proposal).patterns] == [8, 8]


def test_a_merged_pattern_comes_back_under_either_fingerprint(store: LoopStore, sampled: Task) -> None:
    run_suite(harness_of(store, sampled))
    long, many = sorted(store.patterns(), key=lambda pattern: pattern.category)
    store.merge_patterns(many.id, long.id, by="ana")
    (proposal,) = propose(harness_of(store, sampled, lambda request: "So. " + GOOD))  # many sentences, not long
    assert [check.num_shown for check in reproduced(store, proposal).patterns] == [8]


def test_samples_that_are_gone_from_the_reflect_split_are_not_run(store: LoopStore, sampled: Task) -> None:
    run_suite(harness_of(store, sampled))
    moved = tuple(sample.model_copy(update={"split": "gate"}) for sample in sampled.samples)
    task = sampled.model_copy(update={"samples": moved})
    patterns = [pattern.id for pattern in store.patterns()]
    (proposal,) = propose(harness_of(store, task), pattern_ids=patterns)
    assert runs_again(store) == []
    assert reproduced(store, proposal).skipped == "none of the failing samples is a reflect sample of the task any more"


def test_progress_is_told(store: LoopStore, sampled: Task) -> None:
    run_suite(harness_of(store, sampled))
    events: list[ProgressEvent] = []
    propose(harness_of(store, sampled, on_event=events.append))
    told = [each for each in events if isinstance(each, GateProgress) and each.split == "reproduce"]
    assert [(each.num_finished, each.num_samples) for each in told] == [(number, 8) for number in range(1, 9)]


def test_the_seed_is_never_that_of_the_suite(sampled: Task) -> None:
    seed = replay_seed(sampled, "prop-1", "reproduce")
    same = sampled.model_copy(update={"run": sampled.run.model_copy(update={"seed": seed})})
    assert replay_seed(same, "prop-1", "reproduce") != seed
