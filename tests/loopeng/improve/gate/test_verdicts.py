"""One pure function says the verdict: each story below is a test that ended so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopeng.improve.gate.pairing import Comparison
from loopeng.improve.gate.verdicts import judge, judge_holdout, weigh
from loopeng.schema import GateTest, PairedCount
from loopeng.schema.evidence import GateVerdict
from loopeng.schema.improve_sections import GateSpec

SPEC = GateSpec()


def counts(fixed: int, broken: int, *, both_passed: int = 0, both_failed: int = 0) -> PairedCount:
    total = fixed + broken + both_passed + both_failed
    return PairedCount(num_pairs=total, both_passed=both_passed, fixed=fixed, broken=broken, both_failed=both_failed)


def comparison(
    pairs: PairedCount, *, num_errors: int = 0, fingerprints: tuple[str, ...] = ("f",), **by_evaluator: PairedCount
) -> Comparison:
    return Comparison(pairs, by_evaluator, (), (), num_errors, frozenset(fingerprints))


def planned(*, look: int = 1, power: float | None = 0.9) -> GateTest:
    return GateTest(look=look, alpha=0.05 / (look * (look + 1)), alpha_total=0.05, base_rate=0.2, power=power)


GOOD = comparison(counts(14, 0, both_failed=2))
SMALL = comparison(counts(4, 0, both_failed=1))


def verdict(
    found: Comparison, *, repeat: Comparison | None = None, test: GateTest | None = None, spec: GateSpec = SPEC
) -> tuple[GateVerdict, str]:
    weighed = weigh(test or planned(), found, about={"short"}, repeat=repeat)
    return judge(weighed, found, spec, repeat)


def test_enough_fixed_and_nothing_broken_passes() -> None:
    assert verdict(GOOD) == ("pass", "evidence of improvement: p < 0.0001, within alpha 0.025 of look 1")


def test_the_same_counts_pass_at_the_first_look_and_not_at_the_fifth() -> None:
    """Trying until it works is what the ledger is for."""
    found = comparison(counts(7, 0, both_failed=9))
    assert verdict(found)[0] == "pass"
    assert verdict(found, test=planned(look=5))[0] == "fail"


@pytest.mark.parametrize(
    ("power", "expected"), [(0.9, "fail"), (0.8, "fail"), (0.79, "underpowered"), (None, "underpowered")]
)
def test_a_miss_counts_against_the_change_only_where_it_could_have_been_seen(
    power: float | None, expected: GateVerdict
) -> None:
    found, note = verdict(SMALL, test=planned(power=power))
    assert found == expected and "p = 0.062 is above alpha 0.025 of look 1" in note


@pytest.mark.parametrize("power", [0.1, 0.9])
def test_no_better_fails_however_few_the_samples(power: float) -> None:
    for pairs in (counts(0, 0, both_failed=5), counts(1, 1, both_failed=6), counts(1, 3, both_passed=4)):
        found, note = verdict(comparison(pairs), test=planned(power=power))
        assert (found, note) == ("fail", f"no improvement: {pairs.fixed} fixed, {pairs.broken} broken")


@pytest.mark.parametrize("pairs", [counts(0, 0, both_passed=13, both_failed=3), counts(2, 2)])
def test_where_little_fails_fixing_none_of_it_is_no_proof_against_a_change(pairs: PairedCount) -> None:
    """At a base of 80 % a change that fixes half of what fails fixes none of three samples in one of eight gates."""
    assert verdict(comparison(pairs), test=planned(power=0.2))[0] == "underpowered"
    assert verdict(comparison(pairs), test=planned(power=0.9))[0] == "fail"


def test_harm_to_another_evaluator_blocks_what_would_pass() -> None:
    harmed = comparison(GOOD.pairs, calm=counts(0, 5, both_passed=11), short=counts(14, 0, both_failed=2))
    found, note = verdict(harmed)
    assert found == "fail" and note.startswith(
        "harm: calm, which the change is not about, got worse (0 fixed, 5 broken, "
    )
    assert verdict(comparison(GOOD.pairs, calm=counts(0, 4, both_passed=12)))[0] == "pass"  # p = 0.0625
    assert (
        verdict(comparison(GOOD.pairs, short=counts(0, 9)))[0] == "pass"
    )  # what it is about is in the verdict already
    assert weigh(planned(), harmed, about={"short"}).harm == {"calm": 2**-5}


def flips(number: int, total: int = 40) -> Comparison:
    return comparison(counts(number // 2, number - number // 2, both_passed=total - number))


def test_a_noisy_baseline_makes_no_evidence() -> None:
    assert verdict(GOOD, repeat=flips(4))[0] == "pass"
    found, note = verdict(GOOD, repeat=flips(5))
    assert found == "noisy" and "disagree on 5 of 40 samples (12 %)" in note
    test = weigh(planned(), GOOD, about=set(), repeat=flips(5))
    assert (test.flip_rate, test.num_flips, test.num_flip_pairs) == (0.125, 5, 40)


@pytest.mark.parametrize(
    ("found", "repeat", "note"),
    [
        (replace(GOOD, fingerprints=frozenset({"one", "two"})), None, "different numerics (one, two)"),
        (GOOD, replace(flips(0), fingerprints=frozenset({"two"})), "different numerics (f, two)"),
        (comparison(counts(0, 0), num_errors=5), None, "all 5 pairs had an attempt in error"),
        (replace(GOOD, num_errors=2), None, "2 of 18 pairs had an attempt in error, more than gate.max_error_rate"),
        (GOOD, replace(flips(0, 4), num_errors=1), "1 of 5 pairs had an attempt in error"),
    ],
)
def test_what_cannot_be_compared_is_an_error_whatever_the_counts(
    found: Comparison, repeat: Comparison | None, note: str
) -> None:
    kind, told = verdict(found, repeat=repeat)
    assert kind == "error" and note in told


def test_a_few_errors_are_dropped() -> None:
    assert verdict(replace(GOOD, num_errors=1))[0] == "pass"


def test_error_comes_before_harm_harm_before_noise_noise_before_a_pass() -> None:
    worst = comparison(GOOD.pairs, num_errors=9, calm=counts(0, 9))
    assert verdict(worst, repeat=flips(9))[0] == "error"
    assert verdict(replace(worst, num_errors=0), repeat=flips(9))[0] == "fail"
    assert verdict(GOOD, repeat=flips(9))[0] == "noisy"


def test_the_hold_out_is_never_a_verdict() -> None:
    assert judge_holdout(comparison(counts(0, 9)))[0] == judge_holdout(GOOD)[0] == "untested"
    assert judge_holdout(comparison(counts(0, 0), num_errors=2))[0] == "error"
