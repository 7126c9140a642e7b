"""Which mistakes come back often enough to propose a change of the prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from loopeng.errors import NotFoundError
from loopeng.schema import OPEN_STATES, FailurePattern, Task
from loopeng.store import LoopStore

__all__ = ["MAX_PATTERNS", "Trigger", "count_on_reflect", "find_triggers", "is_frequent"]

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

    Frequent: ``improve.min_occurrences`` over ``improve.min_samples`` samples. Never a muted pattern, one that an open
    proposal is about, or one that is not the model's fault. Empty where the prompt is not in the database yet.
    """
    try:
        head = store.head(task.prompt.name)
    except NotFoundError:
        return []
    taken = {
        pattern_id
        for proposal in store.proposals(prompt_name=task.prompt.name, states=OPEN_STATES)
        for pattern_id in proposal.pattern_ids
    }
    candidates = [pattern for pattern in store.patterns(task.prompt.name) if _may_lead_to_a_rule(pattern, task, taken)]
    counted = [count_on_reflect(store, pattern, head.id, task) for pattern in candidates]
    frequent = [pattern for pattern in counted if is_frequent(pattern, task)]
    frequent.sort(key=lambda pattern: (-pattern.num_samples, -pattern.num_occurrences, pattern.id))
    failing = store.failing_samples(head.id)
    samples = _samples_by_pattern({sample_id: failing[sample_id] for sample_id in failing.keys() & _reflect_ids(task)})
    return [_trigger(group, samples) for group in _groups(frequent, samples)]


def _may_lead_to_a_rule(pattern: FailurePattern, task: Task, taken: Collection[str]) -> bool:
    return (
        pattern.evaluator in {spec.id for spec in task.evaluators}
        and pattern.state != "muted"
        and pattern.fault_side == "model"
        and pattern.id not in taken
        and is_frequent(pattern, task)  # it will not have more once the samples are looked at
    )


def count_on_reflect(store: LoopStore, pattern: FailurePattern, version_id: str, task: Task) -> FailurePattern:
    """The pattern with its counts under a version, on the task's reflect samples of today alone."""
    reflect = _reflect_ids(task)
    shown = [sample for _, sample in store.occurrences(pattern.id, prompt_version_id=version_id) if sample in reflect]
    return pattern.model_copy(update={"num_occurrences": len(shown), "num_samples": len(set(shown))})


def _reflect_ids(task: Task) -> set[str]:
    return {sample.id for sample in task.samples if sample.split == "reflect"}


def is_frequent(pattern: FailurePattern, task: Task) -> bool:
    """Whether it came back often enough for a proposal, by the task's thresholds."""
    limits = task.improve
    return pattern.num_occurrences >= limits.min_occurrences and pattern.num_samples >= limits.min_samples


def _samples_by_pattern(failing: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    patterns = {pattern_id for pattern_ids in failing.values() for pattern_id in pattern_ids}
    return {
        pattern_id: frozenset(sample_id for sample_id, seen in failing.items() if pattern_id in seen)
        for pattern_id in patterns
    }


def _groups(
    frequent: Sequence[FailurePattern], samples: Mapping[str, frozenset[str]]
) -> list[tuple[FailurePattern, ...]]:
    """Greedily: each pattern joins the first group it co-occurs with, else opens its own."""
    groups: list[list[FailurePattern]] = []
    for pattern in frequent:
        for group in groups:
            if len(group) < MAX_PATTERNS and _co_occur([*group, pattern], samples):
                group.append(pattern)
                break
        else:
            groups.append([pattern])
    return [tuple(group) for group in groups]


def _co_occur(patterns: Sequence[FailurePattern], samples: Mapping[str, frozenset[str]]) -> bool:
    """At least half of the samples that show any of them show them all."""
    shown = [samples[pattern.id] for pattern in patterns]
    together, any_of_them = frozenset.intersection(*shown), frozenset.union(*shown)
    return 2 * len(together) >= len(any_of_them)


def _trigger(group: Sequence[FailurePattern], samples: Mapping[str, frozenset[str]]) -> Trigger:
    counts = [
        f"{pattern.evaluator}: {pattern.category} {pattern.num_occurrences} times on {pattern.num_samples} samples"
        for pattern in group
    ]
    together = len(frozenset.intersection(*(samples[pattern.id] for pattern in group)))
    suffix = f" (together on {together})" if len(group) > 1 else ""
    return Trigger(tuple(pattern.id for pattern in group), "; ".join(counts) + suffix)
