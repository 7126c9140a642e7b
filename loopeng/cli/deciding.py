"""What the commands that decide have in common: the person, what they saw, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from loopeng.errors import UsageError

if TYPE_CHECKING:
    from loopeng.approvals import Outcome
    from loopeng.cards import Card
    from loopeng.store import LoopStore

__all__ = ["ask_for", "find_card", "person", "print_outcome", "refuse_blind", "refuse_untested"]

_STILL_PENDING = 6


def find_card(store: LoopStore, proposal_id: str) -> Card:
    """The card of a proposal, by its id or the beginning of it."""
    from loopeng.cards import card

    return card(store, store.proposal(proposal_id).id)


def person(by: str | None) -> str:
    """Who decides."""
    from loopeng.settings import read_settings

    return read_settings().person(by)


def ask_for(card: Card, verb: str, db: Path | None) -> str:
    """Show the card's change on the terminal and ask; the hash of what was shown comes back."""
    from loopeng.cli.output import ask, note
    from loopeng.report.terminal_card import card_text

    if not card.proposal.decidable:
        return card.text_hash  # the decision is refused with the reason
    refuse_blind(card, db)
    note(card_text(card, None))
    if not ask(f"\n{verb} this change?"):
        note("nothing changed")
        raise typer.Exit(_STILL_PENDING)
    return card.text_hash


def refuse_blind(card: Card, db: Path | None) -> None:
    """Without a terminal nothing can be shown, so ``--seen`` must say what was."""
    from loopeng.cli.output import can_ask
    from loopeng.cli.places import command, find_database

    if card.proposal.decidable and not can_ask():
        look = command("queue", "show", card.id, db=find_database(db))
        raise UsageError(f"what did you see? look at it with '{look}', then pass --seen {card.text_hash[:8]}")


def refuse_untested(card: Card) -> None:
    """Before the question: a yes that is refused afterwards is a bad joke."""
    from loopeng.approvals import missing_evidence

    missing = missing_evidence(card.gate, card.proposal.kind)
    if card.proposal.decidable and missing is not None:
        raise UsageError(
            f"{card.id} has no evidence of improvement ({missing}); to approve it nevertheless add --accept-untested, "
            "which is recorded with the decision"
        )


def print_outcome(store: LoopStore, outcome: Outcome, *, json: bool, db: Path | None) -> None:
    """What became of a decision, and what comes next."""
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database
    from loopeng.cli.proposal_views import outcome_document, outcome_text

    if json:
        print_json(outcome_document(outcome))
    else:
        print_text(outcome_text(store, outcome, find_database(db)))
