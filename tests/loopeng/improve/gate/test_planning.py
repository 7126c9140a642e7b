"""The test is planned before any compute, written into the ledger, and its verdict leads where it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loopeng.approvals import approve, edit
from loopeng.attempt.events import GatePlanned, GateProgress, ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.dataset import Row, make_samples
from loopeng.errors import BudgetStop, EngineError, UsageError
from loopeng.improve import advance, propose, recover
from loopeng.improve.choosing import choose_samples, sample_key, sample_keys
from loopeng.improve.gate.comparing import Trial, check_noise
from loopeng.improve.gate.planning import base_rate, foresee_gate, ledger
from loopeng.ports import EngineInfo, TextReply, TextRequest
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, GateReport, Proposal, Sample, Task, utc_now
from loopeng.schema.task import AgentSpec, BudgetSpec, DatasetSpec, GateSpec
from loopeng.store import LoopStore


class DiceEngine:
    """Another engine's answers, but every n-th first attempt on a gate sample comes out differently."""

    def __init__(self, inner: Any, every: int = 2) -> None:
        self.inner, self.every, self.num_calls = inner, every, 0

    def generate(self, request: TextRequest) -> TextReply:
        self.num_calls += 1
        reply = self.inner.generate(request)
        says_no = "teapot-gate" in request.messages[0].content and self.num_calls % self.every == 0
        return reply.model_copy(update={"text": "No. No. No."}) if says_no else reply

    def describe(self) -> EngineInfo:
        return EngineInfo(kind="dice", deterministic=False, reference="dice")


