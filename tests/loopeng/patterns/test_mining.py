"""From first attempts of the reflect split to patterns, and from patterns to triggers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from loopeng.errors import EngineError, UsageError
from loopeng.improve import propose
from loopeng.improve.unproposed import find_unproposed
from loopeng.patterns import fingerprint as fingerprints
from loopeng.patterns.miner import mine
from loopeng.patterns.similarity import suggest_merges
from loopeng.patterns.trigger import Trigger, find_triggers
from loopeng.ports import AgentContext
from loopeng.runner import run_suite
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Run, Sample, Task
from loopeng.schema.task import ImproveSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import LONG, SHORT, Judge, Script, make_attempt, make_harness, make_samples, make_task


def begin(store: LoopStore, task: Task) -> Run:
    version, _, _ = store.adopt_template(task.prompt.name, task.template, by="test")
    return store.create_run(kind="suite", task=task, version=version, seed=0)


def failing(run: Run, sample_id: str, *kinds: str, index: int = 0, repeat: int = 0, **changes: object) -> Attempt:
    results = tuple(
        EvalResult(
            evaluator=kind,
            passed=False,
            score=0,
            reason=f"{kind} has {len(sample_id)} 'x'",
            category=f"{kind}.no",
            remedy="R",
            **changes,
        )  # type: ignore[arg-type]
        for kind in kinds
    )
    return make_attempt(index, run_id=run.id, sample_id=sample_id, repeat=repeat, results=results)


def test_only_first_attempts_of_the_reflect_split_are_mined(store: LoopStore) -> None:
    task = make_task(make_samples(6))  # s0 and s3 reflect
    run = begin(store, task)
    store.save_attempt(failing(run, "s0", "long"))
    store.save_attempt(failing(run, "s0", "late", index=1))
    store.save_attempt(failing(run, "s1", "gate"))
    store.save_attempt(failing(run, "s2", "holdout"))
    assert len(mine(store, run.id, task)) == 1
    (pattern,) = store.patterns()
    assert (pattern.evaluator, pattern.category, pattern.reason, pattern.remedy) == (
        "long",
        "long.no",
        "long has <n> <str>",
        "R",
    )
    assert store.occurrences(pattern.id) == [(run.id, "s0")]


def test_a_pattern_of_an_earlier_version_stays_as_it_was(store: LoopStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A better normaliser would silently put together what a person has looked at apart."""
    task = make_task(make_samples(3, "reflect"))
    for version in ("v1", "v2"):
        monkeypatch.setattr(fingerprints, "FINGERPRINT_VERSION", version)
        run = begin(store, task)
        store.save_attempt(failing(run, "s0", "long"))
        mine(store, run.id, task)
    patterns = sorted(store.patterns(), key=lambda pattern: pattern.fingerprint)
    assert [(each.fingerprint[:3], each.num_occurrences) for each in patterns] == [("v1:", 1), ("v2:", 1)]
    (suggestion,) = suggest_merges(patterns)
    assert (suggestion.source, suggestion.into) == (patterns[1].id, patterns[0].id)


def test_mining_twice_and_repeats_count_once(store: LoopStore) -> None:
    task = make_task(make_samples(3, "reflect"))
    run = begin(store, task)
    for repeat in range(3):
        store.save_attempt(failing(run, "s0", "long", repeat=repeat))
    store.save_attempt(failing(run, "s1", "long", "ugly"))
    ids = mine(store, run.id, task)
    assert mine(store, run.id, task) == ids
    assert [(p.evaluator, p.num_occurrences) for p in store.patterns()] == [("long", 2), ("ugly", 1)]
    assert ids[0] == store.patterns()[0].id


class CallsEngineBadly:
    """An agent that hears the engine's error and breaks with one of its own."""

    def __call__(self, context: AgentContext) -> str:
        try:
            context.engine.generate("hello")
        except EngineError:
            raise KeyError("answer") from None
        raise ValueError("agent lost in line 12")


@pytest.mark.parametrize(
    ("answer", "agent", "template", "known_as"),
    [
        ("boom", None, None, ("judge", "grader.error", "grader", "runtimeerror: judge broke")),
        (EngineError("out of steam"), None, None, ("engine", "engine.error", "environment", "out of steam")),
        (ZeroDivisionError("x"), None, None, ("engine", "engine.error", "environment", "zerodivisionerror: x")),
        ("ok", CallsEngineBadly(), None, ("agent", "agent.error", "harness", "valueerror: agent lost in line <n>")),
        (EngineError("x"), CallsEngineBadly(), None, ("engine", "engine.error", "environment", "keyerror: <str>")),
        ("ok", None, "{{ colour }}{{ rules }}", ("prompt", "prompt.error", "harness", None)),
    ],
)
def test_what_broke_is_a_failure_with_the_side_that_broke(
    store: LoopStore, answer: Any, agent: Any, template: str | None, known_as: tuple[str, ...]
) -> None:
    """Visible, as it may come back every night; but no rule of the prompt mends an engine."""
    task = make_task(make_samples(6, "reflect"), max_attempts=1)
    task = task.model_copy(update={"template": template or task.template})
    run_suite(make_harness(store, Script(answer), task, agent=agent, evaluators=[Judge()]))
    (pattern,) = store.patterns()
    assert (pattern.evaluator, pattern.category, pattern.fault_side) == known_as[:3]
    assert known_as[3] in (None, pattern.reason)
    assert (pattern.num_occurrences, pattern.num_samples) == (6, 6)
    assert find_triggers(store, task) == []
    (told,) = find_unproposed(store, task)
    assert told.reason == f"it is the fault of the {known_as[2]}, which no rule can prevent"
    with pytest.raises(UsageError, match=f"{pattern.id}: it is the fault of the {known_as[2]}"):
        propose(make_harness(store, Script("ok"), task), pattern_ids=[pattern.id])


