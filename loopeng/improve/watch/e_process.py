"""Tests that may be looked at after every run: e-processes for a failure rate.

An **e-process** against a claim is evidence that starts at 1 and is expected to stay at most 1 while the claim holds,
however long one watches and whenever one stops. By Ville's inequality it then ever reaches 1/alpha with a probability
of at most alpha, so a claim may be rejected the first time it does (Ville 1939, Étude critique de la notion de
collectif; Ramdas, Grünwald, Vovk and Shafer 2023, "Game-theoretic statistics and safe anytime-valid inference").

Here it is the mean of likelihood ratios over a fixed grid of alternative rates (a mixture, sections 2 and 3 there).
Against the boundary of the claim each ratio is a martingale; inside the claim it falls. Only counts matter, not their
order.
"""

from __future__ import annotations

import math

__all__ = ["LARGEST", "e_value_above", "e_value_below", "rejects"]

LARGEST = 1e12  # evidence is cut here: less evidence is still valid, and an infinite number could not be stored
_GRID_SIZE = 20
_NEXT_TO_ONE = 1e-9  # nearer to 1 the alternatives cannot be told from it


def e_value_above(num_failures: int, num_samples: int, rate: float) -> float:
    """Evidence that the failure rate is above ``rate``: against "it is at most ``rate``".

    Nothing is evidence against "at most 1"; one failure is all the evidence there can be against "at most 0".

    >>> e_value_above(0, 0, 0.2), e_value_above(9, 9, 1.0), e_value_above(1, 5, 0.0) == LARGEST
    (1.0, 1.0, True)
    >>> e_value_above(8, 10, 0.2) > 20 > e_value_above(3, 10, 0.2)
    True
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"a rate is between 0 and 1, not {rate}")
    if not 0 <= num_failures <= num_samples:
        raise ValueError(f"{num_failures} of {num_samples} samples cannot fail")
    if rate > 1 - _NEXT_TO_ONE:
        return 1.0
    alternatives = [rate + (1 - rate) * (place + 0.5) / _GRID_SIZE for place in range(_GRID_SIZE)]
    return _mean_ratio(num_failures, num_samples - num_failures, rate, alternatives)


def e_value_below(num_failures: int, num_samples: int, rate: float) -> float:
    """Evidence that the failure rate is below ``rate``: against "it is at least ``rate``". The mirror of the other.

    >>> e_value_below(0, 5, 0.0), e_value_below(0, 4, 0.8) > 20
    (1.0, True)
    """
    return e_value_above(num_samples - num_failures, num_samples, 1 - rate)


def rejects(e_value: float, alpha: float = 0.05) -> bool:
    """Whether the evidence is enough to give the claim up, at an error rate of ``alpha`` over all looks together.

    >>> rejects(20.0), rejects(19.9)
    (True, False)
    """
    return e_value >= 1 / alpha


def _mean_ratio(num_failures: int, num_passes: int, rate: float, alternatives: list[float]) -> float:
    logs = [
        _log_power(other / rate if rate else math.inf, num_failures) + _log_power((1 - other) / (1 - rate), num_passes)
        for other in alternatives
    ]
    largest = max(logs)
    if largest >= math.log(LARGEST * _GRID_SIZE):
        return LARGEST
    return min(LARGEST, math.exp(largest) * sum(math.exp(each - largest) for each in logs) / len(logs))


def _log_power(base: float, exponent: int) -> float:
    return exponent * math.log(base) if exponent else 0.0
