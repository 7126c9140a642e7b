"""What the calls of ``Loop`` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopeng.errors import LoopError
from loopeng.schema import Attempt, FailurePattern, PromptVersion, Proposal, Run, SampleResult, Task

if TYPE_CHECKING:
    from loopeng.run_diff import RunDiff
    from loopeng.run_summary import RunSummary

__all__ = ["AttemptResult", "Instructions", "RescoreResult", "RunResult"]


@dataclass(frozen=True)
class AttemptResult:
    """The best answer, with all attempts in order. ``passed`` is None where an evaluator broke: nobody can tell.

    ``version`` of the prompt is what it was made under.
    """

    text: str
    passed: bool | None
    score: float | None
    attempts: tuple[Attempt, ...]
    version: PromptVersion


@dataclass(frozen=True)
class Instructions:
    """A prompt's head with its learned rules and an input filled in, for an application that generates by itself."""

    text: str
    version: PromptVersion


@dataclass(frozen=True)
class _Summarized:
    """What a run and a rescore have in common."""

    summary: RunSummary
    task: Task

    @property
    def run(self) -> Run:
        """The run's row."""
        return self.summary.run

    @property
    def score(self) -> float:
        """The pass rate that the threshold looks at (``run.on``)."""
        return self.summary.pass_rate(self.task.run.on)


@dataclass(frozen=True)
class RunResult(_Summarized):
    """What a run came to. ``proposals`` are those it made or moved on; ``failures`` the patterns it showed.

    ``improve_error`` is what stopped the work on proposals; the run itself is complete all the same.
    """

    samples: tuple[SampleResult, ...]
    failures: tuple[FailurePattern, ...]
    proposals: tuple[Proposal, ...]
    improve_error: LoopError | None = None

    @property
    def passed(self) -> bool:
        """Whether the run is complete, without errors, at the task's ``run.min_pass_rate``."""
        return self.summary.exit_code(self.task) == 0

    @property
    def exit_code(self) -> int:
        """What the command line would return."""
        code = self.summary.exit_code(self.task)
        return self.improve_error.exit_code if not code and self.improve_error is not None else code


@dataclass(frozen=True)
class RescoreResult(_Summarized):
    """What judging a run again came to. ``left_out`` names samples that are gone from the task, or have new inputs."""

    diff: RunDiff
    left_out: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the command line would return."""
        return self.summary.exit_code(self.task)
