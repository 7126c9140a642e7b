"""The database as an application's calls reach it: with little patience, and left alone for a while once it failed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from loopeng.errors import StoreError
from loopeng.settings import LiveSettings
from loopeng.store import LoopStore

__all__ = ["Reach"]

T = TypeVar("T")


class Reach:
    """Connections of its own to the store's database, so that nothing else waits as briefly. Usable from any thread."""

    def __init__(
        self, store: LoopStore, settings: LiveSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._path = store.path.absolute()  # an application may go to another folder
        self._opening = threading.Lock()
        self._open: LoopStore | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what is open
        self._away_until = -1.0

    @property
    def is_away(self) -> bool:
        """Whether it failed a moment ago, and is not asked before ``retry_seconds`` are over."""
        return self._clock() < self._away_until

    def ask(self, work: Callable[[LoopStore], T]) -> T:
        """Do ``work`` with the store. Raises StoreError, at once where the database is known to be away."""
        if self.is_away:
            raise StoreError(f"{self._path} is away")
        try:
            return work(self._present())
        except StoreError:
            self._away_until = self._clock() + self._settings.retry_seconds
            self._let_go()  # what comes back may be another file, or may be written only by new connections
            raise

    def try_again(self) -> None:
        """Ask the next time, however short ago it failed."""
        self._away_until = -1.0

    def close(self) -> None:
        self._let_go()

    def _present(self) -> LoopStore:
        """The open store. A file that was deleted can be written on by whoever has it open, but nobody reads that."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise StoreError(f"{self._path} is gone: {error.strerror}") from error
        with self._opening:
            if self._open is None or self._file != (found.st_dev, found.st_ino):
                if self._open is not None:
                    self._open.close()
                self._open = self._store.again(self._path, busy_timeout_s=self._settings.patience_seconds)
                self._file = found.st_dev, found.st_ino
            return self._open

    def _let_go(self) -> None:
        with self._opening:
            if self._open is not None:
                self._open.close()
            self._open = self._file = None
