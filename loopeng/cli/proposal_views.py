"""Proposals from database rows to lists, cards, documents, and the exact commands that decide them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.cli.places import command, found_task_file
from loopeng.improve.exporting import export_on_commit
from loopeng.improve.watch.undoing import watch_summary, watches_behind
from loopeng.report.changes import rule_changes
from loopeng.report.layout import columns, moment
from loopeng.report.notices import limit_to_raise
from loopeng.report.terminal import (
    NextCommands,
    ProposalView,
    commands_document,
    proposal_text,
    short_evidence,
    state_text,
)

if TYPE_CHECKING:
    from loopeng.approvals import Outcome
    from loopeng.cards import Card
    from loopeng.schema import GateReport, Proposal
    from loopeng.store import LoopStore

__all__ = [
    "card_commands",
    "next_commands",
    "outcome_document",
    "outcome_text",
    "proposal_document",
    "proposal_summary",
    "proposal_view",
    "queue_hints",
    "queue_rows",
]

_CHANGE_WIDTH = 40


def proposal_view(store: LoopStore, proposal: Proposal, db: Path) -> ProposalView | None:
    """What the end of a run shows of a proposal; None before its first revision is drafted."""
    if not proposal.revision:
        return None
    revision = store.revision(proposal.id)
    gate = store.gate_report(proposal.id, revision.revision, "gate")
    return ProposalView(
        revision=revision,
        state=proposal.state,
        state_reason=proposal.state_reason,
        changes=rule_changes(store.prompt_version(proposal.base_version_id).rules, revision.rules),
        gate=gate,
        holdout=store.gate_report(proposal.id, revision.revision, "holdout"),
        commands=next_commands(proposal, revision.text_hash, gate, db) or _undo(store, proposal, db),
        watched=tuple(f"{watch.pattern_id}: {watch_summary(watch)}" for watch in watches_behind(store, proposal)),
        snoozed_until=proposal.snoozed_until,
    )


def next_commands(proposal: Proposal, text_hash: str, gate: GateReport | None, db: Path) -> NextCommands | None:
    """What brings a proposal further, exact from the current folder; None where nothing does."""
    is_change = proposal.kind == "change"
    if _waits_for_work(proposal):
        return NextCommands(work=command("work", db=db))
    if proposal.state == "stale" and is_change:
        return NextCommands(rebase=command("queue", "rebase", proposal.id, db=db))
    if not proposal.decidable:
        return None
    seen = ("--seen", text_hash[:8])
    accept = ("--accept-untested",) if is_change and (gate is None or gate.verdict != "pass") else ()
    return NextCommands(
        show=command("queue", "show", proposal.id, db=db),
        approve=command("queue", "approve", proposal.id, *seen, *accept, db=db),
        edit=command("queue", "edit", proposal.id, *seen, "--rule", "TEXT", db=db) if is_change else "",
        reject=command("queue", "reject", proposal.id, *seen, "--reason", "TEXT", db=db),
        snooze=command("queue", "snooze", proposal.id, "--for", "2d", db=db),
    )


def _undo(store: LoopStore, proposal: Proposal, db: Path) -> NextCommands | None:
    """For a commit that is in use: a person may not have been asked."""
    if proposal.state != "committed" or store.head(proposal.prompt_name).proposal_id != proposal.id:
        return None
    return NextCommands(undo=command("prompts", "rollback", proposal.prompt_name, "--reason", "TEXT", db=db))


def card_commands(card: Card, db: Path) -> NextCommands | None:
    """The same for a card."""
    return next_commands(card.proposal, card.text_hash, card.gate, db)


def proposal_summary(store: LoopStore, proposal: Proposal, db: Path) -> str:
    """The same as text; before the first revision is drafted, how far it has come."""
    view = proposal_view(store, proposal, db)
    if view is not None:
        return proposal_text(view)
    return f"proposal {proposal.id}  {state_text(proposal.state, proposal.state_reason)}"


def proposal_document(view: ProposalView) -> dict[str, Any]:
    """A proposal as plain values."""
    return {
        "id": view.revision.proposal_id,
        "revision": view.revision.revision,
        "state": view.state,
        "state_reason": view.state_reason,
        "snoozed_until": view.snoozed_until,
        "text_hash": view.revision.text_hash,
        "rationale": view.revision.rationale,
        "changes": list(view.changes),
        "rules": [rule.text for rule in view.revision.rules],
        "gate": view.gate,
        "holdout": view.holdout,
        "watched": list(view.watched),
        "commands": commands_document(view.commands),
    }


def queue_rows(store: LoopStore, proposals: Sequence[Proposal]) -> list[tuple[str, ...]]:
    """Rows of ``queue list``, with their head."""
    rows: list[tuple[str, ...]] = [("proposal", "state", "prompt", "text", "change", "gate samples that pass")]
    for proposal in proposals:
        view = proposal_view(store, proposal, Path())
        if view is None:
            rows.append((proposal.id, proposal.state, proposal.prompt_name, "-", "-", "-"))
            continue
        change = " ".join(view.changes)
        rows.append(
            (
                proposal.id,
                state_text(proposal.state, None, proposal.snoozed_until),
                proposal.prompt_name,
                view.revision.text_hash[:8],
                change if len(change) <= _CHANGE_WIDTH else change[: _CHANGE_WIDTH - 1] + "…",
                "rollback, see its watch" if proposal.kind == "rollback" else short_evidence(view.gate),
            )
        )
    return rows


def queue_hints(proposals: Sequence[Proposal], db: Path) -> str:
    """What brings those of the list further that wait for no decision."""
    lines = []
    if any(_waits_for_work(proposal) for proposal in proposals):
        lines.append(("not tested yet", command("work", db=db)))
    lines += [
        (f"{proposal.id} is stale", command("queue", "rebase", proposal.id, db=db))
        for proposal in proposals
        if proposal.state == "stale" and proposal.revision and proposal.kind == "change"
    ]
    return columns(lines)


def _waits_for_work(proposal: Proposal) -> bool:
    """Not where a limit is used up: it must be raised in the task file, which ``loopeng propose`` reads."""
    return proposal.state in ("drafting", "testing") and not limit_to_raise(proposal.state_reason, "improve.limits")


def outcome_text(store: LoopStore, outcome: Outcome, db: Path) -> str:
    """What became of a decision, and what comes next."""
    proposal, decision = outcome.proposal, outcome.decision
    if decision.action == "approve":
        return _approved(store, outcome, db)
    if decision.action == "reject":
        return f"{proposal.id} rejected by {decision.by}: {decision.reason}"
    if decision.action == "snooze":
        if proposal.snoozed_until is None:
            return f"{proposal.id} woken by {decision.by}: {proposal.state}"
        return f"{proposal.id} snoozed by {decision.by} until {moment(proposal.snoozed_until)}"
    view = proposal_view(store, proposal, db)
    done = "rebased" if decision.action == "rebase" else "edited"
    lines = [f"{proposal.id} {done} by {decision.by}: revision {proposal.revision}, {proposal.state}"]
    return "\n".join([*lines, "", proposal_text(view)] if view is not None else lines)


def _approved(store: LoopStore, outcome: Outcome, db: Path) -> str:
    proposal, version = outcome.proposal, outcome.version
    if version is None:
        return f"{proposal.id} approved by {outcome.decision.by}; the change is {proposal.state}, not yet in use"
    path = found_task_file(store.task(proposal.task_hash).path, db)
    lines = [
        f"{proposal.id} approved by {outcome.decision.by}: "
        f"prompt {version.prompt_name} is now version {version.number} ({version.id})"
    ]
    if (export := export_on_commit(store, version.prompt_name)) is not None:
        lines.append(f"    file       {export.error or export.path}")
    if path is not None:
        lines.append(f"    run again  {command('run', db=db, task_path=path)}")
    lines.append(f"    undo       {command('prompts', 'rollback', version.prompt_name, '--reason', 'TEXT', db=db)}")
    return "\n".join(lines)


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """A decision and its effect as plain values."""
    return {"decision": outcome.decision, "proposal": outcome.proposal, "version": outcome.version}
