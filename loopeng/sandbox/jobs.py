"""What a run of tests takes and gives: limits, the job, and a report with an outcome for each test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loopeng.sandbox.planning import TestPlan, TestStep

__all__ = ["Limits", "Outcome", "SandboxJob", "SandboxReport", "StepReport"]

Outcome = Literal[
    "passed",
    "assert",  # a wrong value
    "raised",  # the candidate raised an exception
    "timeout",
    "memory",
    "exit",  # the candidate's process ended
    "not plain",  # it returned a value that is no literal
    "too large",
    "protocol",  # it wrote into the channel
    "syntax",
    "missing",
]


@dataclass(frozen=True)
class Limits:
    """For one run. ``timeout_s`` is for each test by the clock, ``total_s`` for all of them together."""

    timeout_s: float = 5.0
    total_s: float = 30.0
    memory_mb: int = 512


@dataclass(frozen=True)
class SandboxJob:
    """An answer's code and the tests for it. ``prompt`` is code that the answer may continue."""

    code: str
    plan: TestPlan
    prompt: str = ""
    limits: Limits = Limits()


@dataclass(frozen=True)
class StepReport:
    """How one test ended. ``called`` and ``got`` are its last call and the value returned, as texts.

    ``error_type`` is the built-in exception nearest to the one raised. What was returned may be what another test of
    the same run passed in.
    """

    step: TestStep
    outcome: Outcome
    error_type: str = ""
    called: str = ""
    got: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True)
class SandboxReport:
    """How a run ended. ``loading`` is None where the code could be loaded; then there is a report for every step."""

    tier: str
    tests: tuple[StepReport, ...]
    loading: Outcome | None = None
    detail: str = ""  # of loading: the syntax error, the missing name, the type of the exception
    held: tuple[str, ...] = field(default=())  # what its process gave up: limits, memory, ...

    @property
    def num_passed(self) -> int:
        """Tests passed."""
        return sum(test.passed for test in self.tests)

    @property
    def passed(self) -> bool:
        """Every test passed."""
        return self.loading is None and self.num_passed == len(self.tests)
