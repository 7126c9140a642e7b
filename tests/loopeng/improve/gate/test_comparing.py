from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopeng.approvals import edit
from loopeng.attempt.events import GateProgress, ProgressEvent, ProposalMoved, RunStarted
from loopeng.attempt.harness import Harness
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError
from loopeng.improve import propose, recover
from loopeng.improve.choosing import choose_samples
from loopeng.improve.gate.pairing import compare_attempts
from loopeng.improve.replaying import why_not_replayable
from loopeng.ports import AgentContext, EngineInfo, TextReply, TextRequest
from loopeng.runner import run_suite
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Proposal, Task, utc_now
from loopeng.schema.task import AgentSpec, BudgetSpec, GateSpec, ImproveSpec, LoopSpec
from loopeng.store import LoopStore


class WatchedEngine:
    """A scripted engine that notes its requests; numerics and reference are what the test says."""

    def __init__(self, inner: ScriptedEngine, reference: str | None = "watched") -> None:
        self.inner, self.reference = inner, reference
        self.requests: list[TextRequest] = []
        self.fingerprint: Callable[[TextRequest], str] = lambda _: "one"
        self.error: Callable[[TextRequest], bool] = lambda _: False

    def generate(self, request: TextRequest) -> TextReply:
        self.requests.append(request)
        if self.error(request):
            raise EngineError("out of steam")
        return self.inner.generate(request).model_copy(update={"fingerprint": self.fingerprint(request)})

    def describe(self) -> EngineInfo:
        return EngineInfo(kind="watched", deterministic=True, fingerprint="one", reference=self.reference)


@pytest.fixture
def engine(make_task: Callable[..., Task]) -> WatchedEngine:
    task = make_task()
    assert task.path is not None
    return WatchedEngine(ScriptedEngine.from_spec(task.engine, task.path.parent))


@pytest.fixture
def watched(harness: Harness, engine: WatchedEngine) -> Harness:
    return replace(harness, engine=engine, retry_delays_s=())


def in_gate(request: TextRequest) -> bool:
    return "teapot-gate" in request.messages[0].content


def attempt(sample_id: str, verdict: str, fingerprint: str | None = "f", **passed: bool) -> Attempt:
    results = tuple(EvalResult(evaluator=name, score=float(ok), passed=ok) for name, ok in passed.items())
    return Attempt(
        run_id="run-1", sample_id=sample_id, seed=1, messages=(), verdict=verdict, results=results,
        fingerprint=fingerprint, created_at=utc_now(),
    )  # fmt: skip


def arm(*attempts: Attempt) -> dict[str, Attempt]:
    return {each.sample_id: each for each in attempts}


def test_pairs_with_an_error_in_one_arm_are_dropped_and_counted() -> None:
    before = arm(attempt("a", "fail", x=False, y=True), attempt("b", "error"), attempt("c", "pass", x=True, y=True))
    after = arm(
        attempt("a", "pass", x=True, y=True), attempt("b", "pass", x=True), attempt("c", "fail", x=True, y=False)
    )
    found = compare_attempts(before, after)
    assert (found.pairs.num_pairs, found.pairs.fixed, found.pairs.broken, found.num_errors) == (2, 1, 1, 1)
    assert (found.fixed_samples, found.broken_samples) == (("a",), ("c",))
    assert {name: (count.fixed, count.broken) for name, count in found.by_evaluator.items()} == {
        "x": (1, 0),
        "y": (0, 1),
    }
    assert compare_attempts(before, {}).num_errors == 3


def test_both_arms_see_the_same_samples_seeds_and_reference_texts(watched: Harness, engine: WatchedEngine) -> None:
    (proposal,) = propose(watched)
    gate, holdout = engine.requests[:10], engine.requests[10:]
    baseline, candidate = gate[:5], gate[5:]
    assert [each.seed for each in baseline] == [each.seed for each in candidate]
    assert [each.reference_texts for each in baseline] == [each.reference_texts for each in candidate]
    assert all(each.reference_texts for each in gate)
    assert [each.messages[0].content.split("\n")[0] for each in baseline] == [
        each.messages[0].content.split("\n")[0] for each in candidate
    ]
    assert all("Rules:" not in each.messages[0].content for each in baseline)
    assert all("Rules:" in each.messages[0].content for each in candidate)
    assert len(holdout) == 6 and all("holdout" in each.messages[0].content for each in holdout)
    runs = {(run.kind, run.arm): run for run in watched.store.runs() if run.proposal_id == proposal.id}
    assert runs["gate", "baseline"].seed == runs["gate", "candidate"].seed != watched.task.run.seed
    assert runs["holdout", "baseline"].seed == runs["holdout", "candidate"].seed != runs["gate", "baseline"].seed


