"""The user's own agent: a Python function of an AgentContext, sync or async."""

from __future__ import annotations

from dataclasses import dataclass

from loopeng.engines.awaiting import finish
from loopeng.errors import EngineError
from loopeng.ports import Agent, AgentContext, AgentResult

__all__ = ["PythonAgent"]


@dataclass(frozen=True)
class PythonAgent:
    """Calls ``function``. ``reference`` is ``module:function``; None for a live object, which only this process has."""

    function: Agent
    reference: str | None = None
    replayable: bool = False

    def __call__(self, context: AgentContext) -> AgentResult:
        """Raises whatever the function raises, and EngineError where it returns neither text nor an AgentResult."""
        result = finish(self.function(context))
        if isinstance(result, str):
            return AgentResult(text=result)
        if isinstance(result, AgentResult):
            return result
        raise EngineError(f"the agent returned {type(result).__name__}; return a string or an AgentResult")
