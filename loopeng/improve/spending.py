"""The improvement budget, ``improve.limits``: attempts and tokens count over all runs of a proposal, or of a search.

As in a run, the tokens of judges count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from loopeng.errors import BudgetStop
from loopeng.schema import Proposal, Run
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = ["Spending", "limit_note", "stopped_at_limit"]

_NOTE = "budget: "
N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Spending:
    """What one station may still use. Time, unlike the rest, starts afresh with each."""

    store: LoopStore
    runs: Callable[[], Iterable[Run]]  # all that count
    limits: BudgetSpec
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, store: LoopStore, proposal: Proposal, limits: BudgetSpec) -> Self:
        """What a proposal's runs used counts."""
        return cls(store, lambda: store.runs(proposal_id=proposal.id, limit=None), limits)

    def check(self) -> None:
        """Raises BudgetStop where nothing is left."""
        self._left_beside(None)

    def left_for(self, run: Run) -> BudgetSpec:
        """The limits of ``run``, which counts its own attempts itself. Raises BudgetStop where nothing is left."""
        return self._left_beside(run.id)

    def _left_beside(self, run_id: str | None) -> BudgetSpec:
        num_attempts = num_tokens = 0
        for other in self.runs():
            if other.id != run_id:
                attempts, usage = self.store.run_usage(other.id)
                num_attempts += attempts
                num_tokens += usage.total_tokens + self.store.judge_tokens(other.id)
        return BudgetSpec(
            attempts=_left("attempts", self.limits.attempts, num_attempts),
            total_tokens=_left("total_tokens", self.limits.total_tokens, num_tokens),
            total_time_s=_left("total_time_s", self.limits.total_time_s, time.monotonic() - self.started),
        )


def _left(name: str, limit: N | None, spent: N) -> N | None:
    if limit is None:
        return None
    if spent >= limit:
        raise BudgetStop(f"improve.limits.{name}: {spent:g} of {limit:g} used")
    return limit - spent


def limit_note(stop: BudgetStop) -> str:
    """What is noted of a proposal that a limit stopped: it keeps its state and goes on once there is more to spend."""
    return f"{_NOTE}{stop}"


def stopped_at_limit(proposal: Proposal) -> bool:
    """Whether the last thing that became of a proposal is such a note."""
    return (proposal.state_reason or "").startswith(_NOTE)
