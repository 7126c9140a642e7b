"""The loop's memory: one SQLite file. Nothing outside this folder knows sqlmodel, sqlalchemy or alembic."""

from loopeng.store.inspecting import DatabaseState, inspect_database
from loopeng.store.leases import LeaseOwner, hold_lease
from loopeng.store.patterns import Failure, SeenSample
from loopeng.store.repository import LoopStore

__all__ = [
    "DatabaseState",
    "Failure",
    "LeaseOwner",
    "LoopStore",
    "SeenSample",
    "hold_lease",
    "inspect_database",
]
