"""The user's own agent in Python: a function of an AgentContext, sync or async, or a compiled graph of LangGraph."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from inspect import iscoroutine, iscoroutinefunction
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from loopeng.agents.graphs import GraphKeys, is_graph, run_graph
from loopeng.engines.awaiting import call_within, finish
from loopeng.errors import EngineError
from loopeng.ports import AgentContext, AgentResult, AgentSource

__all__ = ["PythonAgent"]


@dataclass(frozen=True)
class PythonAgent:
    """Calls ``function``, or runs it where it is a graph. A function may also return a graph that it made for the
    attempt, with a model on top of ``context.engine`` for example; it is run then.

    ``reference`` is ``module:name``; None for a live object, which only this process has. Beyond ``time_limit_s`` what
    is async is cancelled; a plain function cannot be stopped, but its engine answers it no more.
    """

    function: AgentSource
    reference: str | None = None
    replayable: bool = False
    time_limit_s: float | None = None
    keys: GraphKeys = field(default_factory=GraphKeys)

    def __call__(self, context: AgentContext) -> AgentResult:
        """Raises whatever the function raises, AgentLimitError after ``time_limit_s``, and EngineError where it returns
        neither text nor an AgentResult.
        """
        clock = _Clock(self.time_limit_s)
        result = self.function if is_graph(self.function) else self._call(context, clock)
        if is_graph(result):
            result = finish(run_graph(result, context, self.keys), clock.left_s)
        if isinstance(result, str):
            return AgentResult(text=result)
        if isinstance(result, AgentResult):
            return result
        raise EngineError(f"the agent returned {type(result).__name__}; {_way_out(result)}")

    def _call(self, context: AgentContext, clock: _Clock) -> Any:
        function: Any = self.function
        if clock.limit_s is None or iscoroutinefunction(function):
            return finish(function(context), clock.left_s)
        return finish(call_within(clock.limit_s, function, context), clock.left_s)


class _Clock:
    """What is left of a limit, from now on; None is no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s, self._started = limit_s, time.monotonic()

    @property
    def left_s(self) -> float | None:
        return None if self.limit_s is None else max(self.limit_s - (time.monotonic() - self._started), 0.001)


def _way_out(result: object) -> str:
    if isinstance(result, GeneratorType | AsyncGeneratorType):
        return "it yields; return its text as a whole instead"
    if isinstance(result, Awaitable):
        if iscoroutine(result):
            result.close()  # or Python complains that nobody waited for it
        return "await it inside"
    return "return a string or an AgentResult"
