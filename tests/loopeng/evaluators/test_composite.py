from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import UsageError
from loopeng.evaluators import judge_attempt
from loopeng.schema import EvalResult
from loopeng.schema.task import PassSpec
from loopeng.task_file import task_from_dict

QUICK = settings(max_examples=50, deadline=None)

SCORES = st.floats(0, 1)
RESULTS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=5)
MODES = st.sampled_from(["all", "any", "weighted"])


def results_of(pairs: list[tuple[float, bool]]) -> list[EvalResult]:
    return [EvalResult(evaluator=str(n), score=score, passed=passed) for n, (score, passed) in enumerate(pairs)]


@QUICK
@given(RESULTS, MODES, st.lists(st.just(0.0) | st.floats(0.01, 10), min_size=5, max_size=5))
def test_scores_stay_within_those_of_the_results(
    pairs: list[tuple[float, bool]], mode: str, weights: list[float]
) -> None:
    condition = PassSpec.model_validate({"mode": mode})
    verdict, score = judge_attempt(results_of(pairs), condition, {str(n): each for n, each in enumerate(weights)})
    assert verdict in ("pass", "fail")
    assert score is not None
    assert min(each for each, _ in pairs) - 1e-9 <= score <= max(each for each, _ in pairs) + 1e-9


@QUICK
@given(RESULTS, MODES, st.integers(0, 5))
def test_one_error_makes_the_attempt_an_error(pairs: list[tuple[float, bool]], mode: str, place: int) -> None:
    results = results_of(pairs)
    results.insert(place, EvalResult(evaluator="broken", error="it broke"))
    assert judge_attempt(results, PassSpec.model_validate({"mode": mode})) == ("error", None)


def test_modes() -> None:
    mixed = results_of([(1.0, True), (0.4, False)])
    assert judge_attempt(mixed, PassSpec(mode="all")) == ("fail", 0.7)
    assert judge_attempt(mixed, PassSpec(mode="any")) == ("pass", 0.7)
    assert judge_attempt(mixed, PassSpec(mode="weighted", threshold=0.7)) == ("pass", 0.7)
    assert judge_attempt(mixed, PassSpec(mode="weighted", threshold=0.71)) == ("fail", 0.7)
    assert judge_attempt(mixed, PassSpec(mode="weighted"), {"0": 1, "1": 0}) == ("pass", 1.0)
    assert judge_attempt(mixed, PassSpec(mode="all"), {"0": 0, "1": 0}) == ("fail", 0.7)


def test_rounding_does_not_decide() -> None:
    third = results_of([(0.1, True)] * 3)
    assert judge_attempt(third, PassSpec(mode="weighted", threshold=0.1))[0] == "pass"


def test_an_unscored_result_is_no_zero_and_no_pass() -> None:
    assert judge_attempt([EvalResult(evaluator="x")], PassSpec()) == ("error", None)
    with pytest.raises(UsageError, match="without an evaluator"):
        judge_attempt([], PassSpec())


def test_a_task_brings_its_weights() -> None:
    task = task_from_dict(
        {
            "version": 1,
            "name": "t",
            "prompt": {"name": "p", "template": "{{ w }}{{ rules }}"},
            "dataset": {"samples": [{"w": "a"}]},
            "pass": {"mode": "weighted", "threshold": 0.7},
            "evaluators": [
                {"id": "0", "type": "length", "max_words": 1, "weight": 3},
                {"id": "1", "type": "length", "max_words": 2},
            ],
        }
    )
    assert judge_attempt(results_of([(1.0, True), (0.0, False)]), task) == ("pass", 0.75)
