"""The bodies that clients send, field by field, as OpenAI's reference has them, with vLLM's extras.

A field that would change the answer and cannot be honoured is refused by name; one that changes nothing here (``user``,
``metadata``) is taken and left. ``null`` means what it means there: as if the field were not sent. The ranges of the
sampling fields are those of ``SamplingParams``, which checks them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

__all__ = [
    "ChatBody",
    "CommonBody",
    "CompletionBody",
    "JsonSchemaFormat",
    "Message",
    "Prediction",
    "ResponseFormat",
    "StreamOptions",
    "StructuredBody",
]


def _joined(between: str) -> BeforeValidator:
    """Text as it stands, or a list of text parts."""

    def join(value: Any) -> Any:
        return between.join(map(_text_of_part, value)) if isinstance(value, list) else value

    return BeforeValidator(join)


def _text_of_part(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else part
    if kind != "text" or not isinstance(part.get("text"), str):
        raise ValueError(f'only parts like {{"type": "text", "text": "..."}} can be read, not {str(kind)[:60]!r}')
    text: str = part["text"]
    return text


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _limit(value: Any) -> Any:
    """0 and -1 are vLLM's words for no limit."""
    return None if value in (0, -1) else value


def _one_prompt(value: Any) -> str | tuple[int, ...]:
    """A text, a list of token ids, or a list of one of these."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(each) is int for each in value):
        return tuple(value)
    if isinstance(value, list) and all(isinstance(each, str | list) for each in value):
        raise ValueError("one prompt at a time: send a request for each")
    raise ValueError("a text or a list of token ids is needed")


_Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


class Message(_Body):
    """A turn of a conversation. ``name`` is taken and left: chat templates do not show it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, _joined("\n")]
    name: str | None = None


class JsonSchemaFormat(_Body):
    """What ``response_format`` says of a schema. The text has its form, ``strict`` or not."""

    name: str = ""
    description: str | None = None
    form: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(_Body):
    """Free text, any JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None


class StructuredBody(_Body):
    """vLLM's ``structured_outputs``: exactly one of these."""

    form: dict[str, Any] | str | None = Field(None, alias="json")
    json_object: bool = False
    regex: str | None = None
    choice: tuple[str, ...] | None = Field(None, min_length=1)


class Prediction(_Body):
    """OpenAI's predicted output: text that the answer may repeat. The answer comes sooner by it, and is the same."""

    type: Literal["content"] = "content"
    content: Annotated[str, _joined("")]


class StreamOptions(_Body):
    """``include_usage`` adds a last event with the usage."""

    include_usage: bool = False
    include_obfuscation: Any = None


class CommonBody(_Body):
    """What the bodies of both endpoints have besides the prompt."""

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: Literal[1] = 1
    user: Any = None

    temperature: float | None = None
    top_p: float | None = None
    top_k: Annotated[int | None, BeforeValidator(_limit)] = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    bad_words: _Texts | None = None
    stop: _Texts | None = None
    seed: int | None = None
    max_tokens: int | None = None

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredBody | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: tuple[str, ...] | None = Field(None, min_length=1)

    prediction: Prediction | None = None
    reference_texts: _Texts = ()  # ours: like a prediction, but several, most likely first


class ChatBody(CommonBody):
    """The body of ``/v1/chat/completions``."""

    messages: tuple[Message, ...]
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=20)
    store: Literal[False] = False
    modalities: tuple[Literal["text"]] = ("text",)
    metadata: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None


class CompletionBody(CommonBody):
    """The body of ``/v1/completions``."""

    prompt: Annotated[str | tuple[int, ...], PlainValidator(_one_prompt)]
    logprobs: int | None = Field(None, ge=0, le=20)
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    suffix: Literal[""] = ""
