"""The limits of a run. Attempts and tokens count over the whole run, so a resume goes on counting; time does not.

Tokens are those of the attempts and of the judges that were asked about them; judging a judge's anchors comes on top.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from loopeng.errors import BudgetStop
from loopeng.ports import AgentBudget
from loopeng.schema import Attempt, JudgeUsage
from loopeng.schema.task import BudgetSpec

__all__ = ["Budget"]

N = TypeVar("N", int, float)


@dataclass
class Budget:
    """Spent so far, against the limits. ``total_time_s`` is the wall time of this invocation: a resume starts afresh.

    One process works on a run at a time, so the counts start from the rows once and go on in memory.
    """

    limits: BudgetSpec
    num_attempts: int = 0
    num_tokens: int = 0
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, attempt: Attempt) -> None:
        """An attempt was saved."""
        self.num_attempts += 1
        asked = (JudgeUsage.of(result.metadata) for result in attempt.results)
        self.num_tokens += attempt.usage.total_tokens + sum(each.total_tokens for each in asked if each is not None)

    def left(self) -> AgentBudget:
        """What the limits leave, for agents. Never below 0."""
        limits, elapsed_s = self.limits, self.clock() - self.started
        return AgentBudget(
            attempts=_rest(limits.attempts, self.num_attempts),
            total_tokens=_rest(limits.total_tokens, self.num_tokens),
            total_time_s=_rest(limits.total_time_s, elapsed_s),
        )

    def check(self) -> None:
        """Raises BudgetStop where no further attempt may begin."""
        limits, elapsed_s = self.limits, self.clock() - self.started
        if limits.attempts is not None and self.num_attempts >= limits.attempts:
            raise BudgetStop(f"limits.attempts: {self.num_attempts} of {limits.attempts} attempts made")
        if limits.total_tokens is not None and self.num_tokens >= limits.total_tokens:
            raise BudgetStop(f"limits.total_tokens: {self.num_tokens} of {limits.total_tokens} tokens used")
        if limits.total_time_s is not None and elapsed_s >= limits.total_time_s:
            raise BudgetStop(f"limits.total_time_s: {elapsed_s:.1f} of {limits.total_time_s:g} seconds used")


def _rest(limit: N | None, spent: N) -> N | None:
    return None if limit is None else max(limit - spent, type(spent)(0))
