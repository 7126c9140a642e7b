"""The real gepa searches for rules; what it finds goes through our guards, gate and queue."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import gepa
import pytest
from gepa.core.adapter import EvaluationBatch

from loopeng import Loop
from loopeng.approvals import approve
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop, ConflictError, EngineError, UsageError
from loopeng.gepa_bridge import GepaAdapter, parse_rules
from loopeng.improve import propose
from loopeng.prompts import PromptTemplate
from loopeng.schema import EvaluatorSpec, Sample, Task
from loopeng.schema.task import AgentSpec, BudgetSpec, EngineSpec, ImproveSpec
from loopeng.store import LoopStore

GOOD = "- Write exactly one sentence.\n- Use at most 20 words."
HALF = "Write exactly one sentence."


class Reflection:
    """A scripted reflecting model: first a rule that helps by half, then both. Keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    def __call__(self, prompt: Any) -> str:
        self.prompts.append(prompt)
        return f"```\n{self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}\n```"


class Silent:
    def log(self, message: str) -> None: ...


def search(adapter: GepaAdapter, model: Reflection, **options: Any) -> Any:
    return gepa.optimize(
        adapter.seed_candidate,
        adapter.trainset,
        adapter.valset,
        adapter=adapter,
        reflection_lm=model,
        reflection_prompt_template=adapter.reflection_prompt,
        logger=Silent(),
        **({"max_metric_calls": 30, "stop_callbacks": adapter.stop} | options),
    )


@pytest.fixture
def adapter(harness: Harness) -> GepaAdapter:
    return GepaAdapter(harness)


def make_adapter(store: LoopStore, task: Task) -> GepaAdapter:
    return GepaAdapter(Harness.build(store, task))


def overlap_guard() -> bool:
    return importlib.util.find_spec("loopeng.improve.guards.overlap") is not None


def test_what_gepa_finds_ends_in_the_queue_with_a_gate_report(store: LoopStore, harness: Harness) -> None:
    adapter = Loop(store).as_gepa_adapter(harness.task)
    found = search(adapter, Reflection(HALF, GOOD))
    assert parse_rules(found.best_candidate) == ["Write exactly one sentence.", "Use at most 20 words."]
    assert max(found.val_aggregate_scores) == 1.0 > found.val_aggregate_scores[0]
    proposal = adapter.submit(found.best_candidate)
    assert proposal.state == "pending" and len(proposal.pattern_ids) == 2
    revision = store.revision(proposal.id)
    assert (revision.author, revision.findings) == ("gepa", ())
    assert [operation.op for operation in revision.operations] == ["add", "add"]
    gate, holdout = store.gate_report(proposal.id, 1, "gate"), store.gate_report(proposal.id, 1, "holdout")
    assert gate is not None and (gate.pairs.fixed, gate.pairs.broken) == (4, 0)
    assert holdout is not None and holdout.pairs.fixed == 3
    outcome = approve(store, proposal.id, by="ana", seen=revision.text_hash, accept_untested=gate.verdict != "pass")
    assert outcome.proposal.state == "committed"
    assert [rule.text for rule in store.head("describe").rules] == [rule.text for rule in revision.rules]


def test_the_search_sees_reflect_samples_alone(store: LoopStore, harness: Harness, adapter: GepaAdapter) -> None:
    """A candidate chosen by the samples that later judge it passes by luck."""
    model = Reflection(HALF, GOOD)
    search(adapter, model)
    train, val = ({sample.id for sample in half} for half in (adapter.trainset, adapter.valset))
    assert not train & val
    assert train | val == {sample.id for sample in harness.task.samples if sample.split == "reflect"}
    screened = [attempt for run in store.runs(kind="screen") for attempt in store.attempts(run.id)]
    assert {attempt.sample_id for attempt in screened} == train | val
    asked = "\n".join(model.prompts)
    assert "teapot-reflect" in asked and "teapot-gate" not in asked and "teapot-holdout" not in asked
    hidden = next(sample for sample in harness.task.samples if sample.split == "gate")
    for sample in (hidden, Sample(id="unknown", inputs={"product": "mug"}, split="reflect")):
        with pytest.raises(UsageError, match="reflect samples alone"):
            adapter.evaluate([sample], adapter.seed_candidate)


def test_scores_are_ours_and_nothing_is_run_twice(store: LoopStore, adapter: GepaAdapter) -> None:
    twice = [adapter.trainset[0], adapter.trainset[1], adapter.trainset[0]]  # gepa pads its batches so
    seed = adapter.evaluate(twice, adapter.seed_candidate)
    good = adapter.evaluate(twice, {"rules": GOOD}, capture_traces=True)
    assert isinstance(seed, EvaluationBatch) and seed.trajectories is None
    assert seed.scores[0] == seed.scores[2] < 1.0 and good.scores == [1.0, 1.0, 1.0]
    assert good.outputs == ["A fine thing."] * 3 and good.trajectories is not None and len(good.trajectories) == 3
    assert adapter.spent()[0] == 4
    again = adapter.evaluate(adapter.trainset, {"rules": GOOD.replace("- ", "* ")})  # the same rules
    assert again.scores == [1.0] * 3 and adapter.spent()[0] == 5
    assert {run.status for run in store.runs(kind="screen")} == {"finished"}


