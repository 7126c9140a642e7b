"""Proposing a list of rules that is there already, from an optimiser or a person: no reflector is asked."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.attempt.harness import Harness
from loopeng.errors import ConflictError, UsageError
from loopeng.improve.cycle import advance
from loopeng.improve.reflection.drafting import first_revision
from loopeng.improve.rules import operations_between
from loopeng.patterns.trigger import MAX_PATTERNS, named_patterns, proposable
from loopeng.schema import OPEN_STATES, PromptVersion, Proposal, Task
from loopeng.store import LoopStore

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
    if pattern_ids is None:
        chosen = _most_frequent(store, task, base)
    else:
        chosen = [each.id for each in named_patterns(store, base.prompt_name, pattern_ids)]
    operations = operations_between(base.rules, texts, pattern_ids=chosen)
    if not operations:
        raise UsageError("these rules are those of the current version: there is nothing to propose")
    revision = first_revision(store, task, base, operations, author=by, rationale=rationale)
    proposal = store.create_proposal(task=task, base=base, pattern_ids=chosen, expires_at=None, revision=revision)
    return advance(store, proposal.id, harness=harness)


def _most_frequent(store: LoopStore, task: Task, base: PromptVersion) -> list[str]:
    shown = [each.pattern.id for each in proposable(store, task, base) if each.samples]
    if not shown:
        open_ones = store.proposals(prompt_name=base.prompt_name, states=OPEN_STATES)
        hint = f"{', '.join(each.id for each in open_ones)} is open" if open_ones else "run the suite first"
        raise UsageError(f"there is no failure that a proposal could be about: {hint}")
    return shown[:MAX_PATTERNS]
