"""The loop around agents of every kind: one task file, but for its line ``agent:``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from loopeng import AgentContext, Loop
from loopeng.attempt.budget import Budget
from loopeng.attempt.graph import attempt_graph, live_graph
from loopeng.errors import EngineError
from loopeng.ports import AgentBudget, AgentResult
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, Sample
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore
from tests.loopeng.agents import react_agent
from tests.loopeng.attempt.making import LONG, SHORT, Script, make_context, make_harness, make_task

TASK = """\
version: 1
name: prices
prompt: {name: price, template: "What does a {{ product }} cost?{{ rules }}"}
dataset:
  samples:
    - {id: mug, product: mug, split: reflect}
agent: AGENT
engine: {kind: scripted, script: replies.yaml}
evaluators:
  - {id: currency, type: contains, value: euros}
  - {id: looked-up, type: tool_calls, value: [{name: price, args: {product: mug}}]}
improve: {enabled: false}
"""
REPLIES = """\
- {when: "euros.*tool says: 4", say: It costs 4 euros.}
- {when: "tool says: 4", say: It costs 4.}
- {when: "cost", say: 'CALL price {"product": "mug"}'}
"""
PLAIN = """\
from loopeng import AgentResult

def agent(context):
    context.engine.generate(context.messages)
    looked_up = "4" if context.input["product"] == "mug" else "?"
    text = f"It costs {looked_up} euros." if "euros" in (context.feedback or "") else f"It costs {looked_up}."
    steps = [{"name": "price", "args": {"product": context.input["product"]}, "content": looked_up}]
    return AgentResult(text=text, trajectory=steps)
