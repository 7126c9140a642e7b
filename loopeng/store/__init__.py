"""The loop's memory: one SQLite file. Nothing outside this folder knows sqlmodel, sqlalchemy or alembic."""

from loopeng.store.leases import LeaseOwner, hold_lease
from loopeng.store.repository import LoopStore

__all__ = ["LeaseOwner", "LoopStore", "hold_lease"]
