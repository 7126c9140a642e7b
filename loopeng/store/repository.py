"""LoopStore: the only way into the database. Nouns in, nouns out.

Rows under natural keys are the state: every write can be said twice. What it keeps is spread over rooms, a file each.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

from loopeng.schema import utc_now
from loopeng.store.attempts import AttemptRoom
from loopeng.store.database import BUSY_TIMEOUT_S, Database
from loopeng.store.decisions import DecisionRoom
from loopeng.store.deliveries import DeliveryRoom
from loopeng.store.judging import JudgeRoom
from loopeng.store.leases import LeaseRoom
from loopeng.store.live import LiveRoom
from loopeng.store.looks import LookRoom
from loopeng.store.merging import MergingRoom
from loopeng.store.postponing import PostponingRoom
from loopeng.store.prompts import PromptRoom
from loopeng.store.runs import RunRoom
from loopeng.store.suggestions import SuggestionRoom
from loopeng.store.tasks import TaskRoom
from loopeng.store.watches import WatchRoom

__all__ = ["LoopStore"]


class LoopStore(
    TaskRoom,
    PromptRoom,
    RunRoom,
    AttemptRoom,
    MergingRoom,
    DecisionRoom,
    LookRoom,
    LeaseRoom,
    SuggestionRoom,
    WatchRoom,
    PostponingRoom,
    DeliveryRoom,
    JudgeRoom,
    LiveRoom,
):
    """Everything the loop remembers. Usable from any thread; every method raises StoreError where the file fails.

    Conflicts between people or processes are ConflictError and its leaves; unknown ids are NotFoundError.
    """

    @classmethod
    def open(
        cls, path: Path | str, *, clock: Callable[[], datetime] = utc_now, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> Self:
        """Open a database, or make it with the folders above it, and migrate it to the newest schema.

        ``busy_timeout_s`` is how long it waits where another process is writing; the wait is made twice.

        Raises StoreError for a database of a newer loopeng, WrongDatabaseError for what is no database of loopeng.
        """
        return cls(Database.open(path, busy_timeout_s=busy_timeout_s), clock)

    @property
    def path(self) -> Path:
        return self._database.path

    def close(self) -> None:
        self._database.close()

    def again(self, path: Path, *, busy_timeout_s: float) -> Self:
        """The same database, now under ``path``, with own connections and another patience. Raises StoreError."""
        return type(self).open(path, clock=self._clock, busy_timeout_s=busy_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
