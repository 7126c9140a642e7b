"""Taking back a committed change that turned out to be no better than what was there before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from loopeng.attempt.events import ProgressEvent, PromptExported, ProposalMoved
from loopeng.attempt.harness import Harness, ignore_event
from loopeng.improve.exporting import export_left_behind
from loopeng.improve.rules import apply_operations
from loopeng.improve.watch.watching import check_watches, versions_under
from loopeng.prompts import text_hash
from loopeng.schema import Proposal, Revision, Rule, RuleOperation, Task, Watch, utc_now
from loopeng.schema.task import parse_duration
from loopeng.store import LoopStore

__all__ = ["inverse_operations", "look_after", "propose_rollbacks", "watch_summary", "watches_behind"]


def look_after(
    store: LoopStore, harness: Harness | None = None, on_event: Callable[[ProgressEvent], None] = ignore_event
) -> list[Proposal]:
    """What committed changes need once more where somebody was cut off: their prompt's file, and the runs' verdicts.

    With a harness, changes of its prompt that turned out no better lead to rollback proposals, which come back.
    """
    for export in export_left_behind(store):
        on_event(PromptExported(export.version, export.path, export.error))
    for prompt_name in store.prompt_names():
        check_watches(store, prompt_name, on_event)
    asked = propose_rollbacks(store, harness.task) if harness is not None else []
    for proposal in asked:
        on_event(ProposalMoved(proposal.id, proposal.state))
    return asked


def propose_rollbacks(store: LoopStore, task: Task) -> list[Proposal]:
    """Ask whether to take back what is in force and no better than before; the new proposals, which wait at once.

    Nobody is asked twice about one commit, unless the question went stale or expired. Nothing is asked where the rules
    are gone already, where the failure is muted, while an open proposal is about the same failures (it has to be
    decided first), or under ``approval.autonomy: report``.
    """
    if task.approval.autonomy == "report" or task.prompt.name not in store.prompt_names():
        return []
    made, looked_at = [], set()
    for watch in _no_better(store, task.prompt.name):
        if watch.prompt_version_id not in looked_at:
            looked_at.add(watch.prompt_version_id)
            proposal = _ask(store, task, watch)
            made += [proposal] if proposal is not None else []
    return made


def inverse_operations(
    before: Sequence[Rule], after: Sequence[Rule], head: Sequence[Rule]
) -> tuple[RuleOperation, ...]:
    """What takes the change from ``before`` to ``after`` back in ``head``: additions go, rewordings and removals too.

    A rule that somebody has reworded since is theirs and stays.

    >>> long, short = Rule(id="a", text="Be brief."), Rule(id="b", text="One sentence.")
    >>> [(each.op, each.rule_id) for each in inverse_operations([long], [short], [short])]
    [('remove', 'b'), ('add', 'a')]
    """
    old, new = ({rule.id: rule for rule in rules} for rules in (before, after))
    now = {rule.id: rule.text for rule in head}
    operations = [
        RuleOperation(op="remove", rule_id=key) for key in new if key not in old and now.get(key) == new[key].text
    ]
    operations += [
        RuleOperation(op="update", rule_id=key, text=old[key].text)
        for key in new
        if key in old and old[key].text != new[key].text == now.get(key)
    ]
    operations += [
        RuleOperation(op="add", rule_id=key, text=rule.text, pattern_ids=rule.pattern_ids)
        for key, rule in old.items()
        if key not in new and key not in now and rule.text not in now.values()
    ]
    return tuple(operations)


def watches_behind(store: LoopStore, proposal: Proposal) -> tuple[Watch, ...]:
    """The watches of the commit that a rollback proposal takes back; none for another proposal."""
    if proposal.kind != "rollback":
        return ()
    watches = store.watches(proposal.prompt_name)
    asked = [watch for watch in watches if proposal.id in {each.id for each in store.rollbacks_asked_for(watch)}]
    newest = asked[-1].prompt_version_id if asked else None
    return tuple(watch for watch in asked if watch.prompt_version_id == newest)


def watch_summary(watch: Watch) -> str:
    """A watch in one sentence: what was counted before, at the gate and since.

    >>> from loopeng.schema import WatchCheck
    >>> check = WatchCheck(
    ...     outcome="no_better",
    ...     num_samples=9,
    ...     num_failures=8,
    ...     e_value=61.0,
    ...     e_value_fixed=0.1,
    ...     run_id="run-1",
    ...     checked_at=utc_now(),
    ... )
    >>> print(
    ...     watch_summary(
    ...         Watch(
    ...             prompt_version_id="ver-1",
    ...             pattern_id="pat-1",
    ...             proposal_id="prop-1",
    ...             rate_before=0.8,
    ...             rate_after=0.1,
    ...             upper_bound=0.3,
    ...             check=check,
    ...             created_at=utc_now(),
    ...         )
    ...     )
    ... )
    failure rate 80 % before, 10 % at the commit, up to 30 % allowed; since then 8 of 9 samples: no better (e-value 61)
    """
    before, after, bound = (
        f"{rate:.0%}".replace("%", " %") for rate in (watch.rate_before, watch.rate_after, watch.upper_bound)
    )
    expected = f"failure rate {before} before, {after} at the commit, up to {bound} allowed"
    check = watch.check
    if check is None:
        return f"{expected}; no run since"
    e_value = check.e_value_fixed if check.outcome == "fixed" else check.e_value
    found = f"since then {check.num_failures} of {check.num_samples} samples"
    return f"{expected}; {found}: {check.outcome.replace('_', ' ')} (e-value {e_value:.3g})"


def _no_better(store: LoopStore, prompt_name: str) -> list[Watch]:
    """The watches in force that say so, the newest first."""
    watches, versions, head = store.watches(prompt_name), store.prompt_versions(prompt_name), store.head(prompt_name)
    return [
        watch
        for watch in reversed(watches)
        if watch.check is not None
        and watch.check.outcome == "no_better"
        and store.pattern(watch.pattern_id).state != "muted"
        and head.id in versions_under(store, watch, watches, versions)
    ]


def _ask(store: LoopStore, task: Task, watch: Watch) -> Proposal | None:
    version, head = store.prompt_version(watch.prompt_version_id), store.head(task.prompt.name)
    before = store.prompt_version(version.parent_id).rules if version.parent_id else ()
    operations = inverse_operations(before, version.rules, head.rules)
    if not operations:
        return None
    rules = apply_operations(head.rules, operations)
    revision = Revision(
        proposal_id="",  # of the proposal that the store makes for it
        revision=1,
        operations=operations,
        rules=rules,
        text_hash=text_hash(head.template, rules),
        rationale=_rationale(store, watch, version.number),
        author="watch",
        created_at=utc_now(),
    )
    expires_at = utc_now() + timedelta(seconds=parse_duration(task.approval.expires))
    return store.propose_rollback(watch, task=task, base=head, revision=revision, expires_at=expires_at)


def _rationale(store: LoopStore, watch: Watch, number: int) -> str:
    lines = [f"Takes back the change of version {number} ({watch.proposal_id}), which did not keep its failures away."]
    for each in store.watches(store.prompt_version(watch.prompt_version_id).prompt_name):
        if each.prompt_version_id == watch.prompt_version_id:
            pattern = store.pattern(each.pattern_id)
            lines.append(f"{pattern.evaluator}: {pattern.category}: {watch_summary(each)}")
    return "\n".join(lines)
