"""What the ATTEMPT graph carries: small values in its state, everything else in the runtime context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from typing_extensions import TypedDict  # pydantic, which reads these types, refuses Python 3.11's own

from loopeng.attempt.budget import Budget
from loopeng.attempt.harness import Harness
from loopeng.attempt.retry import RETRY_POLICIES, Move, RetryPolicy
from loopeng.ports import ReplyCache
from loopeng.schema import Attempt, PromptVersion, Run, Sample, SampleResult

__all__ = ["AttemptContext", "AttemptInput", "AttemptOutcome", "AttemptRecords", "AttemptState", "Desk"]


class AttemptInput(TypedDict, total=False):
    """What a caller gives: a sample of the context by id, or (``live_graph`` only) the inputs themselves."""

    sample_id: str
    repeat: int
    inputs: dict[str, Any]


class AttemptOutcome(TypedDict, total=False):
    """What comes out: how the sample ended, and the best attempt's text."""

    run_id: str
    sample_id: str
    repeat: int
    verdict: str
    score: float | None
    text: str
    num_attempts: int


class AttemptState(AttemptInput, AttemptOutcome, total=False):
    """Ids and small values. ``next_step`` is where ``load`` and ``decide`` send the sample."""

    attempt_index: int
    next_step: str


@dataclass
class Desk:
    """The work on one (sample, repeat) that is not in the rows yet, beside the attempts that are."""

    sample: Sample
    repeat: int
    attempts: dict[int, Attempt]  # by attempt index: what the rows say
    move: Move | None = None  # chosen by ``retry``
    draft: Attempt | None = None  # made by ``generate``, not judged yet

    @property
    def in_order(self) -> tuple[Attempt, ...]:
        """The attempts so far, the earliest first."""
        return tuple(self.attempts[index] for index in sorted(self.attempts))


class AttemptRecords(ReplyCache, Protocol):
    """Where the rows of attempts are: the store, or the memory of one call that is written when it is answered."""

    def attempts(self, run_id: str, sample_id: str, repeat: int, /) -> list[Attempt]: ...

    def save_attempt(self, attempt: Attempt, /) -> bool: ...

    def save_sample_result(self, result: SampleResult, /) -> bool: ...


@dataclass(frozen=True)
class AttemptContext:
    """The runtime context of the graph: one run under one prompt version. ``own_records`` stand for the store's."""

    harness: Harness
    run: Run
    version: PromptVersion
    samples: Mapping[str, Sample]
    budget: Budget
    max_attempts: int
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)
    own_records: AttemptRecords | None = None
    _desks: dict[tuple[str, int], Desk] = field(default_factory=dict)

    @property
    def records(self) -> AttemptRecords:
        """Where the rows are."""
        return self.own_records or self.harness.store

    @property
    def policy(self) -> RetryPolicy:
        """The task's retry policy."""
        return RETRY_POLICIES[self.harness.task.retry]

    def desk(self, state: AttemptState) -> Desk:
        """The desk of the sample that ``state`` names, laid out from the rows at the first call."""
        sample_id, repeat = state["sample_id"], state.get("repeat", 0)
        if (sample_id, repeat) not in self._desks:
            attempts = self.records.attempts(self.run.id, sample_id, repeat)
            by_index = {attempt.attempt_index: attempt for attempt in attempts}
            self._desks[sample_id, repeat] = Desk(self.samples[sample_id], repeat, by_index)
        return self._desks[sample_id, repeat]

    def clear_desk(self, desk: Desk) -> None:
        """Everything is in the rows."""
        self._desks.pop((desk.sample.id, desk.repeat), None)
