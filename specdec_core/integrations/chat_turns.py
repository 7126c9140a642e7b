"""From LangChain's messages to the turns of a conversation: a role and a text each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from specdec_core.errors import RequestError
from specdec_core.integrations.reply_form import ReplyForm, call_text

__all__ = ["chat_turns"]

_ROLES = ("system", "user", "assistant")
# What an AI message may repeat of its tool calls, and thoughts, which are not told again.
_UNSAID = ("tool_call", "tool_call_chunk", "tool_use", "invalid_tool_call", "function_call", "reasoning", "thinking")


def chat_turns(messages: Sequence[BaseMessage], form: ReplyForm) -> tuple[dict[str, str], ...]:
    """The conversation, with what the form says of itself at the end of the first system message.

    Earlier answers and calls stand as the model writes them in this form; results of tools are what a user says, for
    few chat templates know a role for them. Raises RequestError for what is no text, and where it stands.
    """
    turns: list[dict[str, str]] = []
    tools: dict[str | None, str | None] = {}  # id of a call -> name
    for number, message in enumerate(messages, 1):
        text = _text_of(message, f"message {number} ({message.type})")
        if isinstance(message, AIMessage):
            tools |= {call["id"]: call["name"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
            turns.append({"role": "assistant", "content": _said(message, text, form)})
        elif isinstance(message, ToolMessage | FunctionMessage):
            name = message.name or tools.get(getattr(message, "tool_call_id", None))
            result = _result(name, text, failed=getattr(message, "status", "success") == "error")
            if number > 1 and isinstance(messages[number - 2], ToolMessage | FunctionMessage):
                turns[-1]["content"] += f"\n\n{result}"
            else:
                turns.append({"role": "user", "content": result})
        else:
            turns.append({"role": _role_of(message, number), "content": text})
    if form.section and turns and turns[0]["role"] == "system":
        turns[0]["content"] += f"\n\n{form.section}"
    elif form.section:
        turns.insert(0, {"role": "system", "content": form.section})
    return tuple(turns)


def _role_of(message: BaseMessage, number: int) -> str:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, ChatMessage) and message.role in _ROLES:
        return message.role
    role = message.role if isinstance(message, ChatMessage) else message.type
    raise RequestError(f"message {number} has the role {role!r}; known are {', '.join(_ROLES)}")


def _said(message: AIMessage, text: str, form: ReplyForm) -> str:
    calls: list[tuple[str | None, Any]] = [(call["name"], call["args"]) for call in message.tool_calls]
    calls += [(call["name"], call["args"] or "") for call in message.invalid_tool_calls]
    if not calls:
        return form.answer(text)
    return f"{text}\n{call_text(calls)}" if text else call_text(calls)


def _result(name: str | None, text: str, *, failed: bool) -> str:
    return f"{'Error' if failed else 'Result'}{f' of {name}' if name else ''}: {text}"


def _text_of(message: BaseMessage, place: str) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = []
    for part in message.content:
        kind = "text" if isinstance(part, str) else part.get("type")
        if isinstance(message, AIMessage) and kind in _UNSAID:
            continue
        text = part if isinstance(part, str) else part.get("text")
        if kind != "text" or not isinstance(text, str):
            raise RequestError(f"{place} holds a part of type {kind!r}: this model reads text alone")
        texts.append(text)
    return "".join(texts)
