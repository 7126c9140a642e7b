"""Contexts of an attempt, for agents without a loop around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopeng.engines import MeteredEngine
from loopeng.engines.scripted import ScriptedEngine
from loopeng.ports import AgentContext, TextEngine, TextRequest
from loopeng.schema import Message


def shout(request: TextRequest) -> str:
    return request.messages[-1].content + "!"


def make_context(
    replies: Callable[[TextRequest], str] | None = None, *, engine: TextEngine | None = None, **changes: Any
) -> AgentContext:
    messages = changes.setdefault("messages", (Message(role="user", content=changes.get("instructions", "hi")),))
    values = {"instructions": "hi", "input": {}, "seed": 7} | changes
    request = TextRequest(messages=messages, seed=values["seed"], reference_texts=("an earlier answer",))
    return AgentContext(engine=MeteredEngine(engine or ScriptedEngine(replies or shout), request), **values)
