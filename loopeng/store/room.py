"""What the rooms of the store share: the database and the clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from loopeng.store.database import Database

__all__ = ["Room"]


class Room:
    """Base of the rooms that ``LoopStore`` is assembled from."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def now(self) -> datetime:
        """The time by the store's clock: what is due, rests or expires is compared with it."""
        return self._clock()
