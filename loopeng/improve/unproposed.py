"""Why a failure leads to no proposal: what nobody is told of looks like a loop that does not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from loopeng.errors import NotFoundError
from loopeng.improve.reflection.drafting import REFLECTOR_AUTHOR
from loopeng.improve.reproduction import NOT_REPRODUCED
from loopeng.patterns.standing import Standing, standings
from loopeng.patterns.trigger import why_never
from loopeng.schema import OPEN_STATES, FailurePattern, PromptVersion, Proposal, Task
from loopeng.schema.live import live_prompt
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
    waiting = store.proposals(prompt_name=head.prompt_name, states=OPEN_STATES)
    ended = _came_to_nothing(store, task, head)
    found = (_unproposed(store, each, task, waiting, ended) for each in standings(store, task, head))
    return [each for each in found if each is not None]


def led_to_nothing(store: LoopStore, task: Task, base: PromptVersion, pattern_ids: Sequence[str]) -> Proposal | None:
    """The proposal about these very patterns that came to nothing under this head: another would only fill the list.

    A task that has changed since is asked again: it may have another reflector, limits, remedies or samples.
    """
    wanted = set(pattern_ids)
    return next((each for each in _came_to_nothing(store, task, base) if set(each.pattern_ids) == wanted), None)


def _came_to_nothing(store: LoopStore, task: Task, base: PromptVersion) -> list[Proposal]:
    """The newest first. Where a person's edit or own list failed, that says nothing of what a reflector would do."""
    archived = store.proposals(prompt_name=base.prompt_name, states=["archived"])
    same = [each for each in archived[::-1] if each.base_version_id == base.id and _is_of(store, each, task)]
    return [each for each in same if not each.revision or store.revision(each.id).author.startswith(REFLECTOR_AUTHOR)]


def _is_of(store: LoopStore, proposal: Proposal, task: Task) -> bool:
    """Whether it was made for this very task. An application's traffic brings new samples all the time."""
    if live_prompt(task.name) is None or proposal.task_name != task.name:
        return proposal.task_hash == task.version_hash
    then = store.task(proposal.task_hash)
    return then.model_copy(update={"samples": task.samples}).version_hash == task.version_hash


def _unproposed(
    store: LoopStore, standing: Standing, task: Task, waiting: Sequence[Proposal], ended: Sequence[Proposal]
) -> Unproposed | None:
    """None where it is proposed for, or where nobody saw it under this head."""
    pattern, rejection = standing.pattern, standing.rejection
    often, frequent = standing.is_often(task), standing.is_frequent(task)
    for proposal in waiting:
        if pattern.id in proposal.pattern_ids:
            reason = f"{proposal.id} ({proposal.state}) is about it already"
            return Unproposed(pattern, reason, frequent, proposal.id)
    if not pattern.num_occurrences and (rejection is None or not _shown_under_head(store, pattern)):
        return None
    if (excluded := _excluded(pattern, task)) is not None:
        return Unproposed(pattern, excluded, frequent)
    if rejection is not None and (resting := _resting(store, standing, task)) is not None:
        return Unproposed(pattern, resting, True, rejection.proposal_id)
    if not often:
        return Unproposed(pattern, _too_rare(pattern, task), frequent)
    if not frequent:
        return Unproposed(pattern, _too_low(standing, task), frequent)
    if task.approval.autonomy == "report":
        return Unproposed(pattern, "approval.autonomy is report; name it with --pattern to propose for it", frequent)
    for proposal in ended:
        if pattern.id in proposal.pattern_ids:
            return Unproposed(pattern, _ended(proposal), frequent, proposal.id)
    return None


def _ended(proposal: Proposal) -> str:
    what = f"{proposal.id} came to nothing ({proposal.state_reason}); "
    if proposal.revision == 0 and (proposal.state_reason or "").startswith(NOT_REPRODUCED):
        return what + "to look again, name it with --pattern"
    return what + "to try again, name it with --pattern, or give its evaluator another 'remedy' in the task file"


def _shown_under_head(store: LoopStore, pattern: FailurePattern) -> bool:
    return store.pattern(pattern.id).num_occurrences > 0


def _excluded(pattern: FailurePattern, task: Task) -> str | None:
    if (never := why_never(pattern)) is not None:
        return never
    if pattern.evaluator not in {spec.id for spec in task.evaluators}:
        return f"the task has no evaluator {pattern.evaluator!r} any more"
    return None


def _resting(store: LoopStore, standing: Standing, task: Task) -> str | None:
    """Why a rejection still keeps a pattern from being proposed for."""
    rejection, limits = standing.rejection, task.improve
    assert rejection is not None
    if standing.rests(store.now()):
        until = rejection.rests_until.astimezone(UTC)
        return (
            f"{rejection.proposal_id} about it was rejected; it rests until {until:%Y-%m-%d %H:%M} UTC "
            "(improve.cool_down), or name it with --pattern"
        )
    if not standing.is_often(task):
        seen = f"{standing.pattern.num_occurrences} times on {len(standing.samples)} reflect samples"
        return (
            f"{rejection.proposal_id} about it was rejected, and only runs since then count: seen {seen}; a proposal "
            f"needs {limits.min_occurrences} over {limits.min_samples} (improve.min_occurrences, improve.min_samples), "
            "or name it with --pattern"
        )
    return None


def _too_rare(pattern: FailurePattern, task: Task) -> str:
    limits = task.improve
    return (
        f"seen {pattern.num_occurrences} times on {pattern.num_samples} reflect samples; a proposal needs "
        f"{limits.min_occurrences} over {limits.min_samples} (improve.min_occurrences, improve.min_samples), "
        "or name it with --pattern"
    )


def _too_low(standing: Standing, task: Task) -> str:
    return (
        f"it fails on {len(standing.samples)} of {standing.num_judged} reflect samples, which is a rate of at least "
        f"{_percent(standing.least_rate)} (at 95 %); a proposal needs {_percent(task.improve.min_rate)} "
        "(improve.min_rate), or name it with --pattern"
    )


def _percent(rate: float) -> str:
    return f"{rate:.1%}".replace("%", " %")
