"""Intervals of clustered outcomes: what must hold for all counts, and a slow twin that draws clusters again."""

from __future__ import annotations

import itertools

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.improve.gate.statistics import harm_p, mcnemar_p, paired_effect_interval, proportion_interval
from loopeng.run_statistics import Cluster, PairedCluster, clustered_interval, paired_interval, pass_at_k, two_sided_p
from loopeng.schema import PairedCount

_settings = settings(deadline=None)  # the first use loads scipy


@st.composite
def _clusters(draw: st.DrawFn, least: int = 0) -> list[Cluster]:
    totals = draw(st.lists(st.integers(0, 6), min_size=least, max_size=30))
    return [Cluster(draw(st.integers(0, total)), total) for total in totals]


@_settings
@given(_clusters())
def test_an_interval_holds_the_rate_and_stays_between_nothing_and_all(clusters: list[Cluster]) -> None:
    low, high = clustered_interval(clusters)
    passed, total = sum(each.passed for each in clusters), sum(each.total for each in clusters)
    assert 0 <= low < high <= 1
    if total:
        assert low - 1e-12 <= passed / total <= high + 1e-12


@_settings
@given(_clusters(least=2))
def test_clusters_never_say_more_than_independent_outcomes(clusters: list[Cluster]) -> None:
    passed, total = sum(each.passed for each in clusters), sum(each.total for each in clusters)
    low, high = clustered_interval(clusters)
    plain_low, plain_high = proportion_interval(passed, total, "wilson")
    assert low <= plain_low + 1e-9 and plain_high <= high + 1e-9


@_settings
@given(st.lists(st.booleans(), max_size=60))
def test_one_outcome_a_cluster_is_wilsons_interval(outcomes: list[bool]) -> None:
    clusters = [Cluster(int(passed), 1) for passed in outcomes]
    assert clustered_interval(clusters) == proportion_interval(sum(outcomes), len(outcomes), "wilson")


@_settings
@given(_clusters())
def test_failures_mirror_passes_and_the_order_plays_no_part(clusters: list[Cluster]) -> None:
    low, high = clustered_interval(clusters)
    mirrored = [Cluster(each.total - each.passed, each.total) for each in reversed(clusters)]
    assert clustered_interval(mirrored) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@pytest.mark.parametrize("shape", ["alike", "mixed", "independent"])
def test_the_interval_agrees_with_drawing_clusters_again(shape: str) -> None:
    """With 200 clusters the normal law is near; bootstrap percentiles are its slow, obvious twin."""
    random = numpy.random.default_rng(7)
    rates = {"alike": random.integers(0, 2, 200), "mixed": random.beta(1, 1, 200), "independent": numpy.full(200, 0.6)}
    clusters = [Cluster(int(random.binomial(4, rate)), 4) for rate in rates[shape]]
    passed = numpy.array([each.passed for each in clusters])
    drawn = passed[random.integers(0, 200, (20_000, 200))].sum(axis=1) / 800
    assert clustered_interval(clusters) == pytest.approx(numpy.quantile(drawn, [0.025, 0.975]), abs=0.01)


@pytest.mark.parametrize(("num_clusters", "size"), [(8, 5), (20, 3)])
def test_the_interval_covers_the_truth_where_repeats_are_alike(num_clusters: int, size: int) -> None:
    """Samples that pass always or never, as greedy decoding has them: Wilson's interval on all repeats fails here."""
    random = numpy.random.default_rng(11)
    truth, trials = 0.4, 400
    covered = naive = 0
    for _ in range(trials):
        clusters = [Cluster(size * int(passes), size) for passes in random.random(num_clusters) < truth]
        low, high = clustered_interval(clusters)
        covered += low <= truth <= high
        passed = sum(each.passed for each in clusters)
        low, high = proportion_interval(passed, num_clusters * size, "wilson")
        naive += low <= truth <= high
    assert covered / trials > 0.93  # three standard errors below 95 % are 92 %
    assert naive / trials < 0.85


