"""A small ReAct agent in LangGraph, whose model is the engine of the attempt. Tests copy it beside their task files."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime

from loopeng import AgentContext
from loopeng.schema import Message

ROLES = {"human": "user", "ai": "assistant", "tool": "user"}


@tool
def price(product: str) -> str:
    """Look up what a product costs."""
    return {"mug": "4", "lamp": "30"}[product]


async def model(state: MessagesState, runtime: Runtime[AgentContext]) -> dict[str, Any]:
    reply = await runtime.context.engine.agenerate([turn(message) for message in state["messages"]])
    name, _, arguments = reply.text.removeprefix("CALL ").partition(" ")
    if not reply.text.startswith("CALL "):
        return {"messages": [AIMessage(reply.text)]}
    call = {"name": name, "args": json.loads(arguments), "id": f"call-{len(state['messages'])}"}
    return {"messages": [AIMessage(reply.text, tool_calls=[call])]}


def turn(message: AnyMessage) -> Message:
    said = str(message.text)
    return Message(role=ROLES[message.type], content=f"tool says: {said}" if message.type == "tool" else said)  # type: ignore[arg-type]


builder = StateGraph(MessagesState, context_schema=AgentContext)
builder.add_node("model", model)
builder.add_node("tools", ToolNode([price]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
graph = builder.compile()
