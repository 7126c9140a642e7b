"""Making revisions: of the best suggestion, of a person's edit, and once more when a test has to start over."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.attempt.harness import Harness
from loopeng.errors import LoopError, UsageError
from loopeng.improve.guards.candidate import change_of
from loopeng.improve.guards.inspecting import Candidate, inspect_rules, why_refused
from loopeng.improve.reflection.asking import ReflectionEngine, reflection_engine
from loopeng.improve.reflection.reflectors import build_reflector, reflection_context
from loopeng.improve.reflection.screening import screen
from loopeng.improve.rules import apply_operations, operations_between
from loopeng.improve.spending import Spending
from loopeng.ports import NoChange, ProposedChange
from loopeng.schema import PromptVersion, Proposal, Revision, Rule, RuleOperation, Suggestion, Task, utc_now
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = [
    "NUM_TRIES",
    "REFLECTOR_AUTHOR",
    "draft",
    "edited_revision",
    "failed_too_often",
    "first_revision",
    "next_revision",
    "repeat_revision",
    "revision_candidate",
    "why_nothing",
]

NUM_TRIES = 3  # of a test that ends in error
REFLECTOR_AUTHOR = "reflector "  # and its name: who wrote a revision that no person did

_NOTHING = "every remedy is among the rules already, or the patterns have none"


def draft(store: LoopStore, harness: Harness, proposal: Proposal, limits: BudgetSpec) -> Revision | None:
    """Revision 1: the best of what the task's reflector suggests, or the first that a guard refuses; else None.

    Every suggestion is kept with what became of it, and nothing is asked or run again for what is kept. Raises
    UsageError where the reflector cannot be built, breaks, or names rules that do not exist, EngineError where its
    engine breaks, and BudgetStop at one of ``limits``.
    """
    spending = Spending.of(store, proposal, limits)
    suggestions = store.suggestions(proposal.id)
    if not suggestions:
        suggestions = store.save_suggestions(_suggestions(store, harness, proposal, spending))
    for run in store.runs(proposal_id=proposal.id, kind="reflect"):
        store.finish_run(run.id, "finished")  # also where somebody was cut off before
    usable = [each for each in suggestions if each.outcome == "chosen"]  # so far
    if len(usable) > 1:
        usable = screen(harness, proposal, usable, spending)
        store.settle_suggestions(usable)
    first_best = [each for each in usable if each.outcome == "chosen"] or [
        each for each in suggestions if each.operations
    ]
    if not first_best:
        return None
    best, author = first_best[0], f"{REFLECTOR_AUTHOR}{harness.task.improve.reflector}"
    base = store.prompt_version(proposal.base_version_id)
    revision = first_revision(store, harness.task, base, best.operations, author=author, rationale=best.rationale)
    return store.save_revision(revision.model_copy(update={"proposal_id": proposal.id}))


def why_nothing(store: LoopStore, proposal: Proposal) -> str:
    """Why no revision came of what the reflector suggested."""
    reasons = [suggestion.reason for suggestion in store.suggestions(proposal.id)]
    return f"nothing to propose: {'; '.join(dict.fromkeys(reasons)) or _NOTHING}"


def first_revision(
    store: LoopStore,
    task: Task,
    base: PromptVersion,
    operations: tuple[RuleOperation, ...],
    *,
    author: str,
    rationale: str,
) -> Revision:
    """Revision 1, with what the guards say of it. Not saved; which proposal it belongs to is said when it is."""
    rules = apply_operations(base.rules, operations)
    candidate = _candidate_for(store, task, base, rules)
    return Revision(
        proposal_id="",
        revision=1,
        operations=operations,
        rules=rules,
        text_hash=candidate.text_hash,
        rationale=rationale,
        author=author,
        findings=inspect_rules(candidate),
        created_at=utc_now(),
    )


def _suggestions(store: LoopStore, harness: Harness, proposal: Proposal, spending: Spending) -> list[Suggestion]:
    """The reflector's answers, looked at by the guards. What no guard refuses is "chosen" until it is outscored."""
    made: list[Suggestion] = []
    for number, answer in enumerate(_ask(store, harness, proposal, spending), start=1):
        if isinstance(answer, ProposedChange) and answer.operations:
            made.append(_inspected(store, proposal, answer, number, made))
            continue
        reason = answer.reason if isinstance(answer, NoChange) else f"a change without operations: {answer.rationale}"
        outcome = "refused" if answer.reply is None else "malformed"
        made.append(_suggestion(proposal, number, outcome=outcome, reason=reason, reply=answer.reply))
    return made


