"""The engine of an attempt as a LangChain chat model, for agents that are built on one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopeng.errors import RequestRefusedError, UsageError
from loopeng.ports import AgentContext, BoundEngine, TextReply, TextRequest
from loopeng.schema import Message

if TYPE_CHECKING:
    from specdec_core.integrations.langchain import SpecDecChat
    from specdec_core.metrics import DecodeStats
    from specdec_core.types import GenerationRequest

__all__ = ["chat_model"]


def chat_model(context: AgentContext, **settings: Any) -> SpecDecChat:
    """A LangChain chat model over the engine of an attempt, whichever kind it is.

    Sampling, seeds and reference texts are the attempt's, but for the ``settings``, which are those of SpecDecChat, and
    what is named per call; every call is counted. LangChain's cache is not asked: each attempt has its own replies.

    Raises UsageError where langchain-core is not installed.
    """
    try:
        from specdec_core.integrations.langchain import SpecDecChat
    except ModuleNotFoundError as error:
        raise UsageError(f"a chat model needs {error.name}: pip install 'loopeng[langchain]'") from error
    return SpecDecChat(engine=_ChatOverBoundEngine(context.engine), cache=False, **settings)


@dataclass(frozen=True)
class _Digest:
    digest: str


@dataclass(frozen=True)
class _ChatOutput:
    """A reply as the chat model reads it: the last, and only, piece of its stream too."""

    text: str
    finish_reason: str
    stats: DecodeStats
    fingerprint: _Digest | None

    @property
    def output(self) -> _ChatOutput:
        return self


@dataclass(frozen=True)
class _ChatOverBoundEngine:
    """The core's requests, answered by an attempt's engine. What a request leaves unset is the attempt's."""

    engine: BoundEngine

    def generate(self, request: GenerationRequest) -> _ChatOutput:
        sampling = request.sampling
        overrides: dict[str, Any] = {name: getattr(sampling, name) for name in sampling.model_fields_set}
        if unknown := sorted(overrides.keys() - TextRequest.model_fields.keys()):
            raise RequestRefusedError(f"the engine of an attempt does not take {', '.join(unknown)}")
        if request.reference_texts:
            overrides["reference_texts"] = request.reference_texts
        if request.structured is not None:
            if request.structured.json_schema is None:
                raise RequestRefusedError("the engine of an attempt holds texts to a JSON Schema alone")
            overrides["response_schema"] = request.structured.json_schema
        messages = tuple(Message(**turn) for turn in request.messages or ())
        return _chat_output(self.engine.generate(messages, **overrides))

    def stream(self, request: GenerationRequest) -> Iterator[_ChatOutput]:
        """One piece: engines of the loop answer at once."""
        yield self.generate(request)


def _chat_output(reply: TextReply) -> _ChatOutput:
    from specdec_core.metrics import DecodeStats

    usage = reply.usage
    return _ChatOutput(
        text=reply.text,
        finish_reason=reply.finish_reason or "stop",
        stats=DecodeStats(
            num_prompt_tokens=usage.prompt_tokens,
            num_generated_tokens=usage.generated_tokens,
            num_decode_passes=usage.decode_passes,
            num_draft_tokens=usage.draft_tokens,
            num_accepted_tokens=usage.accepted_tokens,
        ),
        fingerprint=None if reply.fingerprint is None else _Digest(reply.fingerprint),
    )
