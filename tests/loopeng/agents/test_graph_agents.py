"""Compiled graphs of LangGraph as agents: what goes in, what comes out, and what stays behind (nothing)."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel

from loopeng.agents import PythonAgent, as_agent, build_agent
from loopeng.agents.graphs import GraphKeys
from loopeng.errors import AgentInterruptedError, AgentLimitError, EngineError, TaskError, UsageError
from loopeng.evaluators.trajectory import calls_in
from loopeng.ports import AgentContext
from loopeng.schema import Message, Usage
from loopeng.schema.task import AgentSpec
from tests.loopeng.agents.contexts import make_context
from tests.loopeng.agents.react_agent import builder, graph

ROOT = Path(__file__).parents[3]


def one_node(node: Callable[..., Any], state: type = MessagesState, **options: Any) -> Any:
    made = StateGraph(state, **options)
    made.add_node("node", node)
    made.add_edge(START, "node")
    made.add_edge("node", END)
    return made


def says(text: str, **fields: Any) -> Callable[..., Any]:
    return lambda state: {"messages": [AIMessage(text, **fields)]}


def test_a_react_agent_calls_its_tools_and_the_attempts_engine() -> None:
    def replies(request: Any) -> str:
        said = request.messages[-1].content
        return f"It is {said.removeprefix('tool says: ')}." if "tool" in said else 'CALL price {"product": "mug"}'

    context = make_context(replies, instructions="What does it cost?")
    agent = as_agent(graph)
    result = agent(context)
    assert result.text == "It is 4."
    assert result.trajectory == [{"name": "price", "args": {"product": "mug"}, "content": "4"}]
    assert [call.name for call in calls_in(result.trajectory)] == ["price"]
    assert result.usage == Usage() and context.engine.num_calls == 2  # type: ignore[attr-defined]
    assert (agent.reference, agent.replayable) == (None, False)


def test_every_call_is_in_the_trajectory_with_its_result_and_usage_is_the_models() -> None:
    calls = [{"name": "find", "args": {"q": 1}, "id": "a"}, {"name": "find", "args": {"q": 2}, "id": "b"}]
    broken = {"name": "find", "args": "{oops", "id": "c", "error": "no JSON"}
    spent = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    said = [
        AIMessage("", tool_calls=calls, invalid_tool_calls=[broken], usage_metadata=spent),
        ToolMessage("two", tool_call_id="b"),
        ToolMessage("it broke", tool_call_id="a", status="error"),
        AIMessage([{"type": "text", "text": "do"}, {"type": "text", "text": "ne"}], usage_metadata=spent),
    ]
    result = as_agent(one_node(lambda state: {"messages": said}).compile())(make_context())
    assert result.text == "done" and result.usage == Usage(prompt_tokens=20, generated_tokens=6)
    assert result.trajectory == [
        {"name": "find", "args": {"q": 1}, "content": "it broke", "status": "error"},
        {"name": "find", "args": {"q": 2}, "content": "two"},
        {"name": "find", "args": "{oops"},
    ]
    assert [call.args for call in calls_in(result.trajectory)] == [{"q": 1}, {"q": 2}, "{oops"]


class Answer(BaseModel):
    word: str


class Facts(TypedDict, total=False):
    question: str
    product: str
    prompt: str
    answer: Any


def test_fields_of_the_sample_and_the_prompt_go_to_the_keys_of_the_state() -> None:
    seen: list[dict[str, Any]] = []

    def node(state: Facts) -> Facts:
        seen.append(dict(state))
        return {"answer": Answer(word="tiny")}

    agent = PythonAgent(one_node(node, Facts).compile(), keys=GraphKeys("prompt", "answer"))
    two_turns = (Message(role="user", content="Try."), Message(role="user", content="Try again."))
    result = agent(make_context(input={"product": "mug", "price": 3}, messages=two_turns))
    assert seen == [{"product": "mug", "prompt": "Try.\n\nTry again."}]
    assert result.text == '{"word": "tiny"}' and result.trajectory is None


@pytest.mark.parametrize(("value", "text"), [("plain", "plain"), (AIMessage("of a message"), "of a message"), (3, "3")])
def test_a_named_output_is_the_answer(value: Any, text: str) -> None:
    agent = PythonAgent(one_node(lambda state: {"answer": value}, Facts).compile(), keys=GraphKeys("prompt", "answer"))
    assert agent(make_context()).text == text


def test_keys_that_the_graph_lacks_are_found_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "facts_graph.py").write_text(
        "from typing import TypedDict\n"
        "from langgraph.graph import START, StateGraph\n"
        "class Facts(TypedDict):\n    prompt: str\n    answer: str\n"
        "builder = StateGraph(Facts).add_node('node', lambda state: {'answer': state['prompt'] + '!'})\n"
        "builder.add_edge(START, 'node')\n"
        "graph = builder.compile()\n"
        "def make(): return graph\n"
        "def wrong(): return builder\n"
        "def broken(): raise OSError('no key')\n"
        "async def later(): return graph\n"
        "def for_the_attempt(context): return graph\n"
    )
    named = {"input": "prompt", "output": "answer"}
    for name in ("graph", "make", "for_the_attempt"):
        spec = AgentSpec(kind="python", python=f"facts_graph:{name}", replayable=True, **named)
        agent = build_agent(spec, tmp_path)
        assert agent(make_context()).text == "hi!" and agent.reference == spec.python and agent.replayable
    for name, words in {
        "builder": r"StateGraph, not a function or a compiled graph \(compile the graph: graph.compile\(\)\)",
        "wrong": r"made StateGraph, not .* \(compile the graph",
        "broken": "cannot make the agent: OSError: no key",
        "later": "is async; what makes an agent is a plain function",
    }.items():
        with pytest.raises(TaskError, match=words):
            build_agent(AgentSpec(kind="python", python=f"facts_graph:{name}"), tmp_path)
    for changes, words in (
        ({"input": "promt"}, r"input: the graph's state has no key 'promt' \(did you mean 'prompt'"),
        ({"output": "zzz"}, r"output: the graph's state has no key 'zzz' \(there is: answer, prompt\)"),
    ):
        with pytest.raises(TaskError, match=words):
            build_agent(AgentSpec(kind="python", python="facts_graph:graph", **named | changes), tmp_path)
    sys.path.remove(str(tmp_path.resolve()))


def test_where_nothing_fits_the_error_says_what_to_name() -> None:
    facts = one_node(lambda state: {"answer": 1}, Facts).compile()
    with pytest.raises(EngineError, match=r"takes answer, product, prompt, question; .*agent: \{input: KEY\}"):
        as_agent(facts)(make_context(input={"price": 3}))
    with pytest.raises(EngineError, match=r"no new message of the model; there is: .*answer.*agent: \{output: KEY\}"):
        as_agent(facts)(make_context(input={"product": "mug"}))


class Appending(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


@pytest.mark.parametrize("state", [MessagesState, Appending])
def test_an_earlier_answer_in_the_conversation_is_never_taken_for_the_new_one(state: type) -> None:
    turns = tuple(Message(role=role, content=role) for role in ("user", "assistant", "user"))  # type: ignore[arg-type]
    silent = one_node(lambda state: {"messages": []}, state).compile()
    with pytest.raises(EngineError, match="no new message of the model"):
        as_agent(silent)(make_context(messages=turns))
    plain = one_node(lambda state: {"messages": [{"role": "assistant", "content": "new"}]}, state).compile()
    assert as_agent(plain)(make_context(messages=turns)).text == "new"


@dataclass
class Theirs:
    style: str = "plain"


def test_a_graph_with_a_context_of_its_own_finds_ours_in_the_config() -> None:
    def node(state: MessagesState, config: RunnableConfig, runtime: Runtime[Theirs]) -> dict[str, Any]:
        ours: AgentContext = config["configurable"]["agent_context"]
        return {"messages": [AIMessage(f"{runtime.context.style} {ours.instructions} {ours.seed}")]}

    assert as_agent(one_node(node, context_schema=Theirs).compile())(make_context()).text == "plain hi 7"


def test_its_checkpointer_keeps_nothing_of_an_attempt() -> None:
    saver = InMemorySaver()
    agent = as_agent(one_node(says("x")).compile(checkpointer=saver))
    assert [agent(make_context()).text for _ in range(3)] == ["x"] * 3
    assert list(saver.list(None)) == []


def test_an_interrupt_is_an_error_as_nobody_answers_and_is_not_asked_again() -> None:
    asking, saver = one_node(lambda state: {"messages": [AIMessage(interrupt("may I?"))]}), InMemorySaver()
    for compiled, words in (
        (asking.compile(), "stopped at an interrupt"),
        (asking.compile(checkpointer=saver), "stopped at an interrupt"),
        (one_node(says("x")).compile(checkpointer=saver, interrupt_before=["node"]), "compiled to stop at its nodes"),
    ):
        with pytest.raises(AgentInterruptedError, match=words) as caught:
            as_agent(compiled)(make_context())
        assert caught.value.is_final


def test_a_graph_beyond_its_time_is_cancelled() -> None:
    cancelled = []

    async def hangs(state: MessagesState) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return {}

    with pytest.raises(AgentLimitError, match=r"took more than 0\.1 s"):
        PythonAgent(one_node(hangs).compile(), time_limit_s=0.1)(make_context())
    assert cancelled == [True]


def test_the_functional_api_gets_one_mapping() -> None:
    @entrypoint()
    def shout(given: dict[str, Any]) -> str:
        return f"{given['product']}: {given['messages'][-1].text.upper()}"

    assert as_agent(shout)(make_context(input={"product": "mug"})).text == "mug: HI"


def test_what_is_nearly_a_graph_is_refused_with_a_way_out() -> None:
    for value, words in ((builder, "compile the graph"), (RunnableLambda(lambda x: x), "call it from a function")):
        with pytest.raises(UsageError, match=words):
            as_agent(value)  # type: ignore[arg-type]


def test_a_task_with_a_plain_function_loads_without_langgraph(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def agent(context): return 'x'\n")
    code = (
        "import sys; from pathlib import Path; from loopeng.agents import build_agent;"
        "from loopeng.schema.task import AgentSpec;"
        "build_agent(AgentSpec(kind='python', python='own:agent'), Path(sys.argv[1]));"
        "print(sorted({'langgraph', 'langchain_core'} & {name.split('.')[0] for name in sys.modules}))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_langchains_own_agent_is_such_a_graph() -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models import FakeListChatModel

    made = create_agent(FakeListChatModel(responses=["It is 4."]), tools=[])
    result = as_agent(made)(make_context())
    assert (result.text, result.trajectory) == ("It is 4.", [])
