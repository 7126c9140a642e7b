"""Coroutines from synchronous code: one private event loop per process, started at the first need.

One loop for all calls keeps the user's connection pools alive between them; a caller that runs in an event loop of its
own is served too, because the private loop has its own thread.

What its coroutines hand to threads may wait for other coroutines there, which need threads in turn: an agent asks its
engine, and the engine looks up an address. So there are threads enough for all of them; asyncio's own few would be
taken by those that wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from typing import Any, TypeVar

from loopeng.engines.interruption import result_of
from loopeng.errors import AgentLimitError

__all__ = ["call_within", "finish"]

T = TypeVar("T")
_NUM_THREADS = 4096  # at most; they are started as they are needed
_starting = threading.Lock()
_ENDING_S = 5.0  # how long a coroutine that is cancelled may clean up before it is left alone


def finish(value: Any, limit_s: float | None = None) -> Any:
    """The value itself, or what it yields when awaited. Raises whatever the coroutine raises.

    At Ctrl-C, and after ``limit_s`` (then AgentLimitError), the coroutine is cancelled and may clean up.

    >>> async def answer():
    ...     return 42
    >>> finish(answer()), finish(42)
    (42, 42)
    """
    if not isinstance(value, Awaitable):
        return value
    with _starting:  # several threads may need the loop first
        loop, thread = _private_loop()
    if threading.current_thread() is thread:  # called by a coroutine that runs there: its loop is busy with us
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(asyncio.run, asyncio.wait_for(_awaited(value), limit_s)).result()
    ended = threading.Event()
    future = asyncio.run_coroutine_threadsafe(_told(value, ended), loop)
    try:
        outcome = result_of(future, limit_s)
    except BaseException as error:
        if not future.cancel():
            raise  # it is the coroutine's own
        ended.wait(_ENDING_S)
        if isinstance(error, TimeoutError):
            raise _overtime(limit_s) from None
        raise
    if isinstance(outcome, _Stop):
        raise outcome.error
    return outcome


def call_within(limit_s: float, function: Callable[..., T], *args: Any) -> T:
    """What the function returns, or raises. Raises AgentLimitError where it takes longer: it is left alone then.

    It runs in a daemon thread: nothing can stop a function from outside, but nobody has to wait for it either.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            settle = partial(future.set_result, function(*args))
        except BaseException as error:  # noqa: BLE001  it comes out where the result is asked for
            settle = partial(future.set_exception, error)
        with suppress(InvalidStateError):  # cancelled: nobody waits any more
            settle()

    threading.Thread(target=copy_context().run, args=(run,), name="loopeng-limited", daemon=True).start()
    try:
        return result_of(future, limit_s)
    except TimeoutError:
        if future.done():
            raise  # it is the function's own
        raise _overtime(limit_s) from None


def _overtime(limit_s: float | None) -> AgentLimitError:
    return AgentLimitError(f"the agent took more than {round(limit_s or 0, 2):g} s")


class _Stop:
    """SystemExit or KeyboardInterrupt of a coroutine: raised inside the private loop, it would end it for everybody."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _told(value: Awaitable[Any], ended: threading.Event) -> Any:
    try:
        return await value
    except (SystemExit, KeyboardInterrupt) as error:
        return _Stop(error)
    finally:
        ended.set()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


@cache
def _private_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="loopeng-async"))
    thread = threading.Thread(target=loop.run_forever, name="loopeng-async", daemon=True)
    thread.start()
    return loop, thread
