"""What every bench of speed has in common: which requests, in which order, tokens per second, ratios with intervals."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
NUM_RESAMPLES = 2000


@dataclass(frozen=True)
class Timing:
    """One arm on one request. ``token_ids`` are those that were generated, the ending one included."""

    token_ids: tuple[int, ...]
    time_s: float
    num_passes: int | None = None  # decode passes, prefill apart

    @property
    def tokens_per_second(self) -> float:
        return len(self.token_ids) / self.time_s


def bootstrap(
    values: Sequence[Item], statistic: Callable[[Sequence[Item]], float], *, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval at 95 % of ``statistic`` over ``values`` (Efron 1979)."""
    draw = random.Random(seed)
    found = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(NUM_RESAMPLES))
    return found[NUM_RESAMPLES // 40], found[NUM_RESAMPLES - NUM_RESAMPLES // 40 - 1]


def median_with_interval(values: Sequence[float]) -> dict[str, float]:
    """Median with its bootstrap interval, rounded for reading."""
    low, high = bootstrap(values, statistics.median)
    return {"median": round(statistics.median(values), 3), "low": round(low, 3), "high": round(high, 3)}


def median_ratio(ours: Sequence[Timing], theirs: Sequence[Timing]) -> dict[str, float]:
    """Median over requests of the ratio of tokens per second, with a 95 % bootstrap interval."""
    return median_with_interval([a.tokens_per_second / b.tokens_per_second for a, b in zip(ours, theirs, strict=True)])


def rotated(names: Sequence[Item], number: int) -> list[Item]:
    """The arms in the order of round ``number``: each is the first in its turn."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def evenly(items: Sequence[Item], number: int) -> list[Item]:
    """``number`` items at equal distances, or all where there are fewer."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]
