"""Waiting so that Ctrl-C ends it at once, in whichever thread somebody waits.

Python raises KeyboardInterrupt in the main thread alone. Requests to servers therefore run as coroutines, in one event
loop per process that runs no code of the user's, and threads wait for them here: what is cancelled lets its thread go.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

__all__ = ["Interruption", "raise_if_interrupted", "result_of", "wait_for"]

T = TypeVar("T")


class Interruption:
    """Ctrl-C for threads: once it is set, what waits here raises KeyboardInterrupt in them, now or at their next wait.

    It reaches what is waited for within ``covering``, and in threads that take the context along.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._waited_for: set[Future[Any]] = set()

    def set(self) -> None:
        """End all waits, and those to come."""
        with self._lock:
            self.is_set = True
            waited_for = tuple(self._waited_for)
        for future in waited_for:
            future.cancel()

    @contextmanager
    def covering(self) -> Iterator[None]:
        """What this block waits for can be interrupted."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @contextmanager
    def watching(self, future: Future[Any]) -> Iterator[None]:
        """The future is cancelled once the interruption is set; it may be already."""
        with self._lock:
            self._waited_for.add(future)
            is_set = self.is_set
        if is_set:
            future.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._waited_for.discard(future)


_current: ContextVar[Interruption | None] = ContextVar("loopeng_interruption", default=None)
_starting = threading.Lock()


def raise_if_interrupted() -> None:
    """For whoever waits by looking again and again. Raises KeyboardInterrupt."""
    interruption = _current.get()
    if interruption is not None and interruption.is_set:
        raise KeyboardInterrupt


def result_of(future: Future[T], limit_s: float | None = None) -> T:
    """The future's result. An interruption cancels it, and is KeyboardInterrupt here."""
    interruption = _current.get()
    if interruption is None:
        return future.result(limit_s)
    try:
        with interruption.watching(future):
            return future.result(limit_s)
    except CancelledError:
        raise_if_interrupted()
        raise


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns, or raises. Whatever ends the wait before cancels the coroutine.

    >>> async def answer():
    ...     return 42
    >>> wait_for(answer())
    42
    """
    with _starting:  # several threads may need the loop first
        loop = _network_loop()
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return result_of(future)
    except BaseException:
        future.cancel()
        raise


@cache
def _network_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="loopeng-network", daemon=True).start()
    return loop
