"""From a body to what the engine is asked, and to which part of the body an error belongs."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from specdec_core.sampling import SamplingParams
from specdec_core.server.access import RequestDefaults
from specdec_core.server.refusals import Refusal
from specdec_core.server.wire import ChatBody, CommonBody, CompletionBody
from specdec_core.types import GenerationRequest, StructuredOutput

__all__ = ["Asked", "read_chat", "read_completion"]

_Body = TypeVar("_Body", bound=CommonBody)

_COMPLETION_MAX_TOKENS = 16  # as OpenAI has it
_SAMPLING = set(SamplingParams.model_fields) - {"logprobs"}  # said in another way at either endpoint
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")  # in a regular expression
_IN_WORDS_OF_JSON = {  # kinds of complaints that pydantic tells in Python's
    "missing": "is needed",
    "tuple_type": "a list is needed",
    "model_type": "an object is needed",
    "dict_type": "an object is needed",
}
_INSTEAD = {
    "tools": "ask for JSON by response_format",
    "functions": "ask for JSON by response_format",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the engine, and in which shape the client wants the answer."""

    request: GenerationRequest
    endpoint: Literal["chat", "completion"]
    model: str | None
    stream: bool
    include_usage: bool
    predicted: bool  # the client sent a prediction, so usage tells what came of it
    params: Mapping[str, str] = field(default_factory=dict)  # the core's names of fields -> the client's


def read_chat(content: bytes, defaults: RequestDefaults, context_length: int) -> Asked:
    """The body of a chat completion. Raises Refusal (400), naming the field."""
    body = _read(ChatBody, content)
    if None not in (body.max_tokens, body.max_completion_tokens):
        raise Refusal(400, "max_completion_tokens: means the same as max_tokens; send one of them", param="max_tokens")
    if body.top_logprobs is not None and not body.logprobs:
        raise Refusal(400, "top_logprobs: needs logprobs: true", param="top_logprobs")
    length = {} if body.max_completion_tokens is None else {"max_tokens": body.max_completion_tokens}
    logprobs = {"logprobs": body.top_logprobs or 0} if body.logprobs else {}
    messages = [
        {"role": "system" if message.role == "developer" else message.role, "content": message.content}
        for message in body.messages
    ]
    length_param = "max_completion_tokens" if length else "max_tokens"
    params = {"prompt": "messages", "max_tokens": length_param, "logprobs": "top_logprobs"}
    sampling = _sampling(body, defaults, context_length) | length | logprobs
    return _asked(body, "chat", defaults, params, messages=messages, sampling=sampling)


def read_completion(content: bytes, defaults: RequestDefaults) -> Asked:
    """The body of a plain completion. Raises Refusal (400), naming the field."""
    body = _read(CompletionBody, content)
    sampling = _sampling(body, defaults, _COMPLETION_MAX_TOKENS) | {"logprobs": body.logprobs}
    name = "prompt" if isinstance(body.prompt, str) else "prompt_token_ids"
    return _asked(body, "completion", defaults, {name: "prompt"}, **{name: body.prompt}, sampling=sampling)


def _read(kind: type[_Body], content: bytes) -> _Body:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body is no JSON object", code="invalid_json")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _refusal_of_body(error) from None


def _sampling(body: CommonBody, defaults: RequestDefaults, max_tokens: int) -> dict[str, Any]:
    """What the body names, else what the defaults name, else what OpenAI's reference says."""
    unnamed = {"temperature": 1.0, "max_tokens": max_tokens, "seed": secrets.randbits(63)}
    named = body.model_dump(include=_SAMPLING, exclude_none=True)
    return unnamed | defaults.sampling.model_dump(include=_SAMPLING, exclude_unset=True) | named


def _asked(
    body: CommonBody,
    endpoint: Literal["chat", "completion"],
    defaults: RequestDefaults,
    params: dict[str, str],
    **fields: Any,
) -> Asked:
    predictions = () if body.prediction is None else (body.prediction.content,)
    structured, params["structured"] = _form(body)
    if predictions and not body.reference_texts:
        params["reference_texts"] = "prediction"
    try:
        request = GenerationRequest(
            **fields,
            structured=structured,
            reference_texts=(*predictions, *body.reference_texts, *defaults.reference_texts),
        )
    except ValidationError as error:
        raise _refusal_of_body(error, params) from None
    return Asked(
        request=request,
        endpoint=endpoint,
        model=body.model,
        stream=body.stream,
        include_usage=body.stream_options.include_usage,
        predicted=bool(predictions),
        params=params,
    )


def _form(body: CommonBody) -> tuple[StructuredOutput | None, str]:
    """The form that the text must have, and the field that asks for it."""
    forms = _forms(body)
    if len(forms) > 1:
        *_, last = forms
        raise Refusal(400, f"{' and '.join(forms)} both say what form the text has: keep one", param=last)
    if not forms:
        return None, "response_format"
    ((param, form),) = forms.items()
    try:
        return StructuredOutput.model_validate(form), param
    except ValidationError as error:
        raise Refusal(400, f"{param}: {_said(error)}", param=param) from None


def _forms(body: CommonBody) -> dict[str, dict[str, Any]]:
    """Each field that asks for a form -> fields of StructuredOutput."""
    forms: dict[str, dict[str, Any]] = {}
    if (format_ := body.response_format) is not None and format_.type != "text":
        if (format_.type == "json_schema") != (format_.json_schema is not None):
            said = 'response_format: the type "json_schema" needs the key json_schema, and no other type has it'
            raise Refusal(400, said, param="response_format")
        schema = None if format_.json_schema is None else format_.json_schema.form
        forms["response_format"] = {"json_object": True} if schema is None else {"json_schema": schema}
    if (structured := body.structured_outputs) is not None:
        forms["structured_outputs"] = {
            "json_schema": structured.form,
            "json_object": structured.json_object,
            "regex": _regex(structured.regex, structured.choice),
        }
    if body.guided_json is not None:
        forms["guided_json"] = {"json_schema": body.guided_json}
    for param, regex in (("guided_regex", body.guided_regex), ("guided_choice", _regex(None, body.guided_choice))):
        if regex is not None:
            forms[param] = {"regex": regex}
    return forms


def _regex(regex: str | None, choice: Sequence[str] | None) -> str | None:
    """The regular expression as it is, or one for exactly the texts of ``choice``.

    >>> _regex(None, ["a.b", "c"])
    '(a\\\\.b|c)'
    """
    if choice is None or regex is not None:
        return regex
    return "(" + "|".join(_SPECIAL.sub(r"\\\g<0>", text) for text in choice) + ")"


def _refusal_of_body(error: ValidationError, params: Mapping[str, str] | None = None) -> Refusal:
    """The first complaint, with the place in the body: ``messages[0].content``."""
    first = error.errors(include_url=False)[0]
    names = [(params or {}).get(str(each), each) for each in first["loc"] if each not in ("sampling", "str")]
    param = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in names if _is_name(each))
    param = param.removeprefix(".") or ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        instead = f": {_INSTEAD[param]}" if param in _INSTEAD else ""
        return Refusal(400, f"{param!r} is not supported here{instead}", param=param, code="unsupported_parameter")
    return Refusal(400, f"{param}: {_said(error)}", param=param or None, code="invalid_value")


def _is_name(part: int | str) -> bool:
    """Pydantic names the branches of a union too, as ``tuple[int, ...]``."""
    return isinstance(part, int) or "[" not in part


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    given = "" if first["type"] == "missing" else f" (given: {str(first['input'])[:60]!r})"
    said = _IN_WORDS_OF_JSON.get(first["type"], first["msg"].removeprefix("Value error, "))
    return said + given
