"""Suite runs: every sample of a task under the prompt's head; stops cleanly, resumes, loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopeng.attempt.anchors import judge_anchors
from loopeng.attempt.budget import Budget
from loopeng.attempt.events import EngineChanged, PromptFileBehind, RunFinished, RunStarted, TemplateChanged
from loopeng.attempt.harness import Harness
from loopeng.attempt.state import AttemptContext
from loopeng.errors import BudgetStop, ConflictError, LoopError, NotFoundError, UsageError
from loopeng.evaluators.parts import runs_own_code
from loopeng.patterns.miner import mine
from loopeng.prompts import text_hash
from loopeng.run_summary import RunSummary, SplitSummary, summarize
from loopeng.schema import PromptVersion, Run, Sample, Task
from loopeng.schema.attempts import RunStatus
from loopeng.schema.engine_section import KEYS_OF_TRANSPORT
from loopeng.schema.task import BudgetSpec
from loopeng.side_by_side import make_attempts
from loopeng.store import hold_lease

__all__ = ["RunSummary", "SplitSummary", "execute_run", "run_suite", "summarize"]

_NO_WORK = ("path", "prompt", "file_rules", "limits", "improve", "gate", "approval", "run", "dataset")


def run_suite(
    harness: Harness, *, resume: bool = False, run_id: str | None = None, limit: int | None = None
) -> RunSummary:
    """Run all splits of the task, then note which mistakes came up. ``limit`` takes the first samples only.

    ``resume`` goes on with the newest unfinished run of this task, ``run_id`` with a certain one. Raises UsageError
    where the task's work has changed since, NotFoundError where there is nothing to resume, ConflictError where another
    process is at work on the run, EngineError where the engine cannot be made; KeyboardInterrupt once everything is
    saved.
    """
    store, task = harness.store, harness.task
    run = _reopen(harness, run_id) if resume or run_id is not None else _begin(harness)
    with hold_lease(store, f"run:{run.id}") as held:
        if not held:
            raise ConflictError(f"another process is at work on {run.id}")
        execute_run(
            harness,
            run,
            store.prompt_version(run.prompt_version_id),
            task.samples[:limit],
            limits=task.limits,
            before_finish=lambda status: _look_back(harness, run, status),
        )
    return summarize(store, run.id, task)


def _look_back(harness: Harness, run: Run, status: RunStatus) -> None:
    """What a run knows at its end: the mistakes that came up, and how far its judges are to be trusted.

    Where a limit has stopped it, nothing is left to spend on anchors; a resume judges them.
    """
    mine(harness.store, run.id, harness.task)
    if status == "finished":
        judge_anchors(harness, run)


def execute_run(  # noqa: PLR0913  the gate sets each of them
    harness: Harness,
    run: Run,
    version: PromptVersion,
    samples: Sequence[Sample],
    *,
    max_attempts: int | None = None,
    repeats: int | None = None,
    limits: BudgetSpec | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    before_finish: Callable[[RunStatus], object] | None = None,
) -> Run:
    """Make every (sample, repeat) that has no result yet, side by side where the engine takes that. In any thread.

    ``max_attempts`` and ``repeats`` default to the task's, ``limits`` to none. A limit ends the run as "budget",
    Ctrl-C as "interrupted" (and is raised again); both can be resumed, as can a run whose process was killed.
    ``before_finish`` gets the status to come and runs while the run is still open, so that a crash in it is made good
    by a resume.
    """
    task = harness.task
    context = AttemptContext(
        harness=harness,
        run=run,
        version=version,
        samples={sample.id: sample for sample in samples},
        budget=_budget(harness, run, limits or BudgetSpec()),
        max_attempts=max_attempts or task.loop.max_attempts,
        references=references or {},
    )
    status, reason = _attempt_all(context, repeats or task.run.repeats)
    if before_finish is not None:
        before_finish(status)
    run = harness.store.finish_run(run.id, status, reason)
    harness.on_event(RunFinished(run))
    return run


def _attempt_all(context: AttemptContext, repeats: int) -> tuple[RunStatus, str | None]:
    store, run = context.harness.store, context.run
    finished = {(result.sample_id, result.repeat) for result in store.sample_results(run.id)}
    pairs = [(sample_id, repeat) for repeat in range(repeats) for sample_id in context.samples]
    todo = [pair for pair in pairs if pair not in finished]
    context.harness.on_event(RunStarted(run, len(pairs), len(pairs) - len(todo)))
    try:
        make_attempts(context, todo, _num_threads(context.harness, len(todo)))
    except BudgetStop as stop:
        return "budget", str(stop)
    except KeyboardInterrupt:
        store.finish_run(run.id, "interrupted", "interrupted")
        raise
    return "finished", None


def _num_threads(harness: Harness, num_pairs: int) -> int:
    """As many as the engine takes; where code of the user's runs, which may not bear that, only if the task says so."""
    own_code = getattr(harness.agent, "reference", None) != "llm" or runs_own_code(harness.evaluators)
    if num_pairs < 2 or (own_code and harness.task.engine.concurrency is None):
        return 1
    try:
        return min(harness.engine.describe().concurrency, num_pairs)
    except LoopError:  # the engine cannot be made: the attempts tell it, sample by sample
        return 1


