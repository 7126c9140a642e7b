"""The queue's door for programs: what ``Loop`` lets them look at and decide. All of it goes through ``approvals``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.schema import DECIDABLE_STATES, PromptVersion, Task
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from loopeng.approvals import Card, Outcome
    from loopeng.improve import Step

__all__ = ["QueueDoor"]


class QueueDoor(ABC):
    """Base of ``Loop``: the part of it that people's decisions go through."""

    @property
    @abstractmethod
    def store(self) -> LoopStore:
        """The open database."""

    @abstractmethod
    def _harness(self, task: Task, *, on_event: Callable[[ProgressEvent], None] | None = None) -> Harness:
        """What runs a task here."""

    def queue(self) -> list[Card]:
        """The proposals that wait for a decision, with everything to see: ``diff``, ``gate.summary`` ..."""
        from loopeng.approvals import card

        return [card(self.store, proposal.id) for proposal in self.store.proposals(states=DECIDABLE_STATES)]

    def approve(
        self, proposal_id: str, *, by: str, seen: str, accept_untested: bool = False, reason: str = ""
    ) -> Outcome:
        """Approve the text whose hash is ``seen``. Without evidence this needs ``accept_untested=True``."""
        from loopeng.approvals import approve

        return approve(self.store, proposal_id, by=by, seen=seen, accept_untested=accept_untested, reason=reason)

    def edit(
        self, proposal_id: str, *, by: str, seen: str, rules: Sequence[str], reason: str = "", now: bool = False
    ) -> Outcome:
        """Replace the proposed rules by these: a new revision that ``work`` tests, or this call with ``now``."""
        from loopeng.approvals import edit

        harness = self._harness_of(proposal_id) if now else None
        return edit(self.store, proposal_id, by=by, seen=seen, rules=rules, reason=reason, now=now, harness=harness)

    def reject(self, proposal_id: str, *, by: str, seen: str, reason: str) -> Outcome:
        """Refuse; the reason reaches the next reflection."""
        from loopeng.approvals import reject

        return reject(self.store, proposal_id, by=by, seen=seen, reason=reason)

    def snooze(
        self,
        proposal_id: str,
        *,
        by: str,
        until: datetime | None = None,
        for_: str | timedelta | None = None,
        seen: str | None = None,
        reason: str = "",
    ) -> Outcome:
        """Put a proposal aside until a time, or for a duration such as ``2d``; ``0s`` wakes it."""
        from loopeng.approvals import snooze

        return snooze(self.store, proposal_id, by=by, until=until, for_=for_, seen=seen, reason=reason)

    def rebase(self, proposal_id: str, *, by: str, reason: str = "", now: bool = False) -> Outcome:
        """Make a stale proposal one for today's head: a new revision that ``work`` tests, or this call with ``now``."""
        from loopeng.approvals import rebase

        harness = self._harness_of(proposal_id) if now else None
        return rebase(self.store, proposal_id, by=by, reason=reason, now=now, harness=harness)

    def rollback(self, prompt_name: str, *, by: str, reason: str, to: str | int | None = None) -> PromptVersion:
        """Move the head back to an earlier version (its id or number); without one to the head's parent."""
        from loopeng.approvals import rollback

        return rollback(self.store, prompt_name, to=to, by=by, reason=reason)

    def work(self, *, on_event: Callable[[ProgressEvent], None] | None = None) -> list[Step]:
        """Do what is left of all proposals: test edited and rebased ones, commit what is approved, call the webhook.

        One that breaks does not stop the others; each step says what became of it.
        """
        from loopeng.attempt.harness import ignore_event
        from loopeng.improve import work

        tell = on_event or ignore_event
        return work(self.store, harness_for=lambda task: self._harness(task, on_event=tell), on_event=tell)

    def _harness_of(self, proposal_id: str) -> Harness:
        return self._harness(self.store.task(self.store.proposal(proposal_id).task_hash))