"""
SHELL = """\
#!/bin/sh
text="It costs 4."
grep -q '"feedback": ".*euros' && text="It costs 4 euros."
echo '{"text": "'$text'", "trajectory": [{"name": "price", "args": {"product": "mug"}, "content": "4"}]}'
"""
AGENTS = {
    "graph": '{python: "my_react_agent:graph", time_limit_s: 60}',
    "function": '{python: "my_plain_agent:agent"}',
    "command": "{command: [./agent.sh], replayable: true}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    (tmp_path / "my_plain_agent.py").write_text(PLAIN)
    shutil.copy(react_agent.__file__, tmp_path / "my_react_agent.py")
    (tmp_path / "agent.sh").write_text(SHELL)
    (tmp_path / "agent.sh").chmod(0o755)
    yield tmp_path
    for name in ("my_plain_agent", "my_react_agent"):
        sys.modules.pop(name, None)
    if str(tmp_path.resolve()) in sys.path:
        sys.path.remove(str(tmp_path.resolve()))


@pytest.mark.parametrize("kind", AGENTS)
def test_the_loop_runs_around_a_graph_a_function_and_a_shell_command(kind: str, folder: Path) -> None:
    path = folder / "task.yaml"
    path.write_text(TASK.replace("AGENT", AGENTS[kind]))
    with Loop.open(folder / "loop.db") as loop:
        result = loop.run(path)
        first, second = loop.store.attempts(result.summary.run.id)
        run = loop.store.run(result.summary.run.id)
    assert (first.text, first.verdict) == ("It costs 4.", "fail")
    assert (second.text, second.verdict, second.policy) == ("It costs 4 euros.", "pass", "critique")
    step = {"name": "price", "args": {"product": "mug"}, "content": "4"}
    assert first.trajectory == second.trajectory == [step]
    assert (first.usage.generated_tokens > 0) == (kind != "command"), "what the engine was asked is counted"
    assert (
        run.own_agent
        == {
            "graph": "my_react_agent:graph",
            "function": "my_plain_agent:agent",
            "command": "command: ./agent.sh",
        }[kind]
    )


def test_a_live_graph_is_an_agent_too(folder: Path) -> None:
    path = folder / "task.yaml"
    path.write_text(TASK.replace("AGENT", "llm"))
    with Loop.open(folder / "loop.db", agent=react_agent.graph) as loop:
        result = loop.run(path)
        assert result.passed
        assert loop.store.run(result.summary.run.id).own_agent == "an object of that process"


def test_what_a_broken_command_says_is_the_attempts_error_and_it_is_tried_again(store: LoopStore, folder: Path) -> None:
    (folder / "agent.sh").write_text("#!/bin/sh\necho once >> tries; echo the key is missing >&2; exit 7\n")
    path = folder / "task.yaml"
    path.write_text(TASK.replace("AGENT", AGENTS["command"]))
    with Loop.open(folder / "loop.db") as loop:
        result = loop.run(path)
        (attempt,) = loop.store.attempts(result.summary.run.id)
    assert (attempt.verdict, attempt.finish_reason) == ("error", "agent_error")
    assert attempt.error == "the command exited with 7: the key is missing"
    assert (folder / "tries").read_text().count("once") == 3


def test_an_agent_beyond_its_limit_is_not_tried_again(folder: Path) -> None:
    (folder / "agent.sh").write_text("#!/bin/sh\necho once >> tries; sleep 1000\n")
    path = folder / "task.yaml"
    path.write_text(TASK.replace("AGENT", "{command: [./agent.sh], time_limit_s: 0.2}"))
    with Loop.open(folder / "loop.db") as loop:
        result = loop.run(path)
        (attempt,) = loop.store.attempts(result.summary.run.id)
    assert (attempt.verdict, attempt.finish_reason) == ("error", "agent_error")
    assert attempt.error == "the command took more than 0.2 s" and (folder / "tries").read_text() == "once\n"


def test_agents_see_what_the_limits_leave(store: LoopStore) -> None:
    seen: list[AgentBudget] = []

    def agent(context: AgentContext) -> str:
        seen.append(context.budget)
        return context.engine.generate("five words are many here").text

    harness = make_harness(store, Script(LONG), make_task(1), agent=agent)
    context = make_context(harness, limits=BudgetSpec(attempts=5, total_tokens=30))
    attempt_graph().invoke({"sample_id": "s0"}, context=context)
    assert [(each.attempts, each.total_tokens, each.total_time_s) for each in seen] == [
        (5, 30, None),
        (4, 30 - 5 - 8, None),
        (3, 30 - 2 * (5 + 8), None),
    ]


def test_time_left_is_that_of_the_clock() -> None:
    now = [10.0]
    budget = Budget(BudgetSpec(total_time_s=5), clock=lambda: now[0])
    now[0] = 12
    assert budget.left() == AgentBudget(total_time_s=3)
    now[0] = 20
    assert budget.left() == AgentBudget(total_time_s=0)


class Steps(TypedDict):
    number: int


def count_to_sixty(saver: InMemorySaver | None = None) -> Any:
    graph = StateGraph(Steps)
    graph.add_node("count", lambda state: {"number": state["number"] + 1})
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: "__end__" if state["number"] >= 60 else "count")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("saver", [None, InMemorySaver()])
def test_graphs_that_agents_and_evaluators_run_are_no_part_of_the_attempts_graph(
    store: LoopStore, saver: InMemorySaver | None
) -> None:
    """The attempt's graph allows itself few steps; whose graph runs inside would inherit that, and its checkpoints."""
    graph, config = count_to_sixty(saver), {"configurable": {"thread_id": "mine"}} if saver else {}

    def agent(context: AgentContext) -> AgentResult:
        return AgentResult(text=str(graph.invoke({"number": 0}, config)["number"]))

    def counts(text: str) -> bool:
        return text == str(graph.invoke({"number": 0}, config)["number"]) == "60"

    harness = make_harness(store, Script(""), make_task(1), agent=agent, evaluators=[counts])
    assert run_suite(harness).total.final_passed == 1
    assert live_graph(harness).invoke({"inputs": {"product": "mug"}})["verdict"] == "pass"


def test_callbacks_of_the_program_around_reach_the_agents_graph(store: LoopStore) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Seen(BaseCallbackHandler):
        names: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            self.names.append(kwargs.get("name", ""))

    graph = count_to_sixty()
    harness = make_harness(store, Script(""), make_task(1), agent=lambda context: str(graph.invoke({"number": 59})))
    live_graph(harness).invoke({"inputs": {"product": "mug"}}, {"callbacks": [Seen()]})
    assert "count" in Seen.names


def test_an_agent_that_ends_its_own_task_is_one_samples_error(store: LoopStore) -> None:
    import asyncio

    async def gives_up(context: AgentContext) -> str:
        raise asyncio.CancelledError("no longer wanted")

    def runs_it_itself(context: AgentContext) -> str:
        return asyncio.run(gives_up(context))

    for agent in (gives_up, runs_it_itself):
        summary = run_suite(make_harness(store, Script(SHORT), make_task(1), agent=agent))
        assert summary.run.status == "finished" and summary.total.errors == 1


def test_a_late_thread_of_an_agent_is_not_answered(store: LoopStore) -> None:
    kept: list[AgentContext] = []

    def agent(context: AgentContext) -> str:
        kept.append(context)
        return "ok"

    sample = Sample(id="s0", inputs={"product": "mug"}, split="reflect")
    task = make_task((sample,), evaluators=(EvaluatorSpec(id="short", type="length", max_words=5),))
    run_suite(make_harness(store, Script(SHORT), task, agent=agent))
    with pytest.raises(EngineError, match="the attempt is over"):
        kept[0].engine.generate("late")
