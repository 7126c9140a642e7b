"""What is drafted in a round: which source, how many tokens, whether at all.

A controller leads the drafters of a generation, its sources, through their lives and leaves the decision to a policy.
``FixedLength`` takes as long a draft as allowed from the first source that has one; ``specdec_core.goodput`` makes
tokens per second as many as it can.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.drafters.chain import chained
from specdec_core.errors import DrafterError
from specdec_core.metrics import DecodeStats, SourceStats
from specdec_core.types import Draft, Round

__all__ = ["Clock", "Controller", "FixedLength", "Plan", "Policy", "Source", "first_tokens"]

Clock = Callable[[], float]
"""Seconds since some moment."""


@dataclass(slots=True, eq=False)
class Source:
    """A drafter, timed. ``stats`` are those of the running generation."""

    drafter: Drafter
    clock: Clock = time.perf_counter
    stats: SourceStats = field(default_factory=SourceStats)

    def ask(self, max_tokens: int) -> Draft:
        """A draft of at most ``max_tokens``. Raises DrafterError for whatever the drafter raises."""
        with self.called():
            return first_tokens(self.drafter.propose(max_tokens), max_tokens)

    @contextmanager
    def called(self) -> Iterator[None]:
        """Whatever a drafter raises is a DrafterError that names it; the time it takes is counted."""
        started = self.clock()
        try:
            yield
        except Exception as error:
            raise DrafterError(f"drafter {self.drafter.name!r} raised {type(error).__name__}: {error}") from error
        finally:
            self.stats.time_s += self.clock() - started


@dataclass(frozen=True, slots=True)
class Plan:
    """What a policy decided for one round.

    ``expected_tokens`` is the number of tokens that the pass should emit and ``time_s`` what drafting and the pass
    should take, in seconds; both 0 where nothing is predicted.
    """

    draft: Draft = field(default_factory=Draft)
    source: Source | None = None
    expected_tokens: float = 0.0
    time_s: float = 0.0


class Policy(Protocol):
    """Decides each round, by the past alone; learns from what came of it."""

    def begin(self, sources: Sequence[Source]) -> None:
        """A new request."""
        ...

    def choose(self, sources: Sequence[Source], limit: int) -> Plan:
        """A draft of at most ``limit`` tokens (0 or more)."""
        ...

    def learn(self, token_ids: Sequence[int], pass_time_s: float) -> None:
        """The pass with the draft just chosen took so long and emitted these tokens."""
        ...


class FixedLength:
    """As long a draft as allowed from the first source that has one. Learns nothing, predicts nothing."""

    def begin(self, sources: Sequence[Source]) -> None:
        """Nothing to forget."""

    def choose(self, sources: Sequence[Source], limit: int) -> Plan:
        """Ask the sources in order."""
        for source in sources if limit > 0 else ():
            if (draft := source.ask(limit)).token_ids:
                return Plan(draft, source)
        return Plan()

    def learn(self, token_ids: Sequence[int], pass_time_s: float) -> None:
        """Nothing to learn."""


class Controller:
    """The sources of one engine under a policy: begin, propose, observe and learn each round, end.

    A chain's drafters are a source each. Every source observes every token, so none goes stale when another drafted.
    """

    def __init__(self, drafter: Drafter, policy: Policy | None = None, clock: Clock = time.perf_counter) -> None:
        self.policy = policy or FixedLength()
        self.clock = clock
        self.sources = tuple(Source(part, clock) for part in chained(drafter))
        self._stats = DecodeStats()
        self._plan = Plan()

    def begin(self, context: DraftContext, stats: DecodeStats) -> None:
        """A new request, whose counts go into ``stats``. Raises DrafterError."""
        self._stats = stats
        for source in self.sources:
            source.stats = stats.sources.setdefault(source.drafter.name, SourceStats())
            with source.called():
                source.drafter.begin(context)
        with self._controlling():
            self.policy.begin(self.sources)

    def propose(self, limit: int) -> Draft:
        """The draft of this round, at most ``limit`` (0 or more) tokens. Raises DrafterError."""
        with self._controlling():
            self._plan = self.policy.choose(self.sources, limit)
        return self._plan.draft

    @property
    def drafter_name(self) -> str:
        """Who made the draft of this round."""
        return "none" if self._plan.source is None else self._plan.source.drafter.name

    def observe(self, token_ids: Sequence[int]) -> None:
        """Tokens that were emitted. Raises DrafterError."""
        for source in self.sources:
            with source.called():
                source.drafter.observe(token_ids)

    def learn(self, round_: Round, pass_time_s: float) -> None:
        """What came of the draft proposed last: the round, and the time of its pass."""
        with self._controlling():
            self.policy.learn(round_.token_ids, pass_time_s)
        stats, source = self._stats, self._plan.source
        stats.predicted_tokens += self._plan.expected_tokens
        stats.predicted_time_s += self._plan.time_s
        if source is not None and round_.draft.token_ids:
            source.stats.num_drafts += 1
            source.stats.num_draft_tokens += len(round_.draft.token_ids)
            source.stats.num_accepted_tokens += round_.num_accepted

    def end(self) -> None:
        """The request is over. Ends every source, also where one raises. Raises DrafterError."""
        with ExitStack() as stack:
            stack.callback(self._close_stats)
            for source in reversed(self.sources):
                stack.callback(self._end, source)

    @staticmethod
    def _end(source: Source) -> None:
        with source.called():
            source.drafter.end()

    def _close_stats(self) -> None:
        """What happens before the next ``begin`` belongs to no request that is over."""
        self._stats.draft_time_s = self._drafting_time_s()
        self._stats = DecodeStats()
        for source in self.sources:
            source.stats = SourceStats()

    @contextmanager
    def _controlling(self) -> Iterator[None]:
        """Count the time as control time, but for what the sources take in it."""
        started, drafting = self.clock(), self._drafting_time_s()
        yield
        self._stats.control_time_s += self.clock() - started - (self._drafting_time_s() - drafting)

    def _drafting_time_s(self) -> float:
        return sum(counts.time_s for counts in self._stats.sources.values())


def first_tokens(draft: Draft, num_tokens: int) -> Draft:
    """The beginning of a draft. Raises TypeError where its tokens are no integers."""
    token_ids = tuple(map(operator.index, draft.token_ids[:num_tokens]))
    probs = None if draft.probs is None else draft.probs[: len(token_ids)]
    return replace(draft, token_ids=token_ids, probs=probs)
