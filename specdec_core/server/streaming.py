"""Answers that take a while: server-sent events, and work that ends when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.types import Receive, Scope, Send

from specdec_core.errors import RequestError
from specdec_core.server.refusals import Refusal, refusal_of, to_json

__all__ = ["ClientLeftError", "EventStream", "while_connected"]

_Result = TypeVar("_Result")

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies would hold events back
]


class ClientLeftError(Exception):
    """Nobody waits for the answer any more."""


async def while_connected(receive: Receive, work: Awaitable[_Result]) -> _Result:
    """The result of ``work``, which is cancelled when the client leaves. Raises ClientLeftError then."""
    working = asyncio.ensure_future(work)
    listening = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeftError
        return working.result()
    finally:
        for task in (working, listening):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """An ASGI answer of server-sent events, one JSON document each, and ``[DONE]`` behind the last.

    What goes wrong in the middle is told as an event, and there is no ``[DONE]`` then. ``at_end`` is called in any
    case, also when the client leaves.
    """

    def __init__(
        self, events: AsyncIterator[dict[str, Any]], at_end: Callable[[], None], params: Mapping[str, str]
    ) -> None:
        self._events, self._at_end, self._params = events, at_end, params

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as they come."""
        try:
            with suppress(ClientLeftError, OSError):
                await while_connected(receive, self._send_all(send))
        finally:
            self._at_end()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with aclosing(self._data()) as data:
            async for each in data:
                await send({"type": "http.response.body", "body": b"data: " + each + b"\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _data(self) -> AsyncGenerator[bytes, None]:
        try:
            async for event in self._events:
                yield to_json(event)
        except (RequestError, Refusal) as error:
            yield to_json(refusal_of(error, self._params).to_dict())
        except Exception as error:
            yield to_json(refusal_of(error, self._params).to_dict())
            raise
        else:
            yield b"[DONE]"
