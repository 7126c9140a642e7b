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
    asks twice does not hear the same answer twice. ``broke`` tells whose fault it is where the agent breaks: true where
    its last call of the engine did.
    """

    def __init__(self, engine: TextEngine, request: TextRequest) -> None:
        self._engine, self._request = engine, request
        self.usage = Usage()
        self.num_calls = 0
        self.last_reply: TextReply | None = None
        self.broke = False

    def begin(self) -> None:
        """A further try of the same attempt: its calls get the same seeds again; the usage goes on counting."""
        self.num_calls, self.last_reply, self.broke = 0, None, False

    def generate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply:
        """Generate with the attempt's settings; ``overrides`` are fields of TextRequest.

        ``reference_texts`` override nothing: they come before those of the attempt.

        Raises EngineError where the engine breaks, and pydantic's ValidationError for an unknown field.
        """
        turns = (Message(role="user", content=messages),) if isinstance(messages, str) else tuple(messages)
        seed = (self._request.seed + self.num_calls) % 2**63
        references = (*overrides.pop("reference_texts", ()), *self._request.reference_texts)
        fields = dict(self._request) | {"messages": turns, "seed": seed} | overrides
        fields["reference_texts"] = tuple(dict.fromkeys(references))
        request = TextRequest(**fields)
        self.broke = True  # until the reply is there
        reply = self._engine.generate(request)
        self.broke = False
        self.num_calls += 1
        self.usage += reply.usage
        self.last_reply = reply
        return reply
