"""The ATTEMPT graph, in LangGraph::

    load -> generate -> evaluate -> decide --pass or limit--> record -> END
                ^                      | fail
                +------- retry <-------+

Rows under natural keys are the state, so there is no checkpointer; engine and store come by the runtime context.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from typing import Protocol

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from loopeng.attempt import nodes
from loopeng.attempt.contexts import Contexts, GivenContext, LiveContexts
from loopeng.attempt.harness import Harness
from loopeng.attempt.state import AttemptContext, AttemptInput, AttemptOutcome, AttemptState

__all__ = ["AttemptGraph", "attempt_graph", "live_graph"]

AttemptGraph = CompiledStateGraph[AttemptState, AttemptContext, AttemptInput, AttemptOutcome]
_Step = Callable[[AttemptState, AttemptContext], AttemptState]


class _Node(Protocol):
    def __call__(self, state: AttemptState, *, runtime: Runtime[AttemptContext]) -> AttemptState: ...


@cache
def attempt_graph() -> AttemptGraph:
    """The graph of a run, compiled once: ``invoke({"sample_id": ...}, context=AttemptContext(...))``, or ``ainvoke``.

    One context serves all samples of a run. Raises UsageError where it is missing, BudgetStop at a limit.
    """
    return _compile(GivenContext())


def live_graph(harness: Harness) -> AttemptGraph:
    """The same graph with its context built in, for applications: ``invoke({"inputs": {...}})`` gives text and verdict.

    A node of another graph that shares these keys, whatever that graph's own context is. Every call is a run of kind
    live under the prompt's head.
    """
    return _compile(LiveContexts(harness))


def _compile(contexts: Contexts) -> AttemptGraph:
    graph = StateGraph(
        AttemptState, context_schema=AttemptContext, input_schema=AttemptInput, output_schema=AttemptOutcome
    )
    graph.add_node("load", _opening(contexts))
    graph.add_node("generate", _step(_apart(nodes.generate), contexts))
    graph.add_node("evaluate", _step(_apart(nodes.evaluate), contexts))
    graph.add_node("decide", _step(nodes.decide, contexts))
    graph.add_node("retry", _step(nodes.retry, contexts))
    graph.add_node("record", _closing(contexts))
    graph.add_edge(START, "load")
    graph.add_conditional_edges("load", _next_step, ["generate", "decide"])
    graph.add_edge("generate", "evaluate")
    graph.add_edge("evaluate", "decide")
    graph.add_conditional_edges("decide", _next_step, ["retry", "record"])
    graph.add_edge("retry", "generate")
    graph.add_edge("record", END)
    return graph.compile(checkpointer=False, name="attempt")


def _next_step(state: AttemptState) -> str:
    return state["next_step"]


def _step(step: _Step, contexts: Contexts) -> _Node:
    def node(state: AttemptState, *, runtime: Runtime[AttemptContext]) -> AttemptState:
        with contexts.at(state, runtime.context) as context:
            return step(state, context)

    return node


def _apart(step: _Step) -> _Step:
    """Graphs that agents and evaluators run are no part of this one: its step limit and checkpoints are not theirs.

    Callbacks are: who traces the program around sees them.
    """

    def run(state: AttemptState, context: AttemptContext) -> AttemptState:
        around = var_child_runnable_config.get() or {}
        seen = RunnableConfig(callbacks=around.get("callbacks"), tags=around.get("tags") or [])
        surroundings = copy_context()
        surroundings.run(var_child_runnable_config.set, seen)
        return surroundings.run(step, state, context)

    return run


def _opening(contexts: Contexts) -> _Node:
    def load(state: AttemptState, *, runtime: Runtime[AttemptContext]) -> AttemptState:
        opened = contexts.begin(state, runtime.context)
        state = {**state, **opened}
        with contexts.at(state, runtime.context) as context:
            return {**opened, **nodes.load(state, context)}

    return load


def _closing(contexts: Contexts) -> _Node:
    def record(state: AttemptState, *, runtime: Runtime[AttemptContext]) -> AttemptState:
        with contexts.at(state, runtime.context) as context:
            outcome = nodes.record(state, context)
        contexts.end(state)
        return outcome

    return record
