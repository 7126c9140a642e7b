"""Agents: one engine call, or the user's own function from the task's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from loopeng.agents import LlmAgent, PythonAgent, as_agent, build_agent, section_of
from loopeng.errors import EngineError, TaskError, UsageError
from loopeng.ports import AgentContext, AgentResult
from loopeng.schema.task import AgentSpec
from tests.loopeng.agents.contexts import make_context


def context() -> AgentContext:
    return make_context()


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


def module_level(context: AgentContext) -> str:
    return "x"


@pytest.mark.parametrize(
    "spec",
    [
        AgentSpec(),
        AgentSpec(kind="python", python=f"{__name__}:module_level", replayable=True, time_limit_s=3),
        AgentSpec(kind="python", python="tests.loopeng.agents.react_agent:graph", output="messages"),
        AgentSpec(kind="command", command=("sh", "-c", "cat"), time_limit_s=3, env=("HOME",), max_output_bytes=9),
    ],
)
def test_an_agent_says_how_it_is_made(spec: AgentSpec) -> None:
    assert section_of(build_agent(spec)) == spec


def test_nothing_makes_a_live_object() -> None:
    assert section_of(as_agent(lambda context: "x")) == AgentSpec()


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


def test_generators_classes_and_runnables_are_refused_with_a_way_out(tmp_path: Path) -> None:
    def yields(context: AgentContext) -> Any:
        yield "piece by piece"

    async def yields_later(context: AgentContext) -> Any:
        yield "piece by piece"

    async def inner() -> str:
        return "x"

    async def awaits_nothing(context: AgentContext) -> Any:
        return inner()

    for function in (yields, yields_later):
        with pytest.raises(EngineError, match="it yields; return its text as a whole"):
            as_agent(function)(context())
    with pytest.raises(EngineError, match="returned coroutine; await it inside"):
        as_agent(awaits_nothing)(context())
    (tmp_path / "classy_agent.py").write_text(
        "class Mine:\n    def __call__(self, context): return 'x'\nmine = Mine()\n"
    )
    with pytest.raises(TaskError, match=r"'classy_agent:Mine' is a class .*name an object"):
        build_agent(AgentSpec(kind="python", python="classy_agent:Mine"), tmp_path)
    assert build_agent(AgentSpec(kind="python", python="classy_agent:mine"), tmp_path)(context()).text == "x"
    sys.path.remove(str(tmp_path.resolve()))
    with pytest.raises(UsageError, match="give an object of the class"):
        as_agent(AgentContext)  # type: ignore[arg-type]
