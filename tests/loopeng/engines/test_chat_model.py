"""The LangChain chat model over an attempt's engine: what the attempt set holds, and every call is counted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from loopeng import AgentContext, TextRequest, chat_model
from loopeng.engines import MeteredEngine
from loopeng.engines.scripted import ScriptedEngine
from loopeng.engines.specdec import SpecDecEngine
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.ports import TextEngine
from loopeng.schema import Message
from specdec_core.sampling import SamplingParams
from specdec_core.types import GenerationRequest, StructuredOutput
from tests.specdec_core.integrations.chat_engines import make_chat_engine

ATTEMPT = TextRequest(
    messages=(), temperature=0.7, seed=100, max_tokens=40, top_k=9, stop=("END",), reference_texts=("earlier",)
)


@tool
def find(name: str) -> str:
    """Find a product."""
    return name


def context_of(engine: TextEngine, request: TextRequest = ATTEMPT) -> tuple[AgentContext, MeteredEngine]:
    metered = MeteredEngine(engine, request)
    return AgentContext(instructions="hi", input={}, messages=(), engine=metered), metered


def asking(reply: str = "x", **settings: Any) -> tuple[Any, list[TextRequest], MeteredEngine]:
    """A chat model, the requests that reach the engine, and the meter between them."""
    heard: list[TextRequest] = []

    def answer(request: TextRequest) -> str:
        heard.append(request)
        return reply

    context, metered = context_of(ScriptedEngine(answer))
    return chat_model(context, **settings), heard, metered


def test_what_the_attempt_set_holds_and_each_call_has_its_own_seed() -> None:
    model, heard, metered = asking()
    model.invoke("one")
    list(model.stream("two words"))
    asyncio.run(model.ainvoke("three"))
    expected = ATTEMPT.model_copy(update={"messages": (Message(role="user", content="one"),)})
    assert heard[0] == expected
    assert [request.seed for request in heard] == [100, 101, 102]
    assert metered.num_calls == 3 and metered.usage.generated_tokens == 3 and metered.usage.prompt_tokens == 4


def test_what_is_named_goes_over_it_and_reference_texts_are_added() -> None:
    model, heard, _ = asking(max_tokens=7)
    model.invoke("hi", temperature=0.0, seed=1, stop=["x"], reference_texts=["mine", "earlier"])
    (request,) = heard
    assert (request.max_tokens, request.temperature, request.seed, request.stop) == (7, 0.0, 1, ("x",))
    assert request.top_k == 9 and request.reference_texts == ("mine", "earlier")


def test_a_setting_that_the_engine_does_not_know_is_refused_not_ignored() -> None:
    model, heard, _ = asking(sampling=SamplingParams(min_p=0.1))
    with pytest.raises(RequestRefusedError, match="does not take min_p"):
        model.invoke("hi")
    assert not heard


def test_tools_and_answers_go_by_the_response_schema() -> None:
    model, heard, _ = asking('{"tool_calls": [{"name": "find", "arguments": {"name": "mug"}}]}')
    message = model.bind_tools([find]).invoke("hi")
    assert [call["args"] for call in message.tool_calls] == [{"name": "mug"}]
    assert heard[0].response_schema is not None and "anyOf" in heard[0].response_schema
    assert heard[0].messages[0].role == "system" and '"name": "find"' in heard[0].messages[0].content
    plain, _, _ = asking("It needs no tool.")  # an engine that holds no schema may say so
    assert plain.bind_tools([find]).invoke("hi").content == "It needs no tool."


def test_usage_comes_back_with_the_message() -> None:
    message = asking("two words")[0].invoke("hi")
    assert isinstance(message, AIMessage) and message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (1, 2)
    assert message.response_metadata["fingerprint"].startswith("scripted:")


def test_no_cache_answers_for_an_attempt() -> None:
    set_llm_cache(InMemoryCache())
    try:
        model, heard, _ = asking()
        model.invoke("hi")
        model.invoke("hi")
    finally:
        set_llm_cache(None)
    assert len(heard) == 2


def test_errors_of_the_engine_pass_through() -> None:
    def broken(request: TextRequest) -> str:
        raise EngineError("out of steam")

    context, metered = context_of(ScriptedEngine(broken))
    with pytest.raises(EngineError, match="out of steam"):
        chat_model(context).invoke("hi")
    assert metered.broke


@pytest.mark.usefixtures("one_thread")
def test_over_the_core_the_text_is_the_engines() -> None:
    core = make_chat_engine()
    context, metered = context_of(SpecDecEngine(core))
    expected = core.generate(
        GenerationRequest(
            messages=({"role": "user", "content": "hi"},),
            sampling=SamplingParams(temperature=0.7, seed=100, max_tokens=40, top_k=9, stop=("END",)),
        )
    )
    message = chat_model(context).invoke("hi")
    assert message.content == expected.text and message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == metered.usage.generated_tokens == len(expected.token_ids)
    assert message.response_metadata["fingerprint"] == core.fingerprint.digest


@pytest.mark.usefixtures("one_thread")
def test_over_the_core_a_schema_is_held() -> None:
    context, _ = context_of(SpecDecEngine(make_chat_engine()))
    schema = {"title": "Yes", "type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    assert chat_model(context).with_structured_output(schema).invoke("hi") in ({"yes": True}, {"yes": False})


def test_what_no_schema_says_is_refused() -> None:
    model, _, _ = asking()
    request = GenerationRequest(messages=({"role": "user", "content": "hi"},), structured=StructuredOutput(regex="a"))
    with pytest.raises(RequestRefusedError, match="JSON Schema"):
        model.engine.generate(request)


def test_naming_it_loads_neither_langchain_nor_torch() -> None:
    code = (
        "import sys; from loopeng import chat_model; sys.exit(bool({'torch', 'langchain_core'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_langchain_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopeng.errors import UsageError

    for name in [name for name in sys.modules if name.startswith("specdec_core.integrations")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "langchain_core"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"needs langchain_core.*pip install 'loopeng\[langchain\]'"):
        asking()
