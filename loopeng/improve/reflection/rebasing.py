"""A stale proposal once more: its operations on the rules of today's head. A delta survives a head that moved."""

from __future__ import annotations

from dataclasses import replace

from loopeng.errors import UsageError
from loopeng.improve.reflection.drafting import next_revision, revision_candidate
from loopeng.improve.rules import apply_operations, normalise_rule
from loopeng.schema import PromptVersion, Proposal, Revision, Rule, RuleOperation
from loopeng.store import LoopStore

__all__ = ["rebased_operations", "rebased_revision"]


def rebased_revision(store: LoopStore, proposal: Proposal, head: PromptVersion, *, by: str) -> Revision:
    """The next revision of a stale proposal, made for ``head``. Not saved.

    Raises UsageError where nothing is left to change, a rule to change is gone, or a guard refuses the result.
    """
    current = store.revision(proposal.id)
    before = store.prompt_version(proposal.base_version_id)
    operations = rebased_operations(head.rules, current.operations, before=before.rules)
    if not operations:
        raise UsageError(f"{proposal.id} has nothing left to change: version {head.number} says all of it already")
    candidate = revision_candidate(store, proposal.model_copy(update={"base_version_id": head.id}))
    candidate = replace(candidate, rules=apply_operations(head.rules, operations))
    return next_revision(current, candidate, operations, by=by, rationale=current.rationale)


def rebased_operations(
    rules: tuple[Rule, ...], operations: tuple[RuleOperation, ...], *, before: tuple[Rule, ...] = ()
) -> tuple[RuleOperation, ...]:
    """Those of the operations that still change something in ``rules``.

    Raises UsageError for one on a rule that is gone, or that somebody has reworded since ``before``: what they wrote
    must not be lost unseen.
    """
    says = {normalise_rule(rule.text) for rule in rules}
    now, then = ({rule.id: rule.text for rule in each} for each in (rules, before))
    left = []
    for operation in operations:
        rule_id = operation.rule_id or ""
        if operation.op == "add":
            if normalise_rule(operation.text or "") in says:
                continue
        elif rule_id not in now:
            raise UsageError(
                f"cannot {operation.op} rule {rule_id} ({then.get(rule_id, '')!r}): it is gone from the prompt by now; "
                "let the failures lead to a new proposal"
            )
        elif normalise_rule(now[rule_id]) == normalise_rule(operation.text or ""):
            continue
        elif rule_id in then and now[rule_id] != then[rule_id]:
            raise UsageError(
                f"cannot {operation.op} rule {rule_id}: it was reworded meanwhile, to {now[rule_id]!r}; "
                "let the failures lead to a new proposal"
            )
        left.append(operation)
    return tuple(left)