def test_an_evaluator_says_whose_fault_it_is_and_the_sides_are_counted_apart(store: LoopStore) -> None:
    """The same words once for the model and once for a network that was down: only the first may lead to a rule."""
    task = make_task(make_samples(6, "reflect"), evaluators=EVALUATORS)
    run = begin(store, task)
    for sample in task.samples:
        side = "environment" if sample.id > "s2" else "model"
        store.save_attempt(failing(run, sample.id, "a", fault_side=side))
    mine(store, run.id, task)
    assert sorted((each.fault_side, each.num_samples) for each in store.patterns()) == [
        ("environment", 3),
        ("model", 3),
    ]


@pytest.mark.parametrize(
    ("side", "known_as"), [("model", "grader"), ("grader", "grader"), ("environment", "environment")]
)
def test_an_evaluator_in_error_says_whose_fault_that_is(store: LoopStore, side: Any, known_as: str) -> None:
    """A sandbox that died is no mistake of the evaluator; and an error is never the model's, whatever is said."""
    run = begin(store, TASK)
    broken = EvalResult(evaluator="a", error="no route to host", fault_side=side)
    store.save_attempt(make_attempt(run_id=run.id, sample_id="s0", verdict="error", results=(broken,)))
    mine(store, run.id, TASK)
    (pattern,) = store.patterns()
    assert (pattern.evaluator, pattern.category, pattern.fault_side) == ("a", f"{known_as}.error", known_as)


def mine_counts(store: LoopStore, task: Task, runs: list[dict[str, tuple[str, ...]]]) -> None:
    for samples in runs:
        run = begin(store, task)
        for sample_id, kinds in samples.items():
            store.save_attempt(failing(run, sample_id, *kinds))
        mine(store, run.id, task)


def evaluators_of(store: LoopStore, triggers: list[Trigger]) -> list[tuple[str, ...]]:
    return [tuple(store.pattern(pattern_id).evaluator for pattern_id in trigger.pattern_ids) for trigger in triggers]


EVALUATORS = tuple(EvaluatorSpec(id=name, type="length", max_words=5) for name in ("a", "b", "c", "d", "short"))
TASK = make_task(make_samples(8, "reflect"), evaluators=EVALUATORS)


def test_five_occurrences_over_three_samples_are_needed(store: LoopStore) -> None:
    mine_counts(store, TASK, [{"s0": ("a",), "s1": ("a",), "s2": ("b",)}, {"s0": ("a",), "s1": ("a",)}])
    assert find_triggers(store, TASK) == []
    mine_counts(store, TASK, [{"s0": ("a",)}])  # five occurrences, two samples
    assert find_triggers(store, TASK) == []
    mine_counts(store, TASK, [{"s2": ("a",)}])
    (trigger,) = find_triggers(store, TASK)
    assert evaluators_of(store, [trigger]) == [("a",)]
    assert trigger.reason == "a: a.no 6 times on 3 samples"
    strict = TASK.model_copy(update={"improve": ImproveSpec(min_occurrences=7)})
    assert find_triggers(store, strict) == []


def test_patterns_that_fail_together_share_a_trigger_up_to_three(store: LoopStore) -> None:
    everywhere = {f"s{i}": ("a", "b", "c", "d") for i in range(6)}
    mine_counts(store, TASK, [everywhere])
    triggers = find_triggers(store, TASK)
    assert [len(trigger.pattern_ids) for trigger in triggers] == [3, 1]
    assert triggers[0].reason.endswith("(together on 6)")


def test_patterns_that_fail_apart_do_not(store: LoopStore) -> None:
    mine_counts(store, TASK, [{f"s{i}": ("a",) if i < 4 else ("b",) for i in range(8)}] * 2)
    assert sorted(evaluators_of(store, find_triggers(store, TASK))) == [("a",), ("b",)]


def test_half_of_the_failing_samples_is_enough(store: LoopStore) -> None:
    run = {"s0": ("a", "b"), "s1": ("a", "b"), "s2": ("a", "b"), "s3": ("a",), "s4": ("a",), "s5": ("a",)}
    mine_counts(store, TASK, [run, run])
    assert evaluators_of(store, find_triggers(store, TASK)) == [("a", "b")]
    mine_counts(store, TASK, [{"s6": ("a",)}])  # three of seven
    assert evaluators_of(store, find_triggers(store, TASK)) == [("a",), ("b",)]


