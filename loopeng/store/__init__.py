"""The loop's memory: one SQLite file. Nothing outside this folder knows sqlmodel, sqlalchemy or alembic."""

from loopeng.store.inspecting import DatabaseState, inspect_database
from loopeng.store.leases import LeaseOwner, hold_lease
from loopeng.store.live import LiveCall, LiveSource, Purge, SavedCalls
from loopeng.store.patterns import Failure, SeenSample, ShownFailure
from loopeng.store.prompts import head_moves
from loopeng.store.repository import LoopStore

__all__ = [
    "DatabaseState",
    "Failure",
    "LeaseOwner",
    "LiveCall",
    "LiveSource",
    "LoopStore",
    "Purge",
    "SavedCalls",
    "SeenSample",
    "ShownFailure",
    "head_moves",
    "hold_lease",
    "inspect_database",
]
