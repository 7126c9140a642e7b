"""Making revisions: from a reflector's answer, from a person's edit, and once more when a test has to start over."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.attempt.harness import Harness
from loopeng.errors import LoopError, UsageError
from loopeng.improve.guards import Candidate, inspect_rules
from loopeng.improve.reflect import build_reflector, reflection_context
from loopeng.improve.rules import apply_operations, operations_between
from loopeng.ports import ProposedChange
from loopeng.schema import Proposal, Revision, Rule, utc_now
from loopeng.store import LoopStore

__all__ = ["draft", "edited_revision", "repeat_revision", "revision_candidate"]


def draft(store: LoopStore, harness: Harness, proposal: Proposal) -> Revision | None:
    """Ask the task's reflector and save the first change it proposes as revision 1; None when it proposes none.

    Raises UsageError where the reflector cannot be built, breaks, or names rules that do not exist.
    """
    change = _ask(store, harness, proposal)
    if change is None or not change.operations:
        return None
    base = store.prompt_version(proposal.base_version_id)
    rules = apply_operations(base.rules, change.operations)
    candidate = _candidate(store, proposal, rules)
    return store.save_revision(
        Revision(
            proposal_id=proposal.id,
            revision=1,
            operations=change.operations,
            rules=rules,
            text_hash=candidate.text_hash,
            rationale=change.rationale,
            author=f"reflector {harness.task.improve.reflector}",
            findings=inspect_rules(candidate),
            created_at=utc_now(),
        )
    )


def edited_revision(store: LoopStore, proposal: Proposal, texts: Sequence[str], *, by: str, reason: str) -> Revision:
    """The revision that a person's list of rules makes. Not saved: the decision that brings it does that.

    Raises UsageError for a rule that is no text, where a guard refuses it, or where it says what the current revision
    says.
    """
    _refuse_what_is_no_rule(texts)
    current, base = store.revision(proposal.id), store.prompt_version(proposal.base_version_id)
    operations = operations_between(base.rules, texts, known=current.rules, pattern_ids=proposal.pattern_ids)
    rules = apply_operations(base.rules, operations)
    candidate = _candidate(store, proposal, rules)
    if candidate.text_hash == current.text_hash:
        raise UsageError("the edited rules are those of the current revision; approve it, or change something")
    if findings := inspect_rules(candidate):
        raise UsageError("; ".join(f"{each.guard}: {each.reason}" for each in findings))
    return Revision(
        proposal_id=proposal.id,
        revision=current.revision + 1,
        operations=operations,
        rules=rules,
        text_hash=candidate.text_hash,
        rationale=reason or f"edited by {by}",
        author=by,
        created_at=utc_now(),
    )


def _refuse_what_is_no_rule(texts: Sequence[str]) -> None:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"rules is a list of texts, not {texts!r}")
    if not all(text.strip() for text in texts):
        raise UsageError("a rule is empty; leave it out, or say what the model should do")


def repeat_revision(store: LoopStore, proposal: Proposal) -> Proposal:
    """The current text as a new revision, whose test starts from nothing: the runs of the old one cannot be used."""
    current = store.revision(proposal.id)
    store.save_revision(current.model_copy(update={"revision": current.revision + 1, "created_at": utc_now()}))
    return store.proposal(proposal.id)


def revision_candidate(store: LoopStore, proposal: Proposal) -> Candidate:
    """The current revision as the guards see it."""
    return _candidate(store, proposal, store.revision(proposal.id).rules)


def _candidate(store: LoopStore, proposal: Proposal, rules: tuple[Rule, ...]) -> Candidate:
    return Candidate(
        task=store.task(proposal.task_hash),
        base=store.prompt_version(proposal.base_version_id),
        rules=rules,
        rejected=_refused(store, proposal.prompt_name),
    )


def _refused(store: LoopStore, prompt_name: str) -> dict[str, str]:
    """By text hash, why people did not want a text: they rejected it, rolled it back, or took it back as no better."""
    committed = store.proposals(prompt_name=prompt_name, states=["committed"])
    taken_back = {
        store.prompt_version(each.base_version_id).text_hash: f"{each.id} took it back: it was no better than before"
        for each in committed
        if each.kind == "rollback"
    }
    rolled_back = [each for each in store.decisions(prompt_name=prompt_name) if each.action == "rollback"]
    return (
        taken_back
        | {each.seen_hash: each.reason for each in rolled_back}
        | {revision.text_hash: decision.reason for _, revision, decision in store.rejected(prompt_name)}
    )


def _ask(store: LoopStore, harness: Harness, proposal: Proposal) -> ProposedChange | None:
    name, folder = harness.task.improve.reflector, harness.task.path.parent if harness.task.path else None
    reflector = build_reflector(name, folder)
    try:
        changes = reflector.propose(reflection_context(store, harness, proposal))
    except LoopError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise UsageError(f"the reflector {name!r} broke: {type(error).__name__}: {error}") from error
    return next(iter(changes), None)
