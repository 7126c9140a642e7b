"""A server's life: bound to a port, run in a thread of a program or in the main thread of the command, ended in order.

Ending means: no new connections, all that waits is refused (503), the running text may take ``grace_s`` seconds more,
then the engine's thread ends, then the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.server.access import Access, Grant, RequestDefaults, check_key, is_loopback
from specdec_core.server.app import Endpoint
from specdec_core.server.metrics import ServerMetrics
from specdec_core.server.worker import Worker

__all__ = ["Server", "bind", "check_open_to_others", "serve", "url_of"]

_MAX_WAITING = 256
_SLOW_READERS_S = 3  # so much longer than the engine's last text those may take who do not read theirs


class Server:
    """Serves an engine from a thread of this process, for the agents that a program runs.

    ``api_key`` is what clients send as bearer token: one is made up where none is given. ``port`` 0 is any free one.
    ``names`` are what clients may call the model besides its own name; the first is the one shown. The engine can be
    used beside the server: generations take turns.

    >>> with Server(engine) as server, server.grant(RequestDefaults()) as grant:  # doctest: +SKIP
    ...     client = openai.OpenAI(base_url=server.url, api_key=grant.token)
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        names: Sequence[str] = (),
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self.api_key = secrets.token_urlsafe(24) if api_key is None else api_key
        self._host, self._port = host, port
        self._access = Access(self.api_key, host)
        self._endpoint = _endpoint(engine, self._access, names, max_waiting)
        self._url: str | None = None

    def __enter__(self) -> Server:
        if self._url is not None:
            raise RuntimeError("a server runs once: make another one")
        listener = bind(self._host, self._port)
        self._url = url_of(listener)
        self._http = _HttpServer(self._endpoint, grace_s=0)
        self._thread = threading.Thread(target=self._run, args=(listener,), name="specdec-server", daemon=True)
        self._thread.start()
        self._http.ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.should_exit = True
        self._thread.join()

    @property
    def url(self) -> str:
        """What clients call ``base_url``: ``http://127.0.0.1:PORT/v1``."""
        if self._url is None:
            raise RuntimeError("a server has its address when it runs: with Server(engine) as server: ...")
        return self._url

    @property
    def model(self) -> str:
        """What clients call the model."""
        return self._endpoint.names[0]

    @contextmanager
    def grant(self, defaults: RequestDefaults | None = None) -> Iterator[Grant]:
        """A token for one purpose, whose requests take its defaults, and an account of what they used.

        At the end the token is refused, and requests under it that wait or run are ended.
        """
        with self._access.grant(defaults or RequestDefaults()) as grant:
            try:
                yield grant
            finally:
                self._endpoint.worker.end_grant(grant)

    def _run(self, listener: socket.socket) -> None:
        try:
            self._http.run([listener])
        finally:
            self._http.ready.set()


def serve(
    engine: Engine,
    listener: socket.socket,
    *,
    host: str,
    api_key: str | None,
    names: Sequence[str] = (),
    grace_s: float = 5.0,
) -> None:
    """Serve in this thread, the main one, until SIGINT or SIGTERM, which then go on to who handled them before."""
    endpoint = _endpoint(engine, Access(api_key, host), names, _MAX_WAITING)
    _HttpServer(endpoint, grace_s=grace_s, log_config=_log_config()).run([listener])


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, with the address, where it cannot be had."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as error:
        error.strerror = f"cannot listen on {host!r}, port {port}: {error.strerror}"
        raise


def url_of(listener: socket.socket) -> str:
    """What clients of ``listener`` call ``base_url``."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def check_open_to_others(host: str, api_key: str | None) -> None:
    """Raises RequestError where anybody who reaches this machine could use the model, or nobody could send the key.

    >>> check_open_to_others("127.0.0.1", None)
    >>> check_open_to_others("0.0.0.0", "a secret")
    """
    check_key(api_key)
    if api_key is None and not is_loopback(host):
        raise RequestError(
            f"on {host!r} everybody who reaches this machine could use the model: give an API key "
            "(SPECDEC_API_KEY in the environment, or --api-key), or listen on 127.0.0.1"
        )


def _endpoint(engine: Engine, access: Access, names: Sequence[str], max_waiting: int) -> Endpoint:
    known = list(dict.fromkeys([*names, engine.model.name]))
    metrics = ServerMetrics(known[0])
    return Endpoint(engine, known, access, Worker(engine, metrics, max_waiting), metrics)


def _log_config() -> dict[str, Any]:
    """uvicorn's own, a line per request, all of it on standard error. Tokens are in no line: headers are not logged."""
    handlers = LOGGING_CONFIG["handlers"]
    return {**LOGGING_CONFIG, "handlers": {**handlers, "access": {**handlers["access"], "stream": "ext://sys.stderr"}}}


class _HttpServer(uvicorn.Server):
    """uvicorn, with the engine's thread beginning and ending with it."""

    def __init__(self, endpoint: Endpoint, *, grace_s: float, log_config: dict[str, Any] | None = None) -> None:
        config = uvicorn.Config(
            endpoint.app(),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=log_config,
            access_log=log_config is not None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=int(grace_s) + _SLOW_READERS_S,
        )
        super().__init__(config)
        self._worker, self._grace_s = endpoint.worker, grace_s
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._worker.start()
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._worker.stop(self._grace_s)
        await super().shutdown(sockets)
        self._worker.stop(0)
        await asyncio.to_thread(self._worker.join)
