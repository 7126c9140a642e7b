"""Clients of a server under test: raw HTTP, events of a stream, and an engine whose rounds a test lets through."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPMessage
from typing import Any
from urllib.parse import urlsplit

from specdec_core.controller import FixedLength
from specdec_core.drafters.null import NullDrafter
from specdec_core.engine import Engine
from specdec_core.server import Server
from specdec_core.types import GenerationRequest
from tests.specdec_core.grammar_tokenizer import GrammarTinyTokenizer
from tests.specdec_core.tiny_models import make_tiny_engine

__all__ = [
    "Answer",
    "Asking",
    "Gate",
    "ask",
    "chat_body",
    "eventually",
    "expected",
    "gated_engine",
    "grammar_engine",
    "leaving_stream",
    "metric",
    "num_aborted",
    "num_running",
    "num_waiting",
    "sent_events",
]


@dataclass
class Answer:
    status: int
    headers: HTTPMessage
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        assert set(found) == {"message", "type", "param", "code"}
        return found


def ask(
    url: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request over a connection of its own. ``body`` is bytes, or anything that is sent as JSON."""
    place = urlsplit(url)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        method = method or ("GET" if body is None else "POST")
        connection.request(method, path, content, {**sent, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read().decode())
    finally:
        connection.close()


def chat_body(content: str = "Tell me", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 12, **fields}


def sent_events(answer: Answer) -> list[dict[str, Any]]:
    """The documents of a stream that was closed by ``[DONE]``."""
    lines = [line for line in answer.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@contextmanager
def leaving_stream(
    server: Server, body: dict[str, Any], token: str | None = None, *, stream: bool = True
) -> Iterator[Callable[[], str]]:
    """The events of a stream, one by each call; the client hangs up at the end of the block."""
    place = urlsplit(server.url)
    content = json.dumps(body | {"stream": stream}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
        f"Authorization: Bearer {token or server.api_key}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as connection:
        connection.sendall(head.encode() + content)
        with connection.makefile("rb") as lines:

            def next_event() -> str:
                for line in lines:
                    if line.startswith(b"data: "):
                        return line.decode().removeprefix("data: ").strip()
                return ""

            yield next_event


def metric(server: Server, name: str, **labels: str) -> float:
    """The sum over all label sets that have ``labels``."""
    lines = [
        line for line in ask(server.url, "/metrics").text.splitlines() if line.startswith((f"{name}{{", f"{name} "))
    ]
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(each in line for each in wanted))


class Asking(threading.Thread):
    """A client that waits for its answer beside the test."""

    def __init__(self, server: Server, body: dict[str, Any], token: str | None = None) -> None:
        super().__init__()
        self._url, self._body, self._token = server.url, body, token or server.api_key
        self._answer: Answer | None = None
        self.start()

    def run(self) -> None:
        self._answer = ask(self._url, "/v1/chat/completions", self._body, token=self._token)

    def answer(self) -> Answer:
        self.join(30)
        assert self._answer is not None
        return self._answer


def num_waiting(server: Server) -> float:
    return metric(server, "vllm:num_requests_waiting")


def num_running(server: Server) -> float:
    return metric(server, "vllm:num_requests_running")


def num_aborted(server: Server) -> float:
    return metric(server, "vllm:request_success_total", finished_reason="abort")


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)


class Gate(NullDrafter):
    """A drafter that lets a round through for each permit, and counts them; ``open`` lets all through."""

    name = "gate"

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)
        self.open = threading.Event()
        self.num_rounds = 0  # the prefill is one
        self.prompts: list[Sequence[int]] = []

    def begin(self, context: Any) -> None:
        self.prompts.append(context.prompt_ids)

    def let_through(self, num_rounds: int) -> None:
        self._permits.release(num_rounds)

    def observe(self, token_ids: Sequence[int]) -> None:
        deadline = time.monotonic() + 30
        while not self.open.is_set() and not self._permits.acquire(timeout=0.01):
            assert time.monotonic() < deadline, "nobody let the round through"
        self.num_rounds += 1


def gated_engine() -> tuple[Engine, Gate]:
    gate = Gate()
    return Engine(make_tiny_engine("none").model, drafter=gate, policy=FixedLength()), gate


def grammar_engine() -> Engine:
    """A tiny engine that can hold texts to a form."""
    model = replace(make_tiny_engine("none").model, tokenizer=GrammarTinyTokenizer())
    return Engine(model, drafter="suffix", policy=FixedLength())


def expected(engine: Engine, content: str = "Tell me", **sampling: Any) -> str:
    """The text as the engine alone writes it."""
    fields = {"temperature": 0, "max_tokens": 12, **sampling}
    message = {"role": "user", "content": content}
    return engine.generate(GenerationRequest(messages=(message,), sampling=fields)).text
