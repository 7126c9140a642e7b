"""Limits are checked before an attempt begins."""

from __future__ import annotations

import pytest

from loopeng.attempt.budget import Budget
from loopeng.errors import BudgetStop
from loopeng.runner import run_suite
from loopeng.schema import Usage
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import Script, make_attempt, make_harness, make_task
from tests.loopeng.attempt.test_judging import AskingJudge


def test_each_limit_stops_once_it_is_reached() -> None:
    now = [100.0]
    budget = Budget(BudgetSpec(attempts=2, total_tokens=50, total_time_s=10), clock=lambda: now[0])
    budget.check()
    budget.count(make_attempt(usage=Usage(prompt_tokens=30, generated_tokens=19)))
    budget.check()
    now[0] = 110.0
    with pytest.raises(BudgetStop, match=r"limits.total_time_s: 10.0 of 10 seconds used"):
        budget.check()
    now[0] = 100.0
    budget.count(make_attempt(usage=Usage(generated_tokens=1)))
    with pytest.raises(BudgetStop, match=r"limits.attempts: 2 of 2 attempts made"):
        budget.check()
    with pytest.raises(BudgetStop, match=r"limits.total_tokens: 50 of 50 tokens used"):
        Budget(BudgetSpec(total_tokens=50), num_tokens=50).check()


def test_no_limit_never_stops() -> None:
    Budget(BudgetSpec(), num_attempts=10**9, num_tokens=10**12).check()


def test_what_a_judge_is_asked_counts_also_after_a_resume(store: LoopStore) -> None:
    """Two attempts of one word cost next to nothing; the judge's 35 tokens each do."""
    task = make_task(6, max_attempts=1, limits=BudgetSpec(total_tokens=100))
    harness = make_harness(store, Script("no"), task, evaluators=[AskingJudge()])
    summary = run_suite(harness)
    spent = summary.usage.total_tokens + store.judge_tokens(summary.run.id)
    assert summary.run.status == "budget" and summary.run.stop_reason == (
        f"limits.total_tokens: {spent} of 100 tokens used"
    )
    assert store.judge_tokens(summary.run.id) == 35 * summary.attempts < spent
    resumed = run_suite(harness, resume=True)
    assert resumed.attempts == summary.attempts, "nothing is left to spend"
