"""The OpenAI protocol in plain values: what is sent for a request, and what an answer means. No network here.

What is wrong with an answer is an EngineError; a RequestRefusedError where the server would say the same again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loopeng.engines.openai_transport import Answer, excerpt
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.ports import TextReply, TextRequest
from loopeng.schema import Usage
from loopeng.schema.engine_section import EngineSpec

__all__ = ["ServerFacts", "chat_body", "chat_reply", "holds_schemas", "refusal", "server_facts"]

_SPECDEC = "specdec"
_SEED_BITS = 31  # what every server can keep

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself in ``/models``; of one that is not ours nothing is believed.

    ``specdec serve`` takes reference texts and seeds of any size, and tells how exact it is.
    """

    is_specdec: bool = False
    exactness: str | None = None
    fingerprint: str | None = None
    structured_output: bool = False


def chat_body(spec: EngineSpec, request: TextRequest, facts: ServerFacts) -> dict[str, Any]:
    """The body of ``/chat/completions``. What the task does not set is left to the server."""
    body: dict[str, Any] = {
        "model": spec.model,
        "messages": [message.model_dump() for message in request.messages],
        spec.max_tokens_name: request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed if facts.is_specdec else request.seed % 2**_SEED_BITS,
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_k is not None:
        body["top_k"] = request.top_k
    if request.repetition_penalty != 1.0:
        body["repetition_penalty"] = request.repetition_penalty
    if request.response_schema is not None and holds_schemas(spec, facts):
        schema = {"name": "reply", "schema": request.response_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.reference_texts and facts.is_specdec:
        body["reference_texts"] = list(request.reference_texts)
    return {name: value for name, value in (body | spec.extra_body).items() if value is not None}


def holds_schemas(spec: EngineSpec, facts: ServerFacts) -> bool:
    """The task's word, else the server's."""
    return facts.structured_output if spec.structured_output is None else spec.structured_output


def chat_reply(answer: Answer, facts: ServerFacts) -> TextReply:
    """The answer to ``chat_body``. Raises EngineError for what is no answer, RequestRefusedError for a content filter.

    The fingerprint is what must not be mixed: of our own server its numerics, of others the model that answered. Their
    ``system_fingerprint`` is no part of it: large services answer from several backends in turn, and a gate on such an
    engine measures by its A/A check what that changes.
    """
    completion = _read(_Completion, answer.body)
    if completion.error is not None:
        raise EngineError(f"the server broke off: {_said(answer.body)}")
    if not completion.choices:
        raise EngineError(f"the answer has no choices: {excerpt(answer.body)}")
    choice = completion.choices[0]
    if choice.finish_reason == "content_filter":
        raise RequestRefusedError("the server's content filter stopped the answer")
    usage = completion.usage or _Usage()
    fingerprint = completion.system_fingerprint if facts.is_specdec else completion.model
    return TextReply(
        text=_text(choice),
        finish_reason=choice.finish_reason,
        usage=Usage(
            prompt_tokens=usage.prompt_tokens,
            generated_tokens=usage.completion_tokens,
            decode_passes=usage.speculation.num_decode_passes,
            draft_tokens=usage.speculation.num_draft_tokens,
            accepted_tokens=usage.speculation.num_accepted_tokens,
        ),
        latency_s=answer.latency_s,
        fingerprint=fingerprint or None,
    )


def server_facts(answer: Answer) -> ServerFacts:
    """What ``/models`` says. Of a server without such a list, or with one of another shape, nothing is known."""
    if answer.status != 200:
        return ServerFacts()
    try:
        listed = _read(_Models, answer.body).data
    except EngineError:
        return ServerFacts()
    ours = next((each for each in listed if each.owned_by == _SPECDEC), None)
    if ours is None:
        return ServerFacts()
    return ServerFacts(True, ours.exactness, ours.system_fingerprint, ours.structured_output)


def refusal(answer: Answer, spec: EngineSpec) -> RequestRefusedError:
    """Why a status that is neither success nor worth another try came, and what to do."""
    if answer.status < 400:
        where = f" to {answer.location}" if answer.location else ""
        return RequestRefusedError(f"answered {answer.status}, a redirect{where}: name that address in engine.base_url")
    said = _said(answer.body)
    hint = _hint(answer.status, said, spec)
    return RequestRefusedError(f"answered {answer.status}: {said or 'nothing'}" + (f" ({hint})" if hint else ""))


def _hint(status: int, said: str, spec: EngineSpec) -> str | None:
    if status in (401, 403):
        if spec.api_key_env is None:
            return "a key is wanted: name the variable that holds it in engine.api_key_env"
        return f"the key is the one in {spec.api_key_env}"
    if status in (404, 405):
        return (
            f"engine.base_url is the address before /chat/completions, mostly with /v1; engine.model is {spec.model!r}"
        )
    if "max_completion_tokens" in said and spec.max_tokens_name == "max_tokens":
        return "set engine.max_tokens_name: max_completion_tokens"
    if any(name in said for name in ("temperature", "top_p", "seed")):
        return "engine.extra_body with null for a field leaves it out"
    return None


class _Lenient(BaseModel):
    """What is read must be right; what is not read may be anything."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Message(_Lenient):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[Any, ...] | None = None


class _Choice(_Lenient):
    message: _Message
    finish_reason: str | None = None


class _Speculation(_Lenient):
    """As ``specdec serve`` tells it."""

    num_decode_passes: int = Field(0, ge=0)
    num_draft_tokens: int = Field(0, ge=0)
    num_accepted_tokens: int = Field(0, ge=0)


class _Usage(_Lenient):
    prompt_tokens: int = Field(0, ge=0)
    completion_tokens: int = Field(0, ge=0)
    speculation: _Speculation = _Speculation()


class _Completion(_Lenient):
    choices: tuple[_Choice, ...] | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    usage: _Usage | None = None
    error: Any = None


class _Model(_Lenient):
    owned_by: str | None = None
    exactness: str | None = None
    system_fingerprint: str | None = None
    structured_output: bool = False


class _Models(_Lenient):
    data: tuple[_Model, ...]


def _read(model: type[M], body: bytes) -> M:
    """Raises EngineError for what is no JSON, or JSON of other types than the protocol's."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise EngineError(f"the answer is no JSON: {excerpt(body) or 'it is empty'}") from None
        place = ".".join(map(str, first["loc"])) or "it"
        raise EngineError(f"the answer has another shape than the protocol's: {place}: {first['msg']}") from None


def _text(choice: _Choice) -> str:
    """The model's words; a refusal in words is an answer too. Where the limit came before the first one, none."""
    message = choice.message
    if message.content is not None:
        return message.content
    if message.refusal is not None:
        return message.refusal
    if message.tool_calls:
        raise EngineError("the model called a tool instead of answering, though the request names none")
    if choice.finish_reason == "length":
        return ""
    raise EngineError(f"the answer has no content (finish_reason {choice.finish_reason})")


def _said(body: bytes) -> str:
    """The server's own words out of an error, wherever its kind of server puts them."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return excerpt(body)
    for name in ("error", "message", "detail"):
        while isinstance(document, Mapping) and name in document:
            document = document[name]
    text = document if isinstance(document, str) else json.dumps(document)
    return excerpt(text.encode("utf-8", "replace"))