def secretive_task(make_task: Callable[..., Task]) -> Task:
    """Targets that the evaluator's reason tells, and that only its reason may tell."""
    task = make_task(
        evaluators=(
            EvaluatorSpec(id="one-sentence", type="sentences", max=1),
            EvaluatorSpec(id="answer", type="contains", value="{{ target }}"),
        )
    )
    samples = tuple(each.model_copy(update={"target": f"quartz-{each.id}-lamp"}) for each in task.samples)
    return task.model_copy(update={"samples": samples})


def test_no_target_reaches_the_reflecting_model(store: LoopStore, make_task: Callable[..., Task]) -> None:
    adapter = make_adapter(store, secretive_task(make_task))
    batch = adapter.evaluate(adapter.trainset, adapter.seed_candidate, capture_traces=True)
    dataset = adapter.make_reflective_dataset(adapter.seed_candidate, batch, ["rules", "other"])
    assert dataset.keys() == {"rules"} and len(dataset["rules"]) == 3
    for record in dataset["rules"]:
        assert record.keys() == {"Inputs", "Generated Outputs", "Feedback"}
        assert record["Inputs"]["product"].startswith("teapot-reflect") and record["Feedback"]
    assert "quartz" in json.dumps([result.reason for each in batch.trajectories or () if each.attempt
                                   for result in each.attempt.results])  # fmt: skip
    assert "quartz" not in json.dumps(dataset)


def test_a_candidate_that_a_guard_refuses_costs_nothing(adapter: GepaAdapter) -> None:
    for bad in ("Mention {{ product }}.", "\n".join(f"Rule number {number}." for number in range(13))):
        batch = adapter.evaluate(adapter.trainset, {"rules": bad}, capture_traces=True)
        assert batch.scores == [0.0] * 3
        feedback = {record["Feedback"] for record in adapter.make_reflective_dataset({}, batch, ["rules"])["rules"]}
        assert len(feedback) == 1 and "refused by a guard" in feedback.pop()
    assert adapter.spent()[0] == 0


def test_a_refused_submission_says_why_and_is_kept(store: LoopStore, adapter: GepaAdapter) -> None:
    proposal = adapter.submit({"rules": "Mention {{ product }}."}, by="ana")
    assert proposal.state == "archived" and "placeholders" in (proposal.state_reason or "")
    revision = store.revision(proposal.id)
    assert revision.author == "ana" and [finding.guard for finding in revision.findings] == ["placeholders"]
    assert store.gate_report(proposal.id, 1) is None
    assert {pattern.state for pattern in store.patterns("describe")} == {"open"}  # free for the next proposal


@pytest.mark.skipif(not overlap_guard(), reason="the guard against answers is not there")
@pytest.mark.parametrize("split", ["reflect", "gate"])
def test_a_candidate_that_leaks_an_answer_is_refused(
    store: LoopStore, make_task: Callable[..., Task], harness: Harness, split: str
) -> None:
    task = secretive_task(make_task)
    target = next(sample.target for sample in task.samples if sample.split == split)
    candidate = {"rules": f"Say {target} when it is asked for."}
    adapter = make_adapter(store, task)
    batch = adapter.evaluate(adapter.trainset, candidate, capture_traces=True)
    assert batch.scores == [0.0] * 3 and adapter.spent()[0] == 0
    told = json.dumps(adapter.make_reflective_dataset(candidate, batch, ["rules"]))
    assert "overlap" in told and str(target) not in told
    patterns = [pattern.id for pattern in store.patterns("describe")][:1]
    proposal = adapter.submit(candidate, pattern_ids=patterns)
    assert proposal.state == "archived" and "overlap" in (proposal.state_reason or "")


@pytest.mark.skipif(not overlap_guard(), reason="the guard against answers is not there")
def test_a_candidate_with_hidden_text_is_refused(
    store: LoopStore, make_task: Callable[..., Task], harness: Harness
) -> None:
    text = "a samovar from the old winter market in Tula"
    task = make_task()
    changed = [each if each.id != "gate-0" else each.model_copy(update={"inputs": {"product": text}})
               for each in task.samples]  # fmt: skip
    adapter = make_adapter(store, task.model_copy(update={"samples": tuple(changed)}))
    proposal = adapter.submit({"rules": f"Praise {text} in one sentence."})
    assert proposal.state == "archived" and "overlap" in (proposal.state_reason or "")


