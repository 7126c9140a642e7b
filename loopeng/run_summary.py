"""What a run came to, counted from its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from loopeng.schema import Run, SampleResult, Task, Usage
from loopeng.schema.base import SPLITS
from loopeng.store import LoopStore

__all__ = ["RunSummary", "SplitSummary", "summarize"]


@dataclass(frozen=True)
class SplitSummary:
    """Counts over finished (sample, repeat) pairs. A sample in error neither passed nor failed."""

    samples: int
    first_passed: int
    final_passed: int
    errors: int  # no attempt could be judged
    first_errors: int  # the first attempt could not be judged

    @classmethod
    def of(cls, results: Iterable[SampleResult]) -> SplitSummary:
        """Count results."""
        results = list(results)
        return cls(
            samples=len(results),
            first_passed=sum(result.first_verdict == "pass" for result in results),
            final_passed=sum(result.verdict == "pass" for result in results),
            errors=sum(result.verdict == "error" for result in results),
            first_errors=sum(result.first_verdict == "error" for result in results),
        )

    def pass_rate(self, on: Literal["final", "first"] = "final") -> float:
        """Passed among those that could be judged; 0.0 where none could."""
        passed, errors = (self.final_passed, self.errors) if on == "final" else (self.first_passed, self.first_errors)
        judged = self.samples - errors
        return passed / judged if judged else 0.0


@dataclass(frozen=True)
class RunSummary:
    """``total`` and each split apart; what all attempts cost together."""

    run: Run
    total: SplitSummary
    splits: dict[str, SplitSummary]
    attempts: int
    error_attempts: int  # engine, agent or evaluator broke
    usage: Usage
    latency_s: float  # generation only, summed over the attempts
    tokens_per_second: float | None  # None where no time was measured, or nothing was generated as in a rescore
    acceptance_length: float | None  # tokens per decode pass; None where the engine does not count passes

    def pass_rate(self, on: Literal["final", "first"] = "final") -> float:
        """Of all splits together."""
        return self.total.pass_rate(on)

    def exit_code(self, task: Task) -> int:
        """0 threshold met, 3 below it, 4 samples in error (outranks 3); an unfinished run: 5 limit, 130 otherwise."""
        if self.run.status == "budget":
            return 5
        if self.run.status != "finished":
            return 130
        if self.total.errors:
            return 4
        return 0 if self.pass_rate(task.run.on) >= task.run.min_pass_rate else 3


def summarize(store: LoopStore, run_id: str, task: Task | None = None) -> RunSummary:
    """Count the rows of a run. ``task`` is not needed for counting. Raises NotFoundError."""
    run = store.run(run_id)
    results = store.sample_results(run.id)
    totals = store.run_totals(run.id)
    usage, latency_s = totals.usage, totals.latency_s
    timed = run.rescore_of is None and latency_s > 0 and usage.generated_tokens > 0
    return RunSummary(
        run=run,
        total=SplitSummary.of(results),
        splits={
            split: SplitSummary.of(result for result in results if result.split == split)
            for split in SPLITS
            if any(result.split == split for result in results)
        },
        attempts=totals.num_attempts,
        error_attempts=totals.num_errors,
        usage=usage,
        latency_s=latency_s,
        tokens_per_second=usage.generated_tokens / latency_s if timed else None,
        # prefill and the token it yields are not counted, as in DecodeStats; an attempt is taken for one generation
        acceptance_length=totals.num_decoded_tokens / usage.decode_passes if usage.decode_passes else None,
    )
