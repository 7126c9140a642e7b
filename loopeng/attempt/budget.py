"""The limits of a run. Attempts and tokens count over the whole run, so a resume goes on counting; time does not.

Tokens are those of the attempts and of the judges that were asked about them; judging a judge's anchors comes on top.
"""

from __future__ import annotations

import threading
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

    One process works on a run at a time, so the counts start from the rows once and go on in memory. Threads may share
    it: the limit of attempts holds exactly, that of tokens is passed by what was under way when it was reached.
    """

    limits: BudgetSpec
    num_attempts: int = 0
    num_tokens: int = 0
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    _num_begun: int = field(init=False, default=0)  # attempts that are neither counted nor dropped yet
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def begin(self) -> None:
        """An attempt begins; ``count`` or ``drop`` ends it. Raises BudgetStop where no further one may."""
        with self._lock:
            self.check()
            self._num_begun += 1

    def count(self, attempt: Attempt) -> None:
        """An attempt was saved."""
        asked = (JudgeUsage.of(result.metadata) for result in attempt.results)
        num_tokens = attempt.usage.total_tokens + sum(each.total_tokens for each in asked if each is not None)
        with self._lock:
            self._num_begun = max(0, self._num_begun - 1)
            self.num_attempts += 1
            self.num_tokens += num_tokens

    def drop(self) -> None:
        """An attempt that began is not kept."""
        with self._lock:
            self._num_begun = max(0, self._num_begun - 1)

    def left(self) -> AgentBudget:
        """What the limits leave, for the agent of an attempt that has begun. Never below 0."""
        others = max(0, self._num_begun - 1)
        limits, elapsed_s = self.limits, self.clock() - self.started
        return AgentBudget(
            attempts=_rest(limits.attempts, self.num_attempts + others),
            total_tokens=_rest(limits.total_tokens, self.num_tokens),
            total_time_s=_rest(limits.total_time_s, elapsed_s),
        )

    def check(self) -> None:
        """Raises BudgetStop where no further attempt may begin."""
        limits, elapsed_s = self.limits, self.clock() - self.started
        num_attempts = self.num_attempts + self._num_begun
        if limits.attempts is not None and num_attempts >= limits.attempts:
            raise BudgetStop(f"limits.attempts: {num_attempts} of {limits.attempts} attempts made")
        if limits.total_tokens is not None and self.num_tokens >= limits.total_tokens:
            raise BudgetStop(f"limits.total_tokens: {self.num_tokens} of {limits.total_tokens} tokens used")
        if limits.total_time_s is not None and elapsed_s >= limits.total_time_s:
            raise BudgetStop(f"limits.total_time_s: {elapsed_s:.1f} of {limits.total_time_s:g} seconds used")


def _rest(limit: N | None, spent: N) -> N | None:
    return None if limit is None else max(limit - spent, type(spent)(0))
