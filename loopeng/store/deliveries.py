"""The outbox of the webhook: a row for each pending revision that somebody wants to be told of.

A row comes with the state it tells of, in one step. Whoever wants to send it claims the try first, so a process that is
killed while it sends costs one try, and two processes never make the same one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlmodel import Session, col, select, update

from loopeng.schema import Delivery
from loopeng.store.improve_tables import DeliveryRow, ProposalRow
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of

__all__ = ["DeliveryRoom", "put_into_outbox"]

_OLDEST_FIRST = col(DeliveryRow.created_at), col(DeliveryRow.proposal_id), col(DeliveryRow.revision)


class DeliveryRoom(Room):
    """The part of the store that knows who has been told."""

    def deliveries(self, proposal_id: str | None = None) -> list[Delivery]:
        """All of them, or a proposal's, the oldest first."""
        query = select(DeliveryRow).order_by(*_OLDEST_FIRST)
        if proposal_id is not None:
            query = query.where(DeliveryRow.proposal_id == proposal_id)
        with self._database.read() as session:
            return [noun_of(Delivery, row) for row in session.exec(query)]

    def due_deliveries(self) -> list[Delivery]:
        """Those whose next try is due, the oldest first."""
        due = col(DeliveryRow.next_try_at) <= self._clock()
        with self._database.read() as session:
            rows = session.exec(select(DeliveryRow).where(due).order_by(*_OLDEST_FIRST))
            return [noun_of(Delivery, row) for row in rows]

    def claim_delivery(self, delivery: Delivery, *, again_after: timedelta | None) -> Delivery | None:
        """Count a try before it is made, and set when the one after it would be due; None if another was faster."""
        next_try_at = None if again_after is None else self._clock() + again_after
        with self._database.write() as session:
            unchanged = (
                col(DeliveryRow.proposal_id) == delivery.proposal_id,
                col(DeliveryRow.revision) == delivery.revision,
                col(DeliveryRow.num_tries) == delivery.num_tries,
                col(DeliveryRow.next_try_at).is_not(None),
            )
            values = {"num_tries": delivery.num_tries + 1, "next_try_at": next_try_at}
            if session.exec(update(DeliveryRow).where(*unchanged).values(**values)).rowcount != 1:
                return None
        return delivery.model_copy(update=values)

    def note_delivery(self, delivery: Delivery, *, error: str | None, final: bool = False) -> Delivery:
        """Keep what came of a try: delivered where there is no ``error``, given up where it is ``final``."""
        with self._database.write() as session:
            row = session.get_one(DeliveryRow, (delivery.proposal_id, delivery.revision))
            if row.delivered_at is None:
                row.last_error = error
                row.delivered_at = self._clock() if error is None else None
                row.next_try_at = None if final or error is None else row.next_try_at
                session.add(row)
                session.flush()
            return noun_of(Delivery, row)


def put_into_outbox(session: Session, proposal: ProposalRow, url: str, now: datetime) -> None:
    """To be sent at once; a second time nothing changes."""
    delivery = Delivery(proposal_id=proposal.id, revision=proposal.revision, url=url, next_try_at=now, created_at=now)
    insert_once(session, DeliveryRow, values_of(delivery))
