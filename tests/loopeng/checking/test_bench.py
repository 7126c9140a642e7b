"""Evaluators that cannot be tried like the rest, and what a run costs by their prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from loopeng.checking import Bench, LastRun, estimate_cost, run_self_tests, try_baselines
from loopeng.evaluators import build_evaluators
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, Sample, Task
from loopeng.schema.task import LoopSpec
from loopeng.task_file import task_from_dict

NUM_SAMPLES = 30


@dataclass
class Says:
    """An evaluator of a user's own, which counts what it was asked."""

    id: str
    passed: bool = True
    uses_engine: bool = False
    needs_a_run: bool = False
    is_slow: bool = False
    parts: tuple[Any, ...] = ()
    params: Any = None
    seen: list[Attempt] = field(default_factory=list)
    categories: frozenset[str] = frozenset({"says.no"})

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        self.seen.append(attempt)
        return EvalResult(
            evaluator=self.id,
            score=float(self.passed),
            passed=self.passed,
            category=None if self.passed else "says.no",
        )


def task(**changes: Any) -> Task:
    keys: dict[str, Any] = {
        "version": 1,
        "name": "shop",
        "prompt": {"name": "describe", "template": "Describe {{ thing }}{{ rules }}"},
        "dataset": {"samples": [{"thing": f"{place:04}"} for place in range(NUM_SAMPLES)]},
        "engine": {"max_tokens": 100},
        "evaluators": [{"id": "short", "type": "length", "max_words": 5}],
    }

    return task_from_dict(keys | changes)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [("uses_engine", True, "it asks a model"), ("needs_a_run", True, "it looks at more than the answer's text")],
)
def test_who_needs_a_model_or_a_run_is_left_out_with_the_reason(attribute: str, value: bool, reason: str) -> None:
    odd, plain = Says("odd", **{attribute: value}), Says("plain")
    bench = Bench(task(), (odd, plain))
    assert bench.left_out == {"odd": reason}
    tried = try_baselines(bench)
    assert odd.seen == [] and len(plain.seen) == 3 * 20
    assert [each.by_evaluator for each in tried.baselines] == [{"plain": 20}] * 3


def test_a_part_that_asks_a_model_makes_the_whole_ask_one() -> None:
    whole = Says("whole", parts=(Says("a"), Says("b", parts=(Says("c", uses_engine=True),))))
    assert Bench(task(), (whole, Says("plain"))).left_out == {"whole": "it asks a model"}
    assert len(Bench(task(), (Says("whole", parts=(Says("a", is_slow=True),)),)).samples) == 3


def test_where_nobody_can_be_tried_nothing_is_claimed() -> None:
    tried = try_baselines(Bench(task(), (Says("judge", uses_engine=True),)))
    assert tried.baselines == () and tried.targets == () and tried.errors == {}


def test_slow_evaluators_see_few_samples() -> None:
    slow = Says("slow", is_slow=True)
    assert try_baselines(Bench(task(), (slow, Says("plain")))).num_samples == 3
    assert len(slow.seen) == 9


def test_made_up_answers_carry_the_prompt_and_estimated_tokens() -> None:
    evaluator = Says("plain")
    Bench(task(), (evaluator,)).judge(task().samples[0], "A fine thing.")
    (attempt,) = evaluator.seen
    assert attempt.messages[0].content == "Describe 0000"
    assert (attempt.usage.prompt_tokens, attempt.usage.generated_tokens) == (4, 4)


def test_self_tests_may_bring_what_the_agent_did() -> None:
    """Of evaluators that look at more than the text too: the test's author says what they see."""
    tests = [{"answer": "", "expect": "pass", "trajectory": [{"tool": "search"}]}]
    keys = task(evaluators=[{"id": "odd", "type": "length", "max_words": 5, "self_tests": tests}])
    odd = Says("odd", needs_a_run=True)
    (result,) = run_self_tests(Bench(keys, (odd,)))
    assert result.passed and odd.seen[0].trajectory == [{"tool": "search"}]


def test_the_bounds_of_a_run() -> None:
    """A prompt of 13 characters is 4 tokens."""
    cost = estimate_cost(task(loop={"max_attempts": 3}, run={"repeats": 2}), None)
    assert (cost.least.attempts, cost.most.attempts) == (60, 180)
    assert (cost.least.tokens, cost.most.tokens) == (60 * 4, 180 * 104)
    again = estimate_cost(task(loop={"max_attempts": 3, "retry": "feedback"}, run={"repeats": 2}), None)
    assert again.most.tokens == 180 * 104 + 60 * 3 * 100, "one answer in the second prompt, two in the third"