@st.composite
def _paired(draw: st.DrawFn) -> tuple[list[PairedCluster], PairedCount]:
    pairs = draw(st.lists(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=4), max_size=20))
    flat = list(itertools.chain.from_iterable(pairs))
    count = PairedCount(
        num_pairs=len(flat),
        both_passed=flat.count((True, True)),
        fixed=flat.count((False, True)),
        broken=flat.count((True, False)),
        both_failed=flat.count((False, False)),
    )
    return [PairedCluster(sum(b for b, _ in each), sum(a for _, a in each), len(each)) for each in pairs], count


@_settings
@given(_paired())
def test_a_difference_is_inside_its_interval(paired: tuple[list[PairedCluster], PairedCount]) -> None:
    clusters, count = paired
    low, high = paired_interval(clusters, count)
    assert -1 <= low < high <= 1
    if count.num_pairs:
        assert low - 1e-9 <= (count.fixed - count.broken) / count.num_pairs <= high + 1e-9


@_settings
@given(_paired())
def test_the_other_way_round_the_difference_turns(paired: tuple[list[PairedCluster], PairedCount]) -> None:
    clusters, count = paired
    turned = [PairedCluster(each.after, each.before, each.total) for each in clusters]
    back = count.model_copy(update={"fixed": count.broken, "broken": count.fixed})
    low, high = paired_interval(clusters, count)
    assert paired_interval(turned, back) == pytest.approx((-high, -low), abs=1e-9)
    assert two_sided_p(turned) == two_sided_p(clusters)


def test_the_difference_of_clusters_agrees_with_drawing_them_again() -> None:
    random = numpy.random.default_rng(3)
    ease = random.random(300)
    before = random.binomial(3, ease)
    after = random.binomial(3, numpy.minimum(ease + 0.1, 1))
    clusters = [PairedCluster(int(b), int(a), 3) for b, a in zip(before, after, strict=True)]
    total, fixed = 900, int((after - before).clip(0).sum())
    broken = int((before - after).clip(0).sum())
    both = int(before.sum()) - broken
    count = PairedCount(
        num_pairs=total, both_passed=both, fixed=fixed, broken=broken, both_failed=total - both - fixed - broken
    )
    drawn = (after - before)[random.integers(0, 300, (20_000, 300))].sum(axis=1) / total
    assert paired_interval(clusters, count) == pytest.approx(numpy.quantile(drawn, [0.025, 0.975]), abs=0.012)


@_settings
@given(st.integers(0, 30), st.integers(0, 30))
def test_without_repeats_the_test_is_mcnemars(fixed: int, broken: int) -> None:
    clusters = [PairedCluster(0, 1, 1)] * fixed + [PairedCluster(1, 0, 1)] * broken + [PairedCluster(1, 1, 1)]
    assert two_sided_p(clusters) == min(1.0, 2 * min(mcnemar_p(fixed, broken), harm_p(fixed, broken)))
    count = PairedCount(num_pairs=len(clusters), both_passed=1, fixed=fixed, broken=broken, both_failed=0)
    assert paired_interval(clusters, count) == paired_effect_interval(count)


def test_repeats_of_one_sample_are_one_voice() -> None:
    """Five repeats that all got better prove no more than one sample that did."""
    assert two_sided_p([PairedCluster(0, 5, 5)]) == 1.0
    assert two_sided_p([PairedCluster(0, 1, 1)] * 5) == 0.0625


@_settings
@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_at_k_is_the_share_of_draws(outcomes: list[bool], k: int) -> None:
    found = pass_at_k([Cluster(sum(outcomes), len(outcomes))], k)
    if k > len(outcomes):
        assert found is None
        return
    draws = list(itertools.combinations(outcomes, k))
    some, every = sum(map(any, draws)) / len(draws), sum(map(all, draws)) / len(draws)
    assert found == pytest.approx((some, every))