def test_only_first_attempts_count(store: LoopStore, make_task: Callable[..., Task], engine: WatchedEngine) -> None:
    task = make_task(loop=LoopSpec(max_attempts=3, retry="critique"))
    made = Harness.build(store, task, engine=engine)
    run_suite(made)
    engine.requests.clear()
    propose(made)
    assert len(engine.requests) == 2 * (5 + 3)


def test_the_report_says_what_was_tested_and_counts_each_evaluator(store: LoopStore, pending: Proposal) -> None:
    report = store.gate_report(pending.id, 1)
    assert report is not None and report.test is not None
    assert (report.verdict, report.deterministic) == ("underpowered", True)
    assert report.note == (
        "no evidence: p = 0.062 is above alpha 0.025 of look 1, and 5 pairs are too few to tell (expected power 0 %, "
        "gate.min_power 80 %)"
    )
    assert (report.test.look, report.test.alpha, report.test.base_rate, report.test.power) == (1, 0.025, 0.2, 0.0)
    assert (report.test.p_value, report.test.effect, report.test.flip_rate) == (2**-4, 0.8, None)
    assert report.test.harm == {}  # the proposal is about both evaluators
    assert report.summary == "1/5 -> 5/5 first attempts pass (4 fixed, 0 broken)"
    assert report.by_evaluator["short"].fixed == 4
    assert [each.arm for each in report.arms] == ["baseline", "candidate"]
    holdout = store.gate_report(pending.id, 1, "holdout")
    assert holdout is not None and holdout.pairs.fixed == 3
    assert (holdout.verdict, holdout.test) == ("untested", None)


def test_an_evaluator_that_only_watches_blocks_nothing(store: LoopStore, make_task: Callable[..., Task]) -> None:
    """The short answers no longer speak of gardens, which somebody without weight would have liked."""
    watcher = EvaluatorSpec(id="garden", type="contains", value="garden", weight=0)  # type: ignore[call-arg]
    made = Harness.build(store, make_task(evaluators=(*make_task().evaluators, watcher)))
    run_suite(made)
    (proposal,) = propose(made)
    report = store.gate_report(proposal.id, 1)
    assert report is not None and report.test is not None
    assert report.by_evaluator["garden"].broken == 4 and report.test.harm == {}


def test_gate_samples_are_few_enough_and_always_the_same(make_task: Callable[..., Task]) -> None:
    task = make_task(gate=GateSpec(samples=3))
    chosen = choose_samples(task, "gate")
    shuffled = task.model_copy(update={"samples": task.samples[::-1]})
    assert len(chosen) == 3 and {each.split for each in chosen} == {"gate"}
    assert {each.id for each in choose_samples(shuffled, "gate")} == {each.id for each in chosen}


def test_errors_are_reported(watched: Harness, engine: WatchedEngine) -> None:
    engine.error = lambda request: "teapot-gate-1" in request.messages[0].content
    allowed = watched.task.model_copy(update={"gate": GateSpec(max_error_rate=0.2)})
    (proposal,) = propose(replace(watched, task=allowed))
    report = watched.store.gate_report(proposal.id, 1)
    assert report is not None and proposal.state == "pending"
    assert (report.pairs.num_pairs, report.num_errors) == (4, 1)


def test_too_many_errors_are_no_evidence_of_anything(watched: Harness, engine: WatchedEngine) -> None:
    engine.error = lambda request: "teapot-gate-1" in request.messages[0].content
    (proposal,) = propose(watched)
    report = watched.store.gate_report(proposal.id, 1)
    assert report is not None and report.verdict == "error" and proposal.state == "testing"
    assert report.note.startswith("1 of 5 pairs had an attempt in error, more than gate.max_error_rate allows (10 %)")
    assert report.test is not None and report.test.p_value is None
    assert (report.pairs.num_pairs, report.num_errors) == (0, 1)  # who has seen the counts must not have a free look
    assert (report.fixed_samples, report.broken_samples, report.by_evaluator) == ((), (), {})
    (look,) = watched.store.looks("describe")
    assert look.void


