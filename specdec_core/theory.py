"""When drafts pay: expected tokens, speed factors, break-even acceptance and the roofline of a decode pass.

Pure arithmetic. Written a: acceptance, the probability that a draft token is accepted given that those before it were.
K: draft length. c: the time to draft one token, and v: the time of a pass that verifies K drafts, both as multiples of
a plain pass (one token, no draft). E: expected tokens of one decode pass, the recovered or bonus token included.

Sources: Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (arXiv 2211.17192);
Daliri, Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative Decoding" (arXiv
2408.07978); Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specdec_core.errors import RequestError

__all__ = [
    "Roofline",
    "break_even_acceptance",
    "decode_roofline",
    "expected_tokens",
    "expected_tokens_by_length",
    "expected_tokens_per_pass",
    "gumbel_acceptance",
    "gumbel_acceptance_bound",
    "optimal_draft_length",
    "rejection_acceptance",
    "speedup",
    "total_variation",
]

_BISECTIONS = 60  # halvings of [0, 1]: to the last bit of a float


def expected_tokens(acceptance_by_position: Sequence[float]) -> float:
    """E for a draft whose position i is accepted with probability a_i, given that all before it were.

    E = 1 + sum over i <= K of a_1 ... a_i: Leviathan et al., equation (1), without its assumption that the a_i are
    equal. No drafts give 1.0. Raises RequestError for an acceptance outside 0..1.

    >>> expected_tokens([0.5, 0.5])
    1.75
    >>> expected_tokens([])
    1.0
    """
    return expected_tokens_by_length(acceptance_by_position)[-1]


def expected_tokens_by_length(acceptance_by_position: Sequence[float]) -> list[float]:
    """E(0) to E(K): of the draft's beginnings of every length. Errors as for :func:`expected_tokens`.

    >>> expected_tokens_by_length([0.5, 0.5])
    [1.0, 1.5, 1.75]
    """
    expected, reached = [1.0], 1.0
    for acceptance in acceptance_by_position:
        _check_probability(acceptance)
        reached *= acceptance
        expected.append(expected[-1] + reached)
    return expected


def expected_tokens_per_pass(acceptance: float, num_draft_tokens: int) -> float:
    """E for K drafts of equal acceptance: (1 - a^(K+1)) / (1 - a), and K + 1 where a = 1.

    Leviathan et al., equation (1). Accepted drafts are E - 1. Raises RequestError for an acceptance outside 0..1 or a
    negative K.

    >>> round(expected_tokens_per_pass(0.8, 4), 2)
    3.36
    >>> expected_tokens_per_pass(1.0, 4)
    5.0
    """
    _check_draft_length(num_draft_tokens)
    return expected_tokens([acceptance] * num_draft_tokens)


def speedup(acceptance: float, num_draft_tokens: int, *, verify_cost: float = 1.0, draft_cost: float = 0.0) -> float:
    """Tokens per second as a multiple of plain decoding: E / (v + K c).

    Leviathan et al., theorem 3.8, where v = 1; ours for a pass over K + 1 rows that costs more than one over 1.

    Args:
        acceptance: a, equal at every position.
        num_draft_tokens: K.
        verify_cost: v, in plain passes.
        draft_cost: c, in plain passes per draft token.

    Raises:
        RequestError: an acceptance outside 0..1, a negative K or c, or a v that is not positive.

    >>> round(speedup(0.8, 4, draft_cost=0.1), 2)  # a small model drafts; verification is free
    2.4
    >>> speedup(0.5, 1, verify_cost=1.5)  # what drafting gains, the wider pass loses
    1.0
    """
    return expected_tokens_per_pass(acceptance, num_draft_tokens) / _round_cost(
        num_draft_tokens, verify_cost, draft_cost
    )


def break_even_acceptance(num_draft_tokens: int, *, verify_cost: float = 1.0, draft_cost: float = 0.0) -> float | None:
    """The acceptance at which K drafts neither gain nor lose: E(a, K) = v + K c, solved for a.

    Any acceptance above it gains, because E grows with a from 1 to K + 1. 0.0 where drafts cost nothing; None where
    they lose even when all of them are accepted. Arguments and errors as for :func:`speedup`.

    >>> round(break_even_acceptance(4, verify_cost=1.5), 2)
    0.34
    >>> break_even_acceptance(1, verify_cost=2.5) is None
    True
    """
    cost = _round_cost(num_draft_tokens, verify_cost, draft_cost)
    if cost > num_draft_tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if expected_tokens_per_pass(middle, num_draft_tokens) < cost:
            low = middle
        else:
            high = middle
    return 0.0 if cost <= 1.0 else high


def optimal_draft_length(
    acceptance: float | Sequence[float], pass_times: Sequence[float], *, draft_time: float = 0.0
) -> int:
    """The K >= 0 with the highest goodput E(K) / T(K), T(K) = pass_times[K] + K draft_time; 0 is plain decoding.

    Of equal ones the smallest, so that drafts which gain nothing are not made. In the flat case (v = 1, equal a) some
    K > 0 wins if and only if a > c: Leviathan et al., corollary 3.9. The word goodput is Liu et al.'s (arXiv
    2406.14066).

    Args:
        acceptance: One probability for every position, or one per position (K is then at most their number).
        pass_times: Item K is the time of a pass that verifies K drafts (over K + 1 tokens), any unit.
        draft_time: Time to draft one token, same unit.

    Raises:
        RequestError: no pass times, one that is not positive, a negative draft time, an acceptance outside 0..1.

    >>> optimal_draft_length(0.8, [24, 23, 23, 23, 26, 26, 26, 26])  # 4 rows for 24 ms, 8 for 26
    7
    >>> optimal_draft_length(0.3, [10, 14, 18])
    0
    """
    if not pass_times or not all(time > 0 for time in pass_times) or draft_time < 0:
        raise RequestError(f"times must be above 0, and drafting not below: {list(pass_times)!r}, {draft_time!r}")
    longest = len(pass_times) - 1
    by_position = [acceptance] * longest if isinstance(acceptance, int | float) else list(acceptance)
    expected = expected_tokens_by_length(by_position[:longest])
    goodputs = [tokens / (pass_times[length] + length * draft_time) for length, tokens in enumerate(expected)]
    return goodputs.index(max(goodputs))


def total_variation(p: Sequence[float], q: Sequence[float]) -> float:
    """TV(p, q) = 1/2 sum |p - q| = 1 - sum min(p, q), between 0 (equal laws) and 1 (disjoint ones).

    Leviathan et al., definition 3.2 and lemma 3.3. Raises RequestError unless both are laws over the same tokens.

    >>> round(total_variation([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]), 9)
    0.3
    """
    _check_laws(p, q)
    return sum(abs(left - right) for left, right in zip(p, q, strict=True)) / 2


def rejection_acceptance(p: Sequence[float], q: Sequence[float]) -> float:
    """Acceptance of a token drawn from q and verified by rejection against p: 1 - TV(p, q).

    Leviathan et al., theorem 3.5; no way to verify accepts more. Errors as for :func:`total_variation`.

    >>> round(rejection_acceptance([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]), 9)
    0.7
    """
    return 1.0 - total_variation(p, q)


def gumbel_acceptance(p: Sequence[float], q: Sequence[float]) -> float:
    """Acceptance in match mode where the drafter draws from q with the target's own noise.

    sum_x 1 / sum_y max(p_y / p_x, q_y / q_x) over x with p_x, q_x > 0: x wins both Gumbel races iff its exponential is
    the first under both sets of rates. Never below :func:`gumbel_acceptance_bound` (Daliri et al.), never above
    :func:`rejection_acceptance`. Errors as for :func:`total_variation`.

    >>> round(gumbel_acceptance([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]), 3)
    0.694
    """
    _check_laws(p, q)
    laws = list(zip(p, q, strict=True))
    return sum(1.0 / sum(max(py / px, qy / qx) for py, qy in laws) for px, qx in laws if px > 0 and qx > 0)


def gumbel_acceptance_bound(p: Sequence[float], q: Sequence[float]) -> float:
    """The least that shared noise can accept: (1 - TV) / (1 + TV).

    Daliri et al.: Weighted MinHash accepts exactly this, Gumbel noise never less. Errors as for
    :func:`total_variation`.

    >>> round(gumbel_acceptance_bound([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]), 3)
    0.538
    """
    distance = total_variation(p, q)
    return (1.0 - distance) / (1.0 + distance)


@dataclass(frozen=True, slots=True)
class Roofline:
    """What one decode pass reads and computes, and the time it needs at least."""

    num_bytes: float  # read from memory
    num_flops: float
    arithmetic_intensity: float  # FLOP per byte
    ridge: float  # FLOP per byte above which arithmetic is the limit
    floor_time_s: float
    bound: Literal["memory", "compute"]


def decode_roofline(
    *,
    weight_bytes: float,
    num_weights: float,
    num_rows: int,
    bandwidth: float,
    peak_flops: float,
    kv_bytes: float = 0.0,
    attention_flops: float = 0.0,
) -> Roofline:
    """The floor of a decode pass: every weight is read once and multiplied with every row.

    bytes = weights + keys and values, FLOP = 2 weights rows + attention, time >= max(bytes / bandwidth, FLOP / peak);
    the pass is memory-bound while FLOP / bytes is below the ridge, peak / bandwidth (Williams et al. 2009).

    Args:
        weight_bytes, kv_bytes: Bytes of weights, and of keys and values, that the pass reads.
        num_weights: Weights that each row is multiplied with.
        num_rows: Rows of the pass: draft tokens plus one, over all sequences.
        bandwidth, peak_flops: Of the machine, bytes and FLOP per second.
        attention_flops: FLOP of attention.

    Raises RequestError unless weight_bytes, num_rows, bandwidth and peak_flops are above 0.

    >>> floor = decode_roofline(weight_bytes=140e9, num_weights=70e9, num_rows=8, bandwidth=4.8e12, peak_flops=989e12)
    >>> round(floor.floor_time_s * 1000, 1), floor.arithmetic_intensity, round(floor.ridge), floor.bound
    (29.2, 8.0, 206, 'memory')
    """
    if not min(weight_bytes, num_rows, bandwidth, peak_flops) > 0:
        raise RequestError("weight_bytes, num_rows, bandwidth and peak_flops must be above 0")
    num_bytes = weight_bytes + kv_bytes
    num_flops = 2.0 * num_weights * num_rows + attention_flops
    read_time_s, compute_time_s = num_bytes / bandwidth, num_flops / peak_flops
    floor_time_s = max(read_time_s, compute_time_s)
    bound: Literal["memory", "compute"] = "memory" if read_time_s >= compute_time_s else "compute"
    return Roofline(num_bytes, num_flops, num_flops / num_bytes, peak_flops / bandwidth, floor_time_s, bound)


def _round_cost(num_draft_tokens: int, verify_cost: float, draft_cost: float) -> float:
    """v + K c, in plain passes."""
    _check_draft_length(num_draft_tokens)
    if not (verify_cost > 0 and draft_cost >= 0):
        raise RequestError(f"verify_cost must be above 0 and draft_cost at least 0: {verify_cost!r}, {draft_cost!r}")
    return verify_cost + num_draft_tokens * draft_cost


def _check_draft_length(num_draft_tokens: int) -> None:
    if num_draft_tokens < 0:
        raise RequestError(f"num_draft_tokens must be at least 0, got {num_draft_tokens!r}")


def _check_probability(value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise RequestError(f"an acceptance lies within 0..1, got {value!r}")


def _check_laws(*laws: Sequence[float]) -> None:
    if len({len(law) for law in laws}) != 1:
        raise RequestError(f"the laws are over different numbers of tokens: {[len(law) for law in laws]}")
    for law in laws:
        if not all(value >= 0 for value in law) or not math.isclose(sum(law), 1.0, abs_tol=1e-6):
            raise RequestError(f"a law has no negative probabilities and sums to 1, got {list(law)!r}")
