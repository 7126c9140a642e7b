"""Traffic leads to patterns, patterns to a proposal with evidence, and a decision to better answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopeng import Loop
from loopeng.agents import build_agent
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import NotFoundError, UsageError
from loopeng.improve.reflection.reflectors import reflection_context
from loopeng.live import recorded_task
from loopeng.schema import Proposal
from loopeng.schema.task import AgentSpec
from tests.loopeng.live.traffic import LONG, SHORT, SPECS, TEMPLATE, ask, open_loop, say, traffic


def test_from_calls_to_better_calls(busy: Loop) -> None:
    (pattern,) = busy.store.patterns("describe")
    by_split = {
        split: {each.id for each in busy.store.live_samples("describe") if each.split == split}
        for split in ("reflect", "gate", "holdout")
    }
    shown = {sample_id for _, sample_id in busy.store.occurrences(pattern.id)}
    assert shown == by_split["reflect"] and pattern.num_samples == len(shown)
    (proposal,) = busy.propose("live:describe")
    (card,) = busy.queue()
    assert (proposal.task_name, card.id, card.gate and card.gate.verdict) == ("live:describe", proposal.id, "pass")
    assert card.gate is not None and card.gate.pairs.fixed == len(by_split["gate"])
    assert card.gate.fixed_samples and set(card.gate.fixed_samples) == by_split["gate"]
    assert card.holdout is not None and card.holdout.pairs.num_pairs == len(by_split["holdout"])
    busy.approve(card.id, by="ana", seen=card.text_hash)
    result = ask(busy, "a new thing", max_attempts=1)
    assert (result.text, result.passed, result.version.number) == (SHORT, True, 2)
    assert busy.propose("live:describe") == []  # nothing fails under the new head


def test_a_reflector_sees_reflect_samples_alone(busy: Loop) -> None:
    (proposal,) = busy.propose("live:describe")
    task = busy.store.task(proposal.task_hash)
    context = reflection_context(busy.store, busy._harness(task), proposal)
    split_of = {sample.id: sample.split for sample in busy.store.live_samples("describe")}
    assert context.examples
    assert {split_of[sample.id] for sample, _ in context.examples} == {"reflect"}
    assert {attempt.text for _, attempt in context.examples} == {LONG}


def test_of_an_input_sent_often_a_failing_answer_is_shown(path: Path) -> None:
    answers = {"reliable": False}

    def generate(messages: Any, params: Any) -> str:
        return SHORT if answers["reliable"] else LONG

    with Loop.open(path, engine=generate) as loop:
        answers["reliable"] = True
        traffic(loop)
        answers["reliable"] = False
        traffic(loop)
        (proposal,) = loop.propose("live:describe")
        task = loop.store.task(proposal.task_hash)
        context = reflection_context(loop.store, loop._harness(task), proposal)
        assert {attempt.text for _, attempt in context.examples} == {LONG}
        (card,) = loop.queue()
        assert card.gate is not None and card.gate.verdict == "not_replayable"  # a live function


def test_observed_traffic_leads_to_proposals_without_evidence(loop: Loop) -> None:
    for number in range(40):
        loop.observe("describe", {"product": f"thing {number}"}, LONG, evaluators=SPECS, template=TEMPLATE)
    (proposal,) = loop.propose("live:describe")
    (card,) = loop.queue()
    assert card.gate is not None and card.gate.verdict == "not_replayable"
    with pytest.raises(UsageError, match="accept_untested"):
        loop.approve(card.id, by="ana", seen=card.text_hash)
    loop.approve(card.id, by="ana", seen=card.text_hash, accept_untested=True)
    assert "at most" in loop.instructions("describe", {"product": "mug"}).text
    assert proposal.prompt_name == "describe"


def test_what_the_app_answered_by_itself_is_not_tested_by_another_engine(loop: Loop) -> None:
    """One call of the loop's engine, the latest, made a gate pass that had tested that engine instead of the app."""
    for number in range(40):
        loop.observe("describe", {"product": f"thing {number}"}, LONG, evaluators=SPECS, template=TEMPLATE)
    ask(loop, "thing 1")
    loop.propose("live:describe")
    (card,) = loop.queue()
    assert card.gate is not None and card.gate.verdict == "not_replayable"
    assert "live object" in card.gate.note


