"""What reflectors suggested for proposals, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session, col, select

from loopeng.schema import Suggestion
from loopeng.schema.improvement import SuggestionOutcome
from loopeng.store.improve_tables import ProposalRow, SuggestionRow
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of

__all__ = ["SuggestionRoom"]


class SuggestionRoom(Room):
    """The part of the store that keeps suggestions."""

    def save_suggestions(self, suggestions: Sequence[Suggestion]) -> list[Suggestion]:
        """Keep a reflector's whole answer for one proposal, all of it or nothing.

        Where the proposal has suggestions already nothing changes. What is kept comes back.
        """
        if not suggestions:
            return []
        proposal_id = suggestions[0].proposal_id
        with self._database.write() as session:
            if not _kept(session, proposal_id):
                for suggestion in suggestions:
                    insert_once(session, SuggestionRow, values_of(suggestion))
            return _kept(session, proposal_id)

    def suggestions(self, proposal_id: str) -> list[Suggestion]:
        """The suggestions for a proposal in the reflector's order."""
        with self._database.read() as session:
            return _kept(session, proposal_id)

    def settle_suggestions(self, suggestions: Sequence[Suggestion]) -> None:
        """Keep outcome, reason and counts of suggestions that are there; the rest of a suggestion never changes."""
        with self._database.write() as session:
            for each in suggestions:
                row = session.get_one(SuggestionRow, (each.proposal_id, each.number))
                row.outcome, row.reason = each.outcome, each.reason
                row.num_passed, row.num_screened = each.num_passed, each.num_screened
                session.add(row)

    def suggestions_for(self, prompt_name: str, outcome: SuggestionOutcome) -> list[Suggestion]:
        """The suggestions for any proposal of a prompt with this outcome, the oldest first."""
        query = (
            select(SuggestionRow)
            .join(ProposalRow, col(ProposalRow.id) == SuggestionRow.proposal_id)
            .where(ProposalRow.prompt_name == prompt_name, SuggestionRow.outcome == outcome)
            .order_by(col(ProposalRow.seq), col(SuggestionRow.number))
        )
        with self._database.read() as session:
            return [noun_of(Suggestion, row) for row in session.exec(query)]


def _kept(session: Session, proposal_id: str) -> list[Suggestion]:
    query = select(SuggestionRow).where(SuggestionRow.proposal_id == proposal_id).order_by(col(SuggestionRow.number))
    return [noun_of(Suggestion, row) for row in session.exec(query)]
