"""What the newest run of a task came to, read from a database without making or changing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loopeng.errors import NotFoundError
from loopeng.improve.choosing import choose_samples, sample_keys
from loopeng.improve.gate.planning import rate_under
from loopeng.run_summary import RunSummary, summarize
from loopeng.schema import PromptVersion, Run, Task, utc_now
from loopeng.store import LoopStore, inspect_database
from loopeng.store.looks import next_look_number

__all__ = ["LastRun", "read_last_run"]

_LOOK_BACK = 20


@dataclass(frozen=True)
class LastRun:
    """``next_look``: the number the next gate gets at these samples; None where they have no alpha left.

    ``gate_rate`` is what a gate would plan with: of the gate samples that pass at the first attempt under the prompt's
    head, in the runs of this very task or else of its namesake. It need not be of the newest run.
    """

    run_id: str | None  # the newest suite run with a finished sample; None where there is none
    gate_rate: float | None
    attempts_per_sample: float
    prompt_tokens_per_sample: float  # over all attempts
    generated_tokens_per_sample: float
    seconds_per_sample: float  # generation, over all attempts
    tokens_per_second: float | None  # generated ones
    next_look: int | None
    gate_rate_from: str | None = None  # the run; None where nothing is known


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
        samples = choose_samples(task, "gate")
        next_look = next_look_number(store.looks(task.prompt.name), sample_keys(task, samples))
        version, named = _version(store, task), (task.name, task.version_hash)
        known = None if version is None else rate_under(store, version, named, samples, until=utc_now())
        return _last_run(summary, known, next_look)


def _version(store: LoopStore, task: Task) -> PromptVersion | None:
    """What a run would take now; None where its template would become a new one."""
    versions = store.prompt_versions(task.prompt.name)
    return store.head(task.prompt.name) if any(each.template == task.template for each in versions) else None


def _last_run(summary: RunSummary | None, known: tuple[float, Run] | None, next_look: int | None) -> LastRun:
    if summary is None:
        return LastRun(None, None, 0.0, 0.0, 0.0, 0.0, None, next_look)
    number = summary.total.samples
    rate, run = known if known is not None else (None, None)
    return LastRun(
        run_id=summary.run.id,
        gate_rate=rate,
        attempts_per_sample=summary.attempts / number,
        prompt_tokens_per_sample=summary.usage.prompt_tokens / number,
        generated_tokens_per_sample=summary.usage.generated_tokens / number,
        seconds_per_sample=summary.latency_s / number,
        tokens_per_second=summary.tokens_per_second,
        next_look=next_look,
        gate_rate_from=None if run is None else run.id,
    )
