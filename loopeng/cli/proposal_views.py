"""Proposals from database rows to lists, cards, documents, and the exact commands that decide them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.cli.places import command, found_task_file
from loopeng.improve.exporting import export_on_commit
from loopeng.improve.undoing import watch_summary, watches_behind
from loopeng.report.changes import rule_changes
from loopeng.report.terminal import NextCommands, ProposalView, short_evidence

if TYPE_CHECKING:
    from loopeng.approvals import Outcome
    from loopeng.cards import Card
    from loopeng.schema import Proposal
    from loopeng.store import LoopStore

__all__ = [
    "card_commands",
    "next_commands",
    "outcome_document",
    "outcome_text",
    "proposal_document",
    "proposal_view",
    "propose_command",
    "queue_rows",
]

_CHANGE_WIDTH = 40


def proposal_view(store: LoopStore, proposal: Proposal, db: Path) -> ProposalView | None:
    """What the end of a run shows of a proposal; None before its first revision is drafted."""
    if not proposal.revision:
        return None
    revision = store.revision(proposal.id)
    gate = store.gate_report(proposal.id, revision.revision, "gate")
    untested = gate is None or gate.verdict != "pass"
    commands = next_commands(proposal.id, revision.text_hash, db, untested=untested) if proposal.decidable else None
    return ProposalView(
        revision=revision,
        state=proposal.state,
        state_reason=proposal.state_reason,
        changes=rule_changes(store.prompt_version(proposal.base_version_id).rules, revision.rules),
        gate=gate,
        holdout=store.gate_report(proposal.id, revision.revision, "holdout"),
        commands=commands,
        watched=tuple(watch_summary(watch) for watch in watches_behind(store, proposal)),
    )


def next_commands(proposal_id: str, text_hash: str, db: Path, *, untested: bool) -> NextCommands:
    """The commands that show and decide a proposal, exact from the current folder."""
    seen = ("--seen", text_hash[:8])
    accept = ("--accept-untested",) if untested else ()
    return NextCommands(
        show=command("queue", "show", proposal_id, db=db),
        approve=command("queue", "approve", proposal_id, *seen, *accept, db=db),
        edit=command("queue", "edit", proposal_id, *seen, "--rule", "TEXT", db=db),
        reject=command("queue", "reject", proposal_id, *seen, "--reason", "TEXT", db=db),
    )


def card_commands(card: Card, db: Path) -> NextCommands | None:
    """The same for a card; None where nobody can decide now."""
    if not card.proposal.decidable:
        return None
    untested = card.gate is None or card.gate.verdict != "pass"
    return next_commands(card.id, card.text_hash, db, untested=untested)


def proposal_document(view: ProposalView) -> dict[str, Any]:
    """A proposal as plain values."""
    return {
        "id": view.revision.proposal_id,
        "revision": view.revision.revision,
        "state": view.state,
        "state_reason": view.state_reason,
        "text_hash": view.revision.text_hash,
        "rationale": view.revision.rationale,
        "changes": list(view.changes),
        "rules": [rule.text for rule in view.revision.rules],
        "gate": view.gate,
        "holdout": view.holdout,
        "watched": list(view.watched),
        "commands": None if view.commands is None else vars(view.commands),
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
                proposal.state,
                proposal.prompt_name,
                view.revision.text_hash[:8],
                change if len(change) <= _CHANGE_WIDTH else change[: _CHANGE_WIDTH - 1] + "…",
                short_evidence(view.gate),
            )
        )
    return rows


def outcome_text(store: LoopStore, outcome: Outcome, db: Path) -> str:
    """What became of a decision, and what comes next."""
    proposal, decision = outcome.proposal, outcome.decision
    if decision.action == "approve":
        return _approved(store, outcome, db)
    if decision.action == "reject":
        return f"{proposal.id} rejected by {decision.by}: {decision.reason}"
    view = proposal_view(store, proposal, db)
    lines = [f"{proposal.id} edited by {decision.by}: revision {proposal.revision}, {proposal.state}"]
    if view is not None:
        from loopeng.report.terminal import proposal_text

        lines += ["", proposal_text(view)]
    if proposal.state in ("drafting", "testing"):
        lines += ["", f"go on with it:\n    {propose_command(store, proposal, db)}"]
    return "\n".join(lines)


def propose_command(store: LoopStore, proposal: Proposal, db: Path) -> str:
    """What goes on with a proposal that is not tested yet."""
    path = found_task_file(store.task(proposal.task_hash).path, db)
    return command("propose", db=db, task_path=path or Path("TASK"))


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