def test_a_test_that_always_breaks_is_given_up(watched: Harness, engine: WatchedEngine) -> None:
    """An engine that cannot answer the gate's samples would cost every run a test, and void a look each time."""
    engine.error = in_gate
    (proposal,) = propose(watched)
    (proposal,) = recover(watched.store, harness=watched)
    assert (proposal.state, proposal.revision) == ("testing", 2)
    (proposal,) = recover(watched.store, harness=watched)
    assert (proposal.state, proposal.revision) == ("archived", 3)
    assert proposal.state_reason == "gate: 3 tests came to nothing: all 5 pairs had an attempt in error"
    assert all(look.void for look in watched.store.looks("describe"))
    assert recover(watched.store, harness=watched) == []


def test_a_test_that_broke_stays_in_testing_and_starts_over(watched: Harness, engine: WatchedEngine) -> None:
    engine.error = in_gate
    (proposal,) = propose(watched)
    assert (proposal.state, proposal.state_reason) == ("testing", "all 5 pairs had an attempt in error")
    engine.error = lambda _: False
    (proposal,) = recover(watched.store, harness=watched)
    assert (proposal.state, proposal.revision) == ("pending", 2)
    first, second = watched.store.revisions(proposal.id)
    assert (first.rules, first.text_hash) == (second.rules, second.text_hash)
    report = watched.store.gate_report(proposal.id, 2)
    assert report is not None and report.summary.startswith("1/5 -> 5/5")
    looks = {look.revision: (look.number, look.void) for look in watched.store.looks("describe")}
    assert looks == {1: (1, True), 2: (1, False)}  # the broken test cost nothing


def test_a_test_that_breaks_is_given_up_once_the_task_has_changed(watched: Harness, engine: WatchedEngine) -> None:
    """Otherwise every later run would make both arms of it again, and its patterns could lead to nothing else."""
    engine.error = in_gate
    (broken,) = propose(watched)
    changed = replace(watched, task=watched.task.model_copy(update={"gate": GateSpec(samples=4)}))
    (given_up,) = recover(watched.store, harness=changed)
    assert given_up.id == broken.id and given_up.state == "archived"
    assert "earlier version of the task" in (given_up.state_reason or "")
    engine.error = lambda _: False
    assert [each.state for each in propose(changed)] == ["pending"]


def test_arms_under_different_numerics_are_not_compared(watched: Harness, engine: WatchedEngine) -> None:
    engine.fingerprint = lambda request: "two" if "Rules:" in request.messages[0].content else "one"
    (proposal,) = propose(watched)
    report = watched.store.gate_report(proposal.id, 1)
    assert report is not None and report.verdict == "error"
    assert proposal.state == "testing" and "different numerics (one, two)" in (proposal.state_reason or "")
    assert watched.store.gate_report(proposal.id, 1, "holdout") is None


@pytest.mark.parametrize("what", ["engine", "agent", "evaluator"])
def test_what_nobody_can_run_again_costs_no_compute(
    what: str, watched: Harness, engine: WatchedEngine, store: LoopStore, make_task: Callable[..., Task]
) -> None:
    changes: dict[str, Any] = {}
    if what == "engine":
        engine.reference = None
    elif what == "agent":
        changes["agent"] = lambda context: context.engine.generate(context.messages).text
    else:
        changes["evaluators"] = [_Live(each) for each in watched.evaluators]
    made = Harness.build(store, watched.task, engine=engine, **changes)
    (proposal,) = propose(made)
    report = store.gate_report(proposal.id, 1)
    assert report is not None and report.verdict == "not_replayable" and report.note.startswith("no evidence: ")
    assert proposal.state == "pending" and engine.requests == [] and store.runs(kind="gate") == []
    assert store.gate_report(proposal.id, 1, "holdout") is None


class _Live:
    """An evaluator without a reference."""

    def __init__(self, inner: Any) -> None:
        self.id, self.categories, self.evaluate = inner.id, inner.categories, inner.evaluate


def test_an_edit_elsewhere_does_not_count_a_live_engine_by_another(
    store: LoopStore, watched: Harness, engine: WatchedEngine, make_task: Callable[..., Task]
) -> None:
    """The run was made by a live object; a harness built from the stored task would use the task's engine instead."""
    engine.reference = None
    run_suite(watched)
    (proposal,) = propose(watched)
    seen = store.revision(proposal.id).text_hash
    outcome = edit(store, proposal.id, by="ana", seen=seen, rules=["Write exactly one sentence."], now=True)
    report = store.gate_report(proposal.id, 2)
    assert outcome.proposal.state == "pending" and report is not None and report.verdict == "not_replayable"


