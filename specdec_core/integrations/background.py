"""An iterator that blocks, run by a thread of its own for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["closed_after", "iterate_in_thread"]

T = TypeVar("T")


@contextmanager
def closed_after(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Close a generator at the end of the block, whatever ends it; another iterator has nothing to close."""
    try:
        yield items
    finally:
        if isinstance(items, Generator):
            items.close()


async def iterate_in_thread(start: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
    """The items of ``start()``, which runs in a thread from its first to its last one.

    Whoever leaves early, by ``aclose()`` or cancellation, ends the thread: it closes the iterator after the item that
    it is at. An exception of the iterator is raised here.
    """
    feed: _Feed[T] = _Feed(asyncio.get_running_loop())
    threading.Thread(target=copy_context().run, args=(feed.run, start), name="specdec-stream").start()
    try:
        while True:
            item = await feed.queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        feed.leave()


@dataclass(frozen=True)
class _End:
    """No item will follow."""

    error: BaseException | None = None


class _Feed(Generic[T]):
    """The way from the thread to the event loop, which may be closed as soon as nobody waits any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[T | _End] = asyncio.Queue()
        self._loop = loop
        self._lock = threading.Lock()
        self._wanted = True

    def run(self, start: Callable[[], Iterator[T]]) -> None:
        """The thread's work."""
        try:
            with closed_after(start()) as items:
                for item in items:
                    if not self._put(item):
                        return
        except BaseException as error:  # noqa: BLE001  raised where the items are awaited
            self._put(_End(error))
        else:
            self._put(_End())

    def leave(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._wanted = False

    def _put(self, item: T | _End) -> bool:
        """Whether somebody still waits."""
        with self._lock:
            if self._wanted:
                self._loop.call_soon_threadsafe(self.queue.put_nowait, item)
            return self._wanted
