"""A LangGraph ReAct agent as agent: ``loopeng.chat_model(context)`` is its model.

loopeng run evals/examples/own-agent/graph.yaml   # needs: pip install 'loopeng[langchain,structured]' langchain
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse, wrap_model_call
from langchain.tools import tool
from langgraph.graph.state import CompiledStateGraph

from loopeng import AgentContext, chat_model

PRICES = json.loads((Path(__file__).parent / "prices.json").read_text(encoding="utf-8"))


@tool
def price(product: Literal["teapot", "mug", "candle"]) -> str:
    """Look up what a product costs."""
    return f"One {product} costs {PRICES[product]} euros."


@wrap_model_call
async def look_once(request: ModelRequest, answer: Callable[[ModelRequest], Awaitable[ModelResponse]]) -> Any:
    """Small models would go on calling tools: who has a result answers in words."""
    has_result = any(message.type == "tool" for message in request.messages)
    return await answer(request.override(tools=[]) if has_result else request)


def react(context: AgentContext) -> CompiledStateGraph:
    """Leaves the looking up to the model. The loop runs the graph; its calls of tools are the attempt's trajectory."""
    return create_agent(chat_model(context), [price], middleware=[look_once])
