from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.patterns.miner import faults_in
from loopeng.schema import EvalResult, Usage
from tests.loopeng.evaluators.conftest import make_attempt, make_sample


def judged(keys: dict[str, Any], *, prompt: int = 0, generated: int = 0, latency_s: float = 0.0) -> EvalResult:
    spent = {"usage": Usage(prompt_tokens=prompt, generated_tokens=generated), "latency_s": latency_s}
    attempt = make_attempt("text").model_copy(update=spent)
    return run_evaluators(build_evaluators([{"id": "it", **keys}]), make_sample(), attempt)[0]


def test_latency_is_never_the_models_fault() -> None:
    keys = {"type": "latency", "max_s": 2}
    assert judged(keys, latency_s=2.0).passed
    result = judged(keys, latency_s=8.0)
    assert (result.passed, result.score, result.category) == (False, 0.25, "latency.too_slow")
    assert (result.fault_side, result.remedy, result.reason) == ("environment", None, "8 s, at most 2 s wanted")
    assert [fault.side for fault in faults_in([result])] == ["environment"]
    negated = judged({**keys, "negate": True}, latency_s=1.0)
    assert (negated.category, negated.fault_side) == ("latency.within_limit", "environment")


@pytest.mark.parametrize(
    ("keys", "category", "fault_side", "score"),
    [
        ({"max_generated": 40}, None, None, 1.0),
        ({"max_generated": 20}, "tokens.generated_too_many", "model", 0.5),
        ({"min_generated": 80}, "tokens.generated_too_few", "model", 0.5),
        ({"max_prompt": 50}, "tokens.prompt_too_many", "harness", 0.5),
        ({"min_prompt": 200}, "tokens.prompt_too_few", "harness", 0.5),
        ({"max_total": 112}, "tokens.total_too_many", "model", 0.8),
        ({"max_total": 70}, "tokens.total_too_many", "harness", 0.5),
        ({"min_total": 280}, "tokens.total_too_few", "model", 0.5),
        ({"max_generated": 30, "max_total": 70}, "tokens.generated_too_many", "model", 0.5),
    ],
    ids=str,
)
def test_tokens(keys: dict[str, Any], category: str | None, fault_side: str | None, score: float) -> None:
    result = judged({"type": "tokens", **keys}, prompt=100, generated=40)
    assert (result.error, result.category, result.score) == (None, category, pytest.approx(score))
    if category is not None:
        assert result.fault_side == fault_side
        assert result.feedback
        assert (result.remedy is None) == ("prompt" in category)


def test_cost_is_counted_in_the_prices_of_a_million() -> None:
    keys = {"type": "cost", "prompt_per_million": 2.0, "generated_per_million": 10.0, "max": 0.001}
    result = judged(keys, prompt=100, generated=50)
    assert (result.passed, result.metadata) == (True, {"cost": pytest.approx(0.0007)})
    result = judged(keys, prompt=100, generated=180)
    assert (result.category, result.fault_side, result.score) == ("cost.too_high", "model", 0.5)
    assert result.remedy == "Keep the answer as short as you can."
    assert judged(keys, prompt=1000, generated=1).fault_side == "harness"


@pytest.mark.parametrize("keys", [{"type": "tokens", "max_total": 9}, {"type": "cost", "generated_per_million": 1}])
def test_without_counts_nothing_can_be_said(keys: dict[str, Any]) -> None:
    result = judged({"max": 1, **keys} if keys["type"] == "cost" else keys)
    assert result.passed is None
    assert "no token counts" in (result.error or "")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"type": "latency"}, "max_s is missing"),
        ({"type": "latency", "max_s": 0}, "max_s must be more than 0"),
        ({"type": "tokens"}, "at least one of"),
        ({"type": "tokens", "min_total": 3, "max_total": 2}, "min_total is 3, more than max_total, which is 2"),
        ({"type": "cost", "max": 1}, "'prompt_per_million', 'generated_per_million' or both"),
    ],
    ids=str,
)
def test_mistakes_in_the_parameters(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        build_evaluators([{"id": "it", **keys}])


COUNTS = st.integers(1, 300)


@settings(max_examples=100, deadline=None)
@given(prompt=COUNTS, generated=COUNTS, more=COUNTS, limit=COUNTS, name=st.sampled_from(["tokens", "cost", "latency"]))
def test_spending_more_never_scores_more(prompt: int, generated: int, more: int, limit: int, name: str) -> None:
    keys: dict[str, Any] = {
        "tokens": {"max_generated": limit, "max_total": 2 * limit},
        "cost": {"prompt_per_million": 1e6, "generated_per_million": 3e6, "max": float(limit)},
        "latency": {"max_s": float(limit)},
    }[name]
    less, greater = (
        judged({"type": name, **keys}, prompt=prompt, generated=each, latency_s=float(each))
        for each in (generated, generated + more)
    )
    assert less.score is not None
    assert greater.score is not None
    assert greater.score <= less.score
    for result in (less, greater):
        assert (result.score == 1) == result.passed
        assert 0 < (result.score or 0) <= 1
