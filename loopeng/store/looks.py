"""The alpha ledger: every test on a set of samples, planned before any compute, so that many tries prove no more.

Looks of a prompt belong together where their samples do: two that share a sample, and whatever shares one with either.
Among them no number is used twice, and as 1/(k(k+1)) adds up to 1 over all k, the tests spend alpha_total together. A
set of samples that joins looks which were apart may find nothing left: what they spent counts together from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from itertools import count

from sqlmodel import Session, col, select

from loopeng.errors import ConflictError, UsageError
from loopeng.schema import Look
from loopeng.store.improve_tables import LookRow
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of

__all__ = ["LookRoom", "connected_looks", "next_look_number"]


def connected_looks(looks: Iterable[Look], sample_keys: Collection[str]) -> list[Look]:
    """Those that share a sample with ``sample_keys`` or with one another, step by step. Void ones revealed nothing."""
    apart, keys, connected = [look for look in looks if not look.void], set(sample_keys), []
    while found := [look for look in apart if not keys.isdisjoint(look.sample_keys)]:
        apart = [look for look in apart if look not in found]
        connected += found
        keys.update(*(look.sample_keys for look in found))
    return connected


def next_look_number(looks: Iterable[Look], sample_keys: Collection[str]) -> int | None:
    """The number a new look at these samples gets: the smallest free one that the looks connected with it leave room
    for. None where they leave none."""
    used = [look.number for look in connected_looks(looks, sample_keys)]
    left = 1 - sum((_share(number) for number in used), Fraction(0))
    if left <= 0:
        return None
    return next(number for number in count(1) if number not in used and _share(number) <= left)


def _share(number: int) -> Fraction:
    return Fraction(1, number * (number + 1))


class LookRoom(Room):
    """The part of the store that keeps the alpha ledger."""

    def reserve_look(
        self,
        *,
        prompt_name: str,
        dataset: str,
        proposal_id: str,
        revision: int,
        alpha_total: float,
        sample_keys: Collection[str],
    ) -> Look | None:
        """Enter the look of a revision, or return the one there is; None where these samples have no alpha left.

        Raises ConflictError for a look that is void: what failed is tested as a new revision. UsageError for no sample.
        """
        if not sample_keys:
            raise UsageError("a look needs at least one sample")
        with self._database.write() as session:
            kept = session.get(LookRow, (proposal_id, revision))
            if kept is not None:
                if kept.void:
                    raise ConflictError(f"the look of {proposal_id} revision {revision} is void; test a new revision")
                return noun_of(Look, kept)
            number = next_look_number(_looks(session, prompt_name), sample_keys)
            if number is None:
                return None
            look = Look(
                prompt_name=prompt_name,
                dataset=dataset,
                proposal_id=proposal_id,
                revision=revision,
                number=number,
                alpha_total=alpha_total,
                sample_keys=tuple(sorted(set(sample_keys))),
                created_at=self._clock(),
            )
            insert_once(session, LookRow, values_of(look))
            return look

    def void_look(self, proposal_id: str, revision: int) -> None:
        """Give the number back: the test ended in an error and revealed nothing. No such look is fine too."""
        with self._database.write() as session:
            row = session.get(LookRow, (proposal_id, revision))
            if row is not None:
                row.void = True
                session.add(row)

    def looks(self, prompt_name: str) -> list[Look]:
        """Every look of a prompt, void ones too, the oldest first."""
        with self._database.read() as session:
            return _looks(session, prompt_name)

    def look(self, proposal_id: str, revision: int) -> Look | None:
        """The look of a revision, if one was reserved."""
        with self._database.read() as session:
            row = session.get(LookRow, (proposal_id, revision))
            return noun_of(Look, row) if row is not None else None


def _looks(session: Session, prompt_name: str) -> list[Look]:
    order = col(LookRow.created_at), col(LookRow.number), col(LookRow.proposal_id)
    query = select(LookRow).where(LookRow.prompt_name == prompt_name).order_by(*order)
    return [noun_of(Look, row) for row in session.exec(query)]
