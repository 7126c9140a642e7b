"""The embedded model by way of LangChain: the engine's own texts, greedy and seeded, and an agent that calls tools."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from specdec_core.engine import load_engine
from specdec_core.integrations.langchain import SpecDecChat
from specdec_core.sampling import SamplingParams
from specdec_core.types import GenerationRequest

MESSAGES = ({"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "What do cats drink?"})
SAMPLINGS: dict[str, dict[str, Any]] = {"greedy": {}, "seeded": {"temperature": 0.9, "top_p": 0.95, "seed": 11}}


@pytest.fixture(scope="module")
def model(embedded_folder) -> SpecDecChat:
    return SpecDecChat(
        engine=load_engine(str(embedded_folder), exactness="bitwise", context_length=1024), max_tokens=16
    )


@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_text_is_the_engines(model: SpecDecChat, name: str) -> None:
    sampling = SAMPLINGS[name]
    request = GenerationRequest(messages=MESSAGES, sampling=SamplingParams(max_tokens=16, **sampling))
    text = model.engine.generate(request).text
    assert text
    assert model.invoke(list(MESSAGES), **sampling).content == text
    chunks = list(model.stream(list(MESSAGES), reference_texts=[text], **sampling))
    assert "".join(str(chunk.content) for chunk in chunks) == text
    assert asyncio.run(model.ainvoke(list(MESSAGES), **sampling)).content == text


@tool
def is_open(day: Literal["Monday", "Sunday"]) -> str:
    """Whether the shop is open on a day."""
    return f"On {day} the shop is open from 9 to 17."


def test_a_react_agent_runs_on_it(model: SpecDecChat) -> None:
    """What a model of 135M makes of it is its own affair; the form is ours."""
    chat = SpecDecChat(engine=model.engine, max_tokens=48)
    called = chat.bind_tools([is_open], tool_choice="is_open").invoke("Is the shop open on Monday?")
    (call,) = called.tool_calls
    assert call["name"] == "is_open" and call["args"]["day"] in ("Monday", "Sunday")
    result = ToolMessage(is_open.invoke(call["args"]), tool_call_id=call["id"])
    history = {"messages": ["Is the shop open on Monday?", called, result]}
    for state in create_agent(chat, [is_open]).stream(history, stream_mode="values"):
        last = state["messages"][-1]
        if isinstance(last, AIMessage):
            break
    assert isinstance(last, AIMessage) and last.usage_metadata["input_tokens"] > 100
