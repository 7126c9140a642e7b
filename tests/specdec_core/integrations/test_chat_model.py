"""The chat model as LangChain's users meet it, over an engine that says what it is told or the tiny random Llama.

LangChain's own standard tests ask for the same: invoke, stream, async, batch, tools, structured output, usage, stop.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field, ValidationError, field_validator
from typing_extensions import TypedDict

from specdec_core.errors import RequestError
from specdec_core.integrations.langchain import SpecDecChat
from specdec_core.sampling import SamplingParams
from specdec_core.types import GenerationChunk, GenerationRequest
from tests.specdec_core.integrations.chat_engines import RefusingEngine, SayingEngine, make_chat_engine


@tool
def find(name: str, limit: int = 3) -> str:
    """Find a product."""
    return name * limit


@tool
def ping() -> str:
    """Say nothing."""
    return ""


def calls_text(*calls: tuple[str, dict]) -> str:
    listed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"tool_calls": listed}, ensure_ascii=False)


def streamed(model: Any, *args: Any, **kwargs: Any) -> AIMessageChunk:
    """All chunks together."""
    chunks = list(model.stream(*args, **kwargs))
    return chunks[0] + chunks[1:]


def async_streamed(model: Any, *args: Any) -> AIMessageChunk:
    async def collected() -> AIMessageChunk:
        chunks = [chunk async for chunk in model.astream(*args)]
        return chunks[0] + chunks[1:]

    return asyncio.run(collected())


def same(message: AIMessage, other: AIMessage) -> bool:
    """Equal but for the id, which is the run's, and what forbids readers of a stream to mend a broken call."""
    apart = {"id", "type", "tool_call_chunks", "chunk_position"}
    one, two = message.model_dump(exclude=apart), other.model_dump(exclude=apart)
    broken = zip(one.pop("invalid_tool_calls"), two.pop("invalid_tool_calls"), strict=True)
    return one == two and all(
        (a["name"], a["id"]) == (b["name"], b["id"]) and b["args"].startswith(a["args"]) for a, b in broken
    )


SAYINGS = [
    ("", "stop"),
    ('{"final_answer": "Größe: \\"3\\"\\n"}', "stop"),
    ("Just text, as engines without grammars write.", "stop"),
    (calls_text(("find", {"name": "Tüte 😀", "limit": 2})), "stop"),
    (calls_text(("find", {"name": "a"}), ("ping", {}), ("find", {"name": "b"})), "stop"),
    (calls_text(("find", {"name": "a"}), ("find", {"name": "bcd"}))[:-9], "length"),
    (calls_text(("find", {"name": "a"}))[:24], "length"),
    ('{"tool_calls": [{"name": "find", "arguments": {x}}]}', "stop"),
    ('{"final_answer": "cut he', "length"),
]


@pytest.mark.parametrize(("text", "finish_reason"), SAYINGS)
@pytest.mark.parametrize("piece_length", [1, 7, 1_000])
def test_every_way_to_ask_gives_the_same_message(text: str, finish_reason: Any, piece_length: int) -> None:
    engine = SayingEngine(text, finish_reason=finish_reason, piece_length=piece_length)
    model = SpecDecChat(engine=engine).bind_tools([find, ping])
    message = model.invoke("hi")
    assert isinstance(message, AIMessage) and not isinstance(message, AIMessageChunk)
    assert same(message, streamed(model, "hi"))
    assert same(message, asyncio.run(model.ainvoke("hi")))
    assert same(message, async_streamed(model, "hi"))
    assert all(same(message, each) for each in model.batch(["hi", "hi"]))
    assert all(same(message, each) for each in asyncio.run(model.abatch(["hi", "hi"])))
    assert engine.num_closed == len(engine.requests) == 8
    assert len({request.model_dump_json() for request in engine.requests}) == 1


