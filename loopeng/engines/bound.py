"""The engine as an agent sees it: sampling, seed and reference texts are set, and what it costs is counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from loopeng.errors import EngineError
from loopeng.ports import Endpoint, EndpointEngine, TextEngine, TextReply, TextRequest
from loopeng.schema import Message, Usage

__all__ = ["MeteredEngine"]


class MeteredEngine:
    """Adds the messages to ``request`` and keeps the sum of the usage of all replies. Safe from several threads.

    The second and later calls of one attempt get their own seeds (seed + number of the call), so that an agent which
    asks twice does not hear the same answer twice. ``broke`` tells whose fault it is where the agent breaks: true where
    its last call of the engine did. After ``close`` nobody is answered: an agent that was given up goes on for nothing.
    """

    def __init__(self, engine: TextEngine, request: TextRequest) -> None:
        self._engine, self._request = engine, request
        self._lock = threading.Lock()
        self._is_closed = False
        self.seed = request.seed
        self.usage = Usage()
        self.num_calls = 0
        self.fingerprint: str | None = None  # of the last reply
        self.broke = False

    def begin(self) -> None:
        """A further try of the same attempt: its calls get the same seeds again; the usage goes on counting."""
        self.num_calls, self.fingerprint, self.broke = 0, None, False

    def close(self) -> None:
        """The attempt is over."""
        self._is_closed = True

    def generate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply:
        """Generate with the attempt's settings; ``overrides`` are fields of TextRequest.

        ``reference_texts`` override nothing: they come before those of the attempt.

        Raises EngineError where the engine breaks, and pydantic's ValidationError for an unknown field.
        """
        return self._ask(*self._next(messages, overrides))

    async def agenerate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply:
        """The same for async agents, whose event loop goes on meanwhile. Seeds follow the order of the calls."""
        return await asyncio.to_thread(self._ask, *self._next(messages, overrides))

    @contextmanager
    def endpoint(self) -> Iterator[Endpoint | None]:
        """The engine over HTTP; see ``BoundEngine``. What was asked there is counted when it ends."""
        self._refuse_late()
        if not isinstance(self._engine, EndpointEngine):
            yield None
            return
        endpoint: Endpoint | None = None
        try:
            with self._engine.endpoint(self._request) as endpoint:
                yield endpoint
        finally:
            if endpoint is not None and (usage := endpoint.usage()).total_tokens:
                self._count(usage, self._engine.describe().fingerprint)

    def _next(self, messages: Sequence[Message] | str, overrides: dict[str, Any]) -> tuple[TextRequest, int]:
        """The request and its number. A call that breaks gives its number back, where none has begun after it."""
        self._refuse_late()
        turns = (Message(role="user", content=messages),) if isinstance(messages, str) else tuple(messages)
        references = (*overrides.get("reference_texts", ()), *self._request.reference_texts)
        overrides = overrides | {"reference_texts": tuple(dict.fromkeys(references))}
        with self._lock:
            number = self.num_calls
            seed = (self.seed + number) % 2**63
            request = TextRequest(**(dict(self._request) | {"messages": turns, "seed": seed} | overrides))
            self.num_calls += 1
        return request, number

    def _ask(self, request: TextRequest, number: int) -> TextReply:
        try:
            reply = self._engine.generate(request)
        except BaseException:
            with self._lock:
                self.broke = True
                self.num_calls -= self.num_calls == number + 1
            raise
        self.broke = False
        self._count(reply.usage, reply.fingerprint)
        return reply

    def _count(self, usage: Usage, fingerprint: str | None) -> None:
        with self._lock:
            self.usage += usage
            self.fingerprint = fingerprint or self.fingerprint

    def _refuse_late(self) -> None:
        if self._is_closed:
            raise EngineError("the attempt is over: its engine answers no more")
