"""From the task's ``agent:`` key, or from any callable, to an agent."""

from __future__ import annotations

from pathlib import Path

from loopeng.agents.llm import LlmAgent
from loopeng.agents.python import PythonAgent
from loopeng.errors import TaskError, UsageError
from loopeng.ports import Agent
from loopeng.references import import_reference, reference_of
from loopeng.schema.task import AgentSpec

__all__ = ["as_agent", "build_agent"]


def build_agent(spec: AgentSpec, base_dir: Path | None = None) -> LlmAgent | PythonAgent:
    """Make the agent a task names; ``module:function`` is looked for in ``base_dir`` first.

    Raises TaskError where it cannot be imported or called, and for ``command``, which is not built yet.
    """
    if spec.kind == "llm" and spec.python is None and spec.command is None:
        return LlmAgent()
    if spec.python is None:
        raise TaskError("agents of kind 'command' are not built yet", suggestion='use {python: "module:function"}')
    function = import_reference(spec.python, base_dir)
    if not callable(function):
        raise TaskError(f"the agent {spec.python!r} is {type(function).__name__}, not a function")
    return PythonAgent(function, reference=spec.python, replayable=spec.replayable)


def as_agent(value: Agent) -> LlmAgent | PythonAgent:
    """An agent as it is, a bare callable wrapped: replayable where it has a true attribute of that name.

    Raises UsageError for anything else.
    """
    if isinstance(value, LlmAgent | PythonAgent):
        return value
    if not callable(value):
        raise UsageError(f"{value!r} is no agent: give a callable that takes an AgentContext")
    return PythonAgent(value, reference=reference_of(value), replayable=bool(getattr(value, "replayable", False)))
