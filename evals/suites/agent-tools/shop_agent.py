"""The agent: LangChain's ReAct agent on LangGraph, over the engine of the attempt, with two tools.

``loopeng.chat_model(context)`` is all that ties it to the loop: seeds, temperature and reference texts are those of the
attempt, and every call is counted. What the evaluators said of an earlier attempt is in ``context.messages``.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from pathlib import Path

from langchain.agents import create_agent
from langchain.messages import AIMessage, AnyMessage
from langchain.tools import tool
from langgraph.errors import GraphRecursionError

from loopeng import AgentContext, AgentResult, chat_model

CATALOGUE = json.loads((Path(__file__).parent / "catalogue.json").read_text(encoding="utf-8"))
MOST_STEPS = 12  # six calls of the model, and of tools after each

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@tool
def find_product(name: str) -> str:
    """Look up a product in the catalogue: price in euros, weight in grams, number in stock."""
    product = CATALOGUE.get(name.strip().lower())
    if product is None:
        return f"There is no product {name!r}. There are: {', '.join(CATALOGUE)}."
    return json.dumps(product)


@tool
def calculate(expression: str) -> str:
    """Work out an arithmetic expression of numbers, with + - * / and brackets."""
    try:
        return f"{_value(ast.parse(expression.strip(), mode='eval').body):.10g}"
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        return f"{expression!r} cannot be worked out: {error}"


def answer(context: AgentContext) -> AgentResult:
    """One attempt. An agent that goes on calling tools is stopped, and judged by what it did."""
    agent = create_agent(chat_model(context), [find_product, calculate])
    asked = {"messages": [message.model_dump() for message in context.messages]}
    messages: list[AnyMessage] = []
    try:
        for state in agent.stream(asked, {"recursion_limit": MOST_STEPS}, stream_mode="values"):
            messages = state["messages"]
    except GraphRecursionError:
        pass
    last = messages[-1]
    text = str(last.text) if isinstance(last, AIMessage) else ""
    return AgentResult(text=text, trajectory=[message.model_dump() for message in messages])


def _value(node: ast.AST) -> float:
    """Raises ValueError for anything but numbers and the four operations: nothing is evaluated as Python."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError("it may hold numbers, + - * / and brackets alone")