def test_muted_and_proposed_patterns_do_not_trigger(store: LoopStore) -> None:
    mine_counts(store, TASK, [{f"s{i}": ("a", "b", "c") for i in range(5)}])
    a, b, _ = sorted(store.patterns(), key=lambda pattern: pattern.evaluator)
    store.set_pattern_state(a.id, "muted")
    proposal = store.create_proposal(task=TASK, base=store.head("describe"), pattern_ids=(b.id,), expires_at=None)
    assert evaluators_of(store, find_triggers(store, TASK)) == [("c",)]
    store.move_proposal(proposal.id, to="archived", frm={"drafting"})
    assert sorted(evaluators_of(store, find_triggers(store, TASK))[0]) == ["b", "c"]


def test_occurrences_under_an_earlier_head_do_not_count(store: LoopStore) -> None:
    mine_counts(store, TASK, [{f"s{i}": ("a",) for i in range(5)}])
    assert len(find_triggers(store, TASK)) == 1
    store.adopt_template("describe", "Other {{ product }}{{ rules }}", by="test")
    assert find_triggers(store, TASK) == []


def test_a_sample_that_moved_to_the_gate_counts_no_more(store: LoopStore) -> None:
    """Its failures were noted while it was a reflect sample. Now the gate tests on it: it must not shape a proposal."""
    mine_counts(store, TASK, [{f"s{i}": ("a",) for i in range(5)}])
    assert len(find_triggers(store, TASK)) == 1
    moved = TASK.model_copy(update={"samples": (*make_samples(3, "reflect"), *make_samples(8, "gate")[3:])})
    assert find_triggers(store, moved) == []


def test_an_evaluator_that_is_gone_triggers_nothing(store: LoopStore) -> None:
    mine_counts(store, TASK, [{f"s{i}": ("a", "b") for i in range(5)}])
    assert [sorted(each) for each in evaluators_of(store, find_triggers(store, TASK))] == [["a", "b"]]
    without = TASK.model_copy(update={"evaluators": EVALUATORS[1:]})
    assert evaluators_of(store, find_triggers(store, without)) == [("b",)]


def test_a_reason_that_quotes_the_target_is_one_pattern_that_does_not_know_it(store: LoopStore) -> None:
    """A pattern's reason reaches reflectors; and "wrong city" is one mistake, not one for every city."""
    cities = ("Paris", "Lyon", "Vienna")
    samples = tuple(
        Sample(id=f"s{i}", inputs={"product": "mug"}, target=[city], split="reflect") for i, city in enumerate(cities)
    )
    task = make_task(samples)
    run = begin(store, task)
    for sample, city in zip(samples, cities, strict=True):
        wrong = EvalResult(
            evaluator="city", passed=False, score=0, category="city.no", reason=f"expected {city}, got x"
        )
        store.save_attempt(make_attempt(run_id=run.id, sample_id=sample.id, results=(wrong,)))
    mine(store, run.id, task)
    (pattern,) = store.patterns()
    assert (pattern.num_samples, pattern.reason) == (3, "expected <input>, got x")


def test_a_pattern_has_the_remedy_that_its_evaluator_names_by_now(store: LoopStore) -> None:
    """The first failures came before the user wrote a remedy into the task: the rule must still be found."""
    for remedy in (None, "R1", "R2", None):
        run = begin(store, TASK)
        attempt = failing(run, "s0", "a")
        results = tuple(result.model_copy(update={"remedy": remedy}) for result in attempt.results)
        store.save_attempt(attempt.model_copy(update={"results": results}))
        mine(store, run.id, TASK)
    (pattern,) = store.patterns()
    assert (pattern.num_occurrences, pattern.remedy) == (4, "R2")


def test_the_patterns_of_a_run_are_its_own(store: LoopStore) -> None:
    mine_counts(store, TASK, [{"s0": ("a", "b")}, {"s0": ("a",)}])
    newest, oldest = store.runs()
    assert [pattern.evaluator for pattern in store.patterns_of_run(newest.id)] == ["a"]
    assert [(p.evaluator, p.num_occurrences) for p in store.patterns_of_run(oldest.id)] == [("a", 2), ("b", 1)]


def test_an_unknown_prompt_has_no_triggers(store: LoopStore) -> None:
    assert find_triggers(store, TASK) == []


def test_too_long_products_of_a_real_run_become_one_pattern(store: LoopStore) -> None:
    answers = Script(LONG, LONG + " i", LONG + " i j", LONG, LONG, SHORT)
    run_suite(make_harness(store, answers, make_task(make_samples(6, "reflect"), max_attempts=1)))
    (pattern,) = store.patterns()
    assert (pattern.num_occurrences, pattern.category) == (5, "length.too_long")
    assert not re.search(r"\d", pattern.reason)
    assert len(find_triggers(store, TASK)) == 1
