"""Answers in OpenAI's shapes: whole ones and the events of a stream, for either endpoint.

``usage`` has a part of ours, ``speculation``; ``system_fingerprint`` is the digest of the numerics fingerprint. Log
probabilities go with every emitted token, the one that ended the text included, so that they are as many as
``completion_tokens``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol

from specdec_core.logprobs import TokenLogprobs
from specdec_core.server.reading import Asked
from specdec_core.tokenizer import Tokenizer
from specdec_core.types import GenerationChunk, GenerationOutput

__all__ = ["ChatReply", "CompletionReply", "Reply", "make_reply", "usage"]


class Reply(Protocol):
    """The answer to one request."""

    def whole(self, output: GenerationOutput) -> dict[str, Any]:
        """The answer in one document."""
        ...

    def events(self, chunks: AsyncIterator[GenerationChunk]) -> AsyncIterator[dict[str, Any]]:
        """The answer as it grows."""
        ...


def make_reply(asked: Asked, model: str, fingerprint: str, tokenizer: Tokenizer) -> Reply:
    """The answer in the shape of the endpoint that was asked."""
    kind = ChatReply if asked.endpoint == "chat" else CompletionReply
    return kind(asked, model, fingerprint, tokenizer)


def usage(output: GenerationOutput, predicted: bool) -> dict[str, Any]:
    """Token counts, and how speculation went. Where there was a prediction the drafts are told as its tokens too."""
    stats = output.stats
    num_prompt, num_completion = len(output.prompt_token_ids), len(output.token_ids)
    counts: dict[str, Any] = {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_completion,
        "total_tokens": num_prompt + num_completion,
        "prompt_tokens_details": {"cached_tokens": stats.num_cached_prompt_tokens},
    }
    if predicted:
        counts["completion_tokens_details"] = {
            "accepted_prediction_tokens": stats.num_accepted_tokens,
            "rejected_prediction_tokens": stats.num_draft_tokens - stats.num_accepted_tokens,
        }
    names = ("num_decode_passes", "num_drafts", "num_draft_tokens", "num_accepted_tokens")
    rates = ("acceptance_rate", "acceptance_length")
    return counts | {"speculation": {name: getattr(stats, name) for name in (*names, *rates)}}


class _Shape:
    """What both shapes share: the envelope, and how a stream ends."""

    id_prefix: str
    whole_object: str
    event_object: str

    def __init__(self, asked: Asked, model: str, fingerprint: str, tokenizer: Tokenizer) -> None:
        self._asked, self._tokenizer = asked, tokenizer
        self._id = f"{self.id_prefix}-{uuid.uuid4().hex}"
        self._facts = {"created": int(time.time()), "model": model, "system_fingerprint": fingerprint}

    def _document(self, choices: list[dict[str, Any]], output: GenerationOutput) -> dict[str, Any]:
        document = {"id": self._id, "object": self.whole_object, **self._facts, "choices": choices}
        return document | {"usage": usage(output, self._asked.predicted)}

    def _event(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        event = {"id": self._id, "object": self.event_object, **self._facts, "choices": choices}
        return event | ({"usage": None} if self._asked.include_usage else {})

    def _last_events(self, choice: dict[str, Any], output: GenerationOutput) -> Iterator[dict[str, Any]]:
        yield self._event([choice | _ending(output)])
        if self._asked.include_usage:
            yield self._event([]) | {"usage": usage(output, self._asked.predicted)}

    def _token(self, token_id: int) -> str:
        return self._tokenizer.decode([token_id], skip_special_tokens=False)


class ChatReply(_Shape):
    """``chat.completion`` and its chunks."""

    id_prefix = "chatcmpl"
    whole_object = "chat.completion"
    event_object = "chat.completion.chunk"

    def whole(self, output: GenerationOutput) -> dict[str, Any]:
        """The answer in one document."""
        message = {"role": "assistant", "content": output.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": self._logprobs(output.logprobs)}
        return self._document([choice | _ending(output)], output)

    async def events(self, chunks: AsyncIterator[GenerationChunk]) -> AsyncIterator[dict[str, Any]]:
        """The role first, then text, then the reason why it ended, then usage where it is wanted."""
        yield self._event([self._choice({"role": "assistant", "content": ""})])
        async for chunk in chunks:
            if chunk.text or chunk.logprobs:
                yield self._event([self._choice({"content": chunk.text}, chunk.logprobs)])
            if chunk.output is not None:
                for event in self._last_events(self._choice({}), chunk.output):
                    yield event

    def _choice(self, delta: dict[str, Any], logprobs: Sequence[TokenLogprobs] = ()) -> dict[str, Any]:
        logprobs_ = self._logprobs(logprobs or None)
        return {"index": 0, "delta": delta, "logprobs": logprobs_, "finish_reason": None}

    def _logprobs(self, logprobs: Sequence[TokenLogprobs] | None) -> dict[str, Any] | None:
        if logprobs is None:
            return None
        content = [
            self._entry(each.token_id, each.logprob) | {"top_logprobs": [self._entry(*other) for other in each.top]}
            for each in logprobs
        ]
        return {"content": content, "refusal": None}

    def _entry(self, token_id: int, logprob: float) -> dict[str, Any]:
        """A token that holds a part of a character only has no bytes here."""
        text = self._token(token_id)
        return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


class CompletionReply(_Shape):
    """``text_completion``, whole and in pieces."""

    id_prefix = "cmpl"
    whole_object = event_object = "text_completion"
    _text_length = 0  # of the tokens told so far: where the next one begins

    def whole(self, output: GenerationOutput) -> dict[str, Any]:
        """The answer in one document."""
        choice = {"index": 0, "text": output.text, "logprobs": self._logprobs(output.logprobs)}
        return self._document([choice | _ending(output)], output)

    async def events(self, chunks: AsyncIterator[GenerationChunk]) -> AsyncIterator[dict[str, Any]]:
        """Text, then the reason why it ended, then usage where it is wanted."""
        async for chunk in chunks:
            if chunk.text or chunk.logprobs:
                yield self._event([self._choice(chunk.text, chunk.logprobs)])
            if chunk.output is not None:
                for event in self._last_events(self._choice(""), chunk.output):
                    yield event

    def _choice(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": self._logprobs(logprobs or None), "finish_reason": None}

    def _logprobs(self, logprobs: Sequence[TokenLogprobs] | None) -> dict[str, Any] | None:
        """Lists side by side. The emitted token is among the likeliest, and beyond them where it is not one of them."""
        if logprobs is None:
            return None
        tokens = [self._token(each.token_id) for each in logprobs]
        offsets = []
        for token in tokens:
            offsets.append(self._text_length)
            self._text_length += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [each.logprob for each in logprobs],
            "top_logprobs": [
                {self._token(token_id): logprob for token_id, logprob in ((each.token_id, each.logprob), *each.top)}
                for each in logprobs
            ],
            "text_offset": offsets,
        }


def _ending(output: GenerationOutput) -> dict[str, Any]:
    """Why the text ended; ``stop_reason``, as vLLM has it, is the stop string."""
    return {"finish_reason": output.finish_reason, "stop_reason": output.stop_string}