class MostlyBroken:
    """An engine that answers well for one sample and breaks on all others."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def generate(self, request: TextRequest) -> TextReply:
        if "teapot-3" not in request.messages[0].content:
            raise EngineError("the engine is overloaded")
        return self.inner.generate(request).model_copy(update={"text": "A fine thing."})

    def describe(self) -> EngineInfo:
        return EngineInfo(kind="broken", deterministic=False, reference="broken")


def with_gate_samples(task: Task, number: int, *, prefix: str = "gate") -> Task:
    others = tuple(sample for sample in task.samples if sample.split != "gate")
    gate = tuple(
        Sample(id=f"{prefix}-{place}", inputs={"product": f"teapot-{place}"}, split="gate") for place in range(number)
    )
    return task.model_copy(update={"samples": others + gate})


def suited(store: LoopStore, task: Task, **changes: Any) -> Harness:
    """A harness whose task has been run once under the head."""
    harness = Harness.build(store, task, **changes)
    run_suite(harness)
    return harness


def report_of(store: LoopStore, proposal: Proposal) -> GateReport:
    report = store.gate_report(proposal.id, proposal.revision)
    assert report is not None
    return report


def trial_of(store: LoopStore, proposal: Proposal) -> Trial:
    return Trial(proposal, store.revision(proposal.id), store.prompt_version(proposal.base_version_id), "gate")


def test_what_passes_needs_no_flag(store: LoopStore, harness: Harness) -> None:
    (proposal,) = propose(suited(store, with_gate_samples(harness.task, 8)))
    report = report_of(store, proposal)
    assert (report.verdict, proposal.state) == ("pass", "pending")
    assert report.note == "evidence of improvement: p = 0.0039, within alpha 0.025 of look 1"
    seen = store.revision(proposal.id).text_hash
    decision = approve(store, proposal.id, by="ana", seen=seen).decision
    assert not decision.accepted_untested and decision.evidence["gate"]["verdict"] == "pass"
    test = decision.evidence["gate"]["test"]  # p, alpha and look stay with the decision, whatever the ledger says later
    assert test["p_value"] <= test["alpha"] and test["look"] == 1


def test_the_plan_is_told_and_the_look_reserved_before_any_arm(store: LoopStore, harness: Harness) -> None:
    events: list[ProgressEvent] = []
    looks_at_first = []

    def note(event: ProgressEvent) -> None:
        events.append(event)
        if isinstance(event, GatePlanned):
            looks_at_first.extend(store.looks("describe"))
            assert store.runs(kind="gate") == []

    (proposal,) = propose(replace(harness, on_event=note))
    told = [each for each in events if isinstance(each, GatePlanned | GateProgress)]
    assert told[0] == GatePlanned(proposal.id, 5, look=1, alpha=0.025, base_rate=0.2, power=0.0)
    assert [look.proposal_id for look in looks_at_first] == [proposal.id]
    assert looks_at_first == store.looks("describe")


def test_what_is_no_better_is_archived_with_the_counts_and_not_tried_again(store: LoopStore, harness: Harness) -> None:
    """A rule that mends nothing must not reach a person, nor cost a second look after the next run."""
    one = harness.task.model_copy(update={"evaluators": harness.task.evaluators[:1]})
    with_rule = one.model_copy(
        update={"evaluators": (EvaluatorSpec(id="one-sentence", type="sentences", max=1, remedy="Say it nicely."),)}
    )
    made = suited(store, with_rule)
    (pattern,) = [each for each in store.patterns() if each.evaluator == "one-sentence"]
    (proposal,) = propose(made, pattern_ids=[pattern.id])
    assert proposal.state == "archived"
    assert proposal.state_reason == "gate: no improvement: 0 fixed, 0 broken"
    assert store.gate_report(proposal.id, 1, "holdout") is None and store.pattern(pattern.id).state == "open"
    assert propose(made) == [] and len(store.looks("describe")) == 1


def test_an_edit_is_another_look(store: LoopStore, pending: Proposal) -> None:
    seen = store.revision(pending.id).text_hash
    outcome = edit(store, pending.id, by="ben", seen=seen, rules=["Use at most 20 words, one sentence."])
    proposal = outcome.proposal if outcome.proposal.state == "pending" else advance(store, pending.id)
    assert [look.number for look in store.looks("describe")] == [1, 2]
    test = report_of(store, proposal).test
    assert test is not None and (test.look, test.alpha) == (2, pytest.approx(0.05 / 6))
    assert [(entry.look.revision, entry.report and entry.report.verdict) for entry in ledger(store, "describe")] == [
        (1, "underpowered"),
        (2, "underpowered"),
    ]


def test_other_names_for_the_same_samples_do_not_reset_the_ledger(store: LoopStore, harness: Harness) -> None:
    task = with_gate_samples(harness.task, 5)
    renamed = with_gate_samples(task, 5, prefix="fresh")
    propose(suited(store, task))
    ends = [store.move_proposal(each.id, to="archived", frm={"pending"}) for each in store.proposals()]
    assert ends == [True]
    propose(suited(store, renamed))
    assert [look.number for look in store.looks("describe")] == [1, 2]
    first = Sample(id="a", inputs={"x": 1}, target="y", split="gate")
    assert sample_key(first) == sample_key(first.model_copy(update={"id": "b", "split": "reflect", "group": "g"}))
    assert sample_key(first) != sample_key(first.model_copy(update={"target": "z"}))


@pytest.mark.parametrize("column", ["id", "group"])
def test_numbering_the_rows_of_a_data_file_anew_does_not_reset_the_ledger(harness: Harness, column: str) -> None:
    """The column that names a sample stands among its inputs; one that the template shows is part of the question."""

    def keys(names: str, template: str) -> frozenset[str]:
        spec = DatasetSpec(samples=(), splits={"gate": 1.0}, **{column: "nr"})
        rows = [Row({"nr": f"{names}-{place}", "product": f"teapot-{place}"}, None, None) for place in range(5)]
        task = harness.task.model_copy(update={"dataset": spec, "template": template})
        return sample_keys(task, make_samples(rows, spec))

    before, after = (keys(names, "Describe {{ product }}{{ rules }}") for names in ("row", "item"))
    assert before == after and len(before) == 5
    shown = "Describe {{ product }}, number {{ nr }}{{ rules }}"
    assert keys("row", shown).isdisjoint(keys("item", shown))
    harness = replace(
        harness, task=harness.task.model_copy(update={"agent": AgentSpec(kind="command", command=("x",))})
    )
    assert keys("row", "{{ product }}{{ rules }}").isdisjoint(keys("item", "{{ product }}{{ rules }}"))


def test_a_row_that_was_copied_is_no_further_evidence(store: LoopStore, harness: Harness) -> None:
    """Sixteen copies of one sample would be fixed or broken together: the test takes pairs for independent."""
    task = with_gate_samples(harness.task, 2)
    gate = [sample for sample in task.samples if sample.split == "gate"]
    copies = [gate[0].model_copy(update={"id": f"copy-{place}"}) for place in range(15)]
    copied = task.model_copy(update={"samples": (*task.samples, *copies)})
    assert {sample.inputs["product"] for sample in choose_samples(copied, "gate")} == {"teapot-0", "teapot-1"}
    assert len(choose_samples(copied, "gate")) == 2


def test_a_copy_of_a_reflect_sample_tests_nothing(store: LoopStore, harness: Harness) -> None:
    """The change was made from it."""
    reflect = [sample for sample in harness.task.samples if sample.split == "reflect"]
    copies = [sample.model_copy(update={"id": f"copy-{sample.id}", "split": "gate"}) for sample in reflect]
    task = with_gate_samples(harness.task, 1)
    task = task.model_copy(update={"samples": (*task.samples, *copies)})
    assert [sample.id for sample in choose_samples(task, "gate")] == ["gate-0"]
    only_copies = with_gate_samples(harness.task, 0)
    only_copies = only_copies.model_copy(update={"samples": (*only_copies.samples, *copies)})
    (proposal,) = propose(suited(store, only_copies))
    report = report_of(store, proposal)
    assert report.verdict == "untested" and "in the reflect split too" in report.note


def test_without_gate_samples_nothing_is_tested_and_it_says_so(store: LoopStore, harness: Harness) -> None:
    (proposal,) = propose(suited(store, with_gate_samples(harness.task, 0)))
    report = report_of(store, proposal)
    assert (report.verdict, report.note) == ("untested", "not tested: the task has no samples in the gate split")
    assert proposal.state == "pending" and store.looks("describe") == [] and store.runs(kind="gate") == []
    with pytest.raises(UsageError, match="no samples in the gate split"):
        check_noise(
            harness := Harness.build(store, store.task(proposal.task_hash)), trial_of(store, proposal), BudgetSpec()
        )
    assert harness.store.runs(kind="gate") == []


def test_where_no_alpha_is_left_nothing_is_run(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    """Two sets tested apart are put together: what both spent counts together, and that is all of it."""
    apart = with_gate_samples(harness.task, 5)
    keys = sample_keys(apart, [sample for sample in apart.samples if sample.split == "gate"])
    other = store.create_proposal(task=apart, base=store.head("describe"), pattern_ids=[], expires_at=None)
    store.save_revision(store.revision(pending.id).model_copy(update={"proposal_id": other.id}))
    reserve = {"prompt_name": "describe", "dataset": "d", "alpha_total": 0.05, "sample_keys": keys}
    store.reserve_look(proposal_id=other.id, revision=1, **reserve)  # type: ignore[arg-type]
    store.move_proposal(pending.id, to="archived", frm={"pending"})
    joined = harness.task.model_copy(update={"samples": (*harness.task.samples, *(
        sample.model_copy(update={"id": f"new-{sample.id}"}) for sample in apart.samples if sample.split == "gate"
    ))})  # fmt: skip
    num_runs = len(store.runs(kind="gate"))
    (proposal,) = propose(Harness.build(store, joined))
    report = report_of(store, proposal)
    assert report.verdict == "untested" and "join 2 looks that were taken apart" in report.note
    assert len(store.runs(kind="gate")) == num_runs and proposal.state == "pending"
    assert foresee_gate(store, joined, trial_of(store, proposal), utc_now()) == report.note


def test_where_decoding_is_chance_the_baseline_runs_twice(store: LoopStore, harness: Harness) -> None:
    made = suited(store, with_gate_samples(harness.task, 8), engine=DiceEngine(harness.engine, every=3))
    (proposal,) = propose(made)
    report = report_of(store, proposal)
    assert [each.arm for each in report.arms] == ["baseline", "candidate", "repeat"] and not report.deterministic
    assert report.test is not None and report.test.num_flip_pairs == 8
    (repeat,) = [run for run in store.runs(kind="gate") if run.arm == "repeat"]
    (baseline,) = [run for run in store.runs(kind="gate") if run.arm == "baseline"]
    asked = [[attempt.messages for attempt in store.attempts(run.id)] for run in (repeat, baseline)]
    assert repeat.seed == baseline.seed and asked[0] == asked[1]


class LuckyEngine(DiceEngine):
    """Its second to fifth answer come out well by chance."""

    def generate(self, request: TextRequest) -> TextReply:
        self.num_calls += 1
        reply = self.inner.generate(request)
        return reply.model_copy(update={"text": "A fine thing."}) if 1 < self.num_calls <= 5 else reply


def test_too_much_chance_is_no_evidence(store: LoopStore, harness: Harness) -> None:
    """The candidate passes everywhere, but four verdicts of the baseline flip when it is run once more."""
    task = with_gate_samples(harness.task, 9).model_copy(update={"gate": GateSpec(alpha=0.5)})
    (proposal,) = propose(Harness.build(store, task, engine=LuckyEngine(harness.engine)))
    report = report_of(store, proposal)
    assert report.pairs.fixed == 5 and report.test is not None and report.test.p_value == 2**-5 < report.test.alpha
    assert report.verdict == "noisy" and "disagree on 4 of 9 samples (44 %)" in report.note
    assert proposal.state == "pending"  # a person may still want it, with the flag


def test_an_aa_check_of_a_pending_proposal_changes_no_verdict(
    store: LoopStore, harness: Harness, pending: Proposal
) -> None:
    before = report_of(store, pending)
    found = check_noise(harness, trial_of(store, pending), BudgetSpec())
    assert (found.pairs.num_pairs, found.pairs.fixed + found.pairs.broken, found.num_errors) == (5, 0, 0)
    runs = {run.arm: run.id for run in store.runs(kind="gate")}
    assert runs.keys() == {"baseline", "candidate", "repeat"} and runs["baseline"] == before.arms[0].run_id
    assert check_noise(harness, trial_of(store, pending), BudgetSpec()) == found and len(store.runs(kind="gate")) == 3
    assert store.proposal(pending.id) == pending and report_of(store, pending) == before
    assert len(store.looks("describe")) == 1


def test_an_aa_check_asked_for_before_the_gate_counts_in_it(store: LoopStore, harness: Harness) -> None:
    """Its baseline is the gate's own: nothing is run twice."""
    stopped = harness.task.model_copy(
        update={"improve": harness.task.improve.model_copy(update={"limits": BudgetSpec(attempts=1)})}
    )
    (proposal,) = propose(Harness.build(store, stopped))
    with pytest.raises(BudgetStop):
        check_noise(harness, trial_of(store, proposal), BudgetSpec(attempts=7))
    check_noise(harness, trial_of(store, proposal), BudgetSpec())
    (done,) = recover(store, harness=harness)
    test = report_of(store, done).test
    assert done.state == "pending" and test is not None and (test.num_flips, test.num_flip_pairs) == (0, 5)
    assert sorted(store.run_usage(run.id)[0] for run in store.runs(kind="gate")) == [5, 5, 5]


