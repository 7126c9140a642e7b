from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from loopeng.attempt.harness import Harness
from loopeng.errors import TaskError, UsageError
from loopeng.improve import HintsReflector, build_reflector, propose, recover
from loopeng.improve.reflection.reflectors import reflection_context
from loopeng.ports import NoChange, ProposedChange, ReflectionContext
from loopeng.runner import run_suite
from loopeng.schema import (
    Attempt,
    EvaluatorSpec,
    FailurePattern,
    PromptVersion,
    Proposal,
    Rule,
    Sample,
    Task,
    utc_now,
)
from loopeng.schema.task import ImproveSpec
from loopeng.store import LoopStore


def pattern(number: int, remedy: str | None) -> FailurePattern:
    return FailurePattern(
        id=f"pat-{number}", prompt_name="p", fingerprint=f"v1:{number}", evaluator=f"e{number}", category="c.d",
        reason="r", remedy=remedy, num_samples=number, created_at=utc_now(),
    )  # fmt: skip


def context(*patterns: FailurePattern, rules: Sequence[str] = (), max_rules: int = 12) -> ReflectionContext:
    head = PromptVersion(
        id="ver-1", prompt_name="p", number=1, template="{{ rules }}", text_hash="0" * 64, source="task file",
        rules=tuple(Rule(id=f"rule-{text}", text=text, pattern_ids=(f"pat-{text[-1]}",)) for text in rules),
        created_by="ana", created_at=utc_now(),
    )  # fmt: skip
    return ReflectionContext(prompt=head, patterns=patterns, improve=ImproveSpec(max_rules=max_rules))


def proposed(seen: ReflectionContext) -> ProposedChange:
    (answer,) = HintsReflector().propose(seen)
    assert isinstance(answer, ProposedChange)
    return answer


def test_hints_adds_one_rule_per_remedy() -> None:
    change = proposed(context(pattern(1, "Be brief."), pattern(2, "No lists."), pattern(3, "Be brief.")))
    assert [(each.op, each.text, each.pattern_ids) for each in change.operations] == [
        ("add", "Be brief.", ("pat-1", "pat-3")),
        ("add", "No lists.", ("pat-2",)),
    ]
    assert "e2 (c.d) failed on 2 samples" in change.rationale


def test_hints_never_repeats_a_rule_of_the_head() -> None:
    change = proposed(context(pattern(1, "Be brief."), pattern(2, "No lists."), rules=["be  brief"]))
    assert [each.text for each in change.operations] == ["No lists."]
    assert HintsReflector().propose(context(pattern(1, "Be brief."), rules=["Be brief."])) == ()
    assert HintsReflector().propose(context(pattern(1, None))) == ()


def test_hints_makes_one_rule_of_remedies_that_read_alike() -> None:
    """Two rules would be refused by the guard against duplicates, and nothing be proposed at all."""
    change = proposed(context(pattern(1, "Be brief."), pattern(2, "be  brief")))
    assert [(each.text, each.pattern_ids) for each in change.operations] == [("Be brief.", ("pat-1", "pat-2"))]


def test_in_a_full_list_a_remedy_takes_the_place_of_what_did_not_help() -> None:
    """Rule "of 1" was made for pattern 1 and has not stopped it; that of pattern 7 may well work."""
    full = ["made for 7", "made for 1"]
    change = proposed(context(pattern(1, "Be brief."), rules=full, max_rules=2))
    assert [(each.op, each.rule_id, each.text) for each in change.operations] == [
        ("update", "rule-made for 1", "Be brief.")
    ]
    change = proposed(context(pattern(1, "Be brief."), pattern(2, "No lists."), rules=full, max_rules=3))
    assert [(each.op, each.text) for each in change.operations] == [("update", "Be brief."), ("add", "No lists.")]


def test_a_full_list_without_a_rule_for_the_pattern_is_said() -> None:
    (answer,) = HintsReflector().propose(context(pattern(1, "Be brief."), rules=["for 7", "for 8"], max_rules=2))
    assert isinstance(answer, NoChange) and answer.reply is None
    assert answer.reason.startswith("3 rules are more than improve.max_rules allows") and "(2)" in answer.reason


