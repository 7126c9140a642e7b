"""Starting and waking proposals: whatever runs the IMPROVE graph goes through here, under a lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness, ignore_event
from loopeng.errors import ConflictError, UsageError
from loopeng.improve.reflection.reflectors import build_reflector
from loopeng.improve.unproposed import led_to_nothing
from loopeng.patterns.trigger import find_triggers, named_patterns
from loopeng.schema import PromptVersion, Proposal, Task
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore, hold_lease

__all__ = ["LeaseHeldError", "advance", "advance_or_look", "checkpoints_path", "propose"]


class LeaseHeldError(ConflictError):
    """Another process is at work on the proposal. It, or the next command, acts on what is decided meanwhile."""


def propose(harness: Harness, *, pattern_ids: Sequence[str] | None = None) -> list[Proposal]:
    """Start a proposal for every trigger and bring each to the queue, or as far as it gets.

    Explicit ``pattern_ids`` are one proposal, whatever the thresholds; at the autonomy level ``report`` nothing else is
    started. Raises UsageError for patterns that cannot be proposed together or a reflector that cannot be built or
    breaks, ConflictError when a named pattern has an open proposal. What was started before an error is kept, and
    ``recover`` takes it up.
    """
    store, task = harness.store, harness.task
    build_reflector(task.improve.reflector, task.folder)
    if task.prompt.name not in store.prompt_names():
        raise UsageError(f"nothing is known of prompt {task.prompt.name!r} yet: run the task first, to see what fails")
    base = store.head(task.prompt.name)
    if pattern_ids is not None:
        named = named_patterns(store, base.prompt_name, pattern_ids)
        started = [_start(store, task, base, [each.id for each in named])]
    else:
        started = _start_triggered(store, task, base) if task.approval.autonomy != "report" else []
    return [advance_or_look(store, proposal.id, harness) for proposal in started]


def advance(
    store: LoopStore,
    proposal_id: str,
    *,
    harness: Harness | None = None,
    on_event: Callable[[ProgressEvent], None] | None = None,
) -> Proposal:
    """Wake a proposal's thread and let it go as far as it can; the answer is what the database says afterwards.

    ``harness`` is needed only where something is generated, and made from the stored task where it is not given. Raises
    LeaseHeldError while another process is at work on it.
    """
    from loopeng.improve.graph import thread_name, wake  # langgraph is loaded when a proposal moves, not before
    from loopeng.improve.nodes import ImproveContext

    proposal = store.proposal(proposal_id)
    tell = on_event or (harness.on_event if harness else ignore_event)
    context = ImproveContext(
        store=store,
        harness_for=lambda it: _harness_for(it, store, harness, tell),
        limits_for=lambda: _limits(store, proposal, harness),
        on_event=tell,
    )
    while True:
        with hold_lease(store, thread_name(proposal.id)) as held:
            if not held:
                raise LeaseHeldError(f"another process is at work on {proposal.id}; look again in a moment")
            waits_at = wake(proposal.id, context, checkpoints_path(store))
        # Whoever decided while we held the lease could not wake the thread: so we look once more after giving it back.
        if waits_at is None or store.decision(proposal.id, waits_at) is None:
            return store.proposal(proposal.id)


def advance_or_look(store: LoopStore, proposal_id: str, harness: Harness | None = None) -> Proposal:
    """``advance``; where another process is at work on the proposal, that one or the next command does it."""
    try:
        return advance(store, proposal_id, harness=harness)
    except LeaseHeldError:
        return store.proposal(proposal_id)


def checkpoints_path(store: LoopStore) -> Path:
    """LangGraph's own file, beside the database. It may be deleted at any time."""
    return store.path.with_name("checkpoints.db")


def _start_triggered(store: LoopStore, task: Task, base: PromptVersion) -> list[Proposal]:
    started = []
    for trigger in find_triggers(store, task):
        pattern_ids = _in_task_order(store, task, trigger.pattern_ids)
        if led_to_nothing(store, task, base, pattern_ids) is None:
            try:
                started.append(_start(store, task, base, pattern_ids))
            except ConflictError:
                continue  # another process has started one with a pattern of it
    return started


def _start(store: LoopStore, task: Task, base: PromptVersion, pattern_ids: Sequence[str]) -> Proposal:
    return store.create_proposal(task=task, base=base, pattern_ids=pattern_ids, expires_at=None)


def _in_task_order(store: LoopStore, task: Task, pattern_ids: Sequence[str]) -> list[str]:
    """By their evaluators' place in the task, so that the same failures always make the same text."""
    places = {spec.id: place for place, spec in enumerate(task.evaluators)}
    patterns = [store.pattern(pattern_id) for pattern_id in pattern_ids]
    patterns.sort(key=lambda it: (places.get(it.evaluator, len(places)), it.evaluator, it.fingerprint))
    return [pattern.id for pattern in patterns]


def _harness_for(
    proposal: Proposal, store: LoopStore, given: Harness | None, on_event: Callable[[ProgressEvent], None]
) -> Harness:
    """The caller's harness if it is of the proposal's very task, else one made from the task as it was then."""
    if given is not None and given.task.version_hash == proposal.task_hash:
        return replace(given, on_event=on_event)
    task = store.task(proposal.task_hash)
    # another folder may say the same of its engine and mean another file
    same = given is not None and (given.task.engine, given.task.folder) == (task.engine, task.folder)
    if given is None or not same:
        return Harness.build(store, task, on_event=on_event)
    # an application's evaluators may be live objects, which no task can make
    evaluators = given.evaluators if given.task.evaluators == task.evaluators else None
    return Harness.build(store, task, engine=given.engine, evaluators=evaluators, on_event=on_event)


def _limits(store: LoopStore, proposal: Proposal, given: Harness | None) -> BudgetSpec:
    """The caller's ``improve.limits``: raising them in the task file lets a stopped proposal go on."""
    if given is not None and given.task.name == proposal.task_name:
        return given.task.improve.limits
    return store.task(proposal.task_hash).improve.limits
