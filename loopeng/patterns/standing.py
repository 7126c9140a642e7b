"""Where each failure pattern of a task stands: how often, how surely, since when. Trigger and reports count alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from loopeng.schema import FailurePattern, PromptVersion, Task
from loopeng.schema.live import source_of
from loopeng.schema.task import parse_duration
from loopeng.store import Failure, LoopStore, SeenSample

__all__ = ["Rejection", "Standing", "rate_at_least", "standings"]


@dataclass(frozen=True)
class Rejection:
    """The last time a person said no to a change for a pattern."""

    proposal_id: str
    at: datetime
    rests_until: datetime


@dataclass(frozen=True)
class Standing:
    """A pattern, counted under the prompt's head on the task's reflect samples of today.

    After a rejection only runs that began later count: the person has seen the earlier failures. ``samples`` showed
    the pattern, ``num_judged`` reflect samples could have.
    """

    pattern: FailurePattern
    samples: frozenset[str]
    num_judged: int
    rejection: Rejection | None = None

    @property
    def least_rate(self) -> float:
        """What the failure rate is at least, at 95 %."""
        return rate_at_least(len(self.samples), self.num_judged)

    def is_often(self, task: Task) -> bool:
        """Whether it came back often enough for a proposal: ``improve.min_occurrences`` over ``min_samples``."""
        limits = task.improve
        return self.pattern.num_occurrences >= limits.min_occurrences and len(self.samples) >= limits.min_samples

    def is_frequent(self, task: Task) -> bool:
        """Whether it is also a large enough share of the samples: ``improve.min_rate``."""
        return self.is_often(task) and (not task.improve.min_rate or self.least_rate >= task.improve.min_rate)

    def rests(self, now: datetime) -> bool:
        """Whether the cool-down after a rejection is not over yet."""
        return self.rejection is not None and now < self.rejection.rests_until


def rate_at_least(num_failed: int, num_judged: int) -> float:
    """The lower end of the two-sided 95 % Wilson interval of a rate (E. B. Wilson, JASA 22, 1927); 0 of nothing.

    >>> round(rate_at_least(8, 40), 3), round(rate_at_least(3, 50), 3), rate_at_least(0, 0)
    (0.105, 0.021, 0.0)
    """
    if not num_failed:
        return 0.0
    from scipy.stats import binomtest

    return float(binomtest(num_failed, num_judged).proportion_ci(confidence_level=0.95, method="wilson").low)


def standings(store: LoopStore, task: Task, head: PromptVersion) -> list[Standing]:
    """Every pattern of the prompt that was not merged away, the one with the most samples first."""
    reflect = {sample.id for sample in task.samples if sample.split == "reflect"}
    patterns = store.patterns(head.prompt_name)
    rejections = _rejections(store, task, head.prompt_name, patterns)
    source = source_of(task.name)
    seen = [each for each in store.seen_samples(head.id, source) if each.sample_id in reflect]
    failures: defaultdict[str, list[Failure]] = defaultdict(list)
    for failure in store.failures_under(head.id, source):
        if failure.sample_id in reflect:
            failures[failure.pattern_id].append(failure)
    found = [
        _standing(pattern, failures[pattern.id], seen, rejections.get(pattern.id))
        for pattern in patterns
        if pattern.merged_into is None
    ]
    return sorted(found, key=lambda it: (-len(it.samples), -it.pattern.num_occurrences, it.pattern.id))


def _standing(
    pattern: FailurePattern, failures: Sequence[Failure], seen: Sequence[SeenSample], rejection: Rejection | None
) -> Standing:
    counted = [each for each in failures if rejection is None or each.at > rejection.at]
    samples = frozenset(failure.sample_id for failure in counted)
    could = {
        each.sample_id
        for each in seen
        if (rejection is None or each.at > rejection.at) and (each.judged or pattern.fault_side != "model")
    }
    counts = {"num_occurrences": len(counted), "num_samples": len(samples)}
    return Standing(pattern.model_copy(update=counts), samples, len(could | samples), rejection)


def _rejections(
    store: LoopStore, task: Task, prompt_name: str, patterns: Sequence[FailurePattern]
) -> dict[str, Rejection]:
    """By pattern the last rejection of a change for it, or for one that was merged into it."""
    led_to = {pattern.id: pattern.merged_into for pattern in patterns}
    rest = timedelta(seconds=parse_duration(task.improve.cool_down))
    found = {}
    for proposal, _, decision in store.rejected(prompt_name):  # the oldest first
        if proposal.kind == "change":
            at = decision.created_at
            for pattern_id in proposal.pattern_ids:
                found[_root(pattern_id, led_to)] = Rejection(proposal.id, at, at + rest)
    return found


def _root(pattern_id: str, led_to: Mapping[str, str | None]) -> str:
    while (further := led_to.get(pattern_id)) is not None:
        pattern_id = further
    return pattern_id