def test_a_candidate_that_gepa_garbles_scores_nothing_and_cannot_be_submitted(adapter: GepaAdapter) -> None:
    for text in ("## Instructions\nBe brief.", "Be brief.\n---", "```\nBe brief."):
        assert adapter.evaluate(adapter.trainset, {"rules": text}).scores == [0.0] * 3
        with pytest.raises(UsageError, match="is no rule"):
            adapter.submit({"rules": text})
    for candidate in ({}, {"rules": GOOD, "more": ""}, {"rules": 3}, GOOD):
        with pytest.raises(UsageError, match="candidate"):
            adapter.submit(candidate)  # type: ignore[arg-type]


def test_lists_are_read_as_models_write_them() -> None:
    text = "Rules:\n  1. Be brief.\n\n* 3D prints are named so.\n• -5 is a number.\n10) Stop.\n-"
    with pytest.raises(UsageError, match="line 7"):
        parse_rules({"rules": text})
    assert parse_rules({"rules": text[:-2]}) == ["Be brief.", "3D prints are named so.", "-5 is a number.", "Stop."]
    assert parse_rules({"rules": " \n"}) == []


def test_nothing_to_propose_is_said(store: LoopStore, adapter: GepaAdapter) -> None:
    with pytest.raises(UsageError, match="nothing to propose"):
        adapter.submit(adapter.seed_candidate)
    assert store.proposals() == []


def test_a_search_from_an_old_version_cannot_undo_what_was_approved_since(store: LoopStore, harness: Harness) -> None:
    """Two whole texts: the second would take the first one's rules away unseen."""
    adapter = GepaAdapter(harness)
    (proposal,) = propose(harness)
    approve(store, proposal.id, by="ana", seen=store.revision(proposal.id).text_hash, accept_untested=True)
    with pytest.raises(ConflictError, match="search again"):
        adapter.submit({"rules": "Be kind."})
    later = GepaAdapter(harness)
    assert parse_rules(later.seed_candidate) == [rule.text for rule in store.head("describe").rules]
    with pytest.raises(UsageError, match="run the suite first"):
        later.submit({"rules": "Be kind."})


def test_patterns_are_named_or_the_most_frequent_free_ones(store: LoopStore, adapter: GepaAdapter) -> None:
    first, second = store.patterns("describe")
    proposal = adapter.submit({"rules": GOOD}, pattern_ids=[second.id])
    assert proposal.pattern_ids == (second.id,)
    other_way_round = "\n".join(reversed(GOOD.splitlines()))
    assert adapter.submit({"rules": other_way_round}).pattern_ids == (first.id,)
    with pytest.raises(ConflictError, match="already"):
        adapter.submit({"rules": "Be kind."}, pattern_ids=[first.id])
    with pytest.raises(UsageError, match="is open"):
        adapter.submit({"rules": "Be kind."})
    with pytest.raises(UsageError, match="1 to 3 patterns"):
        adapter.submit({"rules": "Be kind."}, pattern_ids=[])


def test_the_tasks_limits_end_the_search(store: LoopStore, make_task: Callable[..., Task], harness: Harness) -> None:
    task = make_task(improve=ImproveSpec(limits=BudgetSpec(attempts=8)))
    adapter = make_adapter(store, task)
    found = search(adapter, Reflection(HALF, GOOD), max_metric_calls=1000, raise_on_exception=False)
    assert found.candidates and adapter.stop()
    assert adapter.spent()[0] == 8
    with pytest.raises(BudgetStop, match=r"improve\.limits\.attempts: 8 of 8"):
        adapter.evaluate(adapter.valset, {"rules": "Be kind."})


def test_an_engine_that_is_down_ends_the_search_instead_of_misleading_it(
    store: LoopStore, make_task: Callable[..., Task]
) -> None:
    task = make_task()
    assert task.path is not None
    (task.path.parent / "down.yaml").write_text('replies: [{when: "", error: "out of memory"}]', encoding="utf-8")
    down = Harness.build(store, task.model_copy(update={"engine": EngineSpec(kind="scripted", script="down.yaml")}))
    adapter = GepaAdapter(Harness(store, down.task, down.engine, down.agent, down.evaluators, retry_delays_s=()))
    with pytest.raises(EngineError, match="out of memory"):
        search(adapter, Reflection(GOOD))


def test_what_cannot_be_searched_is_told_before_anything_runs(store: LoopStore, make_task: Callable[..., Task]) -> None:
    def sends_mail(context: Any) -> str:
        return "sent"

    task = make_task(agent=AgentSpec(kind="llm"))
    with pytest.raises(UsageError, match="replayable"):
        GepaAdapter(Harness.build(store, task, agent=sends_mail))
    few = task.model_copy(update={"samples": tuple(each for each in task.samples if each.split != "reflect")})
    with pytest.raises(UsageError, match="two reflect samples"):
        make_adapter(store, few)


def test_the_prompt_for_reflection_is_one_that_gepa_takes(adapter: GepaAdapter) -> None:
    prompt = adapter.reflection_prompt
    assert "<curr_param>" in prompt and "<side_info>" in prompt
    assert PromptTemplate(prompt).placeholders == frozenset()
