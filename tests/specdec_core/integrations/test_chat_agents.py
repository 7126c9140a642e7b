"""LangChain's agents over the chat model: several tools at once, structured answers, calls that are cut."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from specdec_core.integrations.langchain import SpecDecChat
from specdec_core.integrations.reply_form import call_text
from specdec_core.types import GenerationRequest
from tests.specdec_core.integrations.chat_engines import SayingEngine

CALLS = call_text([("price_of", {"name": "mug"}), ("price_of", {"name": "pot"})])


@tool
def price_of(name: str) -> str:
    """The price of a product."""
    return {"mug": "8", "pot": "20"}[name]


class Verdict(BaseModel):
    """What to buy."""

    cheapest: str


def calls_first(answer: str) -> SayingEngine:
    def say(request: GenerationRequest) -> str:
        assert request.messages is not None
        return answer if "Result of" in request.messages[-1]["content"] else CALLS

    return SayingEngine(say)


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
def test_an_agent_calls_tools_at_once_and_answers(way: str) -> None:
    engine = calls_first('{"final_answer": "The mug."}')
    agent: Any = create_agent(SpecDecChat(engine=engine), [price_of], system_prompt="Help.")
    asked = {"messages": "Which is cheapest?"}
    if way == "invoke":
        messages = agent.invoke(asked)["messages"]
    elif way == "ainvoke":
        messages = asyncio.run(agent.ainvoke(asked))["messages"]
    else:  # tokens, as a user interface takes them: the messages come together out of chunks
        heard = list(agent.stream(asked, stream_mode=["messages", "values"]))
        messages = heard[-1][1]["messages"]
        told = [chunk.content for mode, event in heard if mode == "messages" for chunk in event[:1]]
        assert "".join(told).endswith("The mug.")
    assert [message.content for message in messages if isinstance(message, ToolMessage)] == ["8", "20"]
    assert messages[-1].content == "The mug."
    last = engine.requests[-1].messages
    assert last is not None and [turn["role"] for turn in last] == ["system", "user", "assistant", "user"]
    assert last[0]["content"].startswith("Help.\n\n# Tools") and last[2]["content"] == CALLS
    assert last[3]["content"] == "Result of price_of: 8\n\nResult of price_of: 20"


def test_an_agents_structured_answer_is_held_beside_its_tools() -> None:
    engine = calls_first('{"final_answer": {"cheapest": "mug"}}')
    agent: Any = create_agent(SpecDecChat(engine=engine), [price_of], response_format=Verdict)
    assert agent.invoke({"messages": "?"})["structured_response"] == Verdict(cheapest="mug")
    structured = engine.requests[-1].structured
    assert structured is not None and "cheapest" in json.dumps(structured.json_schema)
    assert "price_of" in json.dumps(structured.json_schema)
    alone: Any = create_agent(SpecDecChat(engine=SayingEngine('{"cheapest": "mug"}')), response_format=Verdict)
    assert alone.invoke({"messages": "?"})["structured_response"] == Verdict(cheapest="mug")


@pytest.mark.parametrize("mode", ["values", "messages"])
def test_a_call_that_is_cut_is_never_made(mode: str) -> None:
    """Also where the agent's messages are put together out of a stream, which mends what it can."""
    made: list[int] = []

    @tool
    def order(amount: int) -> str:
        """Order so many."""
        made.append(amount)
        return "ordered"

    text = call_text([("order", {"amount": 100})])
    engine = SayingEngine(text[: text.index("100") + 1], finish_reason="length")
    agent: Any = create_agent(SpecDecChat(engine=engine), [order])
    assert list(agent.stream({"messages": "?"}, {"recursion_limit": 5}, stream_mode=mode))
    assert made == []
