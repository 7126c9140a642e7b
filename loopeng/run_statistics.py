"""What the counts of whole runs say: intervals where outcomes come in clusters, and the test of two paired runs.

A **cluster** is what goes together: the repeats of one sample, or the samples of one group. Outcomes of one cluster
resemble each other, so they say less than so many independent ones. Intervals are Wilson's (1927) on the *effective*
number of outcomes, which is the number counted divided by the design effect: the cluster-robust variance over that of
independent outcomes (Kish 1965; Dean and Pagano 2015), with Student's t for few clusters. Differences of paired runs
put the intervals of both sides together as Newcombe's method 10 (1998) does. Pure; scipy is loaded at first use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from loopeng.improve.gate.statistics import (
    mcnemar_p,
    newcombe_interval,
    paired_effect_interval,
    proportion_interval,
)
from loopeng.schema import PairedCount

__all__ = ["Cluster", "PairedCluster", "clustered_interval", "paired_interval", "pass_at_k", "two_sided_p"]

_CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(0.5 + _CONFIDENCE / 2)


class Cluster(NamedTuple):
    """Outcomes that go together."""

    passed: int
    total: int


class PairedCluster(NamedTuple):
    """Pairs that go together: how many passed before, how many passed after, of how many."""

    before: int
    after: int
    total: int


def clustered_interval(clusters: Sequence[Cluster]) -> tuple[float, float]:
    """95 % interval of the share that passes. One outcome a cluster is Wilson's interval; one cluster says nothing.

    Five samples of four repeats each, all equal within a sample, are worth five outcomes and a little less:

    >>> [round(limit, 2) for limit in clustered_interval([Cluster(4, 4)] * 3 + [Cluster(0, 4)] * 2)]
    [0.13, 0.94]
    >>> clustered_interval([Cluster(1, 1)] * 3 + [Cluster(0, 1)] * 2) == proportion_interval(3, 5, "wilson")
    True
    """
    counted = [cluster for cluster in clusters if cluster.total]
    passed, total = sum(cluster.passed for cluster in counted), sum(cluster.total for cluster in counted)
    if total == len(counted):
        return proportion_interval(passed, total, "wilson")
    if len(counted) < 2:
        return 0.0, 1.0
    return _wilson(passed / total, _effective_number(counted, passed, total))


def _effective_number(clusters: Sequence[Cluster], passed: int, total: int) -> float:
    """How many independent outcomes the clusters are worth: no more than were counted.

    Where all passed or none did, nothing tells how alike the outcomes of a cluster are: each counts as one.
    """
    rate, number = passed / total, len(clusters)
    if passed in (0, total):
        independent = float(number)
    else:
        squares = sum((cluster.passed - rate * cluster.total) ** 2 for cluster in clusters)
        variance = number / (number - 1) * squares / total**2
        independent = min(rate * (1 - rate) / variance, total) if variance > 0 else float(total)
    return independent * (_Z / _student_t(number - 1)) ** 2


def _student_t(degrees: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.5 + _CONFIDENCE / 2, degrees))


def _wilson(rate: float, number: float) -> tuple[float, float]:
    """Wilson's interval for a number of outcomes that need not be whole."""
    ratio = _Z**2 / number
    middle = (rate + ratio / 2) / (1 + ratio)
    half = math.sqrt(rate * (1 - rate) * ratio + ratio**2 / 4) / (1 + ratio)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def paired_interval(clusters: Sequence[PairedCluster], pairs: PairedCount) -> tuple[float, float]:
    """95 % interval of the difference of pass rates, after - before. ``pairs`` counts the same pairs by outcome.

    >>> pairs = PairedCount(num_pairs=2, both_passed=1, fixed=1, broken=0, both_failed=0)
    >>> single = paired_interval([PairedCluster(1, 1, 1), PairedCluster(0, 1, 1)], pairs)
    >>> single == paired_effect_interval(pairs)
    True
    """
    counted = [cluster for cluster in clusters if cluster.total]
    if pairs.num_pairs == len(counted):
        return paired_effect_interval(pairs)
    before, after = pairs.baseline_passed / pairs.num_pairs, pairs.candidate_passed / pairs.num_pairs
    first = clustered_interval([Cluster(each.before, each.total) for each in counted])
    second = clustered_interval([Cluster(each.after, each.total) for each in counted])
    return newcombe_interval((before, *first), (after, *second), _correlation(counted, before, after))


def _correlation(clusters: Sequence[PairedCluster], before: float, after: float) -> float:
    """Of the clusters' sums before and after, corrected for continuity as Newcombe's phi where it is positive.

    None where a side passed all or nothing.
    """
    first = [cluster.before - before * cluster.total for cluster in clusters]
    second = [cluster.after - after * cluster.total for cluster in clusters]
    spread = math.sqrt(math.fsum(x * x for x in first) * math.fsum(y * y for y in second))
    margins = math.sqrt(before * (1 - before) * after * (1 - after))
    if not spread or not margins:
        return 0.0
    correlation = math.fsum(x * y for x, y in zip(first, second, strict=True)) / spread
    return correlation if correlation <= 0 else max(correlation - 1 / (2 * len(clusters) * margins), 0.0)


def two_sided_p(clusters: Sequence[PairedCluster]) -> float:
    """How likely a difference like this one, or a greater one, is by chance: the exact test of McNemar, two-sided.

    With one pair a cluster it is McNemar's own; else the sign test over the clusters that got better or worse.

    >>> two_sided_p([PairedCluster(0, 1, 1)] * 5), two_sided_p([PairedCluster(1, 1, 1)] * 5)
    (0.0625, 1.0)
    """
    better = sum(cluster.after > cluster.before for cluster in clusters)
    worse = sum(cluster.after < cluster.before for cluster in clusters)
    return min(1.0, 2 * mcnemar_p(max(better, worse), min(better, worse)))


def pass_at_k(clusters: Sequence[Cluster], k: int) -> tuple[float, float] | None:
    """(pass@k, pass^k): the chance that one of ``k`` repeats of a sample passes, and that all of them do.

    Estimated without bias from the repeats there are (Chen et al. 2021), over samples that have at least ``k``;
    None where no sample has.

    >>> pass_at_k([Cluster(1, 2), Cluster(2, 2)], 2)
    (1.0, 0.5)
    """
    enough = [cluster for cluster in clusters if cluster.total >= k]
    if not enough:
        return None
    some = [1 - math.comb(each.total - each.passed, k) / math.comb(each.total, k) for each in enough]
    every = [math.comb(each.passed, k) / math.comb(each.total, k) for each in enough]
    return math.fsum(some) / len(enough), math.fsum(every) / len(enough)
