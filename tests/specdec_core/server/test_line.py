"""The line before the engine: order, room, clients that leave, and the end of the server."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import openai
import pytest

from specdec_core.controller import FixedLength
from specdec_core.engine import Engine
from specdec_core.server import Server
from specdec_core.server.worker import Job
from tests.specdec_core.server.asking import (
    Asking,
    Gate,
    ask,
    chat_body,
    eventually,
    expected,
    gated_engine,
    leaving_stream,
    num_aborted,
    num_running,
    num_waiting,
    sent_events,
)

CHAT = "/v1/chat/completions"


def jobs() -> list[Job]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Job]


def test_requests_are_served_in_the_order_they_came_and_the_line_has_an_end(gated: tuple[Server, Gate]) -> None:
    server, gate = gated
    clients = []
    for number in range(4):
        clients.append(Asking(server, chat_body(f"number {number}", max_tokens=2)))
        eventually(lambda: num_running(server) + num_waiting(server) == len(clients))
    refused = ask(server.url, CHAT, chat_body(), token=server.api_key)
    assert (refused.status, refused.error["code"]) == (503, "overloaded")
    assert refused.error["type"] == "server_error" and int(refused.headers["retry-after"]) >= 1
    assert ask(server.url, "/health").status == 200  # it is busy, not gone
    gate.open.set()
    assert [client.answer().status for client in clients] == [200] * 4
    prompts = ["".join(chr(token_id + 30) for token_id in prompt) for prompt in gate.prompts]
    assert prompts == [f"number {number}" for number in range(4)]


def test_a_client_that_leaves_its_stream_frees_the_engine_within_a_round(gated: tuple[Server, Gate]) -> None:
    server, gate = gated
    with leaving_stream(server, chat_body(max_tokens=100)) as next_event:
        gate.let_through(1)
        assert "assistant" in next_event()
    _catch_up(server)
    gate.let_through(1)
    eventually(lambda: num_running(server) == 0)
    assert (gate.num_rounds, num_aborted(server)) == (2, 1)


def test_a_client_that_leaves_before_its_whole_answer_frees_the_engine_too(gated: tuple[Server, Gate]) -> None:
    server, gate = gated
    with leaving_stream(server, chat_body(max_tokens=100), stream=False):
        eventually(lambda: num_running(server) == 1)
    _catch_up(server)
    gate.let_through(1)
    eventually(lambda: num_running(server) == 0)
    assert (gate.num_rounds, num_aborted(server)) == (1, 1)


def test_a_client_that_leaves_while_its_prompt_is_read_frees_the_engine_before_the_next_chunk(engine: Engine) -> None:
    class WaitsForThePrompt(Gate):
        def begin(self, context: Any) -> None:
            super().begin(context)
            self.observe(())

    gate = WaitsForThePrompt()
    with Server(Engine(engine.model, drafter=gate, policy=FixedLength())) as server:
        with leaving_stream(server, chat_body(max_tokens=100)):
            eventually(lambda: num_running(server) == 1)
        _catch_up(server)
        gate.let_through(1)
        eventually(lambda: num_running(server) == 0)
        assert (gate.num_rounds, num_aborted(server)) == (1, 1)
        gate.open.set()
        assert ask(server.url, CHAT, chat_body(max_tokens=4), token=server.api_key).status == 200


def _catch_up(server: Server) -> None:
    """By the time the server has answered these it has seen what came before them."""
    for _ in range(3):
        assert ask(server.url, "/health").status == 200


def test_a_client_that_leaves_the_line_is_not_served(gated: tuple[Server, Gate]) -> None:
    server, gate = gated
    first = Asking(server, chat_body("first", max_tokens=2))
    eventually(lambda: num_running(server) == 1)
    with leaving_stream(server, chat_body("leaving")):
        eventually(lambda: num_waiting(server) == 1)
    eventually(lambda: num_waiting(server) == 0)
    gate.open.set()
    assert first.answer().status == 200
    assert len(gate.prompts) == 1
    eventually(lambda: jobs() == [])


def test_a_drafter_that_breaks_is_a_500_without_details_and_the_next_request_is_served(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Gate):
        broken = True

        def observe(self, token_ids: Any) -> None:
            if self.broken and len(token_ids) >= 1 and self.num_rounds == 2:
                raise RuntimeError("secret detail")
            self.num_rounds += 1

    drafter = Broken()
    with Server(Engine(engine.model, drafter=drafter, policy=FixedLength())) as server:
        whole = ask(server.url, CHAT, chat_body(), token=server.api_key)
        assert whole.status == 500 and whole.error["type"] == "server_error"
        assert "secret" not in whole.text
        drafter.num_rounds = 0
        streamed = ask(server.url, CHAT, chat_body(stream=True), token=server.api_key)
        assert streamed.status == 200 and "[DONE]" not in streamed.text
        assert '"type":"server_error"' in streamed.text and "secret" not in streamed.text
        drafter.broken = False
        assert ask(server.url, CHAT, chat_body(), token=server.api_key).status == 200
    assert "secret detail" in caplog.text  # the log has it
    assert server.api_key not in caplog.text


def test_the_end_of_the_server_is_told_to_all_who_wait_and_leaves_nothing(engine: Engine) -> None:
    before = set(threading.enumerate())
    gated, gate = gated_engine()
    with Server(gated) as server, leaving_stream(server, chat_body(max_tokens=100)) as next_event:
        gate.let_through(2)
        assert next_event() and next_event()
        waiting = Asking(server, chat_body())
        eventually(lambda: num_waiting(server) == 1)
        ending = threading.Thread(target=server.__exit__, args=(None, None, None))
        ending.start()
        refused = waiting.answer()
        gate.open.set()
        told = list(iter(next_event, ""))
        ending.join(30)
    assert (refused.status, refused.error["code"]) == (503, "server_ending")
    assert "server_ending" in told[-1]
    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match="refused"):
        ask(server.url, "/health")
    eventually(lambda: jobs() == [])


def test_a_server_without_requests_begins_and_ends() -> None:
    engine, _ = gated_engine()
    with Server(engine) as first, Server(engine) as second:
        assert first.url != second.url
        assert first.api_key != second.api_key
    with pytest.raises(RuntimeError, match="runs once"):
        first.__enter__()


async def _one(client: openai.AsyncOpenAI, number: int, max_tokens: int) -> str | None:
    """Clients 0, 6, 12 ... vanish after their first text; half of the others stream."""
    arguments: Any = {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"client {number % 16}"}],
        "temperature": 0.9,
        "seed": number % 16,
        "max_tokens": max_tokens,
    }
    if number % 6 and number % 2:
        reply = await client.chat.completions.create(**arguments)
        return str(reply.choices[0].message.content)
    stream = await client.chat.completions.create(**arguments, stream=True)
    text = ""
    async with stream:
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if number % 6 == 0 and text:
                return None
    return text


async def all_at_once(server: Server, num_clients: int, max_tokens: int) -> list[str | None]:
    async with openai.AsyncOpenAI(base_url=server.url, api_key=server.api_key, max_retries=0) as client:
        return await asyncio.gather(*(_one(client, number, max_tokens) for number in range(num_clients)))


def test_of_64_clients_at_once_some_vanish_and_all_others_finish(engine: Engine, server: Server) -> None:
    texts = [expected(engine, f"client {number}", temperature=0.9, seed=number, max_tokens=16) for number in range(16)]
    found = asyncio.run(all_at_once(server, num_clients=64, max_tokens=16))
    assert sum(text is None for text in found) == 11
    for number, text in enumerate(found):
        assert text is None or text == texts[number % 16]
    eventually(lambda: num_running(server) == num_waiting(server) == 0)
    eventually(lambda: jobs() == [])


def test_events_of_a_stream_are_one_line_of_ascii_each(server: Server) -> None:
    answer = ask(server.url, CHAT, chat_body(stream=True), token=server.api_key)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.isascii() and sent_events(answer)