def test_the_base_rate_is_that_of_runs_under_the_base(store: LoopStore, harness: Harness) -> None:
    """After a commit nobody has run the new head: the gate it came through says what it passes."""
    task = with_gate_samples(harness.task, 8)
    gate = [sample for sample in task.samples if sample.split == "gate"]
    (proposal,) = propose(suited(store, task))
    trial, first = trial_of(store, proposal), store.head("describe")
    assert base_rate(store, trial, gate, until=utc_now()) == 0.0
    assert base_rate(store, trial, [Sample(id="unseen", inputs={}, split="gate")], until=utc_now()) is None
    approve(store, proposal.id, by="ana", seen=store.revision(proposal.id).text_hash)
    head = store.head("describe")
    under_head = replace(trial, base=head)
    assert head != first and base_rate(store, under_head, gate, until=utc_now()) == 1.0
    suite = store.runs(kind="suite", limit=1)[0]
    assert base_rate(store, trial, gate, until=suite.created_at) == 0.0
    assert base_rate(store, under_head, gate, until=suite.created_at) is None  # what came later is no plan
    lenient = task.model_copy(update={"evaluators": task.evaluators[:1]})
    suited(store, lenient)  # under the head: another task's word on the same samples comes after the own one
    assert base_rate(store, under_head, gate, until=utc_now()) == 1.0


