"""An iterator in a thread: its items, its errors, and its end when nobody listens any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from contextvars import ContextVar

import pytest

from specdec_core.integrations.background import closed_after, iterate_in_thread


class Counting:
    """Counts up; says when it is closed and by which thread."""

    def __init__(self, most: int = 1_000_000, error: BaseException | None = None) -> None:
        self.most, self.error = most, error
        self.closed = threading.Event()
        self.threads: set[int] = set()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self) -> Iterator[int]:
        try:
            for number in range(self.most):
                self.threads.add(threading.get_ident())
                self.go_on.wait()
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.threads.add(threading.get_ident())
            self.closed.set()


async def taken(counting: Counting, most: int) -> list[int]:
    numbers: list[int] = []
    async with aclosing(iterate_in_thread(counting)) as items:
        async for number in items:
            numbers.append(number)
            if len(numbers) == most:
                break
    return numbers


def test_all_items_come_from_one_other_thread() -> None:
    counting = Counting(5)
    assert asyncio.run(taken(counting, 9)) == [0, 1, 2, 3, 4]
    assert len(counting.threads) == 1 and threading.get_ident() not in counting.threads


def test_an_error_is_raised_where_the_items_are_awaited() -> None:
    counting = Counting(2, KeyError("x"))
    with pytest.raises(KeyError, match="x"):
        asyncio.run(taken(counting, 9))
    assert counting.closed.is_set()

    def refusing() -> Iterator[int]:
        raise ValueError("at once")

    async def awaited() -> None:
        async for _ in iterate_in_thread(refusing):
            pytest.fail("nothing comes")

    with pytest.raises(ValueError, match="at once"):
        asyncio.run(awaited())


def test_whoever_leaves_ends_the_thread_and_closes_the_iterator() -> None:
    counting = Counting()
    assert asyncio.run(taken(counting, 3)) == [0, 1, 2]
    assert counting.closed.wait(30)


def test_cancellation_does_too_also_while_nothing_comes() -> None:
    async def cancelled(counting: Counting) -> None:
        task = asyncio.create_task(taken(counting, 9))
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    counting = Counting(most=1_000)
    counting.go_on.clear()
    asyncio.run(cancelled(counting))
    assert not counting.closed.is_set()  # the item that it is at is never cut
    counting.go_on.set()
    assert counting.closed.wait(30)


def test_a_loop_that_is_gone_hears_nothing() -> None:
    """The thread may come to its next item after the loop was closed."""
    before = threading.active_count()
    for _ in range(20):
        asyncio.run(taken(Counting(), 1))
    for thread in [each for each in threading.enumerate() if each.name == "specdec-stream"]:
        thread.join(30)
    assert threading.active_count() == before


def test_context_variables_are_the_callers() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")

    async def asked() -> list[str]:
        name.set("ana")
        return [each async for each in iterate_in_thread(lambda: iter([name.get()]))]

    assert asyncio.run(asked()) == ["ana"]


def test_closing_is_for_generators_alone() -> None:
    counting = Counting()
    with closed_after(counting()) as items:
        assert next(items) == 0
    assert counting.closed.is_set()
    with closed_after(iter([1])) as items:
        assert list(items) == [1]
