"""Several candidates: each is kept with what became of it, and the one that repairs most reflect samples is tested."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopeng.attempt.harness import Harness
from loopeng.cards import card
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import NotFoundError, UsageError
from loopeng.improve import propose, recover
from loopeng.improve.choosing import choose_samples
from loopeng.ports import TextRequest
from loopeng.report.terminal_card import card_document, card_text
from loopeng.schema import Task
from loopeng.schema.task import GateSpec, ImproveSpec
from loopeng.store import LoopStore

Child = Callable[[Callable[[], object]], int]


def adding(text: str) -> str:
    return json.dumps({"operations": [{"op": "add", "text": text}], "rationale": f"because of {text!r}"})


HALF, WHOLE = "Write one sentence.", "Write one sentence of at most 20 words."
LONGER = "Write one sentence of at most 20 words and nothing else."


@pytest.fixture
def reflecting(make_task: Callable[..., Task], tmp_path: Path) -> Callable[..., Task]:
    """A task whose reflector hears one reply for each candidate, whether asked once or again."""

    def make(*replies: str, **improve: Any) -> Task:
        script = {"default": [reply for reply in replies for _ in range(2)]}  # the seed picks
        (tmp_path / "reflections.json").write_text(json.dumps(script), encoding="utf-8")
        engine = {"kind": "scripted", "script": "reflections.json"}
        values = {"reflector": "llm", "engine": engine, "candidates": len(replies)} | improve
        return make_task(improve=ImproveSpec.model_validate(values))

    return make


def told(store: LoopStore, proposal_id: str) -> list[tuple[int, str, int | None, int | None]]:
    return [(each.number, each.outcome, each.num_passed, each.num_screened) for each in store.suggestions(proposal_id)]


def test_the_one_that_passes_most_reflect_samples_is_tested(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    replies = (adding(HALF), "no idea", adding(LONGER), adding(WHOLE), adding(HALF), adding("Say {{ product }}."))
    (proposal,) = propose(Harness.build(store, reflecting(*replies)))
    assert proposal.state == "pending" and proposal.revision == 1
    assert told(store, proposal.id) == [
        (1, "outscored", 0, 6),
        (2, "malformed", None, None),
        (3, "outscored", 6, 6),  # as good, but longer
        (4, "chosen", 6, 6),
        (5, "refused", None, None),
        (6, "refused", None, None),
    ]
    reasons = [each.reason for each in store.suggestions(proposal.id)]
    assert reasons[0] == "suggestion 4 passed 6"
    assert reasons[2] == "suggestion 4 passed as many samples and is not longer"
    assert reasons[4] == "the same text as suggestion 1" and reasons[5].startswith("placeholders: a rule contains")
    assert [rule.text for rule in store.revision(proposal.id).rules] == [WHOLE]


def test_screening_looks_at_reflect_samples_only_with_the_same_seeds(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    (proposal,) = propose(Harness.build(store, reflecting(adding(HALF), adding(WHOLE))))
    runs = store.runs(kind="screen")
    assert sorted((run.revision, run.arm, run.status) for run in runs) == [
        (1, "candidate", "finished"), (2, "candidate", "finished")
    ]  # fmt: skip
    first, second = (store.attempts(run.id) for run in runs)
    assert [(each.sample_id, each.seed) for each in first] == [(each.sample_id, each.seed) for each in second]
    assert {each.sample_id.split("-")[0] for each in first} == {"reflect"}
    assert {each.attempt_index for each in (*first, *second)} == {0}
    gate = next(run for run in store.runs(kind="gate") if run.arm == "candidate")
    assert gate.seed not in {run.seed for run in runs} and proposal.state == "pending"


def test_at_most_gate_samples_are_screened(make_task: Callable[..., Task]) -> None:
    task = make_task(gate=GateSpec(samples=4))
    chosen = choose_samples(task, "reflect")
    assert len(chosen) == 4 and chosen == [sample for sample in task.samples if sample in chosen]
    assert {sample.split for sample in chosen} == {"reflect"}


def test_the_only_one_left_is_not_screened(store: LoopStore, harness: Harness, reflecting: Callable[..., Task]) -> None:
    (proposal,) = propose(Harness.build(store, reflecting("no idea", adding(WHOLE))))
    assert told(store, proposal.id) == [(1, "malformed", None, None), (2, "chosen", None, None)]
    assert store.runs(kind="screen") == []


def test_what_cannot_be_run_again_is_not_run_for_screening(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    """An agent with side effects runs for the user, not for a choice between two wordings."""
    task = reflecting(adding(LONGER), adding(WHOLE))
    live = Harness.build(store, task, agent=lambda context: "A fine thing. It is good.")
    (proposal,) = propose(live)
    assert store.runs(kind="screen") == []
    first, second = store.suggestions(proposal.id)
    assert (first.outcome, second.outcome) == ("outscored", "chosen")
    assert first.reason.startswith("suggestion 2 is not longer; not tried out: the agent may have side effects")


def test_when_all_are_refused_every_reason_is_shown(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    braces = (adding("Say {{ product }}."), adding("Say {% raw %}."))
    (proposal,) = propose(Harness.build(store, reflecting(*braces)))
    assert proposal.state == "archived" and (proposal.state_reason or "").startswith("placeholders: ")
    text = card_text(card(store, proposal.id), None)
    assert "suggestions that were not chosen" in text
    for number, braced in ((1, "'{{'"), (2, "'{%'")):
        assert f"{number}  refused: placeholders: a rule contains {braced}" in text
    assert "add Say {% raw %}." in text
    assert store.runs(kind="gate") == []


def test_a_proposal_without_a_text_shows_what_was_said(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    (proposal,) = propose(Harness.build(store, reflecting("no idea", "{}")))
    assert proposal.state == "archived" and proposal.revision == 0
    with pytest.raises(NotFoundError) as caught:
        card(store, proposal.id)
    for number, problem in ((1, "one JSON object and nothing else"), (2, "at least one operation")):
        line = next(
            line for line in str(caught.value).splitlines() if line.startswith(f"suggestion {number}, malformed")
        )
        assert problem in line


def test_the_card_shows_what_was_not_chosen(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task]
) -> None:
    (proposal,) = propose(Harness.build(store, reflecting(adding(HALF), adding(WHOLE), "no idea")))
    shown = card(store, proposal.id)
    assert [each.number for each in shown.not_chosen] == [1, 3]
    text = card_text(shown, None)
    assert (
        "1  outscored (0 of 6 reflect samples passed): suggestion 2 passed 6\n        add Write one sentence.\n" in text
    )
    assert "3  malformed: the reply could not be read" in text and "no idea" in text
    assert [each.number for each in card_document(shown, None)["not_chosen"]] == [1, 3]


def test_one_change_makes_no_section(store: LoopStore, harness: Harness) -> None:
    (proposal,) = propose(harness)
    assert [each.outcome for each in store.suggestions(proposal.id)] == ["chosen"]
    assert "not chosen" not in card_text(card(store, proposal.id), None)


@pytest.mark.parametrize("limit", [{"attempts": 1}, {"attempts": 2}, {"attempts": 5}, {"total_tokens": 1}])
def test_a_limit_stops_reflection_and_nothing_is_paid_twice(
    store: LoopStore, harness: Harness, reflecting: Callable[..., Task], limit: dict[str, int]
) -> None:
    replies = (adding(HALF), adding(WHOLE))
    poor = Harness.build(store, reflecting(*replies, limits=limit))
    (stopped,) = propose(poor)
    assert stopped.state == "drafting" and "improve.limits." in (stopped.state_reason or "")
    before = {run.id: store.run_usage(run.id)[0] for run in store.runs(proposal_id=stopped.id)}
    rich = Harness.build(store, reflecting(*replies))
    (moved,) = recover(store, harness=rich)
    assert moved.state == "pending" and before
    usage = {(run.kind, run.arm, run.revision): store.run_usage(run.id)[0] for run in store.runs(proposal_id=moved.id)}
    assert usage["reflect", None, None] == 2
    assert usage["screen", "candidate", 1] == usage["screen", "candidate", 2] == 6


def test_a_reflector_that_returns_something_else_is_told(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    (tmp_path / "odd_reflector.py").write_text("def odd(context):\n    return ['Be brief']\n")
    task = make_task(improve=ImproveSpec(reflector="odd_reflector:odd"))
    with pytest.raises(UsageError, match="returned 'Be brief', which is no ProposedChange"):
        propose(Harness.build(store, task))


def test_a_reflector_of_ones_own_may_return_several(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    """It asks the engine it is given, whose answers are kept, so a second ask after a crash costs nothing."""
    (tmp_path / "own_reflector.py").write_text(
        "from loopeng.ports import ProposedChange, TextRequest\n"
        "from loopeng.schema import Message, RuleOperation\n"
        "def own(context):\n"
        "    said = context.engine.generate(context.request.model_copy(update={'messages': (\n"
        "        Message(role='user', content='hello'),)})).text\n"
        f"    texts = [{HALF!r}, {WHOLE!r}, {LONGER!r}]\n"
        "    return [ProposedChange(operations=(RuleOperation(op='add', text=text),), rationale=said)\n"
        "            for text in texts]\n"
    )
    task = make_task(improve=ImproveSpec(reflector="own_reflector:own", candidates=2))
    (proposal,) = propose(Harness.build(store, task))
    assert told(store, proposal.id) == [(1, "outscored", 0, 6), (2, "chosen", 6, 6)]
    (run,) = store.runs(kind="reflect")
    assert store.run_usage(run.id)[0] == 1
    assert store.revision(proposal.id).rationale.startswith("A fine thing. It is good")


def all_there_is(store: LoopStore) -> dict[str, Any]:
    (proposal,) = store.proposals()
    runs = store.runs(proposal_id=proposal.id, limit=None)
    return {
        "proposal": (proposal.state, proposal.revision),
        "suggestions": [
            each.model_dump(exclude={"proposal_id", "created_at"}) for each in store.suggestions(proposal.id)
        ],
        "runs": sorted((run.kind, str(run.arm), str(run.revision), run.status) for run in runs),
        "attempts": sorted((run.kind, str(run.arm), store.run_usage(run.id)[0]) for run in runs),
        "revisions": [each.text_hash for each in store.revisions(proposal.id)],
    }


@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6])
def test_killed_anywhere_nothing_is_asked_or_kept_twice(
    database: Path, store: LoopStore, harness: Harness, reflecting: Callable[..., Task], child: Child, delay_s: float
) -> None:
    task = reflecting(adding(HALF), "no idea", adding(WHOLE))

    def work() -> None:
        with LoopStore.open(database) as own:
            propose(Harness.build(own, task))

    pid = child(work)
    time.sleep(delay_s)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with LoopStore.open(database) as own:
        asked = Harness.build(own, task)
        recover(own, harness=asked)
        propose(asked)
        found = all_there_is(own)
    assert found["proposal"] == ("pending", 1)
    assert [each["outcome"] for each in found["suggestions"]] == ["outscored", "malformed", "chosen"]
    assert found["attempts"] == [
        ("gate", "baseline", 5), ("gate", "candidate", 5), ("holdout", "baseline", 3), ("holdout", "candidate", 3),
        ("reflect", "None", 4), ("screen", "candidate", 6), ("screen", "candidate", 6),
    ]  # fmt: skip
    assert len(found["revisions"]) == 1 and {status for *_, status in found["runs"]} == {"finished"}


@pytest.mark.parametrize("method", ["save_suggestions", "settle_suggestions", "save_revision", "move_proposal"])
def test_broken_off_before_each_write(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine has answered is not asked for again, whichever write the process did not come to."""
    asked: list[TextRequest] = []

    def answer(request: TextRequest) -> str:
        asked.append(request)
        return (adding(HALF), adding(WHOLE))[request.seed // 2]

    monkeypatch.setattr("loopeng.improve.reflection.drafting.reflection_engine", lambda _: ScriptedEngine(answer))
    mine = Harness.build(store, make_task(improve=ImproveSpec(reflector="llm", candidates=2)))
    with monkeypatch.context() as broken:
        broken.setattr(LoopStore, method, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            propose(mine)
    assert len(asked) == 2
    recover(store, harness=mine)
    assert len(asked) == 2
    (proposal,) = store.proposals()
    assert proposal.state == "pending"
    assert told(store, proposal.id) == [(1, "outscored", 0, 6), (2, "chosen", 6, 6)]
