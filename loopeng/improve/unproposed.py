"""Why a failure leads to no proposal: what nobody is told of looks like a loop that does not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopeng.errors import NotFoundError
from loopeng.patterns.trigger import count_on_reflect, is_frequent
from loopeng.schema import OPEN_STATES, FailurePattern, PromptVersion, Proposal, Task
from loopeng.store import LoopStore

__all__ = ["Unproposed", "find_unproposed", "led_to_nothing"]


@dataclass(frozen=True)
class Unproposed:
    """A pattern that no new proposal is made for now, counted as the trigger counts it."""

    pattern: FailurePattern
    reason: str
    frequent: bool  # often enough to be proposed for, but for the reason
    proposal_id: str | None = None  # of the proposal that stands in the way


def find_unproposed(store: LoopStore, task: Task) -> list[Unproposed]:
    """The failures under the current head that ``propose`` would start nothing for, the most frequent first."""
    try:
        head = store.head(task.prompt.name)
    except NotFoundError:
        return []
    patterns = [count_on_reflect(store, pattern, head.id, task) for pattern in store.patterns(task.prompt.name)]
    patterns.sort(key=lambda pattern: (-pattern.num_samples, -pattern.num_occurrences, pattern.id))
    waiting = store.proposals(prompt_name=head.prompt_name, states=OPEN_STATES)
    ended = _came_to_nothing(store, task, head)
    found = (_unproposed(pattern, task, waiting, ended) for pattern in patterns if pattern.num_occurrences)
    return [each for each in found if each is not None]


def led_to_nothing(store: LoopStore, task: Task, base: PromptVersion, pattern_ids: Sequence[str]) -> Proposal | None:
    """The proposal about these very patterns that came to nothing under this head: another would only fill the list.

    A task that has changed since is asked again: it may have another reflector, limits, remedies or samples.
    """
    wanted = set(pattern_ids)
    return next((each for each in _came_to_nothing(store, task, base) if set(each.pattern_ids) == wanted), None)


def _came_to_nothing(store: LoopStore, task: Task, base: PromptVersion) -> list[Proposal]:
    """The newest first."""
    archived, task_hash = store.proposals(prompt_name=base.prompt_name, states=["archived"]), task.version_hash
    return [each for each in archived[::-1] if (each.base_version_id, each.task_hash) == (base.id, task_hash)]


def _unproposed(
    pattern: FailurePattern, task: Task, waiting: Sequence[Proposal], ended: Sequence[Proposal]
) -> Unproposed | None:
    frequent = is_frequent(pattern, task)
    for proposal in waiting:
        if pattern.id in proposal.pattern_ids:
            reason = f"{proposal.id} ({proposal.state}) is about it already"
            return Unproposed(pattern, reason, frequent, proposal.id)
    if (excluded := _excluded(pattern, task)) is not None:
        return Unproposed(pattern, excluded, frequent)
    if not frequent:
        return Unproposed(pattern, _too_rare(pattern, task), frequent)
    if task.approval.autonomy == "report":
        return Unproposed(pattern, "approval.autonomy is report; name it with --pattern to propose for it", frequent)
    for proposal in ended:
        if pattern.id in proposal.pattern_ids:
            reason = (
                f"{proposal.id} came to nothing ({proposal.state_reason}); edit the evaluator's remedy: in the task or "
                "ask for a part of its patterns with --pattern"
            )
            return Unproposed(pattern, reason, frequent, proposal.id)
    return None


def _excluded(pattern: FailurePattern, task: Task) -> str | None:
    if pattern.fault_side != "model":
        return f"it is the fault of the {pattern.fault_side}, which no rule can prevent"
    if pattern.state == "muted":
        return "it is muted"
    if pattern.evaluator not in {spec.id for spec in task.evaluators}:
        return f"the task has no evaluator {pattern.evaluator!r} any more"
    return None


def _too_rare(pattern: FailurePattern, task: Task) -> str:
    limits = task.improve
    return (
        f"seen {pattern.num_occurrences} times on {pattern.num_samples} reflect samples; a proposal needs "
        f"{limits.min_occurrences} over {limits.min_samples} (improve.min_occurrences, improve.min_samples), "
        "or name it with --pattern"
    )