def test_an_agent_with_settings_is_the_one_that_is_tested(path: Path) -> None:
    """Of a command the task said that it was a Python function, so that no other process could make a proposal."""
    script = f"if grep -q 'at most'; then echo {SHORT}; else echo {LONG}; fi"
    spec = AgentSpec(kind="command", command=("sh", "-c", script), replayable=True, time_limit_s=9)
    with Loop.open(path, engine=ScriptedEngine(say, reference="{}"), agent=build_agent(spec)) as loop:
        traffic(loop)
        assert recorded_task(loop.store, "describe").agent == spec
    with Loop.open(path) as another:
        another.propose("live:describe")
        (card,) = another.queue()
        runs = another.store.runs(kind="gate")
        assert {run.engine["agent"] for run in runs} == {build_agent(spec).reference}
        assert card.gate is not None and card.gate.pairs.fixed == card.gate.pairs.num_pairs > 0


def test_evaluators_that_are_live_objects(loop: Loop, path: Path) -> None:
    def no_full_stop(text: str) -> dict[str, Any]:
        passed = "fine" not in text
        return {"passed": passed, "score": float(passed)}

    traffic(loop, evaluators=[no_full_stop, *SPECS])
    (proposal,) = loop.propose("live:describe")
    assert proposal.state == "pending"
    with open_loop(path) as another, pytest.raises(UsageError, match=r"no_full_stop of live:describe are live objects"):
        another.propose("live:describe")


def test_what_came_to_nothing_is_not_asked_again_for_new_samples(loop: Loop) -> None:
    """Traffic grows all the time: the same failures would lead to the same archived proposal at every look."""
    hopeless = [{"id": "named", "type": "contains", "value": "teapot"}]
    traffic(loop, evaluators=hopeless)
    first = loop.propose("live:describe")
    traffic(loop, 50, evaluators=hopeless)
    again = loop.propose("live:describe")
    assert [each.state for each in first] == ["archived"] and again == []


def test_suites_and_traffic_of_one_prompt_are_counted_apart(loop: Loop) -> None:
    from loopeng.patterns.standing import standings
    from tests.loopeng.test_api import make_task

    task = make_task(loop={"max_attempts": 1, "retry": "critique"})
    loop.run(task, improve=False)
    before = standings(loop.store, task, loop.store.head("describe"))
    traffic(loop, 20)
    assert standings(loop.store, task, loop.store.head("describe")) == before
    live = standings(loop.store, recorded_task(loop.store, "describe"), loop.store.head("describe"))
    reflect = {sample.id for sample in loop.store.live_samples("describe") if sample.split == "reflect"}
    assert live[0].samples == reflect and live[0].num_judged == len(reflect)


def test_without_traffic_there_is_nothing_to_propose(loop: Loop) -> None:
    with pytest.raises(NotFoundError, match="no prompt 'describe'"):
        loop.propose("live:describe")
    loop.store.adopt_template("describe", TEMPLATE, by="test")
    with pytest.raises(NotFoundError, match=r"no calls of prompt 'describe' were recorded"):
        loop.propose("live:describe")


@pytest.mark.slow
def test_an_edit_is_tested_on_the_same_inputs(busy: Loop) -> None:
    (proposal,) = busy.propose("live:describe")
    (card,) = busy.queue()
    traffic(busy, 50)  # more samples since: the proposal keeps to its own
    busy.edit(card.id, by="ana", seen=card.text_hash, rules=["Use at most three words."])
    assert [step.after.state for step in busy.work()] == ["pending"]
    edited: Proposal = busy.store.proposal(proposal.id)
    report = busy.store.gate_report(edited.id, edited.revision)
    assert report is not None and card.gate is not None
    assert report.pairs.num_pairs == card.gate.pairs.num_pairs
