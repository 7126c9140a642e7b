"""How a proposal and its patterns change state. Everything here runs inside somebody's write session.

Two states come by themselves: a proposal nobody decided in time is **expired**, one whose base is no longer the head is
**stale**. Neither is a rejection. ``settle`` finds them, on every read and before every change.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from sqlmodel import Session, and_, col, func, or_, select, update

from loopeng.schema import DECIDABLE_STATES, OPEN_STATES
from loopeng.schema.improvement import PatternState, ProposalState
from loopeng.store.improve_tables import ProposalRow
from loopeng.store.tables import FailurePatternRow, PromptRow, PromptVersionRow

__all__ = ["RELEASING_STATES", "change_state", "mark_patterns", "overdue", "settle"]

RELEASING_STATES: frozenset[str] = frozenset(
    {"rejected", "expired", "stale", "archived"}
)  # the patterns are free again


def overdue(session: Session, now: datetime) -> list[tuple[ProposalRow, bool, str]]:
    """Proposals that have expired or gone stale but do not say so yet: whether expired, and the prompt's head."""
    expired = and_(
        col(ProposalRow.state).in_(DECIDABLE_STATES), func.coalesce(col(ProposalRow.expires_at) <= now, False)
    )
    stale = and_(col(ProposalRow.state).in_(OPEN_STATES), col(ProposalRow.base_version_id) != PromptRow.head_id)
    query = (
        select(ProposalRow, expired, PromptRow.head_id)
        .join(PromptRow, col(PromptRow.name) == ProposalRow.prompt_name)
        .where(or_(expired, stale))
        .order_by(col(ProposalRow.seq))
    )
    return [(row, bool(is_expired), head_id) for row, is_expired, head_id in session.exec(query)]


def settle(session: Session, now: datetime) -> tuple[str, ...]:
    """Write down what is overdue. Returns the ids of the proposals that went stale.

    Expiry comes first: had the head moved before, the move would have made the proposal stale at once.
    """
    gone_stale = []
    for row, is_expired, head_id in overdue(session, now):
        if is_expired and row.expires_at is not None:
            until = row.expires_at.astimezone(UTC)
            change_state(session, row, "expired", f"nobody decided until {until:%Y-%m-%d %H:%M} UTC")
        else:
            base, head = (session.get_one(PromptVersionRow, each).number for each in (row.base_version_id, head_id))
            change_state(
                session, row, "stale", f"made for version {base}, but the head is version {head} by now: propose again"
            )
            gone_stale.append(row.id)
    return tuple(gone_stale)


def change_state(session: Session, row: ProposalRow, to: ProposalState, reason: str | None = None) -> None:
    """Move a proposal; its patterns follow where that frees them."""
    row.state, row.state_reason = to, reason
    session.add(row)
    session.flush()
    if to in RELEASING_STATES:
        mark_patterns(session, row.pattern_ids, to="open", frm={"proposed"})


def mark_patterns(
    session: Session, pattern_ids: Collection[str], *, to: PatternState, frm: Collection[PatternState]
) -> None:
    """Move those of the patterns that are in one of the states ``frm``; a muted one stays muted."""
    chosen = and_(col(FailurePatternRow.id).in_(pattern_ids), col(FailurePatternRow.state).in_(frm))
    session.exec(update(FailurePatternRow).where(chosen).values(state=to))
