"""The engine as an agent sees it: sampling, seed and reference texts are set, and what it costs is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopeng.ports import TextEngine, TextReply, TextRequest
from loopeng.schema import Message, Usage

__all__ = ["MeteredEngine"]


class MeteredEngine:
    """Adds the messages to ``request`` and keeps the sum of the usage of all replies.

    The second and later calls of one attempt get their own seeds (seed + number of the call), so that an agent which
    asks twice does not hear the same answer twice.
    """

    def __init__(self, engine: TextEngine, request: TextRequest) -> None:
        self._engine, self._request = engine, request
        self.usage = Usage()
        self.num_calls = 0
        self.last_reply: TextReply | None = None

    def begin(self) -> None:
        """A further try of the same attempt: its calls get the same seeds again; the usage goes on counting."""
        self.num_calls, self.last_reply = 0, None

    def generate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply:
        """Generate with the attempt's settings; ``overrides`` are fields of TextRequest.

        Raises EngineError where the engine breaks, and pydantic's ValidationError for an unknown field.
        """
        turns = (Message(role="user", content=messages),) if isinstance(messages, str) else tuple(messages)
        seed = (self._request.seed + self.num_calls) % 2**63
        fields = dict(self._request) | {"messages": turns, "seed": seed} | overrides
        reply = self._engine.generate(TextRequest(**fields))
        self.num_calls += 1
        self.usage += reply.usage
        self.last_reply = reply
        return reply
