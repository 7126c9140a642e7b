"""The speculative core over HTTP, for programs that attempts run: a server for each model, a grant for each attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from loopeng.ports import Endpoint
from loopeng.schema import Usage

if TYPE_CHECKING:
    from specdec_core.engine import Engine
    from specdec_core.metrics import DecodeStats
    from specdec_core.server import Server
    from specdec_core.types import GenerationRequest

__all__ = ["can_serve", "open_endpoint"]

_serving: dict[int, Server] = {}  # by the engine it serves, which it keeps alive: started once, ended by the process
_starting = threading.Lock()


def can_serve() -> bool:
    """Whether the extra [serve] is installed."""
    return all(find_spec(name) is not None for name in ("prometheus_client", "starlette", "uvicorn"))


@contextmanager
def open_endpoint(
    engine: Engine, request: GenerationRequest, usage_of: Callable[[DecodeStats], Usage]
) -> Iterator[Endpoint | None]:
    """The engine on 127.0.0.1, under the sampling and the reference texts of ``request``; None without [serve]."""
    if not can_serve():
        yield None
        return
    from specdec_core.server import RequestDefaults

    server = _server_of(engine)
    with server.grant(RequestDefaults(request.sampling, request.reference_texts)) as grant:
        yield Endpoint(
            url=server.url,
            token=grant.token,
            model=server.model,
            usage=lambda: sum(map(usage_of, list(grant.stats)), Usage()),
        )


def _server_of(engine: Engine) -> Server:
    from specdec_core.server import Server

    with _starting:
        if id(engine) not in _serving:
            _serving[id(engine)] = Server(engine).__enter__()
        return _serving[id(engine)]
