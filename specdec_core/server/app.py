"""The HTTP side: routes, and what each of them does, from the body to the answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.server.access import Access, RequestDefaults
from specdec_core.server.metrics import ServerMetrics
from specdec_core.server.reading import Asked, read_chat, read_completion
from specdec_core.server.refusals import JsonAnswer, Refusal, refusal_of
from specdec_core.server.replies import make_reply
from specdec_core.server.streaming import ClientLeftError, EventStream, while_connected
from specdec_core.server.worker import Worker
from specdec_core.structured import can_hold_forms
from specdec_core.types import GenerationChunk

__all__ = ["Endpoint"]

_MAX_BODY_BYTES = 4 << 20  # more text than any context holds; reading it keeps the engine from the others
_CLIENT_LEFT = 499  # what nginx logs for it; nobody reads this answer


@dataclass(frozen=True)
class Endpoint:
    """One engine behind HTTP. ``names`` are those that clients may call the model; the first is the one shown."""

    engine: Engine
    names: Sequence[str]
    access: Access
    worker: Worker
    metrics: ServerMetrics
    created: int = field(default_factory=lambda: int(time.time()))

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/completions", self._completion, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
            ],
            middleware=[Middleware(_Guard, access=self.access)],
            exception_handlers={
                Refusal: _refuse,
                HTTPException: _refuse_http,
                ClientDisconnect: _client_left,
                ClientLeftError: _client_left,
                Exception: _fail,
            },
        )

    async def _chat(self, request: Request) -> ASGIApp:
        context_length = self.engine.model.target.context_length
        return await self._answer(request, read_chat(await _body(request), _defaults(request), context_length))

    async def _completion(self, request: Request) -> ASGIApp:
        return await self._answer(request, read_completion(await _body(request), _defaults(request)))

    async def _answer(self, request: Request, asked: Asked) -> ASGIApp:
        """Wait in the line, and answer whole or, once the first token is there, as a stream."""
        if asked.model not in (None, *self.names):
            raise _unknown_model(str(asked.model), param="model")
        job = self.worker.submit(asked.request, request.state.grant)
        reply = make_reply(asked, self.names[0], self.engine.fingerprint.digest, self.engine.model.tokenizer)
        streaming = False
        try:
            if not asked.stream:
                return JsonAnswer(reply.whole(await while_connected(request.receive, job.output())))
            chunks = job.chunks()
            first = await while_connected(request.receive, anext(chunks))
            streaming = True
            return EventStream(
                reply.events(_rejoined(first, chunks)), at_end=lambda: self.worker.cancel(job), params=asked.params
            )
        except RequestError as error:
            raise refusal_of(error, asked.params) from None
        finally:
            if not streaming:
                self.worker.cancel(job)

    async def _models(self, request: Request) -> Response:
        return JsonAnswer({"object": "list", "data": [self._described(name) for name in self.names]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.names:
            raise _unknown_model(name)
        return JsonAnswer(self._described(name))

    def _described(self, name: str) -> dict[str, Any]:
        """As OpenAI and vLLM do, and what clients that know us may count on: the same text again, and forms held."""
        return {
            "id": name,
            "object": "model",
            "created": self.created,
            "owned_by": "specdec",
            "root": self.engine.model.name,
            "max_model_len": self.engine.model.target.context_length,
            "exactness": self.engine.fingerprint.exactness,
            "system_fingerprint": self.engine.fingerprint.digest,
            "structured_output": can_hold_forms(self.engine.model.tokenizer),
        }

    async def _health(self, request: Request) -> Response:
        return JsonAnswer({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


class _Guard:
    """Turns away who may not ask, before anything is read. ``/health`` and ``/metrics`` need no token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            try:
                self._access.check_origin(headers)
                if scope["path"].startswith("/v1/"):
                    scope.setdefault("state", {})["grant"] = self._access.check_token(headers.get("authorization"))
            except Refusal as refusal:
                await refusal.answer()(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _rejoined(first: GenerationChunk, others: AsyncIterator[GenerationChunk]) -> AsyncIterator[GenerationChunk]:
    yield first
    async for chunk in others:
        yield chunk


async def _body(request: Request) -> bytes:
    """The body, as long as it is of a size that can be a request."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal():
        _check_size(int(announced))  # before anything of it is read
    content = bytearray()
    async for part in request.stream():
        content += part
        _check_size(len(content))
    return bytes(content)


def _check_size(num_bytes: int) -> None:
    if num_bytes > _MAX_BODY_BYTES:
        raise Refusal(413, f"the body is larger than {_MAX_BODY_BYTES >> 20} MiB", code="request_too_large")


def _defaults(request: Request) -> RequestDefaults:
    grant = request.state.grant
    return RequestDefaults() if grant is None else grant.defaults_of_next()


def _unknown_model(name: str, param: str | None = None) -> Refusal:
    said = f"the model {name[:100]!r} is not served here: GET /v1/models lists what is"
    return Refusal(404, said, param=param, code="model_not_found")


async def _refuse(request: Request, error: Exception) -> Response:
    return refusal_of(error, {}).answer()


async def _refuse_http(request: Request, error: Exception) -> Response:
    """No such path, or another method."""
    assert isinstance(error, HTTPException)
    said = f"{request.method} {request.url.path}: {error.detail}"
    return Refusal(error.status_code, said, headers=error.headers).answer()


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_LEFT)


async def _fail(request: Request, error: Exception) -> Response:
    """A fault of ours: the traceback goes to the log, not to the client."""
    return refusal_of(error, {}).answer()
