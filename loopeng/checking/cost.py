"""What a run is going to cost, and whether the task's limits allow it. Tokens are estimated from characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loopeng.checking.last_run import LastRun
from loopeng.checking.trying import estimated_tokens
from loopeng.evaluators.parts import runs_own_code, walk_parts
from loopeng.ports import Evaluator
from loopeng.prompts import PromptTemplate
from loopeng.schema import Task

__all__ = ["CostEstimate", "LimitReached", "Spending", "estimate_cost"]

_Source = Literal["least", "expected", "most"]


@dataclass(frozen=True)
class LimitReached:
    """A limit of the task that is below what a run needs: at least, as expected, or at most."""

    key: str
    limit: float
    needed: float
    by: _Source


@dataclass(frozen=True)
class Spending:
    """Of one run. Tokens are None for an agent of the user's own, who asks its engine as much as it likes."""

    attempts: float
    prompt_tokens: float | None
    generated_tokens: float | None
    seconds: float | None = None  # of generation; None where no run has measured it
    price: float | None = None  # None where no evaluator names prices

    @property
    def tokens(self) -> float | None:
        """Prompts and answers together."""
        if self.prompt_tokens is None or self.generated_tokens is None:
            return None
        return self.prompt_tokens + self.generated_tokens


@dataclass(frozen=True)
class CostEstimate:
    """``least``: every first attempt passes, with an empty answer. ``most``: all attempts fail, at full length; what is
    said to the model of its failures comes on top.

    ``expected``: by the last run's averages; None where there is no last run.
    """

    num_samples: int  # repeats included
    least: Spending
    most: Spending
    expected: Spending | None
    limits: tuple[LimitReached, ...]
    judge_calls: int = 0  # at most, where every reply can be read and none is in the cache
    anchor_calls: int = 0  # in every run
    num_at_once: int = 1  # samples at work side by side, as far as the task alone tells


def estimate_cost(task: Task, last_run: LastRun | None, evaluators: Sequence[Evaluator] = ()) -> CostEstimate:
    """Count what can be counted. Prices are those of the first evaluator that has any."""
    number = len(task.samples) * task.run.repeats
    bounds = _bounds(task, number) if task.agent.kind == "llm" else _bounds_of_attempts(task, number)
    seen = last_run if last_run is not None and last_run.run_id is not None else None
    least, most, expected = (
        None if each is None else _priced(each, evaluators)
        for each in (*bounds, None if seen is None else _as_before(seen, number))
    )
    assert least is not None and most is not None
    at_once = _num_at_once(task, evaluators)
    limits = tuple(_limits_reached(task, least, expected, most, at_once))
    judges = [(getattr(each, "num_questions", 0), getattr(each, "anchors", ())) for _, each in walk_parts(evaluators)]
    questions, on_anchors = sum(asked for asked, _ in judges), sum(asked * len(anchors) for asked, anchors in judges)
    judge_calls = int(most.attempts) * questions
    return CostEstimate(number, least, most, expected, limits, judge_calls, on_anchors, at_once)


def _num_at_once(task: Task, evaluators: Sequence[Evaluator]) -> int:
    """What a run does by itself: it keeps code of the user's to one thread unless the task says how many."""
    own_code = task.agent.kind != "llm" or runs_own_code(evaluators)
    return 1 if own_code and task.engine.concurrency is None else min(task.engine.num_at_once, len(task.samples))


def _bounds(task: Task, number: int) -> tuple[Spending, Spending]:
    template = PromptTemplate(task.template)
    prompts = sum(estimated_tokens(template.render(sample.inputs)) for sample in task.samples) * task.run.repeats
    tries, answer = task.loop.max_attempts, task.engine.max_tokens
    again = number * _earlier_answers(task) * answer
    return Spending(number, prompts, 0), Spending(number * tries, tries * prompts + again, tries * number * answer)


def _bounds_of_attempts(task: Task, number: int) -> tuple[Spending, Spending]:
    return Spending(number, None, None), Spending(number * task.loop.max_attempts, None, None)


def _as_before(seen: LastRun, number: int) -> Spending:
    return Spending(
        attempts=number * seen.attempts_per_sample,
        prompt_tokens=number * seen.prompt_tokens_per_sample,
        generated_tokens=number * seen.generated_tokens_per_sample,
        seconds=number * seen.seconds_per_sample,
    )


def _priced(spending: Spending, evaluators: Sequence[Evaluator]) -> Spending:
    """With the price, where prices of tokens are known: an evaluator of cost names them."""
    params = (getattr(each, "params", None) for _, each in walk_parts(evaluators))
    prices = next((each for each in params if hasattr(each, "prompt_per_million")), None)
    if prices is None or spending.prompt_tokens is None or spending.generated_tokens is None:
        return spending
    prompts = spending.prompt_tokens * float(prices.prompt_per_million)
    answers = spending.generated_tokens * float(prices.generated_per_million)
    return replace(spending, price=(prompts + answers) / 1e6)


def _earlier_answers(task: Task) -> int:
    """How many answers come back in the prompts of one sample: ``feedback`` goes on with the conversation."""
    return sum(range(task.loop.max_attempts)) if task.retry == "feedback" else 0


def _limits_reached(
    task: Task, least: Spending, expected: Spending | None, most: Spending, at_once: int
) -> Iterator[LimitReached]:
    """What is needed at least counts first, then what is expected; the most only where nothing is expected."""
    limits = task.limits
    for key, limit, name in (
        ("attempts", limits.attempts, "attempts"),
        ("total_tokens", limits.total_tokens, "tokens"),
        ("total_time_s", limits.total_time_s, "seconds"),
    ):
        sources: list[tuple[_Source, Spending | None]] = [("least", least), ("expected", expected)]
        for by, spending in [*sources, ("most", most if expected is None else None)]:
            needed: float | None = getattr(spending, name, None)
            if name == "seconds" and needed is not None:
                needed /= at_once  # the limit is one of wall time
            if limit is not None and needed is not None and needed > limit:
                yield LimitReached(f"limits.{key}", limit, needed, by)
                break
