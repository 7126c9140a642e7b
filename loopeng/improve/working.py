"""Finishing what others left: the queued tests of edits and rebases, commits, watches, and calls of the webhook.

``recover`` is what every command does for its own prompt, ``work`` what a worker does for all of them. A proposal
another process works on is skipped, and one that breaks does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from loopeng.attempt.events import ProgressEvent, ProposalMoved
from loopeng.attempt.harness import Harness, ignore_event
from loopeng.errors import LoopError
from loopeng.improve.cycle import LeaseHeldError, advance, checkpoints_path
from loopeng.improve.spending import stopped_at_limit
from loopeng.improve.watch.undoing import look_after
from loopeng.improve.webhook import deliver_due
from loopeng.schema import OPEN_STATES, Proposal, Task
from loopeng.store import LoopStore

__all__ = ["UNFINISHED_STATES", "Step", "recover", "work"]

UNFINISHED_STATES: tuple[Literal["drafting", "testing"], ...] = ("drafting", "testing")


@dataclass(frozen=True)
class Step:
    """What became of a proposal that was taken up. ``error`` is what broke, where something did."""

    before: Proposal
    after: Proposal
    error: LoopError | None = None

    @property
    def outcome(self) -> Literal["held", "limit", "broken", "moved"]:
        """Another process holds it; a limit stopped it; it broke and stays where it is; it is as far as it can get."""
        if isinstance(self.error, LeaseHeldError):
            return "held"
        if self.error is None and self.after.state not in UNFINISHED_STATES:
            return "moved"
        return "limit" if stopped_at_limit(self.after) else "broken"


def recover(store: LoopStore, *, harness: Harness | None = None) -> list[Proposal]:
    """Finish what others left: proposals of the harness's prompt in drafting or testing, decided ones of any prompt,
    watches that a finished run was to check, files that were to be written, calls of the webhook that are due.

    With a harness, changes of its prompt that turned out no better are proposed for a rollback, and come back too.
    A proposal another process works on is skipped. One that breaks keeps its state, with the reason; the rest goes on.
    """
    waiting = _decided(store)
    if harness is not None:
        waiting += store.proposals(prompt_name=harness.task.prompt.name, states=UNFINISHED_STATES)
    on_event = harness.on_event if harness is not None else ignore_event
    steps = [_step(store, proposal, lambda _: harness, on_event) for proposal in waiting]
    undone = look_after(store, harness, on_event)
    deliver_due(store, on_event=on_event)
    return [*(step.after for step in steps), *undone]


def work(
    store: LoopStore,
    *,
    harness_for: Callable[[Task], Harness],
    skip: Collection[Proposal] = (),
    on_event: Callable[[ProgressEvent], None] = ignore_event,
) -> list[Step]:
    """Take every proposal of every prompt as far as it gets, write the files and check the watches that were left,
    and make the calls of the webhook that are due.

    ``harness_for`` makes what a stored task needs, once for each task. What is queued meanwhile is taken up too; what
    is still as it was left, or as in ``skip``, is not.
    """
    harnesses: dict[str, Harness] = {}
    steps: dict[str, Step] = {}

    def harness_of(proposal: Proposal) -> Harness | None:
        if proposal.state not in UNFINISHED_STATES:
            return None  # nothing is generated
        if proposal.task_hash not in harnesses:
            harnesses[proposal.task_hash] = harness_for(store.task(proposal.task_hash))
        return harnesses[proposal.task_hash]

    while waiting := _left(store, [*skip, *(step.after for step in steps.values())]):
        for proposal in waiting:
            steps[proposal.id] = _step(store, proposal, harness_of, on_event)
    look_after(store, on_event=on_event)
    deliver_due(store, on_event=on_event)
    return list(steps.values())


def _left(store: LoopStore, skip: Collection[Proposal]) -> list[Proposal]:
    waiting = [*_decided(store), *store.proposals(states=UNFINISHED_STATES)]
    return [proposal for proposal in waiting if proposal not in skip]


def _decided(store: LoopStore) -> list[Proposal]:
    """Approved but not committed, or committed but cut off before the last watch row. What has ended is forgotten."""
    from loopeng.improve.graph import forget_threads

    ended = [proposal.id for proposal in store.proposals() if proposal.state not in OPEN_STATES]
    forget_threads(checkpoints_path(store), ended)
    return [*store.proposals(states=["approved"]), *_unwatched(store)]


def _unwatched(store: LoopStore) -> list[Proposal]:
    committed = [each for each in store.proposals(states=["committed"]) if each.kind == "change"]
    names = {proposal.prompt_name for proposal in committed}
    watched = {(watch.proposal_id, watch.pattern_id) for name in names for watch in store.watches(name)}
    return [each for each in committed if not {(each.id, pattern_id) for pattern_id in each.pattern_ids} <= watched]


def _step(
    store: LoopStore,
    proposal: Proposal,
    harness_of: Callable[[Proposal], Harness | None],
    on_event: Callable[[ProgressEvent], None],
) -> Step:
    """Advance a proposal. Where it breaks it keeps its state, with the reason; unless the task has changed since.

    Then nothing can mend it: archived, it gives its patterns back, and they lead to a proposal for the task as it is.
    """
    outdated, error = False, None
    try:
        harness = harness_of(proposal)
        outdated = harness is not None and _is_outdated(proposal, harness.task)
        moved = advance(store, proposal.id, harness=harness, on_event=on_event)
        failure = _gate_error(store, moved) if outdated else None
    except LeaseHeldError as held:
        return Step(proposal, store.proposal(proposal.id), held)
    except LoopError as broken:
        moved, failure, error = store.proposal(proposal.id), str(broken), broken
    if failure is None:
        return Step(proposal, moved)
    to = moved.state
    if to in UNFINISHED_STATES:
        if outdated:
            to, failure = "archived", f"made for an earlier version of the task, and cannot go on: {failure}"
        store.move_proposal(moved.id, to=to, frm={moved.state}, reason=failure, revision=moved.revision)
    on_event(ProposalMoved(moved.id, to, failure))
    return Step(proposal, store.proposal(moved.id), error)


def _is_outdated(proposal: Proposal, task: Task) -> bool:
    return proposal.task_name == task.name and proposal.task_hash != task.version_hash


def _gate_error(store: LoopStore, proposal: Proposal) -> str | None:
    """Why the comparison of a proposal in testing came to nothing; None where it did not, or a limit stopped it."""
    report = store.gate_report(proposal.id, proposal.revision) if proposal.state == "testing" else None
    return report.note if report is not None and report.verdict == "error" else None
