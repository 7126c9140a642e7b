"""Which failure patterns an attempt shows, whatever run it is of: mining notes those of the reflect split only."""

from __future__ import annotations

from collections.abc import Iterable

from loopeng.patterns.fingerprint import is_current
from loopeng.patterns.miner import faults_in
from loopeng.schema import EvalResult, FailurePattern, Sample

__all__ = ["fingerprints_of_pattern", "shown_fingerprints"]


def shown_fingerprints(sample: Sample, results: Iterable[EvalResult]) -> frozenset[str]:
    """Of the failures among an attempt's results that are the model's own fault.

    >>> sample = Sample(id="a", inputs={}, split="gate")
    >>> long = EvalResult(evaluator="short", passed=False, category="length.too_long", reason="41 words")
    >>> len(shown_fingerprints(sample, [long, EvalResult(evaluator="one", passed=True)]))
    1
    """
    return frozenset(fault.fingerprint(sample) for fault in faults_in(results) if fault.side == "model")


def fingerprints_of_pattern(pattern: FailurePattern, patterns: Iterable[FailurePattern]) -> frozenset[str]:
    """A pattern's own fingerprint and those of the ``patterns`` that people merged into it, also by way of others.

    Those of an earlier version of fingerprints are left out: nothing shows them any more.
    """
    known = list(patterns)
    ids, found = {pattern.id}, {pattern.fingerprint}
    while joined := [each for each in known if each.merged_into in ids and each.id not in ids]:
        ids |= {each.id for each in joined}
        found |= {each.fingerprint for each in joined}
    return frozenset(filter(is_current, found))
