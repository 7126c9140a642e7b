"""The rates of a run with their intervals: in total, by split, and by evaluator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from loopeng.run_records import Record
from loopeng.run_statistics import Cluster, clustered_interval, pass_at_k
from loopeng.schema import Attempt
from loopeng.schema.base import SPLITS

__all__ = ["EvaluatorRates", "PartRates", "Rate", "rates_of"]

_SIDES: tuple[Literal["first", "final"], ...] = ("first", "final")


@dataclass(frozen=True)
class Rate:
    """Passed among those that could be judged, by cluster. What could not be judged is in ``errors`` alone."""

    clusters: tuple[Cluster, ...]
    errors: int = 0

    @property
    def passed(self) -> int:
        return sum(cluster.passed for cluster in self.clusters)

    @property
    def judged(self) -> int:
        return sum(cluster.total for cluster in self.clusters)

    @property
    def share(self) -> float | None:
        """None where nothing was judged."""
        return self.passed / self.judged if self.judged else None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 %; (0, 1) where nothing was judged."""
        return clustered_interval(self.clusters)

    @property
    def is_clustered(self) -> bool:
        """Whether outcomes go together: repeats of a sample, or samples of a group."""
        return any(cluster.total > 1 for cluster in self.clusters)


@dataclass(frozen=True)
class EvaluatorRates:
    """How often an evaluator was content: with first attempts, and with the attempts that were kept."""

    first: Rate
    final: Rate


@dataclass(frozen=True)
class PartRates:
    """A run, or one split of it. ``samples`` counts finished (sample, repeat) pairs."""

    samples: int
    first: Rate
    final: Rate
    evaluators: dict[str, EvaluatorRates]
    repeats: int  # of every sample
    pass_at_repeats: tuple[float, float] | None  # (pass@k, pass^k) of first attempts at k = repeats; None for one
    repeated_samples: int  # those it stands on: all repeats could be judged


@dataclass
class _Tally:
    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    errors: int = 0

    def count(self, cluster: str, passed: bool | None) -> None:
        if passed is None:
            self.errors += 1
        else:
            self.counts[cluster][0] += passed
            self.counts[cluster][1] += 1

    def rate(self) -> Rate:
        return Rate(tuple(Cluster(passed, total) for passed, total in self.counts.values()), self.errors)


@dataclass
class _Part:
    """Both rates and both rates of every evaluator, counted as records come by."""

    samples: int = 0
    repeats: int = 1
    rates: dict[tuple[str | None, str], _Tally] = field(default_factory=lambda: defaultdict(_Tally))
    by_sample: _Tally = field(default_factory=_Tally)

    def count(self, record: Record) -> None:
        self.samples += 1
        self.repeats = max(self.repeats, record.result.repeat + 1)
        self.by_sample.count(record.result.sample_id, record.passed_on("first"))
        for on in _SIDES:
            self.rates[None, on].count(record.cluster, record.passed_on(on))
            for name, passed in _by_evaluator(record.attempt_on(on)):
                self.rates[name, on].count(record.cluster, passed)

    def done(self, evaluators: Sequence[str]) -> PartRates:
        seen = {name for name, _ in self.rates if name is not None}
        names = [*(name for name in evaluators if name in seen), *sorted(seen - set(evaluators))]
        by_sample = self.by_sample.rate().clusters
        return PartRates(
            samples=self.samples,
            first=self.rates[None, "first"].rate(),
            final=self.rates[None, "final"].rate(),
            evaluators={
                name: EvaluatorRates(self.rates[name, "first"].rate(), self.rates[name, "final"].rate())
                for name in names
            },
            repeats=self.repeats,
            pass_at_repeats=pass_at_k(by_sample, self.repeats) if self.repeats > 1 else None,
            repeated_samples=sum(cluster.total >= self.repeats for cluster in by_sample),
        )


def rates_of(records: Iterable[Record], evaluators: Sequence[str] = ()) -> dict[str, PartRates]:
    """``total`` first, then each split that has samples. ``evaluators`` says in which order they are listed."""
    total, splits = _Part(), defaultdict[str, _Part](_Part)
    for record in records:
        total.count(record)
        splits[record.result.split].count(record)
    parts = {"total": total} | {split: splits[split] for split in SPLITS if split in splits}
    return {name: part.done(evaluators) for name, part in parts.items()}


def _by_evaluator(attempt: Attempt) -> list[tuple[str, bool | None]]:
    return [(result.evaluator, None if result.error is not None else result.passed) for result in attempt.results]