def test_another_agent_does_not_count_for_a_live_one(store: LoopStore, watched: Harness) -> None:
    """The failures were made by an agent of the caller's; the stored task only knows the default one."""

    def agent(context: AgentContext) -> str:
        return context.engine.generate(context.messages).text

    agent.replayable = True  # type: ignore[attr-defined]
    live = Harness.build(store, watched.task, engine=watched.engine, agent=agent)
    run_suite(live)
    for made in (live, watched):
        (proposal,) = propose(made, pattern_ids=[store.patterns()[made is live].id])
        report = store.gate_report(proposal.id, 1)
        assert report is not None and report.note == (
            "no evidence: the agent is a live object that no other process can make"
        )
        assert report.summary == "no pairs counted"
    run_suite(watched)
    named = Harness.build(store, watched.task, engine=watched.engine, agent=answer_for_tests)
    reason = why_not_replayable(named, proposal)
    assert reason == f"the agent at hand is '{__name__}:answer_for_tests', the failures were made by 'llm'"


def answer_for_tests(context: AgentContext) -> str:
    return ""


answer_for_tests.replayable = True  # type: ignore[attr-defined]


def test_a_proposal_of_another_folder_is_tested_with_the_engine_of_that_folder(
    store: LoopStore, harness: Harness, tmp_path: Path
) -> None:
    """Both tasks say ``script: script.yaml`` and share prompt and database; each means the file beside it."""
    stopped = harness.task.model_copy(update={"improve": ImproveSpec(limits=BudgetSpec(attempts=1))})
    (proposal,) = propose(Harness.build(store, stopped))
    assert proposal.state == "testing"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "script.yaml").write_text("default: Wrong.", encoding="utf-8")
    recover(store, harness=Harness.build(store, harness.task.model_copy(update={"path": elsewhere / "task.yaml"})))
    runs = [run for run in store.runs(kind="gate") if run.proposal_id == proposal.id]
    assert len(runs) == 2
    assert "Wrong." not in {attempt.text for run in runs for attempt in store.attempts(run.id)}


def test_a_python_agent_that_says_it_is_replayable_is_run(
    store: LoopStore, make_task: Callable[..., Task], engine: WatchedEngine
) -> None:
    task = make_task(agent=AgentSpec(kind="python", python="my_agent:answer", replayable=True))
    assert task.path is not None
    (task.path.parent / "my_agent.py").write_text(
        "def answer(context):\n    return context.engine.generate(context.messages).text\n"
    )
    made = Harness.build(store, task, engine=engine)
    run_suite(made)
    (proposal,) = propose(made)
    report = store.gate_report(proposal.id, 1)
    assert report is not None and report.verdict == "underpowered" and report.pairs.fixed == 4


def test_the_improvement_budget_stops_and_more_lets_it_go_on(watched: Harness, engine: WatchedEngine) -> None:
    def limited(attempts: int) -> Harness:
        limits = ImproveSpec(limits=BudgetSpec(attempts=attempts))
        return replace(watched, task=watched.task.model_copy(update={"improve": limits}))

    (proposal,) = propose(limited(7))
    assert proposal.state == "testing" and "improve.limits.attempts" in (proposal.state_reason or "")
    assert len(engine.requests) == 7
    (proposal,) = recover(watched.store, harness=limited(7))
    assert proposal.state == "testing" and len(engine.requests) == 7
    (proposal,) = recover(watched.store, harness=limited(12))  # the gate's ten fit, the hold-out's six do not
    assert proposal.state == "testing" and len(engine.requests) == 12
    (proposal,) = recover(watched.store, harness=limited(100))
    assert (proposal.state, proposal.state_reason) == ("pending", None) and len(engine.requests) == 16
    assert len(watched.store.runs(kind="gate")) == 2


def test_time_and_tokens_are_limits_too(watched: Harness) -> None:
    limits = ImproveSpec(limits=BudgetSpec(total_tokens=50, total_time_s=60))
    (proposal,) = propose(replace(watched, task=watched.task.model_copy(update={"improve": limits})))
    assert proposal.state == "testing" and "improve.limits.total_tokens" in (proposal.state_reason or "")


def test_progress_is_told_as_progress_of_the_gate(watched: Harness) -> None:
    events: list[ProgressEvent] = []
    (proposal,) = propose(replace(watched, on_event=events.append))
    assert [each.state for each in events if isinstance(each, ProposalMoved)] == ["testing", "pending"]
    gate = [each for each in events if isinstance(each, GateProgress) and each.split == "gate"]
    assert [(each.arm, each.num_finished, each.num_samples) for each in gate[4:6]] == [
        ("baseline", 5, 5),
        ("candidate", 1, 5),
    ]
    assert not any(isinstance(each, RunStarted) for each in events)
    assert all(each.proposal_id == proposal.id for each in gate)