def test_prices_are_those_an_evaluator_names() -> None:
    params = SimpleNamespace(prompt_per_million=1.0, generated_per_million=4.0)
    evaluators = [Says("plain"), Says("cost", params=params)]
    last = LastRun("run-1", None, 2.0, 50.0, 10.0, 1.5, None, 1)
    cost = estimate_cost(task(loop={"max_attempts": 1}), last, evaluators)
    assert cost.least.price == pytest.approx(30 * 4 / 1e6)
    assert cost.most.price == pytest.approx((30 * 4 + 30 * 100 * 4) / 1e6)
    assert cost.expected is not None and cost.expected.price == pytest.approx((30 * 50 + 30 * 10 * 4) / 1e6)
    assert (cost.expected.attempts, cost.expected.seconds) == (60, 45)
    assert estimate_cost(task(), last).least.price is None


def test_the_time_of_the_last_run_is_held_against_the_limit() -> None:
    last = LastRun("run-1", None, 1.0, 5.0, 10.0, 2.0, None, 1)
    (reached,) = estimate_cost(task(limits={"total_time_s": 59}), last).limits
    assert (reached.key, reached.needed, reached.by) == ("limits.total_time_s", 60, "expected")
    assert estimate_cost(task(limits={"total_time_s": 60}), last).limits == ()


TRIED = [{"answer": "one", "expect": "pass"}, {"answer": "one two three", "expect": "length.too_long"}]
TOLD = {"id": "brief", "type": "length", "max_words": 2, "self_tests": TRIED}
JUDGE = {"id": "tone", "type": "llm_judge", "criteria": "It is kind", "self_tests": [{"answer": "x", "expect": "pass"}]}


def with_parts(*parts: dict[str, Any]) -> Task:
    inner = {"id": "inner", "type": "composite", "evaluators": list(parts)}
    return task(evaluators=[{"id": "whole", "type": "composite", "evaluators": [inner]}])


def test_self_tests_of_parts_are_run_also_beside_a_judge() -> None:
    """They were accepted and never tried. What asks a model is not asked here."""
    keys = with_parts(TOLD | {"self_tests": [*TRIED, {"answer": "one two three", "expect": "pass"}]}, JUDGE)
    results = run_self_tests(Bench(keys, build_evaluators(keys)))
    assert [(each.evaluator, each.number, each.found, each.passed) for each in results] == [
        ("whole/inner/brief", 1, "pass", True),
        ("whole/inner/brief", 2, "length.too_long", True),
        ("whole/inner/brief", 3, "length.too_long", False),
    ]


def test_self_tests_of_parts_are_no_part_of_the_task_either() -> None:
    """A run that was stopped goes on though its author wrote more tests."""
    without = {key: value for key, value in TOLD.items() if key != "self_tests"}
    assert with_parts(TOLD).version_hash == with_parts(without).version_hash
    assert with_parts(TOLD).version_hash != with_parts(TOLD | {"max_words": 3}).version_hash


def test_a_function_that_sees_the_attempt_is_tried() -> None:
    """It may look at more than the text, and mostly does not."""

    def says_cat(sample: Sample, attempt: Attempt) -> bool:
        return "cat" in attempt.text

    bench = Bench(task(), build_evaluators([says_cat]))
    assert bench.left_out == {} and len(bench.tried) == 1


def test_what_judges_and_prices_inside_a_composite_mean_for_the_cost() -> None:
    """30 samples, two attempts; and two anchors, which every run asks about."""
    judge = {**JUDGE, "anchors": [{"answer": "Hello!", "expect": "pass"}, {"answer": "Go.", "expect": "fail"}]}
    price = {"id": "price", "type": "cost", "max": 1, "prompt_per_million": 1, "generated_per_million": 4}
    keys = with_parts(judge, price).model_copy(update={"loop": LoopSpec(max_attempts=2)})
    cost = estimate_cost(keys, None, build_evaluators(keys))
    assert (cost.judge_calls, cost.anchor_calls) == (60, 2)
    assert cost.least.price == pytest.approx(30 * 4 / 1e6)
