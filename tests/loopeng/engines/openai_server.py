"""A server on 127.0.0.1 that speaks the OpenAI protocol as it is told to: well, badly, slowly, or not at all."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Body = Mapping[str, Any] | bytes


@dataclass(frozen=True)
class Call:
    """One request that came, and the way to answer it."""

    handler: BaseHTTPRequestHandler
    path: str
    headers: Mapping[str, str]
    body: Any
    closing: threading.Event  # the server ends: nobody waits any more
    at: float = field(default_factory=time.monotonic)

    def send(self, body: Body, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.start(status, {"Content-Length": str(len(content)), **(headers or {})})
        self.handler.wfile.write(content)

    def start(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()


Behaviour = Callable[[Call], None]


class ChatServer(ThreadingHTTPServer):
    """Answers each chat request with the next of ``behaviours``, and with the last one for ever; remembers the calls.

    ``models`` is what ``/models`` answers: a body, or a behaviour. Without it there is no such list.
    """

    daemon_threads = False  # closing waits for them

    def __init__(self, *behaviours: Behaviour, models: Body | Behaviour | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviours, self.models = list(behaviours), models
        self.calls: list[Call] = []
        self.num_lists = 0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [call.body for call in self.calls]

    def answer(self, call: Call) -> None:
        if call.path == "/v1/models":
            self.num_lists += 1
            if self.models is None:
                call.send({"detail": "Not Found"}, 404)
            elif callable(self.models):
                self.models(call)
            else:
                call.send(self.models)
            return
        with self._lock:
            behaviour = self.behaviours[min(len(self.calls), len(self.behaviours) - 1)]
            self.calls.append(call)
        behaviour(call)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has gone: that is what some tests are about."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_GET(self) -> None:
        self.server.answer(Call(self, self.path, self.headers, None, self.server.closing))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answer(Call(self, self.path, self.headers, json.loads(content), self.server.closing))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base names it so
        pass


def completion(text: str | None = "fine", **changes: Any) -> dict[str, Any]:
    """A whole answer; ``message``, ``choice`` and the names of its own fields change a part of it."""
    message = {"role": "assistant", "content": text} | changes.pop("message", {})
    choice = {"index": 0, "message": message, "finish_reason": "stop"} | changes.pop("choice", {})
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "x", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage} | changes


def says(text: str | None = "fine", **changes: Any) -> Behaviour:
    return lambda call: call.send(completion(text, **changes))


def sends(body: Body, status: int = 200, **headers: str) -> Behaviour:
    """Any body, as it is."""
    return lambda call: call.send(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def computes(function: Callable[[Any], str]) -> Behaviour:
    """The text is a function of the request's body; its words are counted as tokens."""

    def answer(call: Call) -> None:
        text = function(call.body)
        num_prompt = sum(len(message["content"].split()) for message in call.body["messages"])
        usage = {"prompt_tokens": num_prompt, "completion_tokens": len(text.split())}
        call.send(completion(text, usage=usage))

    return answer


def packed(body: bytes, *, declared: str = "gzip") -> Behaviour:
    return lambda call: call.send(body, 200, {"Content-Encoding": declared})


def zipped(body: Mapping[str, Any]) -> Behaviour:
    return packed(gzip.compress(json.dumps(body).encode()))


def hangs_up(call: Call) -> None:
    """Closes the connection without a word."""
    call.handler.close_connection = True


def breaks_off(call: Call) -> None:
    """Sends half of what it has announced."""
    content = json.dumps(completion()).encode()
    call.start(200, {"Content-Length": str(len(content))})
    call.handler.wfile.write(content[: len(content) // 2])


def hangs(call: Call) -> None:
    """Never answers."""
    call.closing.wait(60)


def drips(call: Call) -> None:
    """Sends a byte now and then, for ever: every single read succeeds."""
    call.start(200, {"Content-Length": "1000000"})
    while not call.closing.wait(0.02):
        call.handler.wfile.write(b" ")
        call.handler.wfile.flush()