def test_reflectors_by_name(tmp_path: Path) -> None:
    (tmp_path / "my_reflectors.py").write_text(
        "class Mine:\n    def propose(self, context):\n        return ['class']\n"
        "def factory():\n    return Mine()\n"
        "def function(context):\n    return ['function']\n"
        "ready = Mine()\nnumber = 3\ndef wrong():\n    return 3\n"
    )
    for name, answer in (("Mine", "class"), ("factory", "class"), ("function", "function"), ("ready", "class")):
        assert build_reflector(f"my_reflectors:{name}", tmp_path).propose(context()) == [answer]
    for name in ("number", "wrong"):
        with pytest.raises(UsageError, match=f"my_reflectors:{name}"):
            build_reflector(f"my_reflectors:{name}", tmp_path)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("hint", UsageError, "'hint' is not known; use one of hints, llm"),
        ("nowhere.at.all:thing", TaskError, "nowhere"),
    ],
)
def test_what_cannot_be_built_says_why(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_reflector(name)


def test_a_wrong_reflector_starts_no_proposal(harness: Harness, make_task: Callable[..., Task]) -> None:
    task = make_task(improve=ImproveSpec(reflector="hint"))
    with pytest.raises(UsageError, match="'hint' is not known"):
        propose(Harness.build(harness.store, task))
    assert harness.store.proposals() == []


def test_the_reflector_sees_examples_of_the_reflect_split_without_targets(
    store: LoopStore, harness: Harness, pending: Proposal
) -> None:
    seen = reflection_context(store, harness, pending)
    assert len(seen.examples) == 6
    assert {sample.split for sample, _ in seen.examples} == {"reflect"}
    assert all(sample.target is None and attempt.verdict == "fail" for sample, attempt in seen.examples)


def test_what_quotes_the_target_does_not_reach_the_reflector(
    store: LoopStore, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    """An evaluator's reason is for people; a reflector that copies it would write the answers into the prompt."""

    def wrong(sample: Sample, attempt: Attempt) -> dict[str, object]:
        said = f"expected {sample.target}, got something else"
        return {"passed": False, "reason": said, "feedback": said, "metadata": {"expected": sample.target}}

    task = make_task(evaluators=(EvaluatorSpec(id="wrong", type="python", function="operator:not_"),))
    task = task.model_copy(
        update={"samples": tuple(each.model_copy(update={"target": f"key of {each.id}"}) for each in task.samples)}
    )
    harness = Harness.build(store, task, evaluators=[wrong])
    run_suite(harness)
    (pattern,) = store.patterns()
    (proposal,) = propose(harness, pattern_ids=[pattern.id])
    seen = reflection_context(store, harness, proposal)
    assert len(seen.examples) == 6 and "key of" not in repr(seen)
    (result,) = seen.examples[0][1].results
    assert result.feedback == "expected [hidden], got something else"


def test_an_answer_without_operations_is_nothing_to_propose(store: LoopStore, harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "silent_reflector.py").write_text("def silent(context):\n    return []\n")
    task = harness.task.model_copy(update={"improve": ImproveSpec(reflector="silent_reflector:silent")})
    (proposal,) = propose(Harness.build(store, task))
    assert proposal.state == "archived"
    assert proposal.state_reason is not None and proposal.state_reason.startswith("nothing to propose")
    assert store.runs(kind="gate") == []
    assert propose(Harness.build(store, task)) == []  # asked once under this head


def test_a_broken_reflector_leaves_the_proposal_for_later(store: LoopStore, harness: Harness, tmp_path: Path) -> None:
    broken = tmp_path / "broken_reflector.py"
    broken.write_text("def broken(context):\n    raise RuntimeError('no idea')\n")
    task = harness.task.model_copy(update={"improve": ImproveSpec(reflector="broken_reflector:broken")})
    with pytest.raises(UsageError, match="broken_reflector:broken' broke: RuntimeError: no idea"):
        propose(Harness.build(store, task))
    (proposal,) = store.proposals()
    assert proposal.state == "drafting"
    (noted,) = recover(store, harness=Harness.build(store, task))  # the next run goes on all the same
    assert noted.state == "drafting" and "no idea" in (noted.state_reason or "")
    broken.write_text("from loopeng.improve import HintsReflector as broken\n")
    sys.modules.pop("broken_reflector")
    assert [each.state for each in recover(store, harness=Harness.build(store, task))] == ["pending"]


def test_another_reflector_in_the_task_frees_what_the_broken_one_held(
    store: LoopStore, harness: Harness, tmp_path: Path
) -> None:
    """The proposal would ask the reflector of the stored task for ever, and no other could be started meanwhile."""
    (tmp_path / "hopeless_reflector.py").write_text("def hopeless(context):\n    raise RuntimeError('no idea')\n")
    hopeless = ImproveSpec(reflector="hopeless_reflector:hopeless")
    with pytest.raises(UsageError, match="no idea"):
        propose(Harness.build(store, harness.task.model_copy(update={"improve": hopeless})))
    (given_up,) = recover(store, harness=harness)
    assert given_up.state == "archived"
    assert (given_up.state_reason or "").startswith("made for an earlier version of the task, and cannot go on: ")
    assert [each.state for each in propose(harness)] == ["pending"]


def test_nothing_to_propose_holds_until_the_task_changes(store: LoopStore, harness: Harness) -> None:
    """Too many rules for ``improve.max_rules`` is no answer for ever: the limit may be raised."""
    tight = Harness.build(store, harness.task.model_copy(update={"improve": ImproveSpec(max_rules=1)}))
    (refused,) = propose(tight)
    assert refused.state == "archived" and "improve.max_rules" in (refused.state_reason or "")
    assert propose(tight) == []
    assert [each.state for each in propose(harness)] == ["pending"]
