"""What every written report of a run begins with: the run, its task, its rates. The samples come beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loopeng.report.judges import JudgeView
from loopeng.report.layout import count
from loopeng.run_rates import PartRates, Rate
from loopeng.run_records import Record
from loopeng.run_summary import RunSummary
from loopeng.schema import Attempt, EvalResult, JudgeUsage, PromptVersion, Run, Task

__all__ = ["REASONS_NOTE", "Records", "RunReport", "share_text"]

Records = Iterable[Record]
"""Samples of a run; they may be gone through more than once."""

REASONS_NOTE = "Reasons may hold expected answers: this report is for people, not for a prompt."


@dataclass(frozen=True)
class RunReport:
    """``rates`` has ``total`` and each split that has samples; ``judges`` are the models that were asked to judge."""

    summary: RunSummary
    task: Task
    version: PromptVersion
    rates: dict[str, PartRates]
    judges: tuple[JudgeView, ...] = ()

    @property
    def run(self) -> Run:
        """The run's row."""
        return self.summary.run

    @property
    def judge_usage(self) -> JudgeUsage:
        """Of all judges together, their anchors included."""
        return sum((view.total_usage for view in self.judges), JudgeUsage())

    @property
    def total(self) -> PartRates:
        """Of all splits together."""
        return self.rates["total"]

    @property
    def counted(self) -> Rate:
        """The rate that the task's ``run.on`` looks at."""
        return self.rate_of(self.total)

    @property
    def progress_note(self) -> str:
        """How much of the task a run that is not complete has done; empty for one that is."""
        if self.run.status == "finished":
            return ""
        wanted = len(self.task.samples) * self.task.run.repeats
        why = self.run.stop_reason or self.run.status
        return f"not complete ({why}): {self.total.samples} of the task's {count(wanted, 'sample')} are finished"

    @property
    def is_clustered(self) -> bool:
        """Whether outcomes go together, so that intervals are wider."""
        return self.total.final.is_clustered or self.total.first.is_clustered

    @property
    def interval_note(self) -> str:
        """What the intervals are."""
        if not self.is_clustered:
            return "95 % intervals (Wilson)"
        grouped = any(sample.group is not None for sample in self.task.samples)
        return f"95 % intervals, clustered by {'group' if grouped else 'sample'}"

    @property
    def repeats_note(self) -> str:
        """What the repeats of first attempts say; empty without repeats."""
        total = self.total
        if total.pass_at_repeats is None:
            return ""
        some, every = (f"{share:.0%}".replace("%", " %") for share in total.pass_at_repeats)
        number = count(total.repeated_samples, "sample")
        return (
            f"of {total.repeats} first attempts at a sample, one passes for {some} of the samples, all for {every} "
            f"({number} with {total.repeats} that could be judged)"
        )

    def rate_of(self, part: PartRates) -> Rate:
        """Of a part, the rate that the task's ``run.on`` looks at."""
        return part.first if self.task.run.on == "first" else part.final

    def failed_or_broken(self, attempt: Attempt) -> list[EvalResult]:
        """The results that say why an attempt did not pass; those of evaluators that only watch do not."""
        counted = (result for result in attempt.results if result.evaluator not in self.task.watching)
        return [result for result in counted if result.error is not None or result.passed is False]

    def why(self, attempt: Attempt) -> list[str]:
        """Why an attempt did not pass, a line for each cause, for people."""
        lines = [] if attempt.error is None else [f"error: {attempt.error}"]
        for result in self.failed_or_broken(attempt):
            said = f"error: {result.error}" if result.error is not None else result.reason or result.feedback
            lines.append(f"{result.evaluator}: {said}")
        return lines


def share_text(rate: Rate) -> str:
    """A rate with its interval in per cent.

    >>> from loopeng.run_statistics import Cluster
    >>> share_text(Rate((Cluster(1, 1),) * 13 + (Cluster(0, 1),) * 3))
    '13/16 (81 %) [57, 93]'
    >>> share_text(Rate((), errors=2))
    '0/0'
    """
    if rate.share is None:
        return "0/0"
    low, high = rate.interval
    return f"{rate.passed}/{rate.judged} ({rate.share * 100:.0f} %) [{low * 100:.0f}, {high * 100:.0f}]"
