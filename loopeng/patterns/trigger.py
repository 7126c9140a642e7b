"""Which mistakes come back often enough to propose a change of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopeng.errors import NotFoundError, UsageError
from loopeng.patterns.standing import Standing, standings
from loopeng.schema import OPEN_STATES, FailurePattern, PromptVersion, Task
from loopeng.store import LoopStore

__all__ = ["MAX_PATTERNS", "Trigger", "find_triggers", "named_patterns", "proposable", "why_never"]

MAX_PATTERNS = 3  # of one proposal


@dataclass(frozen=True)
class Trigger:
    """Patterns for one proposal, the most frequent first, and why."""

    pattern_ids: tuple[str, ...]
    reason: str


def find_triggers(store: LoopStore, task: Task) -> list[Trigger]:
    """Frequent patterns under the current head; those that fail together in one trigger.

    Only what the task's own evaluators saw on its reflect samples of today counts: a sample that has become one of the
    gate's must not shape a proposal, and nobody waits for an evaluator that is gone.

    Frequent: ``improve.min_occurrences`` over ``improve.min_samples`` samples, at a rate of at least
    ``improve.min_rate`` (95 %). Never a muted pattern, one that an open proposal is about, or one that is not the
    model's fault. After a rejection a pattern rests for ``improve.cool_down``, and only later failures count. Empty
    where the prompt is not in the database yet.
    """
    try:
        head = store.head(task.prompt.name)
    except NotFoundError:
        return []
    now = store.now()
    frequent = [each for each in proposable(store, task, head) if not each.rests(now) and each.is_frequent(task)]
    return [_trigger(group) for group in _groups(frequent)]


def proposable(store: LoopStore, task: Task, head: PromptVersion) -> list[Standing]:
    """The patterns that a proposal could be about, however rare: one of the task's evaluators sees them, no open
    proposal is about them, and nothing forbids it for good. The one with the most samples comes first.
    """
    open_ones = store.proposals(prompt_name=head.prompt_name, states=OPEN_STATES)
    taken = {pattern_id for proposal in open_ones for pattern_id in proposal.pattern_ids}
    evaluators = {spec.id for spec in task.evaluators}
    return [
        each
        for each in standings(store, task, head)
        if each.pattern.id not in taken and each.pattern.evaluator in evaluators and why_never(each.pattern) is None
    ]


def named_patterns(store: LoopStore, prompt_name: str, pattern_ids: Sequence[str]) -> list[FailurePattern]:
    """The patterns that a person names for one proposal. Raises UsageError where they cannot be proposed together."""
    patterns = [store.pattern(pattern_id) for pattern_id in dict.fromkeys(pattern_ids)]
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        raise UsageError(f"a proposal is about 1 to {MAX_PATTERNS} patterns, not {len(patterns)}")
    for pattern in patterns:
        if pattern.prompt_name != prompt_name:
            raise UsageError(f"pattern {pattern.id} is one of prompt {pattern.prompt_name!r}, not {prompt_name!r}")
        if (never := why_never(pattern)) is not None:
            raise UsageError(f"no proposal can be made for pattern {pattern.id}: {never}")
    return patterns


def why_never(pattern: FailurePattern) -> str | None:
    """Why no proposal is made for a pattern, not even where a person names it; None where one may be."""
    if pattern.merged_into is not None:
        return f"it was merged into {pattern.merged_into}: name that one"
    if pattern.fault_side != "model":
        return f"it is the fault of the {pattern.fault_side}, which no rule can prevent"
    if pattern.state == "muted":
        return "it is muted" + (f" ({pattern.state_reason})" if pattern.state_reason else "")
    return None


def _groups(frequent: Sequence[Standing]) -> list[tuple[Standing, ...]]:
    """Greedily: each pattern joins the first group it co-occurs with, else opens its own."""
    groups: list[list[Standing]] = []
    for each in frequent:
        for group in groups:
            if len(group) < MAX_PATTERNS and _co_occur([*group, each]):
                group.append(each)
                break
        else:
            groups.append([each])
    return [tuple(group) for group in groups]


def _co_occur(patterns: Sequence[Standing]) -> bool:
    """At least half of the samples that show any of them show them all."""
    shown = [each.samples for each in patterns]
    together, any_of_them = frozenset.intersection(*shown), frozenset.union(*shown)
    return 2 * len(together) >= len(any_of_them)


def _trigger(group: Sequence[Standing]) -> Trigger:
    counts = [
        f"{pattern.evaluator}: {pattern.category} {pattern.num_occurrences} times on {pattern.num_samples} samples"
        for pattern in (each.pattern for each in group)
    ]
    together = len(frozenset.intersection(*(each.samples for each in group)))
    suffix = f" (together on {together})" if len(group) > 1 else ""
    return Trigger(tuple(each.pattern.id for each in group), "; ".join(counts) + suffix)
