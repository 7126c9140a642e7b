"""The engine as an agent sees it, from several threads and over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loopeng.engines import LazyEngine, MeteredEngine
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError
from loopeng.ports import Endpoint, TextRequest
from loopeng.schema import Usage

REQUEST = TextRequest(messages=(), seed=7)


def refuse(request: TextRequest) -> str:
    if "break" in request.messages[-1].content:
        raise EngineError("out of steam")
    return f"{request.seed}"


def test_a_call_that_breaks_gives_its_seed_back_where_none_came_after_it() -> None:
    begun = threading.Event()

    def replies(request: TextRequest) -> str:
        content = request.messages[-1].content
        begun.set() if content == "go on" else begun.wait(60 if "later" in content else 0)
        return refuse(request)

    engine = MeteredEngine(ScriptedEngine(replies), REQUEST)
    with pytest.raises(EngineError, match="out of steam"):
        engine.generate("break")
    assert engine.broke and engine.generate("go on").text == "7" and not engine.broke
    begun.clear()

    async def two() -> list[object]:
        return await asyncio.gather(engine.agenerate("break later"), engine.agenerate("go on"), return_exceptions=True)

    broken, reply = asyncio.run(two())
    assert isinstance(broken, EngineError) and getattr(reply, "text", None) == "9"
    assert engine.generate("later").text == "10" and engine.usage.generated_tokens == 3


def test_after_its_attempt_nobody_is_answered() -> None:
    engine = MeteredEngine(ScriptedEngine(refuse), REQUEST)
    engine.close()
    with pytest.raises(EngineError, match="the attempt is over"):
        engine.generate("late")
    with pytest.raises(EngineError, match="the attempt is over"):
        asyncio.run(engine.agenerate("late"))
    with pytest.raises(EngineError, match="the attempt is over"), engine.endpoint():
        pass
    assert engine.num_calls == 0


class Served(ScriptedEngine):
    """``log`` tells when the endpoint began and ended, and when it was asked what was spent."""

    log: list[str]

    @contextmanager
    def endpoint(self, request: TextRequest) -> Iterator[Endpoint | None]:
        self.log.append(f"begin {request.seed}")
        try:
            yield Endpoint("http://127.0.0.1:9/v1", "t", "m", self.spent)
        finally:
            self.log.append("end")

    def spent(self) -> Usage:
        self.log.append("count")
        return Usage(prompt_tokens=2, generated_tokens=3)


def test_what_was_asked_over_http_is_counted_after_the_end_however_it_ends() -> None:
    served = Served(refuse)
    served.log = []
    engine = MeteredEngine(LazyEngine(lambda: served), REQUEST)
    with engine.endpoint() as endpoint:
        assert endpoint is not None and endpoint.url == "http://127.0.0.1:9/v1"
    with pytest.raises(RuntimeError, match="agent"), engine.endpoint():
        raise RuntimeError("the agent broke")
    assert served.log == ["begin 7", "end", "count"] * 2 and engine.usage.total_tokens == 10
    assert engine.fingerprint == served.describe().fingerprint


def test_an_engine_without_an_endpoint_has_none() -> None:
    for made in (ScriptedEngine(refuse), LazyEngine(lambda: ScriptedEngine(refuse))):
        engine = MeteredEngine(made, REQUEST)
        with engine.endpoint() as endpoint:
            assert endpoint is None
        assert engine.usage == Usage() and engine.fingerprint is None


def test_reference_texts_of_a_call_come_before_those_of_the_attempt() -> None:
    seen: list[tuple[str, ...]] = []

    def replies(request: TextRequest) -> str:
        seen.append(request.reference_texts)
        return "x"

    engine = MeteredEngine(ScriptedEngine(replies), REQUEST.model_copy(update={"reference_texts": ("a", "b")}))
    engine.generate("plain")
    engine.generate("more", reference_texts=("c", "a"))
    assert seen == [("a", "b"), ("c", "a", "b")]