def _budget(harness: Harness, run: Run, limits: BudgetSpec) -> Budget:
    num_attempts, usage = harness.store.run_usage(run.id)
    return Budget(limits, num_attempts, usage.total_tokens + harness.store.judge_tokens(run.id))


def _begin(harness: Harness) -> Run:
    """The template becomes the head if it is new; the run's row is there before any work."""
    store, task = harness.store, harness.task
    engine = harness.description()
    name, rules = task.prompt.name, task.file_rules
    version, is_new, stale = store.adopt_template(name, task.template, by="task file", rules=rules)
    texts = None if rules is None else [rule.text for rule in rules]
    if is_new and version.source == "file edit":
        from_file = texts == [rule.text for rule in version.rules]
        before = store.prompt_version(version.parent_id).rules if from_file and version.parent_id else ()
        kept = {rule.id for rule in version.rules}
        dropped = tuple(rule.text for rule in before if rule.id not in kept)
        harness.on_event(TemplateChanged(version, stale, rules_of_file=from_file, dropped=dropped))
    elif rules is not None and text_hash(task.template, rules) != version.text_hash:
        same = [each for each in store.prompt_versions(name) if texts == [rule.text for rule in each.rules]]
        harness.on_event(PromptFileBehind(version, same[-1].number))
    return store.create_run(kind="suite", task=task, version=version, seed=task.run.seed, engine=engine)


def _reopen(harness: Harness, run_id: str | None) -> Run:
    """The unfinished run goes on under its own prompt version, even if the head has moved since."""
    store, task = harness.store, harness.task
    run = store.run(run_id) if run_id is not None else store.resumable_run(task)
    if run is None:
        raise NotFoundError(f"task {task.name!r} has no unfinished run: run without --resume")
    if run.kind != "suite" or run.task_name != task.name:
        raise UsageError(f"{run.id} is a {run.kind} run of task {run.task_name!r}, not a suite of {task.name!r}")
    changed = _changed_keys(store.task(run.task_hash), task)
    if changed:
        raise UsageError(
            f"{run.id} cannot go on: {', '.join(changed)} changed in the task since it began; "
            "undo the change, or start a new run"
        )
    engine = harness.description()
    if any(engine.get(key) != run.engine.get(key) for key in ("kind", "model", "fingerprint")):
        store.note_run_engine(run.id, engine)
        harness.on_event(EngineChanged(run, engine))
    return store.reopen_run(run.id)


def _changed_keys(before: Task, after: Task) -> list[str]:
    """The keys that decide what a run does and differ. Limits may be raised; thresholds and improvement are no work."""
    free: dict[str, Any] = dict.fromkeys(_NO_WORK, True) | {"engine": set(KEYS_OF_TRANSPORT)}
    old, new = (task.model_dump(mode="json", by_alias=True, exclude=free) for task in (before, after))
    for keys, task in ((old, before), (new, after)):
        keys |= {"prompt.name": task.prompt.name, "run.seed": task.run.seed, "run.repeats": task.run.repeats}
    return [key for key in new if old.get(key) != new[key]]
