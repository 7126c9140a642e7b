"""How a proposal and its patterns change state. Everything here runs inside somebody's write session.

Some states come by themselves: a proposal nobody decided in time is **expired**, one whose base is no longer the head
is **stale**, one that has slept long enough is **pending** again. None is a rejection. ``settle`` finds them, on every
read and before every change.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Literal

from sqlmodel import Session, and_, col, func, or_, select, update

from loopeng.schema import DECIDABLE_STATES, OPEN_STATES
from loopeng.schema.improvement import PatternState, ProposalState
from loopeng.store.improve_tables import ProposalRow
from loopeng.store.tables import FailurePatternRow, PromptRow, PromptVersionRow

__all__ = [
    "RELEASING_STATES",
    "change_state",
    "mark_patterns",
    "open_proposals_about",
    "overdue",
    "settle",
]

RELEASING_STATES: frozenset[str] = frozenset(
    {"rejected", "expired", "stale", "archived"}
)  # the patterns are free again
_Due = Literal["expired", "stale", "awake"]


def overdue(session: Session, now: datetime) -> list[tuple[ProposalRow, _Due, str]]:
    """Proposals that have expired, gone stale or slept enough but do not say so yet, and the prompt's head.

    Expiry comes first: had the head moved before, the move would have made the proposal stale at once.
    """
    expired = and_(
        col(ProposalRow.state).in_(DECIDABLE_STATES), func.coalesce(col(ProposalRow.expires_at) <= now, False)
    )
    stale = and_(col(ProposalRow.state).in_(OPEN_STATES), col(ProposalRow.base_version_id) != PromptRow.head_id)
    awake = and_(col(ProposalRow.state) == "snoozed", func.coalesce(col(ProposalRow.snoozed_until) <= now, False))
    query = (
        select(ProposalRow, expired, stale, PromptRow.head_id)
        .join(PromptRow, col(PromptRow.name) == ProposalRow.prompt_name)
        .where(or_(expired, stale, awake))
        .order_by(col(ProposalRow.seq))
    )
    return [
        (row, "expired" if is_expired else "stale" if is_stale else "awake", head_id)
        for row, is_expired, is_stale, head_id in session.exec(query)
    ]


def settle(session: Session, now: datetime) -> tuple[str, ...]:
    """Write down what is overdue. Returns the ids of the proposals that went stale."""
    gone_stale = []
    for row, due, head_id in overdue(session, now):
        if due == "expired" and row.expires_at is not None:
            until = row.expires_at.astimezone(UTC)
            change_state(session, row, "expired", f"nobody decided until {until:%Y-%m-%d %H:%M} UTC")
        elif due == "awake":
            change_state(session, row, "pending", row.state_reason)
        else:
            change_state(session, row, "stale", _why_stale(session, row, head_id))
            gone_stale.append(row.id)
    return tuple(gone_stale)


def _why_stale(session: Session, row: ProposalRow, head_id: str) -> str:
    base, head = (session.get_one(PromptVersionRow, each).number for each in (row.base_version_id, head_id))
    what_now = "propose again"
    if row.revision and row.kind == "change":
        what_now = f"'loopeng queue rebase {row.id}' makes it for that one"
    return f"made for version {base}, but the head is version {head} by now: {what_now}"


def open_proposals_about(session: Session, prompt_name: str, pattern_ids: Collection[str]) -> list[ProposalRow]:
    """The open proposals for a prompt that are about any of the patterns, the oldest first."""
    same_prompt = select(ProposalRow).where(ProposalRow.prompt_name == prompt_name).order_by(col(ProposalRow.seq))
    open_ones = session.exec(same_prompt.where(col(ProposalRow.state).in_(OPEN_STATES)))
    return [row for row in open_ones if set(pattern_ids) & set(row.pattern_ids)]


def change_state(session: Session, row: ProposalRow, to: ProposalState, reason: str | None = None) -> None:
    """Move a proposal; its patterns follow where that frees them, and nothing but a snoozed one sleeps."""
    row.state, row.state_reason = to, reason
    row.snoozed_until = row.snoozed_until if to == "snoozed" else None
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
