"""The numbers a verdict rests on, against sums over everything that can happen."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.improve.gate.statistics import (
    expected_power,
    harm_p,
    mcnemar_p,
    paired_effect_interval,
    proportion_interval,
    samples_for_power,
)
from loopeng.schema import PairedCount

COUNTS = st.integers(0, 12)


def chance(num_pairs: int, fixed: int, broken: int, to_fixed: float, to_broken: float) -> float:
    """Of exactly so many fixed and broken pairs."""
    ways = comb(num_pairs, fixed) * comb(num_pairs - fixed, broken)
    return ways * to_fixed**fixed * to_broken**broken * (1 - to_fixed - to_broken) ** (num_pairs - fixed - broken)


@settings(deadline=None)  # scipy is loaded by the first
@given(COUNTS, COUNTS)
def test_p_is_the_share_of_coin_tosses_at_least_as_good(fixed: int, broken: int) -> None:
    total = fixed + broken
    expected = sum(comb(total, heads) for heads in range(fixed, total + 1)) / 2**total
    assert mcnemar_p(fixed, broken) == pytest.approx(expected)
    assert harm_p(broken, fixed) == mcnemar_p(fixed, broken)


def test_the_demo_of_the_readme_passes_at_its_first_look() -> None:
    assert mcnemar_p(14, 0) == 2**-14 < 0.05 / 2


@pytest.mark.parametrize("num_pairs", [0, 1, 5, 16, 24])
@pytest.mark.parametrize("base_rate", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("alpha", [0.025, 0.05 / 6, 2**-5, 0.5])  # a power of 2 is a p-value that just passes
def test_power_is_the_sum_over_all_outcomes_that_pass(num_pairs: int, base_rate: float, alpha: float) -> None:
    to_fixed, to_broken = (1 - base_rate) * 0.5, base_rate * 0.02
    expected = sum(
        chance(num_pairs, fixed, broken, to_fixed, to_broken)
        for fixed in range(num_pairs + 1)
        for broken in range(num_pairs + 1 - fixed)
        if mcnemar_p(fixed, broken) <= alpha
    )
    assert expected_power(num_pairs, base_rate, alpha) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("num_pairs", [80, 400, 1500])
@pytest.mark.parametrize(("base_rate", "alpha"), [(0.0, 0.025), (0.6, 0.05 / 6), (0.9, 0.05 / 30), (0.97, 1e-9)])
def test_power_of_many_pairs_is_what_scipy_makes_of_it(num_pairs: int, base_rate: float, alpha: float) -> None:
    import numpy
    from scipy.stats import binom

    to_fixed, discordant = (1 - base_rate) * 0.5, (1 - base_rate) * 0.5 + base_rate * 0.02
    numbers = numpy.arange(num_pairs + 1)
    found = binom.sf(binom.isf(alpha, numbers, 0.5), numbers, to_fixed / discordant)
    expected = float(numpy.dot(binom.pmf(numbers, num_pairs, discordant), found))
    assert expected_power(num_pairs, base_rate, alpha) == pytest.approx(expected, abs=1e-9)


@given(st.floats(0.0, 0.8), st.floats(0.001, 0.2), st.floats(0.1, 0.95))
@settings(max_examples=20, deadline=None)
def test_so_many_samples_reach_the_power_and_one_less_does_not(base_rate: float, alpha: float, power: float) -> None:
    number = samples_for_power(power, base_rate, alpha)
    assert number is not None
    assert expected_power(number, base_rate, alpha) >= power > expected_power(number - 1, base_rate, alpha)


def test_no_number_of_samples_shows_that_what_passes_is_better() -> None:
    assert samples_for_power(0.8, 1.0, 0.025) is None
    assert samples_for_power(0.8, 0.9, 0.025, most=10) is None


def test_more_samples_and_more_alpha_give_more_power_and_nothing_to_mend_gives_none() -> None:
    powers = [expected_power(number, 0.6, 0.025) for number in (8, 16, 40, 80, 160)]
    assert powers == sorted(powers) and powers[-1] > 0.99
    assert expected_power(40, 0.6, 0.025 / 3) < expected_power(40, 0.6, 0.025)
    assert expected_power(80, 1.0, 0.025) < 1e-3 and expected_power(80, 1.0, 0.025, breaks=0.0) == 0.0


@pytest.mark.parametrize(
    ("cells", "expected"),
    [  # both passed, fixed, broken, both failed; the first is an example of Newcombe 1998
        ((36, 12, 2, 0), (0.0569, 0.3404)),
        ((0, 30, 0, 0), (0.8395, 1.0)),
        ((30, 0, 0, 0), (-0.1135, 0.1135)),
    ],
)
def test_the_interval_of_the_effect(cells: tuple[int, int, int, int], expected: tuple[float, float]) -> None:
    assert paired_effect_interval(pairs_of(*cells)) == pytest.approx(expected, abs=5e-5)


def pairs_of(both_passed: int, fixed: int, broken: int, both_failed: int) -> PairedCount:
    total = both_passed + fixed + broken + both_failed
    return PairedCount(num_pairs=total, both_passed=both_passed, fixed=fixed, broken=broken, both_failed=both_failed)


@settings(deadline=None)
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_an_interval_holds_its_effect_and_turns_round_with_the_arms(a: int, b: int, c: int, d: int) -> None:
    low, high = paired_effect_interval(pairs_of(a, b, c, d))
    assert -1 <= low <= high <= 1
    if total := a + b + c + d:
        assert low - 1e-9 <= (b - c) / total <= high + 1e-9
    assert paired_effect_interval(pairs_of(a, c, b, d)) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("to_fixed", "to_broken"), [(0.2, 0.012), (0.05, 0.05), (0.5, 0.0)])
def test_the_interval_covers_the_true_effect_about_as_often_as_it_says(to_fixed: float, to_broken: float) -> None:
    """Exact over all outcomes of 30 pairs, the other samples passing and failing half and half."""
    num_pairs, covered = 30, 0.0
    for fixed in range(num_pairs + 1):
        for broken in range(num_pairs + 1 - fixed):
            rest = num_pairs - fixed - broken
            low, high = paired_effect_interval(pairs_of(rest - rest // 2, fixed, broken, rest // 2))
            if low <= to_fixed - to_broken <= high:
                covered += chance(num_pairs, fixed, broken, to_fixed, to_broken)
    assert covered > 0.93


def test_the_interval_of_one_share_is_that_of_clopper_and_pearson() -> None:
    assert proportion_interval(0, 40) == pytest.approx((0.0, 1 - 0.025 ** (1 / 40)))
    assert proportion_interval(40, 40) == pytest.approx((0.025 ** (1 / 40), 1.0))
    low, high = proportion_interval(10, 20, "wilson")
    assert low + high == pytest.approx(1) and (low, high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
