"""``--wait``: look at the database until people have decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from loopeng.schema import OPEN_STATES

if TYPE_CHECKING:
    from loopeng.store import LoopStore

__all__ = ["wait_for_decisions"]

_UNDECIDED = OPEN_STATES - {"approved"}
_COMMIT_S = 5.0  # whoever approves commits in a moment; if that process is gone, the next command does


def wait_for_decisions(
    store: LoopStore,
    proposal_ids: Sequence[str],
    *,
    timeout_s: float | None = None,
    poll_s: float = 0.5,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Ids still undecided when the time is over or Ctrl-C comes; empty when all are decided, expired or stale.

    An approval that was just given is waited for a little longer, until it is committed.
    """
    end = None if timeout_s is None else clock() + timeout_s
    try:
        while left := _undecided(store, proposal_ids):
            if end is not None and clock() >= end:
                return left
            sleep(poll_s if end is None else min(poll_s, max(end - clock(), 0)))
        committed_by = clock() + _COMMIT_S
        while clock() < committed_by and _in_state(store, proposal_ids, {"approved"}):
            sleep(poll_s)
    except KeyboardInterrupt:
        return _undecided(store, proposal_ids)
    return []


def _undecided(store: LoopStore, proposal_ids: Sequence[str]) -> list[str]:
    return _in_state(store, proposal_ids, _UNDECIDED)


def _in_state(store: LoopStore, proposal_ids: Sequence[str], states: Collection[str]) -> list[str]:
    return [proposal_id for proposal_id in proposal_ids if store.proposal(proposal_id).state in states]
