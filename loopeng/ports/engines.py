"""Text engines, and an engine as an agent sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from pydantic import Field

from loopeng.schema import Message, Noun, Usage
from loopeng.schema.task import EngineSpec

__all__ = [
    "BoundEngine",
    "Endpoint",
    "EndpointEngine",
    "EngineInfo",
    "GenerateFunction",
    "TextEngine",
    "TextReply",
    "TextRequest",
]


class TextRequest(Noun):
    """One generation. The text never depends on ``reference_texts``; drafts may follow them."""

    messages: tuple[Message, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    reference_texts: tuple[str, ...] = ()
    response_schema: dict[str, Any] | None = Field(
        None, description="JSON Schema of the text. Held where EngineInfo.structured_output; else a wish, unsaid."
    )

    @classmethod
    def of(
        cls,
        spec: EngineSpec,
        *,
        messages: tuple[Message, ...],
        temperature: float,
        seed: int,
        reference_texts: tuple[str, ...] = (),
    ) -> Self:
        """A request with the settings of an engine section of a task file."""
        return cls(
            messages=messages,
            max_tokens=spec.max_tokens,
            temperature=temperature,
            top_k=spec.top_k,
            top_p=spec.top_p,
            repetition_penalty=spec.repetition_penalty,
            stop=spec.stop,
            seed=seed,
            reference_texts=reference_texts,
        )


class TextReply(Noun):
    """What an engine answers."""

    text: str
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    latency_s: float = 0.0
    fingerprint: str | None = None


class EngineInfo(Noun):
    """What an engine says of itself. ``deterministic``: same request and seed, same text.

    ``structured_output``: texts follow ``response_schema``, but for those cut at ``max_tokens``; a schema that cannot
    be held is refused (RequestRefusedError), never ignored.
    """

    kind: str
    model: str | None = None
    deterministic: bool = False
    structured_output: bool = False
    fingerprint: str | None = None
    concurrency: int = Field(1, description="Requests it takes side by side; more only wait for each other.")
    reference: str | None = Field(None, description="How another process makes it; None for a live object.")
    details: dict[str, Any] = {}


@runtime_checkable
class TextEngine(Protocol):
    """Turns a conversation into text. Raises EngineError on infrastructure failures, never on bad answers."""

    def generate(self, request: TextRequest) -> TextReply: ...

    def describe(self) -> EngineInfo: ...


GenerateFunction = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str | Awaitable[str]]
"""A bare callable as engine: (messages, params) -> text, sync or async. Counts as non-deterministic."""


@dataclass(frozen=True)
class Endpoint:
    """An engine's address for programs that speak the OpenAI protocol, good for one attempt.

    The attempt's seed, sampling settings and reference texts hold for every request that names none of its own.
    """

    url: str  # as the clients' base_url: it ends in /v1
    token: str  # as their api_key
    model: str
    usage: Callable[[], Usage]  # what was spent so far


@runtime_checkable
class EndpointEngine(Protocol):
    """What an engine may have besides ``TextEngine``: it can also be asked over HTTP, with a request's settings.

    None where it has no such endpoint after all. At the end nobody is answered any more, and running requests stop.
    """

    def endpoint(self, request: TextRequest) -> AbstractContextManager[Endpoint | None]: ...


class BoundEngine(Protocol):
    """An engine as an agent sees it: sampling, seed and reference texts are set already; usage is counted."""

    def generate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply: ...

    async def agenerate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply: ...

    def endpoint(self) -> AbstractContextManager[Endpoint | None]:
        """The same engine over HTTP, for as long as the context manager is open; None where it has no endpoint."""
        ...
