"""Reflectors turn failure patterns into changes of the rules. ``hints`` ships; others are named as ``module:name``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from loopeng.attempt.harness import Harness
from loopeng.errors import UsageError
from loopeng.improve.reproduction import confirmed_patterns
from loopeng.improve.rules import normalise_rule
from loopeng.ports import ProposedChange, ReflectionContext, Reflector
from loopeng.references import import_reference
from loopeng.schema import Attempt, FailurePattern, Proposal, RuleOperation, Sample, Task
from loopeng.store import LoopStore

__all__ = ["REFLECTORS", "FunctionReflector", "HintsReflector", "build_reflector", "reflection_context"]

_NUM_EXAMPLES = 8


class HintsReflector:
    """One rule per pattern: the remedy its evaluator names. Needs no model. Proposes no rule the prompt has already."""

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange]:
        """At most one change; none when every remedy is among the rules or no pattern has one."""
        present = {normalise_rule(rule.text) for rule in context.prompt.rules}
        wanted: dict[str, list[FailurePattern]] = {}
        for pattern in context.patterns:
            if pattern.remedy and normalise_rule(pattern.remedy) not in present:
                wanted.setdefault(normalise_rule(pattern.remedy), []).append(pattern)
        if not wanted:
            return ()
        additions = [_addition(patterns) for patterns in wanted.values()]
        reasons = [_reason(pattern) for patterns in wanted.values() for pattern in patterns]
        return (
            ProposedChange(
                operations=tuple(additions),
                rationale="; ".join(reasons),
                pattern_ids=tuple(pattern.id for patterns in wanted.values() for pattern in patterns),
            ),
        )


def _addition(patterns: Sequence[FailurePattern]) -> RuleOperation:
    """One rule for patterns whose remedies read alike."""
    text = (patterns[0].remedy or "").strip()
    return RuleOperation(op="add", text=text, pattern_ids=tuple(pattern.id for pattern in patterns))


def _reason(pattern: FailurePattern) -> str:
    plural = "sample" if pattern.num_samples == 1 else "samples"
    return f"{pattern.evaluator} ({pattern.category}) failed on {pattern.num_samples} {plural}"


@dataclass(frozen=True)
class FunctionReflector:
    """A plain function ``(context) -> changes`` as a reflector."""

    function: Callable[[ReflectionContext], Sequence[ProposedChange]]

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange]:
        """Whatever the function says."""
        return self.function(context)


REFLECTORS: dict[str, Callable[[], Reflector]] = {"hints": HintsReflector}


def build_reflector(name: str, base_dir: Path | None = None) -> Reflector:
    """The reflector that a task names: a registered one, or ``module:name`` of an object, factory or function.

    What ``module:name`` points at may have a method ``propose``, be callable without arguments and return such an
    object, or be a function of a ReflectionContext; ``base_dir`` is where modules are looked for first. Raises
    UsageError where it is none of these, TaskError where it cannot be imported.
    """
    if name in REFLECTORS:
        return REFLECTORS[name]()
    if name == "llm":
        raise UsageError("improve.reflector 'llm' belongs to a later release; use 'hints', or your own as module:name")
    if ":" not in name:
        known = ", ".join(sorted(REFLECTORS))
        raise UsageError(f"improve.reflector {name!r} is not known; use one of {known}, or your own as module:name")
    return _as_reflector(import_reference(name, base_dir), name)


def _as_reflector(value: Any, name: str) -> Reflector:
    if not inspect.isclass(value) and hasattr(value, "propose"):
        return cast(Reflector, value)
    if not callable(value):
        raise UsageError(f"improve.reflector {name!r} is neither a reflector nor callable: {value!r}")
    if _takes_context(value):
        return FunctionReflector(value)
    made = value()
    if not hasattr(made, "propose"):
        raise UsageError(f"improve.reflector {name!r} returned {made!r}, which has no method 'propose'")
    return cast(Reflector, made)


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )


def reflection_context(store: LoopStore, harness: Harness, proposal: Proposal) -> ReflectionContext:
    """What the reflector may see: examples come from the reflect split, without their targets and what quotes them."""
    proposal = proposal.model_copy(update={"pattern_ids": confirmed_patterns(store, proposal)})
    return ReflectionContext(
        prompt=store.prompt_version(proposal.base_version_id),
        patterns=tuple(store.pattern(pattern_id) for pattern_id in proposal.pattern_ids),
        examples=tuple(_examples(store, harness.task, proposal)),
        rejected=tuple(
            (revision.operations, decision.reason) for _, revision, decision in store.rejected(proposal.prompt_name)
        ),
        engine=harness.engine,
    )


def _examples(store: LoopStore, task: Task, proposal: Proposal) -> list[tuple[Sample, Attempt]]:
    """Failing first attempts, the patterns taking turns, each sample once."""
    samples = {sample.id: sample for sample in task.samples if sample.split == "reflect"}
    seen: dict[str, Attempt] = {}
    queues = [
        list(store.occurrences(pattern_id, prompt_version_id=proposal.base_version_id))
        for pattern_id in proposal.pattern_ids
    ]
    while any(queues) and len(seen) < _NUM_EXAMPLES:
        for queue in filter(None, queues):
            run_id, sample_id = queue.pop(0)
            if sample_id in samples and sample_id not in seen and len(seen) < _NUM_EXAMPLES:
                first = [attempt for attempt in store.attempts(run_id, sample_id) if attempt.attempt_index == 0]
                if first:
                    seen[sample_id] = first[0]
    return [
        (samples[sample_id].model_copy(update={"target": None}), _without_reasons(attempt))
        for sample_id, attempt in seen.items()
    ]


def _without_reasons(attempt: Attempt) -> Attempt:
    """A result's reason and metadata are for people and may hold the target; its feedback stays."""
    results = tuple(result.model_copy(update={"reason": "", "metadata": {}}) for result in attempt.results)
    return attempt.model_copy(update={"results": results})
