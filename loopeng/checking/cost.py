"""What a run is going to cost, and whether the task's limits allow it. Tokens are estimated from characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from loopeng.checking.last_run import LastRun
from loopeng.checking.trying import estimated_tokens
from loopeng.prompts import PromptTemplate
from loopeng.schema import Task

__all__ = ["CostEstimate", "LimitReached", "estimate_cost"]


@dataclass(frozen=True)
class LimitReached:
    """A limit of the task that is below what a run needs: at least, as expected, or at most."""

    key: str
    limit: float
    needed: float
    by: Literal["least", "expected", "most"]


@dataclass(frozen=True)
class CostEstimate:
    """``least``: every first attempt passes, with an empty answer. ``most``: all attempts fail, at full length.

    ``expected``: by the last run's averages; None where there is no last run. Tokens at least and at most are None for
    an agent of the user's own, who asks the engine as often and as much as it likes.
    """

    num_samples: int  # repeats included
    least_attempts: int
    most_attempts: int
    expected_attempts: float | None
    least_tokens: int | None  # the prompts of the first attempts
    most_tokens: int | None
    expected_tokens: float | None
    expected_seconds: float | None
    limits: tuple[LimitReached, ...]


def estimate_cost(task: Task, last_run: LastRun | None) -> CostEstimate:
    """Count what can be counted."""
    template = PromptTemplate(task.template)
    prompts = [estimated_tokens(template.render(sample.inputs)) for sample in task.samples]
    number, tries, answer = len(prompts) * task.run.repeats, task.loop.max_attempts, task.engine.max_tokens
    prompt_tokens = sum(prompts) * task.run.repeats
    most_tokens = tries * (prompt_tokens + number * answer) + number * _earlier_answers(task) * answer
    seen = last_run if last_run is not None and last_run.run_id is not None else None
    asked_once = task.agent.kind == "llm"
    cost = CostEstimate(
        num_samples=number,
        least_attempts=number,
        most_attempts=number * tries,
        expected_attempts=None if seen is None else number * seen.attempts_per_sample,
        least_tokens=prompt_tokens if asked_once else None,
        most_tokens=most_tokens if asked_once else None,
        expected_tokens=None if seen is None else number * seen.tokens_per_sample,
        expected_seconds=None if seen is None else number * seen.seconds_per_sample,
        limits=(),
    )
    return replace(cost, limits=tuple(_limits_reached(task, cost)))


def _earlier_answers(task: Task) -> int:
    """How many answers come back in the prompts of one sample: ``feedback`` goes on with the conversation."""
    return sum(range(task.loop.max_attempts)) if task.loop.retry == "feedback" else 0


def _limits_reached(task: Task, cost: CostEstimate) -> Iterator[LimitReached]:
    """What is needed at least counts first, then what is expected; the most only where nothing is expected."""
    limits = task.limits
    for key, limit, least, expected, most in (
        ("attempts", limits.attempts, cost.least_attempts, cost.expected_attempts, cost.most_attempts),
        ("total_tokens", limits.total_tokens, cost.least_tokens, cost.expected_tokens, cost.most_tokens),
        ("total_time_s", limits.total_time_s, None, cost.expected_seconds, None),
    ):
        if limit is None:
            continue
        if least is not None and least > limit:
            yield LimitReached(f"limits.{key}", limit, least, "least")
        elif expected is not None and expected > limit:
            yield LimitReached(f"limits.{key}", limit, expected, "expected")
        elif expected is None and most is not None and most > limit:
            yield LimitReached(f"limits.{key}", limit, most, "most")
