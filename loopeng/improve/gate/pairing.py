"""Counting pairs: a sample's first attempt under the current rules (baseline) and the proposed ones (candidate)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loopeng.schema import Attempt, PairedCount

__all__ = ["Comparison", "compare_attempts", "count_pairs"]


@dataclass(frozen=True)
class Comparison:
    """Both arms side by side. Pairs with an error in either arm are dropped and counted apart."""

    pairs: PairedCount
    by_evaluator: dict[str, PairedCount]
    fixed_samples: tuple[str, ...]
    broken_samples: tuple[str, ...]
    num_errors: int
    fingerprints: frozenset[str]


def count_pairs(outcomes: Iterable[tuple[bool, bool]]) -> PairedCount:
    """Counts of (baseline passed, candidate passed).

    >>> count = count_pairs([(False, True), (True, True), (False, False)])
    >>> count.fixed, count.baseline_passed, count.candidate_passed
    (1, 1, 2)
    """
    found = list(outcomes)
    return PairedCount(
        num_pairs=len(found),
        both_passed=found.count((True, True)),
        fixed=found.count((False, True)),
        broken=found.count((True, False)),
        both_failed=found.count((False, False)),
    )


def compare_attempts(baseline: Mapping[str, Attempt], candidate: Mapping[str, Attempt]) -> Comparison:
    """Compare two arms given as sample id -> first attempt. Samples that only one arm has count as errors."""
    sample_ids = list(dict.fromkeys((*baseline, *candidate)))
    pairs = {
        sample_id: (baseline[sample_id], candidate[sample_id])
        for sample_id in sample_ids
        if _finished(baseline.get(sample_id)) and _finished(candidate.get(sample_id))
    }
    outcomes = {
        sample_id: (first.verdict == "pass", second.verdict == "pass") for sample_id, (first, second) in pairs.items()
    }
    return Comparison(
        pairs=count_pairs(outcomes.values()),
        by_evaluator=_by_evaluator(pairs.values()),
        fixed_samples=tuple(sample_id for sample_id, outcome in outcomes.items() if outcome == (False, True)),
        broken_samples=tuple(sample_id for sample_id, outcome in outcomes.items() if outcome == (True, False)),
        num_errors=len(sample_ids) - len(pairs),
        fingerprints=frozenset(
            attempt.fingerprint
            for attempt in (*baseline.values(), *candidate.values())
            if attempt.fingerprint is not None
        ),
    )


def _finished(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.verdict != "error"


def _by_evaluator(pairs: Iterable[tuple[Attempt, Attempt]]) -> dict[str, PairedCount]:
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    for first, second in pairs:
        before, after = _passed(first), _passed(second)
        for evaluator in before.keys() & after.keys():
            outcomes.setdefault(evaluator, []).append((before[evaluator], after[evaluator]))
    return {evaluator: count_pairs(outcomes[evaluator]) for evaluator in sorted(outcomes)}


def _passed(attempt: Attempt) -> dict[str, bool]:
    return {result.evaluator: result.passed for result in attempt.results if result.passed is not None}
