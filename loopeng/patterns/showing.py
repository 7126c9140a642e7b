"""Which failure patterns an attempt shows: one answer for mining, for gates and for watches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopeng.patterns.fingerprint import fingerprint
from loopeng.schema import EvalResult, FailurePattern, Sample

__all__ = ["fingerprint_of", "fingerprints_of_pattern", "own_values", "shown_fingerprints"]


def own_values(sample: Sample) -> dict[str, Any]:
    """What a reason may quote of a sample without being another mistake for it: its inputs and its target."""
    return {**sample.inputs, "target": sample.target}


def fingerprint_of(sample: Sample, result: EvalResult) -> str:
    """The fingerprint of a failed result on a sample."""
    return fingerprint(result.evaluator, result.category or "", result.reason, own_values(sample))


def shown_fingerprints(sample: Sample, results: Iterable[EvalResult]) -> frozenset[str]:
    """Of the failures among an attempt's results that are the model's own fault.

    >>> sample = Sample(id="a", inputs={}, split="gate")
    >>> long = EvalResult(evaluator="short", passed=False, category="length.too_long", reason="41 words")
    >>> len(shown_fingerprints(sample, [long, EvalResult(evaluator="one", passed=True)]))
    1
    """
    failed = (result for result in results if result.passed is False and result.fault_side == "model")
    return frozenset(fingerprint_of(sample, result) for result in failed)


def fingerprints_of_pattern(pattern: FailurePattern, patterns: Iterable[FailurePattern]) -> frozenset[str]:
    """A pattern's own fingerprint and those of the ``patterns`` that people merged into it, directly or by way of
    others.
    """
    known = list(patterns)
    ids, found = {pattern.id}, {pattern.fingerprint}
    while joined := [each for each in known if each.merged_into in ids and each.id not in ids]:
        ids |= {each.id for each in joined}
        found |= {each.fingerprint for each in joined}
    return frozenset(found)
