"""The formulas against what they stand for: simulated rounds and races, written-out sums, exhaustive search."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.errors import RequestError
from specdec_core.theory import (
    break_even_acceptance,
    decode_roofline,
    expected_tokens,
    expected_tokens_per_pass,
    gumbel_acceptance,
    gumbel_acceptance_bound,
    optimal_draft_length,
    rejection_acceptance,
    speedup,
    total_variation,
)

UNTIMED = settings(deadline=None)  # a busy machine may stop any example for long
PROBABILITIES = st.floats(0, 1)
TIMES = st.floats(0.1, 10)
# The worked example of three tokens, whose values are known from simulation.
P, Q = (0.5, 0.3, 0.2), (0.2, 0.5, 0.3)


@st.composite
def two_laws(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    size = draw(st.integers(1, 6))
    weights = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
    p, q = draw(weights), draw(weights)
    return [weight / sum(p) for weight in p], [weight / sum(q) for weight in q]


def simulated_tokens(acceptance_by_position: list[float], num_rounds: int, seed: int) -> tuple[float, float]:
    """Mean tokens of a round and its standard error: accept one by one, stop at the first rejection, one token more."""
    rng = random.Random(seed)
    counts = []
    for _ in range(num_rounds):
        count = 1
        for acceptance in acceptance_by_position:
            if rng.random() >= acceptance:
                break
            count += 1
        counts.append(count)
    mean = sum(counts) / num_rounds
    variance = sum((count - mean) ** 2 for count in counts) / num_rounds
    return mean, math.sqrt(variance / num_rounds)


@pytest.mark.parametrize(
    "acceptance_by_position", [[0.8] * 4, [0.3] * 8, [0.9, 0.6, 0.3], [0.2, 0.9], [0.95] * 16, [1.0, 0.0, 1.0]]
)
def test_expected_tokens_is_the_mean_of_simulated_rounds(acceptance_by_position: list[float]) -> None:
    mean, error = simulated_tokens(acceptance_by_position, num_rounds=20_000, seed=1)
    assert abs(expected_tokens(acceptance_by_position) - mean) <= 4 * error


@UNTIMED
@given(st.lists(PROBABILITIES, max_size=12))
def test_expected_tokens_is_one_plus_the_sum_of_prefix_probabilities(acceptances: list[float]) -> None:
    prefixes = [math.prod(acceptances[: length + 1]) for length in range(len(acceptances))]
    assert expected_tokens(acceptances) == pytest.approx(1 + sum(prefixes))


@UNTIMED
@given(st.floats(0, 0.999), st.integers(0, 32))
def test_equal_acceptances_have_the_closed_form(acceptance: float, num_draft_tokens: int) -> None:
    closed = (1 - acceptance ** (num_draft_tokens + 1)) / (1 - acceptance)
    assert expected_tokens_per_pass(acceptance, num_draft_tokens) == pytest.approx(closed)


@UNTIMED
@given(PROBABILITIES, st.integers(0, 31))
def test_a_longer_draft_never_emits_less_and_never_more_than_one_token_more(acceptance: float, length: int) -> None:
    shorter, longer = (expected_tokens_per_pass(acceptance, k) for k in (length, length + 1))
    assert shorter <= longer <= shorter + 1 + 1e-12


EXPECTED_TOKENS = {  # K: 1, 2, 3, 4, 5, 8, 16, 32
    0.3: (1.30, 1.39, 1.42, 1.43, 1.43, 1.43, 1.43, 1.43),
    0.5: (1.50, 1.75, 1.88, 1.94, 1.97, 2.00, 2.00, 2.00),
    0.7: (1.70, 2.19, 2.53, 2.77, 2.94, 3.20, 3.33, 3.33),
    0.8: (1.80, 2.44, 2.95, 3.36, 3.69, 4.33, 4.89, 5.00),
    0.9: (1.90, 2.71, 3.44, 4.10, 4.69, 6.13, 8.33, 9.69),
    0.95: (1.95, 2.85, 3.71, 4.52, 5.30, 7.40, 11.6, 16.3),
}


@pytest.mark.parametrize("acceptance", EXPECTED_TOKENS)
def test_expected_tokens_table(acceptance: float) -> None:
    for length, expected in zip((1, 2, 3, 4, 5, 8, 16, 32), EXPECTED_TOKENS[acceptance], strict=True):
        digits = 1 if expected > 10 else 2
        assert abs(expected_tokens_per_pass(acceptance, length) - expected) <= 0.501 * 10**-digits


OPTIMA = {  # cost of one more token, in plain passes -> by acceptance 0.3, 0.5, 0.6, 0.7, 0.8, 0.9: (K, speed factor)
    0.01: ((3, 1.38), (5, 1.88), (7, 2.30), (9, 2.97), (14, 4.23), (24, 7.49)),
    0.02: ((3, 1.34), (4, 1.79), (6, 2.17), (8, 2.76), (11, 3.82), (19, 6.37)),
    0.05: ((2, 1.26), (3, 1.63), (4, 1.92), (6, 2.35), (8, 3.09), (13, 4.67)),
    0.10: ((1, 1.18), (2, 1.46), (3, 1.67), (4, 1.98), (6, 2.47), (10, 3.43)),
    0.20: ((1, 1.08), (1, 1.25), (2, 1.40), (3, 1.58), (4, 1.87), (7, 2.37)),
    0.30: ((0, 1.00), (1, 1.15), (1, 1.23), (2, 1.37), (3, 1.55), (5, 1.87)),
}


@pytest.mark.parametrize("cost", OPTIMA)
def test_optimal_draft_length_table(cost: float) -> None:
    """One cost of a further token, whether it is drafting (c) or a wider pass: the formula is the same."""
    for acceptance, (length, factor) in zip((0.3, 0.5, 0.6, 0.7, 0.8, 0.9), OPTIMA[cost], strict=True):
        assert optimal_draft_length(acceptance, [1.0] * 40, draft_time=cost) == length
        assert optimal_draft_length(acceptance, [1 + k * cost for k in range(40)]) == length
        assert speedup(acceptance, length, draft_cost=cost) == pytest.approx(factor, abs=0.00501)
        assert speedup(acceptance, length, verify_cost=1 + length * cost) == pytest.approx(factor, abs=0.00501)


@pytest.mark.parametrize(
    ("cost", "length", "acceptance"),
    [
        (1.1, 2, 0.09),
        (1.1, 8, 0.09),
        (1.25, 4, 0.20),
        (1.5, 1, 0.50),
        (1.5, 2, 0.37),
        (1.5, 4, 0.34),
        (2.0, 2, 0.62),
        (2.0, 4, 0.52),
        (2.0, 8, 0.50),
        (3.0, 1, None),
        (3.0, 4, 0.74),
        (3.0, 8, 0.68),
        (2.01, 1, None),
        (1.0, 4, 0.0),
        (0.9, 4, 0.0),
    ],
)
def test_break_even_table(cost: float, length: int, acceptance: float | None) -> None:
    expected = None if acceptance is None else pytest.approx(acceptance, abs=0.00501)
    assert break_even_acceptance(length, verify_cost=cost) == expected
    assert break_even_acceptance(length, verify_cost=cost / 2, draft_cost=cost / 2 / length) == expected


def test_break_even_needs_every_draft_accepted_where_the_pass_costs_all_it_can_give() -> None:
    assert break_even_acceptance(1, verify_cost=2.0) == pytest.approx(1.0)
    assert break_even_acceptance(2, verify_cost=3.0) == pytest.approx(1.0)


@UNTIMED
@given(st.floats(0.01, 1), st.integers(1, 16), st.floats(0, 0.05))
def test_break_even_is_the_inverse_of_expected_tokens(acceptance: float, length: int, draft_cost: float) -> None:
    verify_cost = expected_tokens_per_pass(acceptance, length) - length * draft_cost
    if verify_cost <= 0:
        return
    found = break_even_acceptance(length, verify_cost=verify_cost, draft_cost=draft_cost)
    assert found == pytest.approx(acceptance, abs=1e-6)
    assert speedup(found, length, verify_cost=verify_cost, draft_cost=draft_cost) == pytest.approx(1.0)


@UNTIMED
@given(st.integers(1, 16), st.floats(0.5, 20), st.floats(0, 1), PROBABILITIES)
def test_above_break_even_drafts_gain_and_below_they_lose(
    length: int, verify_cost: float, draft_cost: float, acceptance: float
) -> None:
    threshold = break_even_acceptance(length, verify_cost=verify_cost, draft_cost=draft_cost)
    factor = speedup(acceptance, length, verify_cost=verify_cost, draft_cost=draft_cost)
    if threshold is None or acceptance < threshold:
        assert factor <= 1 + 1e-9
    else:
        assert factor >= 1 - 1e-9


@UNTIMED
@given(st.lists(PROBABILITIES, max_size=10), st.lists(TIMES, min_size=1, max_size=12), st.floats(0, 1))
def test_optimal_draft_length_is_the_best_of_all(
    acceptances: list[float], pass_times: list[float], draft_time: float
) -> None:
    chosen = optimal_draft_length(acceptances, pass_times, draft_time=draft_time)
    lengths = range(min(len(acceptances), len(pass_times) - 1) + 1)
    by_length = [expected_tokens(acceptances[:k]) / (pass_times[k] + k * draft_time) for k in lengths]
    assert by_length[chosen] == max(by_length)
    assert chosen == by_length.index(max(by_length))


@UNTIMED
@given(PROBABILITIES, st.floats(0, 1))
def test_some_draft_pays_if_and_only_if_acceptance_exceeds_its_cost(acceptance: float, draft_cost: float) -> None:
    """Leviathan et al., corollary 3.9, with its bound for K = 1."""
    if abs(acceptance - draft_cost) < 1e-9:
        return
    length = optimal_draft_length(acceptance, [1.0] * 20, draft_time=draft_cost)
    assert (length > 0) == (acceptance > draft_cost)
    if length:
        least = (1 + acceptance) / (1 + draft_cost)
        assert speedup(acceptance, length, draft_cost=draft_cost) >= least - 1e-9


def test_drafts_that_gain_nothing_are_not_made() -> None:
    assert optimal_draft_length(0.0, [1.0, 1.0, 1.0]) == 0
    assert optimal_draft_length([0.5, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]) == 1
    assert optimal_draft_length([], [1.0, 1.0]) == 0


def accepted_by_rejection(p: tuple[float, ...], q: tuple[float, ...], rng: random.Random) -> bool:
    drafted = rng.choices(range(len(q)), q)[0]
    return rng.random() < p[drafted] / q[drafted]


def accepted_by_shared_noise(p: tuple[float, ...], q: tuple[float, ...], rng: random.Random) -> bool:
    noise = [-math.log(-math.log(rng.random())) for _ in p]
    winners = [max(range(len(law)), key=lambda x: math.log(law[x]) + noise[x]) for law in (p, q)]
    return winners[0] == winners[1]


@pytest.mark.parametrize(
    ("rule", "formula"),
    [(accepted_by_rejection, rejection_acceptance), (accepted_by_shared_noise, gumbel_acceptance)],
)
@pytest.mark.parametrize(("p", "q"), [(P, Q), (Q, P), ((0.9, 0.05, 0.05), (0.1, 0.8, 0.1)), ((0.6, 0.4), (0.6, 0.4))])
def test_acceptance_is_the_rate_of_simulated_drafts(
    rule: Callable[..., bool], formula: Callable[..., float], p: tuple[float, ...], q: tuple[float, ...]
) -> None:
    rng, num_drafts = random.Random(3), 20_000
    rate = sum(rule(p, q, rng) for _ in range(num_drafts)) / num_drafts
    error = math.sqrt(max(rate * (1 - rate), 1e-12) / num_drafts)
    assert abs(formula(p, q) - rate) <= 4 * error


@UNTIMED
@given(two_laws())
def test_shared_noise_accepts_between_its_bound_and_the_optimum(laws: tuple[list[float], list[float]]) -> None:
    p, q = laws
    assert gumbel_acceptance_bound(p, q) - 1e-9 <= gumbel_acceptance(p, q) <= rejection_acceptance(p, q) + 1e-9
    assert rejection_acceptance(p, q) == pytest.approx(sum(map(min, p, q)))
    assert total_variation(p, q) == pytest.approx(total_variation(q, p))
    assert gumbel_acceptance(p, p) == pytest.approx(1.0)


def test_the_worked_example() -> None:
    assert rejection_acceptance(P, Q) == pytest.approx(0.70)
    assert gumbel_acceptance(P, Q) == pytest.approx(0.694, abs=0.001)
    assert gumbel_acceptance_bound(P, Q) == pytest.approx(0.538, abs=0.001)
    assert gumbel_acceptance((1.0, 0.0), (0.0, 1.0)) == 0.0


@pytest.mark.parametrize(("weight_bytes", "milliseconds"), [(2e9, 0.42), (14e9, 2.9), (70e9, 14.6), (140e9, 29.2)])
def test_floors_of_an_h200_at_one_row(weight_bytes: float, milliseconds: float) -> None:
    floor = decode_roofline(
        weight_bytes=weight_bytes, num_weights=weight_bytes / 2, num_rows=1, bandwidth=4.8e12, peak_flops=989e12
    )
    assert floor.floor_time_s * 1000 == pytest.approx(milliseconds, rel=0.01)
    assert (floor.bound, floor.arithmetic_intensity) == ("memory", 1.0)


@UNTIMED
@given(st.integers(1, 1000), st.floats(0, 1e9))
def test_a_pass_is_memory_bound_up_to_the_ridge(num_rows: int, kv_bytes: float) -> None:
    floor = decode_roofline(
        weight_bytes=2e9, num_weights=1e9, num_rows=num_rows, bandwidth=1e11, peak_flops=1e13, kv_bytes=kv_bytes
    )
    assert floor.ridge == pytest.approx(100)
    assert floor.bound == ("memory" if floor.arithmetic_intensity <= floor.ridge else "compute")
    assert floor.floor_time_s == pytest.approx(max(floor.num_bytes / 1e11, floor.num_flops / 1e13))


def test_attention_counts_as_arithmetic() -> None:
    facts = {"weight_bytes": 2.0, "num_weights": 1.0, "num_rows": 1, "bandwidth": 1.0, "peak_flops": 1.0}
    assert decode_roofline(**facts, attention_flops=7.0).num_flops == 9.0
    assert decode_roofline(**facts, attention_flops=7.0).bound == "compute"


@pytest.mark.parametrize(
    "call",
    [
        lambda: expected_tokens([0.5, 1.1]),
        lambda: expected_tokens([math.nan]),
        lambda: expected_tokens_per_pass(0.5, -1),
        lambda: speedup(-0.1, 1),
        lambda: speedup(0.5, 1, verify_cost=0),
        lambda: speedup(0.5, 1, draft_cost=-1),
        lambda: break_even_acceptance(-1),
        lambda: optimal_draft_length(0.5, []),
        lambda: optimal_draft_length(0.5, [1.0, 0.0]),
        lambda: optimal_draft_length(0.5, [1.0, 1.0], draft_time=-1),
        lambda: optimal_draft_length(2.0, [1.0, 1.0]),
        lambda: total_variation([0.5, 0.5], [1.0]),
        lambda: total_variation([0.5, 0.4], [0.5, 0.5]),
        lambda: gumbel_acceptance([1.5, -0.5], [0.5, 0.5]),
        lambda: decode_roofline(weight_bytes=0, num_weights=1, num_rows=1, bandwidth=1, peak_flops=1),
    ],
)
def test_what_has_no_meaning_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(RequestError):
        call()
