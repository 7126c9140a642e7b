"""Reflectors turn failure patterns into changes of the rules: ``hints``, ``llm``, or your own as ``module:name``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from loopeng.attempt.harness import Harness
from loopeng.errors import UsageError
from loopeng.improve.reflection.asking import reflection_request
from loopeng.improve.reflection.llm_reflector import LlmReflector
from loopeng.improve.reflection.redaction import hide_targets, redacted_example
from loopeng.improve.reproduction import confirmed_patterns, take_turns
from loopeng.improve.rules import normalise_rule
from loopeng.ports import NoChange, ProposedChange, ReflectionContext, Reflector, TextEngine
from loopeng.prompts import rendered_template
from loopeng.references import import_reference
from loopeng.schema import Attempt, FailurePattern, Proposal, Rule, RuleOperation, Sample, Task
from loopeng.store import LoopStore

__all__ = ["REFLECTORS", "HintsReflector", "build_reflector", "reflection_context"]

_NUM_EXAMPLES = 8
_TOO_MANY = "are more than improve.max_rules allows, and none was made for these failures that could be reworded"


class HintsReflector:
    """One rule per pattern: the remedy its evaluator names. Needs no model. Proposes no rule the prompt has already.

    Where the list of rules has no room, a remedy takes the place of the rule that was made for its pattern.
    """

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange | NoChange]:
        """At most one change; none when every remedy is among the rules, no pattern has one, or there is no room."""
        present = {normalise_rule(rule.text) for rule in context.prompt.rules}
        wanted: dict[str, list[FailurePattern]] = {}
        for pattern in context.patterns:
            if pattern.remedy and normalise_rule(pattern.remedy) not in present:
                wanted.setdefault(normalise_rule(pattern.remedy), []).append(pattern)
        if not wanted:
            return ()
        operations = _fitted([_addition(patterns) for patterns in wanted.values()], context)
        most = max(context.improve.max_rules, len(context.prompt.rules))  # the limit may have been lowered since
        if (num_rules := _num_rules(context, operations)) > most:
            return (NoChange(reason=f"{num_rules} rules {_TOO_MANY} ({context.improve.max_rules})"),)
        reasons = [_reason(pattern) for patterns in wanted.values() for pattern in patterns]
        return (
            ProposedChange(
                operations=operations,
                rationale="; ".join(reasons),
                pattern_ids=tuple(pattern.id for patterns in wanted.values() for pattern in patterns),
            ),
        )


def _addition(patterns: Sequence[FailurePattern]) -> RuleOperation:
    """One rule for patterns whose remedies read alike."""
    text = (patterns[0].remedy or "").strip()
    return RuleOperation(op="add", text=text, pattern_ids=tuple(pattern.id for pattern in patterns))


def _fitted(additions: Sequence[RuleOperation], context: ReflectionContext) -> tuple[RuleOperation, ...]:
    """The additions; where there is no room for all, an update of a rule made for the same patterns instead of one."""
    num_missing = len(additions) + len(context.prompt.rules) - context.improve.max_rules
    operations, taken = [], set[str]()
    for addition in additions:
        own = _own_rule(context.prompt.rules, addition.pattern_ids, taken) if len(taken) < num_missing else None
        changes = {"op": "update", "rule_id": own.id} if own is not None else {}
        operations.append(addition.model_copy(update=changes))
        taken |= {own.id} if own is not None else set()
    return tuple(operations)


def _own_rule(rules: Sequence[Rule], pattern_ids: Sequence[str], taken: Collection[str]) -> Rule | None:
    """The newest rule for one of the patterns, and for no other: it has not stopped them."""
    for rule in reversed(rules):
        if rule.id not in taken and rule.pattern_ids and set(rule.pattern_ids) <= set(pattern_ids):
            return rule
    return None


def _num_rules(context: ReflectionContext, operations: Sequence[RuleOperation]) -> int:
    return len(context.prompt.rules) + sum(operation.op == "add" for operation in operations)


def _reason(pattern: FailurePattern) -> str:
    plural = "sample" if pattern.num_samples == 1 else "samples"
    return f"{pattern.evaluator} ({pattern.category}) failed on {pattern.num_samples} {plural}"


@dataclass(frozen=True)
class _FunctionReflector:
    """A plain function ``(context) -> changes`` as a reflector."""

    function: Callable[[ReflectionContext], Sequence[ProposedChange | NoChange]]

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange | NoChange]:
        """Whatever the function says."""
        return self.function(context)


REFLECTORS: dict[str, Callable[[], Reflector]] = {"hints": HintsReflector, "llm": LlmReflector}


def build_reflector(name: str, base_dir: Path | None = None) -> Reflector:
    """The reflector that a task names: a registered one, or ``module:name`` of an object, factory or function.

    What ``module:name`` points at may have a method ``propose``, be callable without arguments and return such an
    object, or be a function of a ReflectionContext; ``base_dir`` is where modules are looked for first. Raises
    UsageError where it is none of these, TaskError where it cannot be imported.
    """
    if name in REFLECTORS:
        return REFLECTORS[name]()
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
        return _FunctionReflector(value)
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


def reflection_context(
    store: LoopStore, harness: Harness, proposal: Proposal, engine: TextEngine | None = None
) -> ReflectionContext:
    """What the reflector may see: examples come from the reflect split, without their targets and what quotes them.

    ``engine`` is what it asks, by default the task's. No target of the task is left in the patterns and the changes
    that were refused, but for what the template shows anyway.
    """
    proposal = proposal.model_copy(update={"pattern_ids": confirmed_patterns(store, proposal)})
    task, base = harness.task, store.prompt_version(proposal.base_version_id)
    patterns = [store.pattern(pattern_id) for pattern_id in proposal.pattern_ids]
    rejected, refused = _rejected(store, proposal.prompt_name), _refused(store, proposal.prompt_name)
    reasons = [pattern.reason for pattern in patterns]
    hidden = iter(
        hide_targets(
            [*reasons, *_texts_of(rejected), *_texts_of(refused)], task.samples, rendered_template(base.template)
        )
    )
    return ReflectionContext(
        prompt=base,
        patterns=tuple(pattern.model_copy(update={"reason": next(hidden)}) for pattern in patterns),
        examples=tuple(_examples(store, task, proposal)),
        rejected=_with_texts(rejected, hidden),
        refused=_with_texts(refused, hidden),
        engine=engine or harness.engine,
        request=reflection_request(task),
        improve=task.improve,
    )


_Refusals = Sequence[tuple[tuple[RuleOperation, ...], str]]


def _rejected(store: LoopStore, prompt_name: str) -> _Refusals:
    """What people did not want: they rejected it, or rolled it back."""
    rejected = [(revision.operations, decision.reason) for _, revision, decision in store.rejected(prompt_name)]
    for decision in store.decisions(prompt_name=prompt_name):
        if decision.action == "rollback":
            left = store.prompt_version(decision.evidence["from_version_id"])
            if left.proposal_id is not None:
                operations = store.revision(left.proposal_id, left.revision).operations
                rejected.append((operations, f"rolled back: {decision.reason}"))
    return rejected


def _refused(store: LoopStore, prompt_name: str) -> _Refusals:
    """What the guards did not let through, each text once."""
    found = {each.text_hash: each for each in store.suggestions_for(prompt_name, "refused") if each.operations}
    return [(each.operations, each.reason) for each in found.values()]


def _texts_of(refusals: _Refusals) -> list[str]:
    return [text for operations, reason in refusals for text in (*(each.text or "" for each in operations), reason)]


def _with_texts(refusals: _Refusals, texts: Iterator[str]) -> tuple[tuple[tuple[RuleOperation, ...], str], ...]:
    """The same with other texts, in the order of ``_texts_of``."""
    return tuple(
        (tuple(each.model_copy(update={"text": next(texts) or None}) for each in operations), next(texts))
        for operations, _ in refusals
    )


def _examples(store: LoopStore, task: Task, proposal: Proposal) -> list[tuple[Sample, Attempt]]:
    """Failing first attempts, the patterns taking turns, each sample once."""
    samples = {sample.id: sample for sample in task.samples if sample.split == "reflect"}
    seen: dict[str, Attempt] = {}
    shown = (
        store.occurrences(pattern_id, prompt_version_id=proposal.base_version_id) for pattern_id in proposal.pattern_ids
    )
    for run_id, sample_id in take_turns(shown):
        if sample_id in samples and sample_id not in seen and len(seen) < _NUM_EXAMPLES:
            first = [attempt for attempt in store.attempts(run_id, sample_id) if attempt.attempt_index == 0]
            if first:  # of an input that was sent several times, an answer that failed
                seen[sample_id] = next((each for each in first if each.verdict == "fail"), first[0])
    return [redacted_example(samples[sample_id], attempt) for sample_id, attempt in seen.items()]
