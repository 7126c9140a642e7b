"""Proposing a list of rules that is there already, from an optimiser or a person: no reflector is asked."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.attempt.harness import Harness
from loopeng.errors import ConflictError, UsageError
from loopeng.improve.cycle import advance
from loopeng.improve.guards import Candidate, inspect_rules
from loopeng.improve.rules import apply_operations, operations_between
from loopeng.patterns.standing import standings
from loopeng.patterns.trigger import MAX_PATTERNS, why_never
from loopeng.prompts import text_hash
from loopeng.schema import OPEN_STATES, PromptVersion, Proposal, Revision, RuleOperation, utc_now

__all__ = ["submit_rules"]


def submit_rules(
    harness: Harness,
    base: PromptVersion,
    texts: Sequence[str],
    *,
    by: str,
    rationale: str,
    pattern_ids: Sequence[str] | None = None,
) -> Proposal:
    """Propose ``texts`` as the whole list of rules: guards, gate, hold-out, queue, as for any other proposal.

    It is about ``pattern_ids``, by default the prompt's most frequent failures. What a guard refuses is kept, archived
    with the reason. Raises UsageError where nothing would change or there is no failure to be about, ConflictError
    where ``base`` is not the head any more or an open proposal is about a pattern.
    """
    store, task = harness.store, harness.task
    if (head := store.head(base.prompt_name)).id != base.id:
        raise ConflictError(
            f"these rules were found for version {base.number} of {base.prompt_name!r}, and version {head.number} is "
            "in use now: search again from there"
        )
    chosen = _frequent(harness, base) if pattern_ids is None else _checked(harness, base, pattern_ids)
    operations = operations_between(base.rules, texts, pattern_ids=chosen)
    if not operations:
        raise UsageError("these rules are those of the current version: there is nothing to propose")
    revision = _revision(harness, base, operations, author=by, rationale=rationale)
    proposal = store.create_proposal(task=task, base=base, pattern_ids=chosen, expires_at=None, revision=revision)
    return advance(store, proposal.id, harness=harness)


def _revision(
    harness: Harness,
    base: PromptVersion,
    operations: tuple[RuleOperation, ...],
    *,
    author: str,
    rationale: str,
) -> Revision:
    """Revision 1 with what the guards say of it. What people refused before is looked up when it is tested."""
    rules = apply_operations(base.rules, operations)
    return Revision(
        proposal_id="",  # of the proposal that the store makes for it
        revision=1,
        operations=operations,
        rules=rules,
        text_hash=text_hash(base.template, rules),
        rationale=rationale,
        author=author,
        findings=inspect_rules(Candidate(task=harness.task, base=base, rules=rules, rejected={})),
        created_at=utc_now(),
    )


def _frequent(harness: Harness, base: PromptVersion) -> list[str]:
    """The most frequent failures on the reflect samples that no open proposal is about."""
    store, task = harness.store, harness.task
    open_ones = store.proposals(prompt_name=base.prompt_name, states=OPEN_STATES)
    taken = {pattern_id for proposal in open_ones for pattern_id in proposal.pattern_ids}
    evaluators = {spec.id for spec in task.evaluators}
    shown = [
        each.pattern.id
        for each in standings(store, task, base)
        if each.samples and each.pattern.evaluator in evaluators and why_never(each.pattern) is None
    ]
    shown = [pattern_id for pattern_id in shown if pattern_id not in taken]
    if not shown:
        hint = f"{', '.join(each.id for each in open_ones)} is open" if taken else "run the suite first"
        raise UsageError(f"there is no failure that a proposal could be about: {hint}")
    return shown[:MAX_PATTERNS]


def _checked(harness: Harness, base: PromptVersion, pattern_ids: Sequence[str]) -> list[str]:
    patterns = [harness.store.pattern(pattern_id) for pattern_id in dict.fromkeys(pattern_ids)]
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        raise UsageError(f"a proposal is about 1 to {MAX_PATTERNS} patterns, not {len(patterns)}")
    for pattern in patterns:
        if pattern.prompt_name != base.prompt_name or pattern.fault_side != "model":
            raise UsageError(f"pattern {pattern.id} is none that a rule of {base.prompt_name!r} can prevent")
    return [pattern.id for pattern in patterns]
