"""What counts of pairs prove: exact tests, intervals, and the power to be expected. Pure; scipy is loaded at first use.

Sources: McNemar 1947, exact and one-sided; Newcombe 1998, "Improved confidence intervals for the difference between
binomial proportions based on paired data", Statistics in Medicine 17, method 10; Clopper and Pearson 1934; Wilson 1927.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from loopeng.schema import PairedCount

__all__ = [
    "ALTERNATIVE_BREAKS",
    "ALTERNATIVE_FIXES",
    "HARM_ALPHA",
    "chance_of_so_few",
    "expected_power",
    "harm_p",
    "mcnemar_p",
    "paired_effect_interval",
    "proportion_interval",
]

ALTERNATIVE_FIXES = 0.5  # the stated alternative: a change worth finding mends half of the samples that fail
ALTERNATIVE_BREAKS = 0.02  # and breaks 2 % of those that pass
HARM_ALPHA = 0.05
_CONFIDENCE = 0.95


@lru_cache(maxsize=4096)
def mcnemar_p(fixed: int, broken: int) -> float:
    """Exact one-sided McNemar test: the probability of so many fixed pairs, or more, were it a coin toss for each pair.

    Without a discordant pair there is nothing to test, and p is 1.

    >>> mcnemar_p(14, 0) == 2**-14, mcnemar_p(0, 0), mcnemar_p(2, 1)
    (True, 1.0, 0.5)
    """
    if fixed + broken == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(fixed, fixed + broken, 0.5, alternative="greater").pvalue)


def harm_p(fixed: int, broken: int) -> float:
    """The same test the other way round: so many broken pairs, or more.

    >>> harm_p(0, 5), harm_p(14, 0)
    (0.03125, 1.0)
    """
    return mcnemar_p(broken, fixed)


def chance_of_so_few(fixed: int, num_failing: int) -> float:
    """How likely a change at the stated alternative fixes no more than so many of the failing samples.

    >>> chance_of_so_few(0, 3), chance_of_so_few(0, 5)
    (0.125, 0.03125)
    """
    if not num_failing:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(fixed, num_failing, ALTERNATIVE_FIXES, alternative="less").pvalue)


def paired_effect_interval(pairs: PairedCount) -> tuple[float, float]:
    """95 % interval of the difference of pass rates, candidate - baseline (Newcombe's method 10); no pairs say nothing.

    >>> pairs = PairedCount(num_pairs=50, both_passed=36, fixed=12, broken=2, both_failed=0)
    >>> [round(limit, 4) for limit in paired_effect_interval(pairs)]
    [0.0569, 0.3404]
    """
    total = pairs.num_pairs
    if total == 0:
        return -1.0, 1.0
    before, after = pairs.baseline_passed / total, pairs.candidate_passed / total
    before_low, before_high = proportion_interval(pairs.baseline_passed, total, "wilson")
    after_low, after_high = proportion_interval(pairs.candidate_passed, total, "wilson")
    correlation = _correlation(pairs)

    def distance(first: float, second: float) -> float:
        return math.sqrt(max(first**2 - 2 * correlation * first * second + second**2, 0.0))

    effect = after - before
    low = effect - distance(after - after_low, before_high - before)
    high = effect + distance(after_high - after, before - before_low)
    return max(low, -1.0), min(high, 1.0)


def _correlation(pairs: PairedCount) -> float:
    """Newcombe's phi, corrected for continuity where it is positive; 0 where an arm passed all or nothing."""
    total = pairs.num_pairs
    margins = pairs.baseline_passed * (total - pairs.baseline_passed)
    margins *= pairs.candidate_passed * (total - pairs.candidate_passed)
    if margins == 0:
        return 0.0
    product = pairs.both_passed * pairs.both_failed - pairs.fixed * pairs.broken
    return (max(product - total / 2, 0.0) if product > 0 else product) / math.sqrt(margins)


def proportion_interval(count: int, total: int, method: Literal["exact", "wilson"] = "exact") -> tuple[float, float]:
    """95 % interval of one proportion: "exact" is Clopper and Pearson's; nothing counted says nothing.

    >>> [round(limit, 3) for limit in proportion_interval(0, 40)], proportion_interval(0, 0)
    ([0.0, 0.088], (0.0, 1.0))
    """
    if total == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(_CONFIDENCE, method=method)
    return float(interval.low), float(interval.high)


@lru_cache(maxsize=256)
def expected_power(
    num_pairs: int,
    base_rate: float,
    alpha: float,
    fixes: float = ALTERNATIVE_FIXES,
    breaks: float = ALTERNATIVE_BREAKS,
) -> float:
    """The probability that ``mcnemar_p`` is at most ``alpha`` where a change mends the share ``fixes`` of the failing
    samples and breaks ``breaks`` of the passing ones; ``base_rate`` is the share that passes without it.

    Exact: a sum over the number of discordant pairs, which is binomial as each pair is one or not by itself.

    >>> round(expected_power(16, 0.0, 0.025), 3), expected_power(5, 0.0, 0.025)
    (0.895, 0.0)
    >>> [round(expected_power(80, 0.6, 0.05 / (look * (look + 1))), 2) for look in (1, 2, 3, 5)]
    [0.98, 0.94, 0.91, 0.82]
    """
    to_fixed, to_broken = (1 - base_rate) * fixes, base_rate * breaks
    discordant = to_fixed + to_broken
    if num_pairs == 0 or discordant == 0:
        return 0.0
    import numpy
    from scipy.stats import binom

    numbers = numpy.arange(num_pairs + 1)
    most_by_chance = binom.isf(alpha, numbers, 0.5)  # more fixed pairs than this are significant
    found = binom.sf(most_by_chance, numbers, to_fixed / discordant)
    return float(numpy.dot(binom.pmf(numbers, num_pairs, discordant), found))
