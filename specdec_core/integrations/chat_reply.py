"""What an engine makes, as LangChain has it: messages, chunks of them, tool calls, usage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Protocol

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import BaseModel, ValidationError

from specdec_core.integrations.reply_form import ReplyForm
from specdec_core.integrations.reply_reader import CallPiece, ReplyReader
from specdec_core.metrics import DecodeStats
from specdec_core.types import GenerationRequest

__all__ = ["ChatReply", "Digested", "Generated", "GeneratedChunk", "read_answer"]


class Digested(Protocol):
    """Numerics, by their digest."""

    @property
    def digest(self) -> str: ...


class Generated(Protocol):
    """What is read of a finished text; a ``GenerationOutput`` has it all."""

    @property
    def text(self) -> str: ...

    @property
    def finish_reason(self) -> str: ...

    @property
    def stats(self) -> DecodeStats: ...

    @property
    def fingerprint(self) -> Digested | None: ...


class GeneratedChunk(Protocol):
    """A piece of a stream; the last one has the output."""

    @property
    def text(self) -> str: ...

    @property
    def output(self) -> Generated | None: ...


class ChatReply:
    """One reply, read whole or piece by piece: both ways come to the same message.

    Ids of tool calls are a hash of the request, seed and all, so they are the same whenever the text is.
    """

    def __init__(self, request: GenerationRequest, form: ReplyForm, model_name: str | None = None) -> None:
        self.request = request
        self._model_name = model_name
        self._reader = ReplyReader() if form.with_tools else None
        asked = json.dumps(request.model_dump(exclude={"reference_texts"}))
        self._hash = hashlib.sha256(asked.encode()).hexdigest()

    def result(self, output: Generated) -> ChatResult:
        """The message of a finished text."""
        text, calls, broken = output.text, [], []
        if self._reader is not None:
            self._reader.feed(text)
            self._reader.finish()
            text = self._reader.text
            for index, call in enumerate(self._reader.calls):
                call_id, arguments = self._call_id(index), call.arguments()
                if arguments is None:
                    error = "the call was cut" if output.finish_reason == "length" else "the call is not valid JSON"
                    broken.append(invalid_tool_call(name=call.name, args=call.args, id=call_id, error=error))
                else:
                    calls.append(tool_call(name=call.name or "", args=arguments, id=call_id))
        message = AIMessage(
            content=text,
            tool_calls=calls,
            invalid_tool_calls=broken,
            usage_metadata=_usage(output.stats),
            response_metadata=self._metadata(output),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def chunks(self, chunk: GeneratedChunk) -> Iterator[ChatGenerationChunk]:
        """What a piece of the stream adds to the message, perhaps nothing yet; the last one has usage and metadata."""
        pieces: list[str | CallPiece] = [chunk.text] if chunk.text else []
        if self._reader is not None:
            pieces = self._reader.feed(chunk.text)
            pieces += self._reader.finish() if chunk.output is not None else []
        for piece in pieces:
            yield ChatGenerationChunk(message=self._message_of(piece))
        if chunk.output is not None:
            last = AIMessageChunk(
                content="",
                usage_metadata=_usage(chunk.output.stats),
                response_metadata=self._metadata(chunk.output),
                chunk_position="last",
            )
            yield ChatGenerationChunk(message=last)

    def _message_of(self, piece: str | CallPiece) -> AIMessageChunk:
        if isinstance(piece, str):
            return AIMessageChunk(content=piece)
        call_id = self._call_id(piece.index) if piece.begins else None
        call = tool_call_chunk(name=piece.name, args=piece.args, id=call_id, index=piece.index)
        return AIMessageChunk(content="", tool_call_chunks=[call])

    def _call_id(self, index: int) -> str:
        return f"call_{self._hash[:20]}_{index}"

    def _metadata(self, output: Generated) -> dict[str, Any]:
        stats = output.stats
        called = self._reader is not None and any(call.arguments() is not None for call in self._reader.calls)
        metadata: dict[str, Any] = {
            "finish_reason": "tool_calls" if called and output.finish_reason != "length" else output.finish_reason,
            "model_provider": "specdec",
            "speculation": {
                "decode_passes": stats.num_decode_passes,
                "draft_tokens": stats.num_draft_tokens,
                "accepted_tokens": stats.num_accepted_tokens,
                "acceptance_rate": stats.acceptance_rate,
                "acceptance_length": stats.acceptance_length,
            },
        }
        if self._model_name is not None:
            metadata["model_name"] = self._model_name
        if output.fingerprint is not None:
            metadata["fingerprint"] = output.fingerprint.digest
        return metadata


def read_answer(message: AIMessage, *, schema: Any = None) -> Any:
    """The value of a JSON answer, an instance where the schema is a pydantic class.

    Raises OutputParserException for an answer that is cut, no JSON, or against the class's own checks.
    """
    text = str(message.text)
    if message.response_metadata.get("finish_reason") == "length":
        raise OutputParserException(f"the answer was cut at max_tokens: {text!r}", llm_output=text)
    try:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return schema.model_validate_json(text)
        return json.loads(text)
    except (ValidationError, ValueError) as error:
        raise OutputParserException(f"the answer {text!r} does not fit: {error}", llm_output=text) from error


def _usage(stats: DecodeStats) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=stats.num_prompt_tokens,
        output_tokens=stats.num_generated_tokens,
        total_tokens=stats.num_prompt_tokens + stats.num_generated_tokens,
        input_token_details=InputTokenDetails(cache_read=stats.num_cached_prompt_tokens),
    )
