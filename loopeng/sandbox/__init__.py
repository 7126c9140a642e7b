"""Runs generated code against tests, away from everything it could harm or learn.

**Who is trusted.** The tests and what the task gives for them are yours and trusted. The generated code, the
**candidate**, is not. The tests run in one process, the candidate in another, inside a **tier** (``tiers`` says what
each holds and what not). The tests call the candidate's functions; arguments and return values travel as text and are
read as literals of exact types (``literals``). So the text of a test never enters the candidate's process, and nothing
the candidate prints, writes, raises or exits with decides anything: only the values it returns do.

Arguments travel by value: what a function does to a list it was given is not seen by the test. Tests must look at what
is returned. An exception arrives as the built-in exception nearest to it, or as ``CandidateError``, a name the tests
know.

**What this does not do.** A candidate can still answer wrongly on purpose, be slow within its time, or use a hole in
the kernel. In the tier ``subprocess``, on a system that cannot filter system calls, it can also do what you can do.
"""

from loopeng.sandbox.jobs import Limits, Outcome, SandboxJob, SandboxReport, StepReport
from loopeng.sandbox.planning import TestPlan, TestStep, example_steps, plan_tests
from loopeng.sandbox.running import MAX_SIDE_BY_SIDE, run_many, run_tests
from loopeng.sandbox.tiers import TIERS, Tier, TierName, choose_tier, tier_states

__all__ = [
    "MAX_SIDE_BY_SIDE",
    "TIERS",
    "Limits",
    "Outcome",
    "SandboxJob",
    "SandboxReport",
    "StepReport",
    "TestPlan",
    "TestStep",
    "Tier",
    "TierName",
    "choose_tier",
    "example_steps",
    "plan_tests",
    "run_many",
    "run_tests",
    "tier_states",
]
