"""Limits are checked before an attempt begins."""

from __future__ import annotations

import pytest

from loopeng.attempt.budget import Budget
from loopeng.errors import BudgetStop
from loopeng.schema import Usage
from loopeng.schema.task import BudgetSpec
from tests.loopeng.attempt.making import make_attempt


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
