"""Patterns that read nearly alike. A suggestion to merge, for a person: nothing here is acted upon by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from loopeng.schema import FailurePattern

__all__ = ["NEARLY_ALIKE", "MergeSuggestion", "suggest_merges"]

NEARLY_ALIKE = 0.8
"""Cosine from which two patterns are suggested. Reworded reasons of one mistake come to 0.8 to 0.98, the same reason
under an earlier version of the fingerprints to 1; "words" against "characters" to 0.75, too long against too short to
0.56. A wrong suggestion costs a glance, a wrong merge cannot be undone: so it stays a suggestion."""

_COMPARED = 200  # of one evaluator, the most frequent: beyond it somebody should look at the evaluator
_CANNOT_GO = frozenset({"proposed", "watching"})  # a proposal or a watch needs them as they are


@dataclass(frozen=True)
class MergeSuggestion:
    """``source`` reads like ``into``, which has more samples, or which a proposal or a watch is about."""

    source: str
    into: str
    similarity: float


def suggest_merges(patterns: Sequence[FailurePattern]) -> list[MergeSuggestion]:
    """At most one suggestion for each pattern, among those of the same prompt, evaluator and side; the closest first.

    Compared are category and reason, as character 3-grams weighed by TF-IDF over the two of them: how alike two
    patterns are does not depend on how many more there are.
    """
    there = sorted((each for each in patterns if each.merged_into is None), key=_kind)
    found = [
        suggestion for _, group in groupby(there, key=_kind) for suggestion in _among(sorted(group, key=_who_stays))
    ]
    return sorted(found, key=lambda it: (-it.similarity, it.source))


def _kind(pattern: FailurePattern) -> tuple[str, str, str]:
    return pattern.prompt_name, pattern.evaluator, pattern.fault_side


def _who_stays(pattern: FailurePattern) -> tuple[object, ...]:
    fixed = pattern.state in _CANNOT_GO
    return not fixed, -pattern.num_samples, -pattern.num_occurrences, pattern.created_at, pattern.id


def _among(patterns: Sequence[FailurePattern]) -> Iterator[MergeSuggestion]:
    """Each pattern goes to the one it is closest to among those before it that stay."""
    if len(patterns) < 2:
        return
    patterns = patterns[:_COMPARED]
    cosines = _cosines([f"{pattern.category} {pattern.reason}" for pattern in patterns])
    staying = [0]
    for place in range(1, len(patterns)):
        closest = max(staying, key=lambda other: (cosines[place, other], -other))
        if cosines[place, closest] >= NEARLY_ALIKE and patterns[place].state not in _CANNOT_GO:
            similarity = min(1.0, float(cosines[place, closest]))
            yield MergeSuggestion(patterns[place].id, patterns[closest].id, similarity)
        else:
            staying.append(place)


def _cosines(texts: Sequence[str]) -> Any:
    """[n, n] of TF-IDF vectors fitted on each pair alone: what one of two texts lacks weighs ln(3/2) + 1, not 1."""
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer

    counts = CountVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(texts).toarray().astype(float)
    squares, has = counts**2, (counts > 0).astype(float)
    shared = squares @ has.T  # of the row's text, over the grams that the column's text has too
    rare = math.log(3 / 2) + 1
    norms = np.sqrt(shared + rare**2 * (squares.sum(axis=1, keepdims=True) - shared))
    return (counts @ counts.T) / (norms * norms.T)
