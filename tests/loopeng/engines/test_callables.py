"""Bare callables as engines, coroutines from anywhere, and the engine as an agent sees it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopeng.engines import LazyEngine, MeteredEngine, as_engine, awaiting, finish
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError, UsageError
from loopeng.ports import TextEngine, TextRequest
from loopeng.schema import Message

REQUEST = TextRequest(messages=(Message(role="user", content="hi"),), seed=7, temperature=0.5, reference_texts=("x",))


def test_a_sync_callable_gets_plain_messages_and_parameters() -> None:
    seen: list = []

    def generate(messages: object, params: object) -> str:
        seen.append((messages, params))
        return "hello"

    engine = as_engine(generate)
    reply = engine.generate(REQUEST)
    assert reply.text == "hello" and reply.latency_s >= 0
    ((messages, params),) = seen
    assert messages == [{"role": "user", "content": "hi"}]
    assert params["seed"] == 7 and params["temperature"] == 0.5 and params["max_tokens"] == 256
    assert "reference_texts" not in params
    info = engine.describe()
    assert (info.deterministic, info.reference, info.fingerprint) == (False, None, None)


def test_an_async_callable_also_inside_a_running_loop_and_on_one_loop_for_all_calls() -> None:
    loops: set = set()

    async def generate(messages: object, params: object) -> str:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return "hello"

    engine = as_engine(generate)

    async def inside() -> str:
        return engine.generate(REQUEST).text

    assert engine.generate(REQUEST).text == asyncio.run(inside()) == "hello"
    assert len(loops) == 1  # connection pools of the user's client stay alive


def test_a_coroutine_may_call_back_into_the_private_loop_without_a_deadlock() -> None:
    async def inner() -> str:
        return threading.current_thread().name

    async def outer() -> str:
        return finish(inner())

    done: list = []
    thread = threading.Thread(target=lambda: done.append(finish(outer())), daemon=True)
    thread.start()
    thread.join(10)
    assert done


def in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    """What ``work`` gives in so many threads, all at once; what none of them gives within a few seconds is missing."""
    together, done = threading.Barrier(count), []

    def run() -> None:
        together.wait()
        done.append(work())

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return done


def test_many_async_agents_ask_an_async_engine_that_needs_threads_itself() -> None:
    """An application with twenty calls under way stood still for ever: agents that waited for their engine had taken
    all threads of the event loop, and the engine's own work (an address that is looked up) needed one.
    """

    async def generate(messages: object, params: object) -> str:
        return await asyncio.to_thread(lambda: "hello")

    async def agent() -> str:
        reply = await MeteredEngine(as_engine(generate), REQUEST).agenerate("hi")
        return reply.text

    assert finish(agent()) == "hello"
    assert in_threads(40, lambda: finish(agent())) == ["hello"] * 40


def test_threads_that_are_first_at_the_same_time_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    making = asyncio.new_event_loop

    def slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return making()

    async def its_loop() -> int:
        return id(asyncio.get_running_loop())

    awaiting._private_loop.cache_clear()  # as in a new process
    monkeypatch.setattr(asyncio, "new_event_loop", slowly)
    found = in_threads(8, lambda: finish(its_loop()))
    assert len(found) == 8 and len(set(found)) == 1


def test_what_a_callable_raises_or_gives_wrongly_is_an_engine_error() -> None:
    def broken(messages: object, params: object) -> str:
        raise ConnectionError("no route")

    with pytest.raises(EngineError, match="ConnectionError: no route"):
        as_engine(broken).generate(REQUEST)
    with pytest.raises(EngineError, match="int, not a string"):
        as_engine(lambda messages, params: 3).generate(REQUEST)  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError, match="no engine"):
        as_engine(3)  # type: ignore[arg-type]

    def interrupted(messages: object, params: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        as_engine(interrupted).generate(REQUEST)


def test_a_text_engine_stays_what_it_is() -> None:
    engine = ScriptedEngine(lambda request: "x")
    assert as_engine(engine) is engine


def test_a_lazy_engine_is_made_once_at_its_first_use() -> None:
    made: list[TextEngine] = []

    def build() -> TextEngine:
        made.append(ScriptedEngine(lambda request: "x"))
        return made[-1]

    engine = LazyEngine(build)
    assert not made and isinstance(engine, TextEngine)
    assert engine.generate(REQUEST).text == "x" and engine.describe().kind == "scripted" and len(made) == 1


def test_the_metered_engine_sums_usage_and_never_asks_twice_with_one_seed() -> None:
    requests: list[TextRequest] = []

    def replies(request: TextRequest) -> str:
        requests.append(request)
        return "a b"

    engine = MeteredEngine(ScriptedEngine(replies), REQUEST)
    engine.generate("plain text")
    engine.generate(
        [Message(role="user", content="x")], temperature=0.9, stop=("\n",), response_schema={"type": "null"}
    )
    assert [request.seed for request in requests] == [7, 8]
    assert requests[0].messages == (Message(role="user", content="plain text"),)
    assert requests[1].temperature == 0.9 and requests[1].reference_texts == ("x",)
    assert (requests[0].response_schema, requests[1].response_schema) == (None, {"type": "null"})
    assert (engine.usage.generated_tokens, engine.num_calls) == (4, 2)
    engine.begin()
    engine.generate("again")
    assert requests[-1].seed == 7 and engine.usage.generated_tokens == 6
    top = MeteredEngine(ScriptedEngine(replies), REQUEST.model_copy(update={"seed": 2**63 - 1}))
    top.generate("a"), top.generate("b")
    assert requests[-1].seed == 0