def test_a_message_has_usage_and_tells_what_it_cost() -> None:
    message = SpecDecChat(engine=SayingEngine("Hello.")).invoke("hi")
    assert message.content == "Hello." and message.tool_calls == []
    assert message.usage_metadata == {
        "input_tokens": 7,
        "output_tokens": 5,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 2},
    }
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.response_metadata["speculation"] == {
        "decode_passes": 2,
        "draft_tokens": 4,
        "accepted_tokens": 2,
        "acceptance_rate": 0.5,
        "acceptance_length": 2.0,
    }
    assert len(message.response_metadata["fingerprint"]) == 16


def test_tool_calls_have_their_arguments_and_ids_that_the_request_decides() -> None:
    text = calls_text(("find", {"name": "Tüte", "limit": 2}), ("ping", {}))
    model = SpecDecChat(engine=SayingEngine(text))
    message = model.bind_tools([find, ping]).invoke("hi")
    assert message.content == "" and message.response_metadata["finish_reason"] == "tool_calls"
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("find", {"name": "Tüte", "limit": 2}),
        ("ping", {}),
    ]

    def ids(model: SpecDecChat, text: str = "hi", **options: Any) -> list[str | None]:
        return [call["id"] for call in model.bind_tools([find, ping]).invoke(text, **options).tool_calls]

    first = ids(model)
    assert len(set(first)) == 2 and ids(model) == first == [call["id"] for call in message.tool_calls]
    assert ids(model, reference_texts=["x"]) == first
    for other in (ids(model, "ho"), ids(model, seed=1), ids(model, temperature=0.5)):
        assert not {*other} & {*first}


def test_a_call_cut_at_max_tokens_is_invalid_and_stays_so() -> None:
    text = calls_text(("find", {"name": "a"}), ("find", {"name": "one hundred"}))
    for cut in range(text.index("hundred"), len(text) - 4):
        model = SpecDecChat(engine=SayingEngine(text[:cut], finish_reason="length")).bind_tools([find])
        message = model.invoke("hi")
        assert [call["args"] for call in message.tool_calls] == [{"name": "a"}]
        (broken,) = message.invalid_tool_calls
        assert (broken["name"], broken["error"]) == ("find", "the call was cut")
        assert broken["args"] == text[:cut].rpartition('"arguments": ')[2]
        assert message.response_metadata["finish_reason"] == "length"
        assert [call["args"] for call in streamed(model, "hi").tool_calls] == [{"name": "a"}]


class Heard(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.ends: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends.append(response)


def test_chunks_come_as_the_engine_makes_them_and_callbacks_hear_them() -> None:
    heard = Heard()
    stream = SpecDecChat(engine=SayingEngine("Hello, you!", piece_length=4)).stream("hi", {"callbacks": [heard]})
    assert [chunk.content for chunk in stream] == ["Hell", "o, y", "ou!", ""]
    assert heard.tokens == ["Hell", "o, y", "ou!", ""] and len(heard.ends) == 1
    assert heard.ends[0].generations[0][0].message.usage_metadata["output_tokens"] == 5


def test_a_call_is_streamed_name_first_then_arguments() -> None:
    engine = SayingEngine(calls_text(("find", {"name": "abcdef"})), piece_length=8)
    chunks = list(SpecDecChat(engine=engine).bind_tools([find]).stream("hi"))
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert pieces[0]["name"] == "find" and pieces[0]["id"] and pieces[0]["args"] == ""
    assert all(piece["name"] is None and piece["id"] is None and piece["index"] == 0 for piece in pieces[1:])
    assert len(pieces) > 2 and "".join(piece["args"] or "" for piece in pieces) == '{"name": "abcdef"}'
    assert chunks[-1].chunk_position == "last" and sum(chunk.usage_metadata is not None for chunk in chunks) == 1


def test_events_tell_the_same() -> None:
    async def events(model: Any) -> list[dict]:
        return [event async for event in model.astream_events("hi", version="v2")]

    engine = SayingEngine("abcdefg")
    heard = asyncio.run(events(SpecDecChat(engine=engine)))
    texts = [event["data"]["chunk"].content for event in heard if event["event"] == "on_chat_model_stream"]
    assert "".join(texts) == "abcdefg" and len(texts) == 4
    assert heard[0]["metadata"]["ls_provider"] == "specdec"


def test_a_reader_that_leaves_closes_the_engines_stream() -> None:
    engine = SayingEngine("abc" * 9)
    stream: Iterator[Any] = SpecDecChat(engine=engine).stream("hi")
    assert next(stream).content == "abc" and engine.num_closed == 0
    stream.close()  # type: ignore[attr-defined]
    assert engine.num_closed == 1


class EndlessEngine(SayingEngine):
    """Never ends by itself."""

    def __init__(self) -> None:
        super().__init__("")
        self.closed = threading.Event()

    def stream(self, request: GenerationRequest) -> Iterator[Any]:
        try:
            while True:
                time.sleep(0.001)
                yield GenerationChunk("x")
        finally:
            self.closed.set()


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
def test_cancellation_closes_the_engines_stream(way: str) -> None:
    engine = EndlessEngine()
    model = SpecDecChat(engine=engine)

    async def asked() -> None:
        if way == "ainvoke":
            await model.ainvoke("hi")
        async for _ in model.astream("hi"):
            pass

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(asked(), 0.05))
    assert engine.closed.wait(30)


