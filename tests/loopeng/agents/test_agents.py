"""Agents: one engine call, or the user's own function from the task's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from loopeng.agents import LlmAgent, PythonAgent, as_agent, build_agent
from loopeng.engines import MeteredEngine
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError, TaskError, UsageError
from loopeng.ports import AgentContext, AgentResult, TextRequest
from loopeng.schema import Message
from loopeng.schema.task import AgentSpec


def context() -> AgentContext:
    messages = (Message(role="user", content="hi"),)
    engine = MeteredEngine(ScriptedEngine(lambda request: request.messages[-1].content + "!"), TextRequest(messages=()))
    return AgentContext(instructions="hi", input={}, messages=messages, engine=engine)


def test_the_default_agent_is_one_engine_call() -> None:
    agent = build_agent(AgentSpec())
    result = agent(context())
    assert isinstance(agent, LlmAgent) and agent.replayable and agent.reference == "llm"
    assert (result.text, result.finish_reason) == ("hi!", "stop") and result.usage.generated_tokens == 1


def test_a_python_agent_comes_from_the_tasks_folder(tmp_path: Path) -> None:
    (tmp_path / "my_own_agent.py").write_text(
        "import my_own_helper\n"
        "def plain(context): return my_own_helper.shout(context.engine.generate(context.messages).text)\n"
        "async def slow(context): return plain(context)\n"
        "NUMBER = 3\n"
    )
    (tmp_path / "my_own_helper.py").write_text("def shout(text): return text.upper()\n")
    for name in ("plain", "slow"):
        agent = build_agent(AgentSpec(kind="python", python=f"my_own_agent:{name}"), tmp_path)
        assert isinstance(agent, PythonAgent) and agent.reference == f"my_own_agent:{name}" and not agent.replayable
        assert agent(context()).text == "HI!"
    assert build_agent(AgentSpec(kind="python", python="my_own_agent:plain", replayable=True), tmp_path).replayable
    with pytest.raises(TaskError, match="int, not a function"):
        build_agent(AgentSpec(kind="python", python="my_own_agent:NUMBER"), tmp_path)
    with pytest.raises(TaskError, match="did you mean 'plain'"):
        build_agent(AgentSpec(kind="python", python="my_own_agent:plan"), tmp_path)
    sys.path.remove(str(tmp_path.resolve()))


def test_command_agents_are_refused_with_words() -> None:
    with pytest.raises(TaskError, match="not built yet"):
        build_agent(AgentSpec(kind="command", command=("cat",)))


def module_level(context: AgentContext) -> str:
    return "x"


def test_callables_become_agents() -> None:
    agent = as_agent(module_level)
    assert agent.reference == f"{__name__}:module_level" and not agent.replayable
    assert as_agent(agent) is agent
    assert as_agent(lambda context: "x").reference is None

    class Mine:
        replayable = True

        def __call__(self, context: AgentContext) -> AgentResult:
            return AgentResult(text="x", trajectory=["step"])

    mine = as_agent(Mine())
    assert mine.replayable and mine(context()).trajectory == ["step"]
    with pytest.raises(UsageError, match="no agent"):
        as_agent(3)  # type: ignore[arg-type]


def test_an_agent_returns_text_or_a_result() -> None:
    wrong: Any = lambda context: 3  # noqa: E731
    with pytest.raises(EngineError, match="returned int"):
        as_agent(wrong)(context())
