"""Messages of every kind become turns of text; what is no text is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from specdec_core.errors import RequestError
from specdec_core.integrations.chat_turns import chat_turns
from specdec_core.integrations.reply_form import FREE_TEXT, reply_form

TOOLS = reply_form([{"name": "find", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}])
CALL = AIMessage("", tool_calls=[{"name": "find", "args": {"name": "Tüte"}, "id": "1"}])
CALL_TEXT = '{"tool_calls": [{"name": "find", "arguments": {"name": "Tüte"}}]}'


def turns(*messages: BaseMessage, form: Any = FREE_TEXT) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"]) for turn in chat_turns(messages, form)]


def test_texts_stand_as_they_are() -> None:
    told = [SystemMessage("s"), HumanMessage("h", name="ana"), AIMessage("a"), AIMessageChunk("b"), HumanMessage("")]
    expected = [("system", "s"), ("user", "h"), ("assistant", "a"), ("assistant", "b"), ("user", "")]
    assert turns(*told) == expected
    assert turns(ChatMessage("x", role="user"), ChatMessage("y", role="system")) == [("user", "x"), ("system", "y")]


def test_parts_of_text_are_joined() -> None:
    parts: list[str | dict] = ["one ", {"type": "text", "text": "two"}, " three"]
    assert turns(HumanMessage(parts), SystemMessage(parts)) == [("user", "one two three"), ("system", "one two three")]
    thought = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "yes"},
        {"type": "tool_use", "id": "1"},
    ]
    assert turns(AIMessage(thought)) == [("assistant", "yes")]


def test_calls_and_results() -> None:
    results = [ToolMessage("12", tool_call_id="1"), ToolMessage("no", tool_call_id="2", name="g", status="error")]
    assert turns(HumanMessage("?"), CALL, *results, HumanMessage("go on")) == [
        ("user", "?"),
        ("assistant", CALL_TEXT),
        ("user", "Result of find: 12\n\nError of g: no"),
        ("user", "go on"),
    ]
    assert turns(ToolMessage("x", tool_call_id="?"))[0] == ("user", "Result: x")
    assert turns(FunctionMessage("x", name="f"))[0] == ("user", "Result of f: x")


def test_the_form_is_told_at_the_end_of_the_system_message_and_kept_by_earlier_answers() -> None:
    told = turns(SystemMessage("Be kind."), HumanMessage("?"), AIMessage("yes"), CALL, form=TOOLS)
    assert told[0] == ("system", f"Be kind.\n\n{TOOLS.section}")
    assert told[2:] == [("assistant", '{"final_answer": "yes"}'), ("assistant", CALL_TEXT)]
    assert turns(HumanMessage("?"), form=TOOLS) == [("system", TOOLS.section), ("user", "?")]


def test_a_text_beside_calls_and_a_broken_call_are_not_lost() -> None:
    told = turns(AIMessage("Let me see.", tool_calls=CALL.tool_calls))
    assert told == [("assistant", f"Let me see.\n{CALL_TEXT}")]
    broken: Any = [{"name": "find", "args": '{"na', "id": "1", "error": "cut"}]
    told = turns(AIMessage("", invalid_tool_calls=broken), ToolMessage("bad", tool_call_id="1", status="error"))
    assert told[0] == ("assistant", '{"tool_calls": [{"name": "find", "arguments": "{\\"na"}]}')
    assert told[1] == ("user", "Error of find: bad")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}]),
            r"message 2 \(human\).*'image_url'.*text alone",
        ),
        (HumanMessage([{"type": "image", "url": "x"}]), "type 'image'"),
        (ToolMessage([{"type": "image", "url": "x"}], tool_call_id="1"), r"message 2 \(tool\)"),
        (AIMessage([{"type": "image", "url": "x"}]), r"message 2 \(ai\)"),
        (HumanMessage([{"type": "text"}]), "type 'text'"),
        (ChatMessage("x", role="critic"), "message 2 has the role 'critic'; known are system, user, assistant"),
        (RemoveMessage(id="1"), "message 2 has the role 'remove'"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(message: BaseMessage, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        turns(HumanMessage("first"), message)
