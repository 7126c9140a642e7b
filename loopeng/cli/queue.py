"""``loopeng queue``: the proposals that wait for a person, their evidence, and the decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.options import By, Db, Json, Reason, Seen
from loopeng.errors import UsageError

if TYPE_CHECKING:
    from loopeng.approvals import Outcome
    from loopeng.cards import Card
    from loopeng.store import LoopStore

__all__ = ["app", "approve", "edit", "list_", "reject", "show"]

_STILL_PENDING = 6

app = typer.Typer(no_args_is_help=True, help="Look at proposed prompt changes and decide them.")

_ProposalId = Annotated[str, typer.Argument(metavar="PROPOSAL", help="A proposal's id, or its unique beginning.")]


@app.command("list")
def list_(
    show_all: Annotated[
        bool, typer.Option("--all", help="Also those already decided, expired, stale or archived.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """List the proposals that wait for a decision.

    \b
    Example:
      loopeng queue list
      loopeng queue list --all --json
    """
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import find_database, open_store
    from loopeng.cli.proposal_views import proposal_document, proposal_view, queue_rows
    from loopeng.report.layout import columns
    from loopeng.schema import OPEN_STATES

    with open_store(db) as store:
        proposals = store.proposals(states=None if show_all else OPEN_STATES)
        if json:
            views = (proposal_view(store, proposal, find_database(db)) for proposal in proposals)
            print_json([proposal_document(view) for view in views if view is not None])
        elif proposals:
            print_text(columns(queue_rows(store, proposals)))
        else:
            note("no proposals" if show_all else "nothing waits for a decision")


@app.command()
def show(proposal: _ProposalId, json: Json = False, db: Db = None) -> None:
    """Show a proposal's card: the change, why, real outputs, the paired counts, and the commands that decide it.

    \b
    Example:
      loopeng queue show prop-1a2b3c4d
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database, open_store
    from loopeng.cli.proposal_views import card_commands
    from loopeng.report.terminal_card import card_document, card_text

    with open_store(db) as store:
        card = _card(store, proposal)
        commands = card_commands(card, find_database(db))
        if json:
            print_json(card_document(card, commands))
        else:
            print_text(card_text(card, commands))


@app.command()
def approve(
    proposal: _ProposalId,
    seen: Seen = None,
    by: By = None,
    reason: Reason = "",
    accept_untested: Annotated[
        bool, typer.Option("--accept-untested", help="Approve without evidence of improvement; recorded.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Approve the text you saw: it becomes the prompt's current version.

    \b
    Example:
      loopeng queue approve prop-1a2b3c4d --seen 9f8e7d6c --accept-untested
    """
    from loopeng.approvals import approve as decide
    from loopeng.cli.places import open_store

    person = _person(by)
    with open_store(db) as store:
        card = _card(store, proposal)
        if seen:
            store.check_decidable(card.id, card.revision.revision, seen)
        else:
            _refuse_blind(card, db)
        if not accept_untested:
            _refuse_untested(card)
        seen = seen or _ask(card, "approve", db)
        outcome = decide(store, card.id, by=person, seen=seen, accept_untested=accept_untested, reason=reason)
        _print_outcome(store, outcome, json=json, db=db)


@app.command()
def reject(
    proposal: _ProposalId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; recorded. The same text is not proposed again.")
    ],
    seen: Seen = None,
    by: By = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Reject a proposal. Its text is not proposed again; llm and your own reflectors read the reason, hints does not.

    \b
    Example:
      loopeng queue reject prop-1a2b3c4d --seen 9f8e7d6c --reason "too strict for long names"
    """
    from loopeng.approvals import reject as decide
    from loopeng.cli.places import open_store

    person = _person(by)
    with open_store(db) as store:
        card = _card(store, proposal)
        seen = seen or _ask(card, "reject", db)
        _print_outcome(store, decide(store, card.id, by=person, seen=seen, reason=reason), json=json, db=db)


@app.command()
def edit(
    proposal: _ProposalId,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="TEXT", help="A rule of the new list; may be repeated.")
    ] = None,
    rules_file: Annotated[
        Path | None, typer.Option("--rules-file", metavar="FILE", help="Or a file with one rule per line.")
    ] = None,
    seen: Seen = None,
    by: By = None,
    reason: Reason = "",
    json: Json = False,
    db: Db = None,
) -> None:
    """Replace the proposal's rules by your own list: a new revision, counted again before anyone can approve it.

    Without --rule and --rules-file, $VISUAL or $EDITOR opens with one rule per line.

    \b
    Example:
      loopeng queue edit prop-1a2b3c4d
      loopeng queue edit prop-1a2b3c4d --seen 9f8e7d6c --rule "Write exactly one sentence."
    """
    from loopeng.cli.editing import rules_from_editor, rules_from_file, save_edit
    from loopeng.cli.places import find_database, open_store

    if rule and rules_file:
        raise UsageError("give --rule or --rules-file, not both")
    person = _person(by)
    with open_store(db) as store:
        card = _card(store, proposal)
        if rule or rules_file:
            rules = rules_from_file(rules_file) if rules_file else tuple(rule or ())
            seen = seen or _ask(card, "edit", db)
        else:
            rules, seen = rules_from_editor(card), seen or card.text_hash
        outcome = save_edit(store, card, find_database(db), by=person, seen=seen, rules=rules, reason=reason)
        _print_outcome(store, outcome, json=json, db=db)


def _card(store: LoopStore, proposal_id: str) -> Card:
    from loopeng.cards import card

    return card(store, store.proposal(proposal_id).id)


def _person(by: str | None) -> str:
    from loopeng.settings import read_settings

    return read_settings().person(by)


def _ask(card: Card, verb: str, db: Path | None) -> str:
    """Show the card's change on the terminal and ask; the hash of what was shown comes back."""
    from loopeng.cli.output import ask, note
    from loopeng.report.terminal_card import card_text

    if not card.proposal.decidable:
        return card.text_hash  # the decision is refused with the reason
    _refuse_blind(card, db)
    note(card_text(card, None))
    if not ask(f"\n{verb} this change?"):
        note("nothing changed")
        raise typer.Exit(_STILL_PENDING)
    return card.text_hash


def _refuse_blind(card: Card, db: Path | None) -> None:
    from loopeng.cli.output import can_ask
    from loopeng.cli.places import command, find_database

    if card.proposal.decidable and not can_ask():
        look = command("queue", "show", card.id, db=find_database(db))
        raise UsageError(f"what did you see? look at it with '{look}', then pass --seen {card.text_hash[:8]}")


def _refuse_untested(card: Card) -> None:
    """Before the question: a yes that is refused afterwards is a bad joke."""
    from loopeng.approvals import missing_evidence

    missing = missing_evidence(card.gate)
    if card.proposal.decidable and missing is not None:
        raise UsageError(
            f"{card.id} has no evidence of improvement ({missing}); to approve it nevertheless add --accept-untested, "
            "which is recorded with the decision"
        )


def _print_outcome(store: LoopStore, outcome: Outcome, *, json: bool, db: Path | None) -> None:
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database
    from loopeng.cli.proposal_views import outcome_document, outcome_text

    if json:
        print_json(outcome_document(outcome))
    else:
        print_text(outcome_text(store, outcome, find_database(db)))
