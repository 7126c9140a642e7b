"""Coroutines from synchronous code: one private event loop per process, started at the first need.

One loop for all calls keeps the user's connection pools alive between them; a caller that runs in an event loop of its
own is served too, because the private loop has its own thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

__all__ = ["finish"]


def finish(value: Any) -> Any:
    """The value itself, or what it yields when awaited. Raises whatever the coroutine raises.

    >>> async def answer():
    ...     return 42
    >>> finish(answer()), finish(42)
    (42, 42)
    """
    if not isinstance(value, Awaitable):
        return value
    loop, thread = _private_loop()
    if threading.current_thread() is thread:  # called by a coroutine that runs there: its loop is busy with us
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(asyncio.run, _awaited(value)).result()
    future = asyncio.run_coroutine_threadsafe(_awaited(value), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C while waiting: the coroutine ends as well
        raise


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


@cache
def _private_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loopeng-async", daemon=True)
    thread.start()
    return loop, thread
