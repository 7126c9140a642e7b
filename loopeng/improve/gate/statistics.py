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
    "newcombe_interval",
    "paired_effect_interval",
    "proportion_interval",
    "samples_for_power",
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
    first = proportion_interval(pairs.baseline_passed, total, "wilson")
    second = proportion_interval(pairs.candidate_passed, total, "wilson")
    return newcombe_interval((before, *first), (after, *second), _correlation(pairs))


def newcombe_interval(
    before: tuple[float, float, float], after: tuple[float, float, float], correlation: float
) -> tuple[float, float]:
    """The interval of after - before from both rates, each with its interval, and how they go together (method 10).

    >>> newcombe_interval((0.5, 0.25, 0.75), (0.5, 0.25, 0.75), 1.0)
    (0.0, 0.0)
    """
    (old, old_low, old_high), (new, new_low, new_high) = before, after

    def distance(first: float, second: float) -> float:
        return math.sqrt(max(first**2 - 2 * correlation * first * second + second**2, 0.0))

    low = new - old - distance(new - new_low, old_high - old)
    high = new - old + distance(new_high - new, old - old_low)
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

    Exact: a sum over the number of discordant pairs, which is binomial as each pair is one or not by itself. Needs no
    scipy, so that a task can be checked at once.

    >>> round(expected_power(16, 0.0, 0.025), 3), expected_power(5, 0.0, 0.025)
    (0.895, 0.0)
    >>> [round(expected_power(80, 0.6, 0.05 / (look * (look + 1))), 2) for look in (1, 2, 3, 5)]
    [0.98, 0.94, 0.91, 0.82]
    """
    to_fixed, to_broken = (1 - base_rate) * fixes, base_rate * breaks
    discordant = to_fixed + to_broken
    if num_pairs == 0 or discordant == 0:
        return 0.0
    found = _chances_to_find(num_pairs, to_fixed / discordant, alpha)
    power = sum(_binomial(number, num_pairs, discordant) * chance for number, chance in enumerate(found))
    return min(max(power, 0.0), 1.0)


def samples_for_power(power: float, base_rate: float, alpha: float, most: int = 2000) -> int | None:
    """About how many samples ``expected_power`` takes to reach ``power``; None where ``most`` are too few.

    About, as power falls a little at some numbers: a count of pairs that is whole makes steps.

    >>> samples_for_power(0.8, 0.6, 0.025), samples_for_power(0.8, 1.0, 0.025)
    (47, None)
    """
    high = 8
    while expected_power(min(high, most), base_rate, alpha) < power:
        if high >= most:
            return None
        high *= 2
    low, high = 0, min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if expected_power(middle, base_rate, alpha) >= power else (middle, high)
    return high


def _chances_to_find(most: int, share: float, alpha: float) -> list[float]:
    """For 0 to ``most`` discordant pairs, each of them a fixed one with probability ``share``: the probability that
    enough are fixed for ``mcnemar_p`` to be at most ``alpha``.

    Goes from each number to the next: how many are enough, and of the outcomes of so many tosses of a coin how many
    have them.
    """
    enough, outcomes, chance = 0, 1, 1.0
    chances = []
    for number in range(most + 1):
        if number and enough:  # with one pair more: there were enough, or one was lacking and this is a fixed one
            outcomes = 2 * outcomes + math.comb(number - 1, enough - 1)
            chance += share * _binomial(enough - 1, number - 1, share)
        while outcomes / 2**number > alpha:
            outcomes -= math.comb(number, enough)
            chance -= _binomial(enough, number, share)
            enough += 1
        chances.append(chance)
    return chances


def _binomial(count: int, total: int, share: float) -> float:
    """The probability of ``count`` in ``total``, each with probability ``share``."""
    if share in (0.0, 1.0):
        return float(count == total * share)
    ways = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    return math.exp(ways + count * math.log(share) + (total - count) * math.log1p(-share))
