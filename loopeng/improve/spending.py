"""The improvement budget, ``improve.limits``: attempts and tokens count over all comparisons of a proposal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TypeVar

from loopeng.errors import BudgetStop
from loopeng.schema import Proposal, Run
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = ["Spending"]

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Spending:
    """What one comparison may still use. Time, unlike the rest, starts afresh with each."""

    store: LoopStore
    proposal: Proposal
    limits: BudgetSpec
    started: float = field(default_factory=time.monotonic)

    def left_for(self, run: Run) -> BudgetSpec:
        """The limits of ``run``, which counts its own attempts itself. Raises BudgetStop where nothing is left."""
        num_attempts, num_tokens = self._spent_elsewhere(run)
        return BudgetSpec(
            attempts=_left("attempts", self.limits.attempts, num_attempts),
            total_tokens=_left("total_tokens", self.limits.total_tokens, num_tokens),
            total_time_s=_left("total_time_s", self.limits.total_time_s, time.monotonic() - self.started),
        )

    def _spent_elsewhere(self, run: Run) -> tuple[int, int]:
        num_attempts = num_tokens = 0
        for other in self.store.runs(proposal_id=self.proposal.id, limit=None):
            if other.id != run.id:
                attempts, usage = self.store.run_usage(other.id)
                num_attempts, num_tokens = num_attempts + attempts, num_tokens + usage.total_tokens
        return num_attempts, num_tokens


def _left(name: str, limit: N | None, spent: N) -> N | None:
    if limit is None:
        return None
    if spent >= limit:
        raise BudgetStop(f"improve.limits.{name}: {spent:g} of {limit:g} used")
    return limit - spent
