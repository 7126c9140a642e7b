"""From the task's ``agent:`` key, or from any callable or graph, to an agent."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from loopeng.agents.command import CommandAgent, check_program
from loopeng.agents.graphs import GraphKeys, is_graph, problem_of_keys
from loopeng.agents.llm import LlmAgent
from loopeng.agents.programs import ProgramLimits
from loopeng.agents.python import PythonAgent
from loopeng.errors import TaskError, UsageError
from loopeng.ports import AgentSource
from loopeng.references import import_reference, reference_of
from loopeng.schema.task import COMMAND_TIME_LIMIT_S, AgentSpec

__all__ = ["as_agent", "build_agent", "check_agent", "section_of"]

_WANTED = "not a function or a compiled graph"


def build_agent(spec: AgentSpec, base_dir: Path | None = None) -> LlmAgent | PythonAgent | CommandAgent:
    """Make the agent a task names; modules and programs are looked for in ``base_dir`` first.

    A function without parameters makes the agent: it is called, here. Raises TaskError where the agent cannot be found
    or made.
    """
    check_agent(spec, base_dir)
    if spec.command is not None:
        return CommandAgent(
            spec.command,
            folder=base_dir or Path.cwd(),
            limits=ProgramLimits(spec.time_limit_s or COMMAND_TIME_LIMIT_S, spec.max_output_bytes),
            env=spec.env,
            replayable=spec.replayable,
        )
    if spec.python is None:
        return LlmAgent()
    found = import_reference(spec.python, base_dir)
    if _makes_agent(found):
        found = _made_by(found, spec.python)
    keys = GraphKeys(spec.input, spec.output)
    if is_graph(found) and (problem := problem_of_keys(found, keys)) is not None:
        raise TaskError(f"agent {spec.python!r}: {problem[0]}", suggestion=problem[1])
    return PythonAgent(found, spec.python, spec.replayable, spec.time_limit_s, keys)


def check_agent(spec: AgentSpec, base_dir: Path | None = None) -> None:
    """See whether the agent is there, without making it. Raises TaskError."""
    if spec.command is not None:
        check_program(spec.command, base_dir or Path.cwd())
    elif spec.python is not None:
        found = import_reference(spec.python, base_dir)
        if not callable(found) and not is_graph(found):
            raise TaskError(
                f"{spec.python!r} is {_kind(found)}, not a function or a compiled graph", suggestion=_way_out(found)
            )
        if inspect.isclass(found):
            raise TaskError(f"{spec.python!r} is a class", suggestion="name an object of it, or a function")


def as_agent(value: AgentSource) -> LlmAgent | PythonAgent | CommandAgent:
    """An agent as it is; a callable or compiled graph wrapped: replayable where it has a true attribute of that name.

    Raises UsageError for anything else.
    """
    if isinstance(value, LlmAgent | PythonAgent | CommandAgent):
        return value
    if is_graph(value):
        return PythonAgent(value, replayable=bool(getattr(value, "replayable", False)))
    if not callable(value) or inspect.isclass(value):
        hint = _way_out(value) or "give a callable that takes an AgentContext, or a compiled graph"
        raise UsageError(f"{value!r} is no agent: {hint}")
    return PythonAgent(value, reference=reference_of(value), replayable=bool(getattr(value, "replayable", False)))


def section_of(agent: LlmAgent | PythonAgent | CommandAgent) -> AgentSpec:
    """The ``agent:`` that makes it in another process, a command in the folder that is current there.

    Of a live object, which nothing can make, it is ``llm``: what runs say of their agent tells that it was another.
    """
    if isinstance(agent, CommandAgent):
        return AgentSpec(
            kind="command",
            command=agent.command,
            replayable=agent.replayable,
            time_limit_s=agent.limits.time_s,
            max_output_bytes=agent.limits.output_bytes,
            env="all" if agent.env == "all" else tuple(agent.env),
        )
    if isinstance(agent, PythonAgent) and agent.reference is not None:
        return AgentSpec(
            kind="python",
            python=agent.reference,
            replayable=agent.replayable,
            time_limit_s=agent.time_limit_s,
            input=agent.keys.input,
            output=agent.keys.output,
        )
    return AgentSpec()


def _makes_agent(found: Any) -> bool:
    """A function that nothing can be given to takes no AgentContext."""
    if is_graph(found):
        return False
    try:
        return not inspect.signature(found).parameters
    except (TypeError, ValueError):  # some built-in ones do not say
        return False


def _made_by(function: Any, reference: str) -> Any:
    try:
        made = function()
    except (Exception, SystemExit) as error:
        raise TaskError(f"{reference!r} cannot make the agent: {type(error).__name__}: {error}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise TaskError(f"{reference!r} takes no AgentContext and is async; what makes an agent is a plain function")
    if not callable(made) and not is_graph(made):
        raise TaskError(
            f"{reference!r} made {_kind(made)}, not a function or a compiled graph", suggestion=_way_out(made)
        )
    return made


def _kind(value: object) -> str:
    return type(value).__name__


def _way_out(value: object) -> str | None:
    """For what is nearly an agent."""
    if hasattr(value, "compile") and hasattr(value, "add_node"):
        return "compile the graph: graph.compile()"
    if inspect.isclass(value):
        return "give an object of the class"
    if hasattr(value, "invoke"):
        return "call it from a function that takes an AgentContext"
    return None
