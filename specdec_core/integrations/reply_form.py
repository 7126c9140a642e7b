"""What a reply may be: free text, JSON of a schema, or a choice between an answer and tool calls.

One design for every model and engine: the reply is JSON that a grammar holds (structured output), and the prompt says
so in a section of its own. Formats that some chat templates know (``<tool_call>`` of Qwen2.5) leave the arguments free,
which small models fill with broken JSON, and cannot be had of an engine that takes nothing but a JSON Schema.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel

from specdec_core.errors import RequestError
from specdec_core.schema_keywords import check_keywords, subschemas
from specdec_core.types import StructuredOutput

__all__ = ["FREE_TEXT", "ReplyForm", "answer_schema", "as_tool", "call_text", "reply_form"]

_MOST_CALLS = 8  # in one reply: a small model may repeat a call for ever

_TOOLS = """\
# Tools

You can call these tools. Each line is a tool: its name, what it does, and the JSON Schema of its arguments.
{tools}

Reply with one JSON object.
{ways}"""
_CALL_WAY = '{"tool_calls": [{"name": <tool name>, "arguments": <arguments>}]} calls tools; their results follow.'
_ANSWER_WAY = '{"final_answer": <text>} answers the user.'
_ANSWER_SCHEMA_WAY = '{{"final_answer": <JSON>}} answers the user, with JSON of this schema: {schema}'
_SCHEMA = "Reply with JSON of this schema: {schema}"


@dataclass(frozen=True)
class ReplyForm:
    """The form of one reply. ``section`` is what the prompt says of it; nothing where the text is free."""

    structured: StructuredOutput | None = None
    section: str = ""
    with_tools: bool = False  # the reply is {"final_answer": ...} or {"tool_calls": ...}
    answer_is_text: bool = True  # else JSON

    def answer(self, text: str) -> str:
        """An earlier answer in this form."""
        if not self.with_tools:
            return text
        return (
            json.dumps({"final_answer": text}, ensure_ascii=False)
            if self.answer_is_text
            else f'{{"final_answer": {text}}}'
        )


FREE_TEXT = ReplyForm()


def call_text(calls: Sequence[tuple[str | None, Any]]) -> str:
    """Calls, each a name and its arguments, as a reply has them.

    >>> call_text([("find", {"what": "mug"})])
    '{"tool_calls": [{"name": "find", "arguments": {"what": "mug"}}]}'
    """
    listed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"tool_calls": listed}, ensure_ascii=False)


def reply_form(
    tools: Sequence[Any] | None = None,
    tool_choice: Any = None,
    response_format: Any = None,
    *,
    parallel_tool_calls: bool | None = None,
) -> ReplyForm:
    """The form for these tools (anything LangChain takes for one) and this format of the answer, both OpenAI's words.

    ``tool_choice`` is ``auto`` (an answer or calls, the default), ``any`` or ``required`` (calls), ``none`` (an
    answer), or the name of the one tool to call, once. Raises RequestError for what cannot be held.
    """
    functions = [as_tool(tool)["function"] for tool in tools or ()]
    names = [function["name"] for function in functions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(f"two tools have the name {twice[0]!r}")
    choice = _read_choice(tool_choice, names)
    answer = answer_schema(response_format)
    if choice == "none" or not functions:
        return FREE_TEXT if answer is None else _schema_form(answer)
    chosen = functions if choice in ("auto", "any") else [each for each in functions if each["name"] == choice]
    most = 1 if parallel_tool_calls is False or choice not in ("auto", "any") else _MOST_CALLS
    ways = [_calls_schema(chosen, most)]
    told = [_CALL_WAY]
    if choice == "auto":
        ways.append(_object(final_answer={"type": "string"} if answer is None else _without_references(answer)))
        told.append(_ANSWER_WAY if answer is None else _ANSWER_SCHEMA_WAY.format(schema=_shown(answer)))
    lines = "\n".join(map(_shown, chosen))
    return ReplyForm(
        StructuredOutput(json_schema=ways[0] if len(ways) == 1 else {"anyOf": ways}),
        _TOOLS.format(tools=lines, ways="\n".join(told)),
        with_tools=True,
        answer_is_text=answer is None,
    )


def as_tool(tool: Any) -> dict[str, Any]:
    """A tool as OpenAI writes it, its parameters without references and closed. Raises RequestError for another."""
    try:
        converted = convert_to_openai_tool(tool)
    except ValueError as error:
        raise RequestError(f"{tool!r} is no tool: {error}") from error
    function = converted.get("function")
    if converted.get("type") != "function" or not isinstance(function, Mapping) or not function.get("name"):
        raise RequestError(f"the tool {tool!r} is no function: this model can call functions alone")
    parameters = {"type": "object", "properties": {}} | dict(function.get("parameters") or {})
    try:
        closed = _closed(_without_references(parameters))
        check_keywords(closed)
    except (KeyError, ValueError) as error:
        raise RequestError(f"the parameters of the tool {function['name']!r} cannot be held: {error}") from None
    return {
        "type": "function",
        "function": {
            "name": function["name"],
            "description": function.get("description") or "",
            "parameters": closed,
        },
    }


def answer_schema(response_format: Any) -> dict[str, Any] | None:
    """The schema of the answer: of a pydantic or TypedDict class, a JSON Schema, or ``{"type": "json_schema", ...}``.

    None where the answer is free text. Raises RequestError for anything else.
    """
    if response_format is None:
        return None
    if isinstance(response_format, type) and issubclass(response_format, BaseModel):
        return _closed(response_format.model_json_schema())
    if not isinstance(response_format, Mapping):
        return _closed(_as_schema(response_format))
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema" and "json_schema" in response_format:
        schema = response_format["json_schema"].get("schema")
        if not isinstance(schema, Mapping):
            raise RequestError(f"response_format.json_schema.schema is {schema!r}, not a JSON Schema")
        return _closed(schema)
    is_function = "name" in response_format and "parameters" in response_format
    return _closed(_as_schema(response_format) if is_function else response_format)


def _as_schema(described: Any) -> dict[str, Any]:
    try:
        return convert_to_json_schema(described)
    except ValueError as error:
        raise RequestError(f"{described!r} describes no answer: {error}") from error


def _read_choice(choice: Any, names: Sequence[str]) -> str:
    """``auto``, ``any``, ``none`` or a name."""
    if isinstance(choice, Mapping):
        choice = choice.get("function", choice).get("name", choice.get("type"))
    known = {None: "auto", "auto": "auto", "any": "any", "required": "any", True: "any", "none": "none", False: "none"}
    if isinstance(choice, str | bool | None) and choice in known:
        return known[choice]
    if choice not in names:
        wanted = "auto, any, none" + "".join(f", {name}" for name in names)
        raise RequestError(f"tool_choice must be one of {wanted}, not {choice!r}")
    return str(choice)


def _schema_form(answer: dict[str, Any]) -> ReplyForm:
    section = _SCHEMA.format(schema=_shown(answer))
    return ReplyForm(StructuredOutput(json_schema=answer), section, answer_is_text=False)


def _shown(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False)


def _calls_schema(functions: Sequence[Mapping[str, Any]], most: int) -> dict[str, Any]:
    calls = [_object(name={"const": each["name"]}, arguments=each["parameters"]) for each in functions]
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return _object(tool_calls={"type": "array", "items": items, "minItems": 1, "maxItems": most})


def _object(**properties: Any) -> dict[str, Any]:
    """Exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Objects with named properties have no others, unless they say so: small models go on inventing some.

    >>> _closed({"type": "object", "properties": {}})
    {'type': 'object', 'properties': {}, 'additionalProperties': False}
    """
    closed = copy.deepcopy(dict(schema))
    for path, part in list(subschemas(closed)):
        if "properties" in part and ".allOf[" not in path and isinstance(part, dict):  # parts of allOf add up
            part.setdefault("additionalProperties", False)
    return closed


def _without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Definitions where they are used: a tool's schema becomes part of another one. What refers to itself is open."""
    if "$ref" not in json.dumps(schema):
        return schema
    whole = dereference_refs(schema, skip_keys=[])
    return {key: value for key, value in whole.items() if key not in ("$defs", "definitions")}
