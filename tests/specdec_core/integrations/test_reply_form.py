"""The schema of a reply for each choice of tools, what the prompt says of it, and what is refused."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from langchain_core.tools import tool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from specdec_core.errors import RequestError
from specdec_core.integrations.reply_form import FREE_TEXT, answer_schema, as_tool, call_text, reply_form


@tool
def find(name: str, limit: int = 3) -> str:
    """Find a product."""
    return name * limit


class Reckon(BaseModel):
    """Work a sum out."""

    expression: str = Field(description="of numbers")


PING = {"type": "function", "function": {"name": "ping"}}


def fits(form: Any, reply: dict) -> bool:
    return Draft202012Validator(form.structured.json_schema).is_valid(reply)


def calls(*names: str) -> dict:
    arguments = {"find": {"name": "mug"}, "Reckon": {"expression": "1"}, "ping": {}}
    return json.loads(call_text([(name, arguments[name]) for name in names]))


ANSWER = {"final_answer": "x"}


@pytest.mark.parametrize(
    ("choice", "right", "wrong"),
    [
        (None, [ANSWER, calls("find"), calls("ping", "Reckon")], []),
        ("auto", [ANSWER, calls("find"), calls("ping", "Reckon")], []),
        ("any", [calls("find"), calls("ping", "Reckon")], [ANSWER]),
        ("required", [calls("find")], [ANSWER]),
        (True, [calls("find")], [ANSWER]),
        ("find", [calls("find")], [ANSWER, calls("ping"), calls("find", "find")]),
        ({"type": "function", "function": {"name": "find"}}, [calls("find")], [ANSWER, calls("ping")]),
        ({"type": "tool", "name": "find"}, [calls("find")], [ANSWER, calls("ping")]),
        ({"type": "any"}, [calls("find")], [ANSWER]),
    ],
    ids=str,
)
def test_each_choice_of_tools_has_its_schema(choice: Any, right: list, wrong: list) -> None:
    form = reply_form([find, Reckon, PING], choice)
    assert form.with_tools and form.answer_is_text
    assert all(fits(form, reply) for reply in right)
    never = [{}, {"tool_calls": []}, calls("find") | ANSWER, {"final_answer": 3}, calls(*["ping"] * 9)]
    never += [{"tool_calls": [{"name": "find", "arguments": arguments}]} for arguments in ({}, {"name": 1})]
    never += [{"tool_calls": [{"name": "find", "arguments": {"name": "x", "invented": 1}}]}]
    assert not any(fits(form, reply) for reply in [*wrong, *never])


@pytest.mark.parametrize("choice", ["none", False, {"type": "none"}])
def test_without_a_choice_the_text_is_free(choice: Any) -> None:
    assert reply_form([find], choice) == reply_form([]) == reply_form() == FREE_TEXT


def test_one_call_at_a_time() -> None:
    form = reply_form([find, PING], parallel_tool_calls=False)
    assert fits(form, calls("find")) and not fits(form, calls("find", "ping"))


def test_the_prompt_names_the_tools_that_may_be_called_and_the_ways_to_reply() -> None:
    auto, one = reply_form([find, Reckon]).section, reply_form([find, Reckon], "Reckon").section
    assert json.dumps(as_tool(find)["function"]) in auto.splitlines()
    assert '"description": "Work a sum out."' in auto and '{"final_answer": <text>}' in auto
    assert "find" not in one and "final_answer" not in one and '{"tool_calls": [' in one


def test_an_answer_may_have_a_schema_of_its_own_beside_the_tools() -> None:
    class Verdict(BaseModel):
        good: bool

    wanted = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": Verdict.model_json_schema()}}
    form = reply_form([PING], response_format=wanted)
    assert fits(form, {"final_answer": {"good": True}}) and fits(form, calls("ping"))
    assert not fits(form, ANSWER) and not fits(form, {"final_answer": {"good": True, "more": 1}})
    assert form.answer('{"good": true}') == '{"final_answer": {"good": true}}'
    alone = reply_form(response_format=wanted)
    assert fits(alone, {"good": True}) and not alone.with_tools and '"good"' in alone.section


def test_earlier_answers_are_shown_in_the_form() -> None:
    assert FREE_TEXT.answer("ü\n") == "ü\n"
    assert reply_form([PING]).answer('"ü"\n') == '{"final_answer": "\\"ü\\"\\n"}'


class Size(BaseModel):
    width: int


class Node(BaseModel):
    """A part."""

    name: Literal["a", "b"]
    size: Size
    children: list[Node] = []


class Reply(TypedDict):
    """What to say."""

    text: str


@pytest.mark.parametrize(
    ("format_", "right", "wrong"),
    [
        (Size, {"width": 3}, {"width": 3, "height": 4}),
        (Reply, {"text": "x"}, {"text": "x", "more": 1}),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"a": 1}, {}),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"a": 1, "b": 2}, None),
        ({"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}, {"a": 1}, {"b": 1}),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, {"a": 1, "b": 2}, None),
        ({"properties": {"properties": {"type": "integer"}}}, {"properties": 3}, {"properties": "x"}),
        ({"type": "json_object"}, {"any": ["thing"]}, []),
    ],
    ids=str,
)
def test_schemas_come_from_classes_and_dicts_and_name_all_there_is(format_: Any, right: Any, wrong: Any) -> None:
    schema = answer_schema(format_)
    assert schema is not None
    assert Draft202012Validator(schema).is_valid(right)
    assert wrong is None or not Draft202012Validator(schema).is_valid(wrong)


def test_text_is_no_schema() -> None:
    assert answer_schema(None) is None and answer_schema({"type": "text"}) is None


def test_nested_classes_are_held_in_tools_too() -> None:
    for form in (reply_form([Node]), reply_form([PING], response_format=Node)):
        schema = json.dumps(form.structured.json_schema if form.structured else {})
        assert "$ref" not in schema
    form = reply_form([Node], "any")
    assert fits(form, {"tool_calls": [{"name": "Node", "arguments": {"name": "a", "size": {"width": 1}}}]})
    assert not fits(form, {"tool_calls": [{"name": "Node", "arguments": {"name": "a", "size": {"width": "x"}}}]})
    raw = {"name": "raw", "parameters": {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "null"}}}}
    arguments = as_tool(raw)["function"]["parameters"]
    assert arguments["properties"] == {"a": {"type": "null"}} and "$defs" not in arguments


def test_a_schema_given_by_the_user_is_not_written_into() -> None:
    raw = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    before = json.dumps(raw)
    answer_schema(raw)
    reply_form([{"name": "f", "parameters": raw}])
    assert json.dumps(raw) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([find, find],), "two tools have the name 'find'"),
        (([find], "fund"), "tool_choice must be one of auto, any, none, find, not 'fund'"),
        (([], "find"), "tool_choice must be one of auto, any, none, not 'find'"),
        (([{"type": "web_search"}],), "is no function: this model can call functions alone"),
        (([{"type": "function"}],), "is no function"),
        (([3],), "3 is no tool"),
        (([{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}],), r"tool 'f' cannot be held.*\$\.prop.*a"),
        (([{"name": "f", "parameters": {"properties": {"a": {"$ref": "#/$defs/A"}}}}],), "tool 'f' cannot be held"),
        ((None, None, {"type": "json_schema", "json_schema": {"name": "x"}}), "not a JSON Schema"),
        ((None, None, 3), "3 describes no answer"),
    ],
)
def test_what_cannot_be_held_is_refused_with_its_place(arguments: tuple, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        reply_form(*arguments)
