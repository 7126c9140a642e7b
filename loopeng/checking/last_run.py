"""What the newest run of a task came to, read from a database without making or changing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loopeng.errors import NotFoundError
from loopeng.improve.choosing import choose_samples, sample_keys
from loopeng.run_summary import RunSummary, summarize
from loopeng.schema import Task
from loopeng.store import LoopStore, inspect_database
from loopeng.store.looks import next_look_number

__all__ = ["LastRun", "read_last_run"]

_LOOK_BACK = 20


@dataclass(frozen=True)
class LastRun:
    """``next_look``: the number the next gate gets at these samples; None where they have no alpha left."""

    run_id: str | None  # the newest suite run with a finished sample; None where there is none
    gate_rate: float | None  # of the gate samples that pass at the first attempt
    attempts_per_sample: float
    prompt_tokens_per_sample: float  # over all attempts
    generated_tokens_per_sample: float
    seconds_per_sample: float  # generation, over all attempts
    tokens_per_second: float | None  # generated ones
    next_look: int | None


def read_last_run(db: Path, task: Task) -> LastRun | None:
    """None where there is no database, or one of another schema. Raises StoreError where it cannot be read."""
    try:
        if not inspect_database(db).is_current:
            return None
    except NotFoundError:
        return None
    with LoopStore.open(db) as store:
        runs = store.runs(task_name=task.name, kind="suite", limit=_LOOK_BACK)
        summaries = (summarize(store, run.id) for run in runs)
        summary = next((each for each in summaries if each.total.samples), None)
        keys = sample_keys(task, choose_samples(task, "gate"))
        return _last_run(summary, next_look_number(store.looks(task.prompt.name), keys))


def _last_run(summary: RunSummary | None, next_look: int | None) -> LastRun:
    if summary is None:
        return LastRun(None, None, 0.0, 0.0, 0.0, 0.0, None, next_look)
    gate, number = summary.splits.get("gate"), summary.total.samples
    judged = gate is not None and gate.samples > gate.first_errors
    return LastRun(
        run_id=summary.run.id,
        gate_rate=gate.pass_rate("first") if gate is not None and judged else None,
        attempts_per_sample=summary.attempts / number,
        prompt_tokens_per_sample=summary.usage.prompt_tokens / number,
        generated_tokens_per_sample=summary.usage.generated_tokens / number,
        seconds_per_sample=summary.latency_s / number,
        tokens_per_second=summary.tokens_per_second,
        next_look=next_look,
    )
