"""Evidence that may be looked at at any time: exact expectations, and what chance does to a thousand watchers."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.improve.watch.e_process import LARGEST, e_value_above, e_value_below, rejects

RATES = st.floats(0, 1)


def expected(rate: float, num_samples: int, claimed: float) -> float:
    """The exact expectation of the evidence after so many samples with a failure rate, over all outcomes."""
    return sum(
        math.comb(num_samples, failures)
        * rate**failures
        * (1 - rate) ** (num_samples - failures)
        * e_value_above(failures, num_samples, claimed)
        for failures in range(num_samples + 1)
    )


@given(st.floats(0.01, 0.99), st.floats(0, 1), st.integers(0, 12))
def test_evidence_against_a_true_claim_is_expected_to_stay_at_most_one(
    claimed: float, share: float, num_samples: int
) -> None:
    assert expected(claimed * share, num_samples, claimed) <= 1 + 1e-9


@given(st.floats(0.01, 0.99), st.floats(0, 1), st.integers(0, 10), st.data())
def test_one_more_sample_is_expected_to_add_nothing(
    claimed: float, share: float, num_samples: int, data: st.DataObject
) -> None:
    """A supermartingale step by step, not only from the start: else one could stop at a good moment."""
    failures, rate = data.draw(st.integers(0, num_samples)), claimed * share
    now = e_value_above(failures, num_samples, claimed)
    following = rate * e_value_above(failures + 1, num_samples + 1, claimed) + (1 - rate) * e_value_above(
        failures, num_samples + 1, claimed
    )
    assert following <= now * (1 + 1e-9)


@given(st.integers(0, 500), st.integers(0, 500), RATES)
def test_evidence_is_a_finite_number_and_the_mirror_is_one(failures: int, passes: int, rate: float) -> None:
    above, below = e_value_above(failures, failures + passes, rate), e_value_below(passes, failures + passes, 1 - rate)
    assert 0 <= above <= LARGEST
    assert math.isclose(above, below, rel_tol=1e-6, abs_tol=1e-9) or min(rate, 1 - rate) < 1e-9


@given(st.integers(1, 60), st.floats(0.05, 0.95))
def test_more_failures_are_more_evidence(num_samples: int, rate: float) -> None:
    values = [e_value_above(failures, num_samples, rate) for failures in range(num_samples + 1)]
    assert values == sorted(values)


def test_the_edges() -> None:
    assert e_value_above(0, 40, 0.0) < 1 and e_value_above(1, 40, 0.0) == LARGEST
    assert e_value_above(40, 40, 1.0) == 1.0 and e_value_below(0, 40, 0.0) == 1.0
    assert e_value_below(39, 40, 1.0) == LARGEST
    for wrong in ((1, 1, 1.5), (1, 1, -0.1), (2, 1, 0.5), (-1, 1, 0.5)):
        with pytest.raises(ValueError, match=r"between 0 and 1|cannot fail"):
            e_value_above(*wrong)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_whoever_looks_after_every_sample_is_wrong_at_most_once_in_twenty(rate: float) -> None:
    """A test for a fixed number of samples, looked at like this, would be wrong far more often."""
    chance, num_watchers, wrong = random.Random(7), 1000, 0
    for _ in range(num_watchers):
        failures = 0
        for num_samples in range(1, 121):
            failures += chance.random() < rate
            if rejects(e_value_above(failures, num_samples, rate)):
                wrong += 1
                break
    assert wrong <= 0.05 * num_watchers


def test_a_real_change_is_seen_soon() -> None:
    assert rejects(e_value_above(8, 10, 0.2)) and rejects(e_value_below(0, 4, 0.8))
