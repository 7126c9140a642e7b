"""Which attempt of a sample is kept: the best one, not the last."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.schema import Attempt, SampleResult

__all__ = ["best_attempt", "sample_result"]

_RANK = {"pass": 2, "fail": 1, "error": 0}


def best_attempt(attempts: Sequence[Attempt]) -> Attempt:
    """A pass before a fail before an error; then the higher score; then the earlier one."""
    return max(attempts, key=lambda attempt: (_RANK[attempt.verdict], _score(attempt), -attempt.attempt_index))


def sample_result(attempts: Sequence[Attempt], split: str) -> SampleResult:
    """How the sample ended; ``attempts`` are all of one (run, sample, repeat)."""
    first = min(attempts, key=lambda attempt: attempt.attempt_index)
    best = best_attempt(attempts)
    return SampleResult(
        run_id=best.run_id,
        sample_id=best.sample_id,
        repeat=best.repeat,
        split=split,
        first_verdict=first.verdict,
        verdict=best.verdict,
        score=best.score,
        best_attempt_index=best.attempt_index,
        num_attempts=len(attempts),
    )


def _score(attempt: Attempt) -> float:
    return -1.0 if attempt.score is None else attempt.score