def _inspected(
    store: LoopStore, proposal: Proposal, change: ProposedChange, number: int, earlier: Sequence[Suggestion]
) -> Suggestion:
    base = store.prompt_version(proposal.base_version_id)
    candidate = _candidate(store, proposal, apply_operations(base.rules, change.operations))
    refusal = why_refused(inspect_rules(candidate))
    if same := [each.number for each in earlier if each.text_hash == candidate.text_hash]:
        refusal = f"the same text as suggestion {same[0]}"
    return _suggestion(
        proposal,
        number,
        outcome="refused" if refusal else "chosen",
        reason=refusal,
        operations=change.operations,
        text_hash=candidate.text_hash,
        rationale=change.rationale,
        reply=change.reply,
    )


def _suggestion(proposal: Proposal, number: int, **values: object) -> Suggestion:
    named = {"proposal_id": proposal.id, "number": number, "created_at": utc_now()}
    return Suggestion.model_validate(named | values)


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
    return next_revision(current, candidate, operations, by=by, rationale=reason or f"edited by {by}")


def next_revision(
    current: Revision, candidate: Candidate, operations: tuple[RuleOperation, ...], *, by: str, rationale: str
) -> Revision:
    """What a person makes of a proposal. Not saved. Raises UsageError where a guard refuses it."""
    if findings := inspect_rules(candidate):
        raise UsageError(why_refused(findings))
    return Revision(
        proposal_id=current.proposal_id,
        revision=current.revision + 1,
        operations=operations,
        rules=candidate.rules,
        text_hash=candidate.text_hash,
        rationale=rationale,
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


def failed_too_often(store: LoopStore, proposal: Proposal) -> bool:
    """Whether the text at hand was in error in so many tests that another would only cost the same again."""
    text_hash = store.revision(proposal.id).text_hash
    tries = [each for each in store.revisions(proposal.id) if each.text_hash == text_hash]
    reports = [store.gate_report(proposal.id, each.revision, "gate") for each in tries]
    return sum(report is not None and report.verdict == "error" for report in reports) >= NUM_TRIES


def revision_candidate(store: LoopStore, proposal: Proposal) -> Candidate:
    """The current revision as the guards see it."""
    return _candidate(store, proposal, store.revision(proposal.id).rules)


def _candidate(store: LoopStore, proposal: Proposal, rules: tuple[Rule, ...]) -> Candidate:
    base = store.prompt_version(proposal.base_version_id)
    return _candidate_for(store, store.task(proposal.task_hash), base, rules)


def _candidate_for(store: LoopStore, task: Task, base: PromptVersion, rules: tuple[Rule, ...]) -> Candidate:
    rejected = store.rejected(base.prompt_name)
    return Candidate(
        task=task,
        base=base,
        rules=rules,
        rejected=_refused(store, base.prompt_name, {revision.text_hash: each.reason for _, revision, each in rejected}),
        rejected_changes={change_of(revision.operations): decision.reason for _, revision, decision in rejected},
    )


def _refused(store: LoopStore, prompt_name: str, rejected: dict[str, str]) -> dict[str, str]:
    """By text hash, why people did not want a text: they rejected it, rolled it back, or took it back as no better."""
    committed = store.proposals(prompt_name=prompt_name, states=["committed"])
    taken_back = {
        store.prompt_version(each.base_version_id).text_hash: f"{each.id} took it back: it was no better than before"
        for each in committed
        if each.kind == "rollback"
    }
    rolled_back = [each for each in store.decisions(prompt_name=prompt_name) if each.action == "rollback"]
    return taken_back | {each.seen_hash: each.reason for each in rolled_back} | rejected


def _ask(store: LoopStore, harness: Harness, proposal: Proposal, spending: Spending) -> list[ProposedChange | NoChange]:
    """At most ``improve.candidates`` answers."""
    task = harness.task
    name = task.improve.reflector
    reflector = build_reflector(name, task.folder)
    engine = ReflectionEngine(harness, proposal, reflection_engine(harness), spending)
    try:
        answers = list(reflector.propose(reflection_context(store, harness, proposal, engine)))
    except LoopError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise UsageError(f"the reflector {name!r} broke: {type(error).__name__}: {error}") from error
    for answer in answers:
        if not isinstance(answer, ProposedChange | NoChange):
            raise UsageError(f"the reflector {name!r} returned {answer!r}, which is no ProposedChange")
    return answers[: task.improve.candidates]