def test_a_run_that_judged_one_sample_does_not_speak_for_all(store: LoopStore, harness: Harness) -> None:
    """A base rate of 1/1 would announce no power at all, one of 0/1 too much."""
    task = with_gate_samples(harness.task, 8)
    (proposal,) = propose(suited(store, task))
    suited(store, task, engine=MostlyBroken(harness.engine))
    latest = store.runs(kind="suite", limit=1)[0]
    gate = [sample for sample in task.samples if sample.split == "gate"]
    judged = [
        each for each in store.sample_results(latest.id) if each.split == "gate" and each.first_verdict != "error"
    ]
    assert [each.first_verdict for each in judged] == ["pass"]
    assert base_rate(store, trial_of(store, proposal), gate, until=utc_now()) == 1 / 8


def test_a_killed_gate_is_planned_as_it_was(store: LoopStore, harness: Harness, make_task: Callable[..., Task]) -> None:
    """A suite run between the kill and the next process must not change the power that was announced."""
    stopped = harness.task.model_copy(
        update={"improve": harness.task.improve.model_copy(update={"limits": BudgetSpec(attempts=3)})}
    )
    (proposal,) = propose(Harness.build(store, stopped))
    assert proposal.state == "testing" and len(store.looks("describe")) == 1
    planned = foresee_gate(store, harness.task, trial_of(store, proposal), utc_now())
    run_suite(Harness.build(store, harness.task, engine=DiceEngine(harness.engine, every=1)))
    (done,) = recover(store, harness=harness)
    test = report_of(store, done).test
    assert not isinstance(planned, str) and test is not None
    assert (planned.test.look, planned.test.base_rate, planned.test.power) == (test.look, test.base_rate, test.power)
    assert test.base_rate == 0.2 and len(store.looks("describe")) == 1
