"""Judging the stored outputs of a run again, without generating: for evaluators that changed, not for models that did.

A **rescore** is a run of its own. Its attempts are those of the original - text, trajectory, usage, latency, seed and
all - with the results of the present evaluators. Neither the agent nor the engine is asked for an answer; only a judge
that has no engine of its own may ask the task's.

What the loop would have done otherwise is not guessed. Every stored attempt is judged and kept, also those that come
after one that passes now: they cannot change the verdict, which is the best attempt's. Where an attempt passed and
fails now, the retries that would have followed were never made, so the rate in the end is what is known at least;
rates of first attempts have no such limit. Failure patterns are not mined: nothing new was made to fail.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from loopeng.attempt.anchors import judge_anchors
from loopeng.attempt.best import sample_result
from loopeng.attempt.events import AttemptFinished, RunFinished, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.attempt.judging import judged
from loopeng.errors import ConflictError, NotFoundError, UsageError
from loopeng.evaluators.parts import runs_own_code
from loopeng.ports import Evaluator
from loopeng.run_records import Record, RunRecords
from loopeng.schema import Attempt, Run, Sample, SampleResult, Task
from loopeng.schema.attempts import RESCORE_OF
from loopeng.store import LoopStore, hold_lease
from loopeng.task_file import load_task

__all__ = ["Rescored", "present_task", "rescore", "unfinished_rescore"]

_MOST_JOBS = 8
_AHEAD = 2  # samples that wait for each thread: enough to keep it busy, few enough for memory


@dataclass(frozen=True)
class Rescored:
    """The new run, and the samples of the original that it could not judge: gone from the task, or with new inputs."""

    run: Run
    original: Run
    left_out: tuple[str, ...] = ()


def present_task(store: LoopStore, run: Run, path: Path | None = None) -> Task:
    """The task of a run as its file says now; as it was where there is no such file any more. Raises TaskError.

    ``path`` is where the file is now, if not where it was.
    """
    stored = store.task(run.task_hash)
    path = path or stored.path
    return load_task(path) if path is not None and path.is_file() else stored


def rescore(harness: Harness, run_id: str, *, resume: bool = False, jobs: int | None = None) -> Rescored:
    """Judge what a run made with the evaluators of ``harness``, in ``jobs`` threads; rows come in the run's order.

    Without ``jobs`` there is a thread for each of a few cores, but a single one where a function of the user's judges:
    nobody promised that it may be called from several at once.
    ``resume`` goes on with the newest rescore of this run that was stopped. Raises NotFoundError, UsageError where
    the run made nothing that the task's samples can be matched with, ConflictError where another process is at work
    on the same rescore; KeyboardInterrupt once everything is saved.
    """
    store, task = harness.store, harness.task
    original = store.run(run_id)
    samples, left_out = _matched(store, original, task)
    run = _reopen(harness, original) if resume else _begin(harness, original)
    with hold_lease(store, f"run:{run.id}") as held:
        if not held:
            raise ConflictError(f"another process is at work on {run.id}")
        run = _judge_all(harness, run, original, samples, jobs or _jobs(harness.evaluators))
    return Rescored(run, original, left_out)


def _jobs(evaluators: Iterable[Evaluator]) -> int:
    if runs_own_code(evaluators):
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_JOBS)


def _matched(store: LoopStore, original: Run, task: Task) -> tuple[dict[str, Sample], tuple[str, ...]]:
    """The samples to judge by: the target may be another now, but an answer belongs to the inputs it was made for."""
    before = {sample.id: sample for sample in store.task(original.task_hash).samples}
    now = {sample.id: sample for sample in task.samples}
    answered = dict.fromkeys(result.sample_id for result in store.sample_results(original.id))
    if not answered:
        raise UsageError(f"{original.id} has no finished samples: there is nothing to judge again")
    same = {
        sample_id: now[sample_id].model_copy(update={"split": before[sample_id].split})
        for sample_id in answered
        if sample_id in now and sample_id in before and now[sample_id].inputs == before[sample_id].inputs
    }
    if not same:
        raise UsageError(
            f"no sample of {original.id} is in task {task.name!r} with the same inputs: name the task it was made for"
        )
    return same, tuple(sample_id for sample_id in answered if sample_id not in same)


def _begin(harness: Harness, original: Run) -> Run:
    store = harness.store
    return store.create_run(
        kind="rescore",
        task=harness.task,
        version=store.prompt_version(original.prompt_version_id),
        seed=original.seed,
        engine=original.engine | {RESCORE_OF: original.id},
    )


def unfinished_rescore(store: LoopStore, run_id: str) -> Run | None:
    """The newest rescore of a run that was stopped."""
    runs = store.runs(kind="rescore", limit=None)
    return next((run for run in runs if run.rescore_of == run_id and run.status != "finished"), None)


def _reopen(harness: Harness, original: Run) -> Run:
    store, task = harness.store, harness.task
    run = unfinished_rescore(store, original.id)
    if run is None:
        raise NotFoundError(f"{original.id} has no unfinished rescore: leave out --resume")
    if run.task_hash != task.version_hash:
        raise UsageError(f"{run.id} cannot go on: the task changed since it began; leave out --resume to start anew")
    return store.reopen_run(run.id)


def _judge_all(harness: Harness, run: Run, original: Run, samples: dict[str, Sample], jobs: int) -> Run:
    store = harness.store
    wanted = [each for each in store.sample_results(original.id) if each.sample_id in samples]
    finished = {(each.sample_id, each.repeat) for each in store.sample_results(run.id)}
    harness.on_event(RunStarted(run, len(wanted), len(finished)))
    records = (
        record
        for record in RunRecords(store, original, harness.task)
        if record.result.sample_id in samples and (record.result.sample_id, record.result.repeat) not in finished
    )
    try:
        for sample, attempts in _side_by_side(harness, run, records, samples, jobs):
            _save(harness, run, sample, attempts)
        judge_anchors(harness, run)
    except KeyboardInterrupt:
        store.finish_run(run.id, "interrupted", "interrupted")
        raise
    run = store.finish_run(run.id, "finished")
    harness.on_event(RunFinished(run))
    return run


def _side_by_side(
    harness: Harness, run: Run, records: Iterable[Record], samples: dict[str, Sample], jobs: int
) -> Iterator[tuple[Sample, list[Attempt]]]:
    """Each record judged, in order. No more than a few are in memory."""
    waiting: deque[tuple[Sample, Future[list[Attempt]]]] = deque()
    executor = ThreadPoolExecutor(jobs, thread_name_prefix="rescore")
    try:
        for record in records:
            sample = samples[record.result.sample_id]
            waiting.append((sample, executor.submit(_judged, harness, run, sample, record.attempts)))
            if len(waiting) >= jobs * _AHEAD:
                sample, future = waiting.popleft()
                yield sample, future.result()
        for sample, future in waiting:
            yield sample, future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _judged(harness: Harness, run: Run, sample: Sample, attempts: tuple[Attempt, ...]) -> list[Attempt]:
    """The attempts with their new results. An evaluator sees what it would have seen in a run: no verdict yet, and the
    attempts before.
    """
    done: list[Attempt] = []
    for stored in attempts:
        kept: dict[str, object] = {"run_id": run.id}
        if stored.error is None:  # else the engine or the agent broke: there is nothing to judge
            kept |= {"results": (), "verdict": "error", "score": None}
        attempt = judged(harness, sample, stored.model_copy(update=kept), tuple(done))
        done.append(attempt.model_copy(update={"duplicate_of": stored.duplicate_of}))
    return done


def _save(harness: Harness, run: Run, sample: Sample, attempts: list[Attempt]) -> SampleResult:
    """What a stopped rescore saved of this sample counts: its rows are never written twice."""
    store = harness.store
    all_new = True
    for attempt in attempts:
        if store.save_attempt(attempt):
            harness.on_event(AttemptFinished(attempt, sample))
        else:
            all_new = False
    saved = attempts if all_new else store.attempts(run.id, sample.id, attempts[0].repeat)
    result = sample_result(saved, sample.split)
    if store.save_sample_result(result):
        harness.on_event(SampleFinished(result))
    return result
