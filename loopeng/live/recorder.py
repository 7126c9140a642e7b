"""Calls on their way into the database. What cannot be written waits in memory until it can, and is written once."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice

from loopeng.errors import RecordingWarning, StoreError
from loopeng.live.reach import Reach
from loopeng.schema import utc_now
from loopeng.settings import LiveSettings
from loopeng.store import LiveCall, Purge

__all__ = ["Recorder"]

_AT_A_TIME = 100
_WARN_EVERY_S = 60.0
_PURGE_EVERY_S = 60.0


class Recorder:
    """Usable from any thread: one writes at a time, and those that wait for it find their own written as well.

    A call is written before it returns to the application. Where the database is away it waits here, the oldest going
    first where there is no room; the application hears of that as a RecordingWarning, at most once a minute.
    """

    def __init__(self, reach: Reach, settings: LiveSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reach, self._settings, self._clock = reach, settings, clock
        self._writing, self._placing = threading.Lock(), threading.Lock()
        self._under_way: dict[tuple[str, str], set[int]] = {}  # by run and sample, the repeats
        self._guard = threading.Lock()  # of what follows
        self._waiting: dict[str, LiveCall] = {}
        self._asking: set[str] = set()  # calls that somebody waits for to be written
        self._placed: dict[str, tuple[str, int]] = {}  # where those are
        self._num_dropped = 0
        self._warned_at: float | None = None
        self._purged_at = self._clock() - _PURGE_EVERY_S

    @contextmanager
    def repeat(self, run_id: str, sample_id: str) -> Iterator[int | None]:
        """The repeat to make the seeds of a call with; no other call that is under way here, or written, has it.

        None where the database is away.
        """
        with self._placing:
            repeat = self._next_repeat(run_id, sample_id)
            if repeat is not None:
                self._under_way.setdefault((run_id, sample_id), set()).add(repeat)
        try:
            yield repeat
        finally:
            with self._placing:
                others = self._under_way.get((run_id, sample_id), set())
                others.discard(-1 if repeat is None else repeat)
                if not others:
                    self._under_way.pop((run_id, sample_id), None)

    def _next_repeat(self, run_id: str, sample_id: str) -> int | None:
        try:
            written = self._reach.ask(lambda store: store.next_repeat(run_id, sample_id))
        except StoreError as error:
            self.warn(error)
            return None
        return max([written, *(other + 1 for other in self._under_way.get((run_id, sample_id), ()))])

    def keep(self, call: LiveCall) -> tuple[str, int] | None:
        """Write a call, with all that have waited; or let it wait. Its run and repeat, once they are known."""
        with self._guard:
            self._waiting[call.id] = call
            self._asking.add(call.id)
        try:
            self.flush()
        finally:
            with self._guard:
                self._asking.discard(call.id)
                place = self._placed.pop(call.id, None)
        return place

    def flush(self) -> None:
        """Write what waits. Where the database is away it goes on waiting."""
        try:
            with self._writing:
                while batch := self._next():
                    self._write(batch)
        except StoreError as error:
            self._make_room()
            self.warn(error)
            return
        self._tell_of_dropped()
        self._purge_now_and_then()

    def purge(self) -> Purge:
        """Take the texts out of the database that are no longer to be kept. Raises StoreError where it is away."""
        settings, total = self._settings, Purge()
        before = None if settings.keep_days is None else utc_now() - timedelta(days=settings.keep_days)
        if before is None and settings.keep_samples is None:
            return total
        while True:
            done = self._purge_some(before, all_copies=not total.more)
            total = Purge(total.num_calls + done.num_calls, total.num_samples + done.num_samples, done.more)
            if not done.more:
                return total

    def close(self) -> None:
        """Write what waits, or say how much is lost."""
        if self._waiting:
            self._reach.try_again()
            self.flush()
        if self._waiting:
            lost = len(self._waiting)
            warnings.warn(f"{lost} calls were never recorded: the database was away", RecordingWarning, stacklevel=3)

    def warn(self, error: StoreError) -> None:
        """Tell the application, unless it was told a moment ago."""
        with self._guard:
            now, told = self._clock(), self._warned_at
            if told is not None and now - told < _WARN_EVERY_S:
                return
            self._warned_at = now
        warnings.warn(
            f"calls are answered, but not recorded for now: {error}; up to {self._settings.buffer_calls} wait in "
            "memory until the database is back",
            RecordingWarning,
            stacklevel=2,
        )

    def _next(self) -> list[LiveCall]:
        with self._guard:
            return list(islice(self._waiting.values(), _AT_A_TIME))

    def _write(self, batch: list[LiveCall]) -> None:
        saved = self._reach.ask(lambda store: store.save_live_calls(batch))
        with self._guard:
            for call in batch:
                self._waiting.pop(call.id, None)
            self._placed |= {name: saved.places[name] for name in self._asking & saved.places.keys()}
        for reason in saved.refused.values():
            warnings.warn(f"a call was answered, but cannot be recorded: {reason}", RecordingWarning, stacklevel=2)

    def _make_room(self) -> None:
        with self._guard:
            while len(self._waiting) > self._settings.buffer_calls:
                self._waiting.pop(next(iter(self._waiting)))
                self._num_dropped += 1

    def _tell_of_dropped(self) -> None:
        with self._guard:
            num_dropped, self._num_dropped = self._num_dropped, 0
        if num_dropped:
            warnings.warn(
                f"the database is back; {num_dropped} calls were not recorded meanwhile, as no more than "
                f"{self._settings.buffer_calls} wait in memory (LiveSettings.buffer_calls)",
                RecordingWarning,
                stacklevel=2,
            )

    def _purge_now_and_then(self) -> None:
        """A little at a time, so that no call waits long for it."""
        settings, now = self._settings, self._clock()
        if settings.keep_days is None and settings.keep_samples is None:
            return
        with self._guard:
            if now - self._purged_at < _PURGE_EVERY_S:
                return
            self._purged_at = now
        before = None if settings.keep_days is None else utc_now() - timedelta(days=settings.keep_days)
        try:
            more = self._purge_some(before).more
        except StoreError as error:
            self.warn(error)
            return
        if more:
            self._purged_at = now - _PURGE_EVERY_S

    def _purge_some(self, before: datetime | None, *, all_copies: bool = False) -> Purge:
        keep_samples = self._settings.keep_samples
        with self._writing:
            return self._reach.ask(
                lambda store: store.purge_live(
                    before=before, keep_samples=keep_samples, limit=_AT_A_TIME, all_copies=all_copies
                )
            )