def test_settings_reach_the_engine_and_what_is_unset_is_left_to_it() -> None:
    engine = SayingEngine("x")
    SpecDecChat(engine=engine).invoke("hi")
    assert engine.requests[-1] == GenerationRequest(messages=({"role": "user", "content": "hi"},))
    assert engine.requests[-1].sampling.model_fields_set == set()
    model = SpecDecChat(engine=engine, temperature=0.5, seed=3, stop=["a"], sampling=SamplingParams(min_p=0.1, seed=9))
    model.invoke("hi", max_tokens=5, stop=["b"], repetition_penalty=1.2)
    expected = {"temperature": 0.5, "seed": 3, "min_p": 0.1, "max_tokens": 5, "stop": ("b",), "repetition_penalty": 1.2}
    assert engine.requests[-1].sampling.model_dump(exclude_unset=True) == expected
    model.invoke("hi")
    assert engine.requests[-1].sampling.stop == ("a",)


def test_reference_texts_of_the_call_come_before_those_of_the_model() -> None:
    engine = SayingEngine("x")
    model = SpecDecChat(engine=engine, reference_texts=["a", "b"])
    model.invoke("hi", reference_texts=["c", "a"])
    assert engine.requests[-1].reference_texts == ("c", "a", "b")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temprature": 1}, "temprature: Extra inputs are not permitted"),
        ({"temperature": -1}, "temperature: .*greater than or equal to 0, not -1"),
        ({"stop": "ab"}, "stop: "),
        ({"reference_texts": "ab"}, "reference_texts is a list"),
        ({"tools": [3]}, "is no tool"),
        ({"tools": [find], "tool_choice": "fund"}, "tool_choice must be one of"),
        ({"response_format": 3}, "describes no answer"),
    ],
)
def test_a_wrong_setting_is_named(options: dict, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        SpecDecChat(engine=SayingEngine("x")).invoke("hi", **options)


def test_mistakes_with_tools_are_told_when_they_are_bound() -> None:
    with pytest.raises(RequestError, match="not 'fund'"):
        SpecDecChat(engine=SayingEngine("x")).bind_tools([find], tool_choice="fund")


def test_an_engine_is_needed_and_its_errors_pass_through() -> None:
    with pytest.raises(ValidationError, match="ChatEngine"):
        SpecDecChat(engine="smollm2-135m")  # type: ignore[arg-type]
    model = SpecDecChat(engine=RefusingEngine())
    for ask in (model.invoke, lambda text: list(model.stream(text)), lambda text: asyncio.run(model.ainvoke(text))):
        with pytest.raises(RequestError, match="no room"):
            ask("hi")


def test_nothing_is_cached_unless_it_is_asked_for_and_then_by_all_that_decides_the_text() -> None:
    engine = SayingEngine("x")
    SpecDecChat(engine=engine).invoke("hi")
    SpecDecChat(engine=engine).invoke("hi")
    assert len(engine.requests) == 2
    cache = InMemoryCache()
    asked: list[dict] = [{}, {}, {"seed": 1}, {"seed": 1}, {"sampling": SamplingParams(min_p=0.2)}]
    for settings in asked:
        SpecDecChat(engine=engine, cache=cache, **settings).invoke("hi")
    assert len(engine.requests) == 5
    SpecDecChat(engine=engine, cache=cache).bind_tools([find]).invoke("hi")
    assert len(engine.requests) == 6


class Product(BaseModel):
    """A product."""

    name: str
    price: float

    @field_validator("price")
    @classmethod
    def _not_for_free(cls, value: float) -> float:
        assert value > 0, "nothing is for free"
        return value


class Item(TypedDict):
    """An item."""

    name: str


GOOD, FREE = '{"name": "Tüte", "price": 2.5}', '{"name": "x", "price": 0}'


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_answers_of_a_class(method: Any) -> None:
    text = calls_text(("Product", json.loads(GOOD))) if method == "function_calling" else GOOD
    engine = SayingEngine(text)
    model = SpecDecChat(engine=engine).with_structured_output(Product, method=method)
    assert model.invoke("hi") == Product(name="Tüte", price=2.5)
    assert asyncio.run(model.ainvoke("hi")) == Product(name="Tüte", price=2.5)
    assert list(model.stream("hi"))[-1] == Product(name="Tüte", price=2.5)
    structured = engine.requests[0].structured
    assert structured is not None
    held = json.dumps(structured.json_schema)
    assert ("price" in held) == (method != "json_mode")


@pytest.mark.parametrize(
    "schema",
    [Item, {"title": "Item", "type": "object", "properties": {"name": {"type": "string"}}}],
    ids=["class", "dict"],
)
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_answers_as_plain_values(schema: Any, method: Any) -> None:
    text = '{"name": "x"}' if method == "json_schema" else calls_text(("Item", {"name": "x"}))
    model = SpecDecChat(engine=SayingEngine(text)).with_structured_output(schema, method=method)
    assert model.invoke("hi") == {"name": "x"}


@pytest.mark.parametrize(
    ("text", "finish_reason", "says"),
    [
        (FREE, "stop", "nothing is for free"),
        ('{"name": "x", "pri', "length", "was cut at max_tokens"),
        ("no", "stop", "no"),
    ],
)
def test_an_answer_that_does_not_fit_is_an_error_never_mended(text: str, finish_reason: Any, says: str) -> None:
    model = SpecDecChat(engine=SayingEngine(text, finish_reason=finish_reason))
    with pytest.raises(OutputParserException, match=says):
        model.with_structured_output(Product).invoke("hi")
    raw = model.with_structured_output(Product, include_raw=True).invoke("hi")
    assert isinstance(raw, dict) and raw["parsed"] is None and isinstance(raw["parsing_error"], OutputParserException)
    assert raw["raw"].content == text


def test_the_raw_answer_comes_with_the_value() -> None:
    raw = SpecDecChat(engine=SayingEngine(GOOD)).with_structured_output(Product, include_raw=True).invoke("hi")
    assert isinstance(raw, dict) and raw["parsed"] == Product(name="Tüte", price=2.5)
    assert raw["raw"].content == GOOD and raw["parsing_error"] is None


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(RequestError, match="unknown method 'magic'; known: json_schema, function_calling, json_mode"):
        SpecDecChat(engine=SayingEngine("")).with_structured_output(Product, method="magic")  # type: ignore[arg-type]


# The tiny random Llama: what it writes is nonsense, but grammars hold it.


@tool
def paint(colour: bool, times: int) -> str:
    """Paint."""
    return str(colour) * times


@pytest.fixture(scope="module")
def tiny() -> SpecDecChat:
    return SpecDecChat(engine=make_chat_engine(), max_tokens=150)


CHOICES = {"any": {"find", "paint"}, "paint": {"paint"}, "required": {"find", "paint"}}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_random_model_calls_the_tools_that_it_must(tiny: SpecDecChat, choice: str) -> None:
    model = tiny.bind_tools([find, paint], tool_choice=choice, parallel_tool_calls=False)
    for seed in range(3):
        settings = {"temperature": 1.0, "seed": seed}
        message = model.invoke("hi", **settings)
        names = {call["name"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
        assert names <= CHOICES[choice] and len(names) == 1
        for call in message.tool_calls:
            {"find": find, "paint": paint}[call["name"]].args_schema.model_validate(call["args"])
        other = streamed(model, "hi", **settings)
        assert (other.content, other.tool_calls) == (message.content, message.tool_calls)
        assert len(other.invalid_tool_calls) == len(message.invalid_tool_calls)


def test_a_random_model_answers_or_calls_and_drafts_change_nothing(tiny: SpecDecChat) -> None:
    plain = SpecDecChat(engine=make_chat_engine("none"), max_tokens=150)
    seen = set()
    for seed in range(8):
        settings = {"temperature": 2.0, "seed": seed}
        message = tiny.bind_tools([paint]).invoke("hi", reference_texts=['{"final_answer": "a'], **settings)
        other = plain.bind_tools([paint]).invoke("hi", **settings)
        assert (message.content, message.tool_calls) == (other.content, other.tool_calls)
        seen.add("calls" if message.tool_calls or message.invalid_tool_calls else "final_answer")
    assert seen == {"calls", "final_answer"}


def test_a_random_model_fills_a_schema(tiny: SpecDecChat) -> None:
    class Painting(BaseModel):
        colour: bool
        name: str = Field(pattern="^[a-z]{3}$")

    for seed in range(3):
        painting = tiny.with_structured_output(Painting).invoke("hi", temperature=1.0, seed=seed)
        assert isinstance(painting, Painting) and len(painting.name) == 3


def test_the_text_is_the_engines(tiny: SpecDecChat) -> None:
    messages = ({"role": "system", "content": "be"}, {"role": "user", "content": "hi"})
    for sampling in ({}, {"temperature": 1.3, "seed": 4}, {"temperature": 0.9, "top_k": 9, "seed": 5, "stop": ("a",)}):
        request = GenerationRequest(messages=messages, sampling=SamplingParams(max_tokens=60, **sampling))
        output = tiny.engine.generate(request)
        model = tiny.bind(max_tokens=60, **sampling)
        for message in (model.invoke(list(messages)), streamed(model, list(messages))):
            assert message.content == output.text
            assert message.usage_metadata["output_tokens"] == output.stats.num_generated_tokens
            assert message.response_metadata["finish_reason"] == output.finish_reason
        assert asyncio.run(model.ainvoke(list(messages))).content == output.text


def test_many_at_once_get_their_own_texts(tiny: SpecDecChat) -> None:
    prompts = [f"number {n}" for n in range(6)]
    alone = [tiny.invoke(prompt, max_tokens=20).content for prompt in prompts]
    assert [message.content for message in tiny.batch(prompts, max_tokens=20)] == alone

    async def together() -> list[AIMessage]:
        return await tiny.abatch(prompts, max_tokens=20)

    assert [message.content for message in asyncio.run(together())] == alone


def test_the_model_says_what_it_is(tiny: SpecDecChat) -> None:
    assert tiny.model_name == "tiny" and tiny._llm_type == "specdec"
    assert tiny.profile is not None and tiny.profile["max_input_tokens"] == 2048 and tiny.profile["tool_calling"]
    assert tiny._identifying_params["model_name"] == "tiny" and tiny._identifying_params["max_tokens"] == 150
    assert SpecDecChat(engine=SayingEngine("x")).model_name is None
    message = tiny.invoke([HumanMessage("hi"), ToolMessage("x", tool_call_id="1")], max_tokens=2)
    assert message.response_metadata["model_name"] == "tiny"
    assert message.response_metadata["fingerprint"] == tiny.engine.describe().fingerprint.digest  # type: ignore[attr-defined]
