"""Compiled graphs of LangGraph as agents: the only file of agents that touches LangGraph, and not before it has one.

What goes in: the state's key ``messages`` gets the conversation, fields of the sample go to the keys of their names,
and a key named by ``input`` gets the prompt as text. What comes out: the last message of the model, or the key named by
``output``. The AgentContext is the runtime's context (``runtime.context``) where the graph declares no other type, and
``config["configurable"]["agent_context"]`` in any case.

A graph's own checkpointer is not used: every attempt starts from its input, and nothing of it stays behind.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from loopeng.errors import AgentInterruptedError, EngineError
from loopeng.ports import AgentContext, AgentResult
from loopeng.schema import Usage
from loopeng.validation import did_you_mean

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langgraph.pregel import Pregel

__all__ = ["GraphKeys", "is_graph", "problem_of_keys", "run_graph"]

_MESSAGES, _INTERRUPT = "messages", "__interrupt__"
_NOBODY = "to ask a person; in the loop nobody can answer it"


@dataclass(frozen=True)
class GraphKeys:
    """Keys of a graph's state, where the prompt goes in and the answer comes out; None for the usual ones."""

    input: str | None = None
    output: str | None = None


def is_graph(value: object) -> TypeGuard[Pregel[Any, Any, Any, Any]]:
    """Whether it is a compiled graph. Imports nothing: whoever has one has imported LangGraph."""
    module = sys.modules.get("langgraph.pregel")
    return module is not None and isinstance(value, module.Pregel)


def problem_of_keys(graph: Pregel[Any, Any, Any, Any], keys: GraphKeys) -> tuple[str, str | None] | None:
    """What is wrong with the keys named for a graph, and a way out; None where nothing is."""
    for name, key, known in (("input", keys.input, _input_keys(graph)), ("output", keys.output, _output_keys(graph))):
        if key is not None and known is not None and key not in known:
            hint = did_you_mean(key, known) or f"there is: {', '.join(sorted(known))}"
            return f"{name}: the graph's state has no key {key!r}", hint
    return None


async def run_graph(graph: Pregel[Any, Any, Any, Any], context: AgentContext, keys: GraphKeys) -> AgentResult:
    """Run the graph on an attempt. Raises whatever its nodes raise, and EngineError where it gives no answer."""
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise AgentInterruptedError(f"the graph is compiled to stop at its nodes, {_NOBODY}")
    alone = graph.copy({"checkpointer": False})
    configurable = {"thread_id": str(uuid.uuid4()), "agent_context": context}
    ours = graph.context_schema in (None, AgentContext)  # a type of its own is made with its defaults
    given = _given(context)
    entering = _entering(graph, context, keys, given)
    state = await alone.ainvoke(entering, {"configurable": configurable}, context=context if ours else {})
    if isinstance(state, Mapping) and state.get(_INTERRUPT):
        raise AgentInterruptedError(f"the graph stopped at an interrupt, {_NOBODY}")
    messages = _new_messages(state, given)
    return AgentResult(
        text=_answer(state, messages, keys.output),
        trajectory=None if messages is None else _trajectory(messages),
        usage=_usage(messages or ()),
    )


def _input_keys(graph: Pregel[Any, Any, Any, Any]) -> frozenset[str] | None:
    """The keys of the state that the graph takes; None where it takes one value, as the functional API does."""
    return _keys_of(graph, "input_schema")


def _output_keys(graph: Pregel[Any, Any, Any, Any]) -> frozenset[str] | None:
    return _keys_of(graph, "output_schema")


def _keys_of(graph: Pregel[Any, Any, Any, Any], schema: str) -> frozenset[str] | None:
    builder = getattr(graph, "builder", None)
    if builder is None:
        return None
    keys = frozenset(builder.schemas[getattr(builder, schema)])
    return None if "__root__" in keys else keys


def _given(context: AgentContext) -> list[BaseMessage]:
    """The conversation as messages, with ids by which they are known when they come back."""
    from langchain_core.messages import convert_to_messages

    messages = convert_to_messages([message.model_dump() for message in context.messages])
    return [message.model_copy(update={"id": str(uuid.uuid4())}) for message in messages]


def _entering(
    graph: Pregel[Any, Any, Any, Any], context: AgentContext, keys: GraphKeys, given: list[BaseMessage]
) -> dict[str, Any]:
    values = dict(context.input)
    if keys.input is None:
        values[_MESSAGES] = given
    else:
        values[keys.input] = "\n\n".join(message.content for message in context.messages)
    taken = _input_keys(graph)
    entering = values if taken is None else {key: value for key, value in values.items() if key in taken}
    if not entering:
        raise EngineError(
            f"the graph's state takes {', '.join(sorted(taken or ()))}; there is no 'messages' and no field of the "
            "sample among them: name the key that gets the prompt, as in agent: {input: KEY}"
        )
    return entering


def _new_messages(state: Any, given: Sequence[BaseMessage]) -> list[BaseMessage] | None:
    """The messages that the graph added; None where its result has no messages."""
    from langchain_core.messages import convert_to_messages

    found = state.get(_MESSAGES) if isinstance(state, Mapping) else state
    if found is None or isinstance(found, str):
        return None
    try:
        messages = convert_to_messages(found if isinstance(found, list | tuple) else [found])
    except (ValueError, TypeError, NotImplementedError):  # what langchain says to values that are no messages
        return None
    known = {message.id for message in given}
    return [message for message in messages if message.id not in known]


def _answer(state: Any, messages: Sequence[BaseMessage] | None, key: str | None) -> str:
    from langchain_core.messages import AIMessage

    there = ", ".join(state) if isinstance(state, Mapping) else type(state).__name__
    if key is not None:
        if not isinstance(state, Mapping) or key not in state:
            raise EngineError(f"the graph's result has no key {key!r}; there is: {there}")
        return _text(state[key])
    if isinstance(state, str):
        return state
    for message in reversed(messages or ()):
        if isinstance(message, AIMessage):
            return str(message.text)
    raise EngineError(
        f"the graph's result has no new message of the model; there is: {there}. "
        "Name the key that holds the answer, as in agent: {output: KEY}"
    )


def _text(value: Any) -> str:
    """Text as it is, a message's text, anything else as JSON."""
    from langchain_core.messages import BaseMessage

    if isinstance(value, str):
        return value
    if isinstance(value, BaseMessage):
        return str(value.text)
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json")


def _trajectory(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The calls of tools in order, each with what it returned, as the evaluator ``tool_calls`` reads them."""
    from langchain_core.messages import AIMessage, ToolMessage

    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    steps: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, AIMessage):
            steps += [_step(call["name"], call["args"], results.get(call["id"] or "")) for call in message.tool_calls]
            steps += [_step(call["name"] or "?", call["args"], None) for call in message.invalid_tool_calls]
    return steps


def _step(name: str, args: Any, result: Any) -> dict[str, Any]:
    step = {"name": name, "args": args}
    if result is not None:
        step["content"] = str(result.text)
        if result.status == "error":
            step["status"] = "error"
    return step


def _usage(messages: Sequence[BaseMessage]) -> Usage:
    """What the models say they spent; calls of the context's engine are counted there as well, and count once."""
    spent = [getattr(message, "usage_metadata", None) or {} for message in messages]
    return Usage(
        prompt_tokens=sum(each.get("input_tokens", 0) for each in spent),
        generated_tokens=sum(each.get("output_tokens", 0) for each in spent),
    )
