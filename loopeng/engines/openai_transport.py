"""Requests to an OpenAI-compatible server over HTTP: tried again where that may help, bounded in time and in size.

Tried again: time-outs, connections that fail or break off, and the answers 408, 429 and 5xx. The pauses double, are
spread at random, and last at least as long as the server asks for. Everything else is handed back as it came: another
try would get the same. A connection is made for every request, so that none is left behind or has gone stale.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx

from loopeng.errors import EngineError, RetriesExhaustedError

__all__ = ["Answer", "Server", "excerpt"]

_MOST_BYTES = 32 * 1024 * 1024  # of an answer, unpacked: a million tokens are a fraction of it
_CONNECT_S = 10.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 20.0  # of our own
_LONGEST_WAIT_S = 60.0  # that a server may ask for; a quota that opens in an hour is nothing to wait for
_TRY_AGAIN = frozenset({408, 429})
_SHORTEST_SECRET = 6  # characters; a placeholder for a server without keys is no secret
_EXCERPT = 300


@dataclass(frozen=True)
class Answer:
    """What came back, whatever its status. ``latency_s`` is that of the try that brought it."""

    status: int
    body: bytes
    location: str | None = None  # where a redirect points
    latency_s: float = 0.0


@dataclass(frozen=True)
class _Failure:
    """Why a try brought no answer to keep, and how long the server wants to be left alone."""

    text: str
    wait_s: float = 0.0


class Server:
    """One server. ``key`` goes into the header of every request, and into no error."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        time_limit_s: float = 300.0,
        max_retries: int = 3,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.key, self._time_limit_s, self._max_retries = key, time_limit_s, max_retries
        self._first_pause_s = first_pause_s
        parts = urlsplit(base_url)
        self._uses_proxies = not _is_loopback(parts.hostname or "")  # what runs here is asked directly
        self._verify = httpx.create_ssl_context() if parts.scheme == "https" else False

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """GET ``path`` below the base URL, or POST ``body`` to it as JSON.

        Raises RetriesExhaustedError where no try brought an answer, EngineError for one that cannot be unpacked or is
        too long, and for a server whose certificate is not trusted.
        """
        content = None if body is None else json.dumps(body).encode()
        num_failures = 0
        while True:
            outcome = await self._try(path, content)
            if isinstance(outcome, Answer):
                return outcome
            num_failures += 1
            if num_failures > self._max_retries or outcome.wait_s > _LONGEST_WAIT_S:
                tries = "" if num_failures == 1 else f" ({num_failures} tries)"
                raise RetriesExhaustedError(self.without_key(f"{self._url(path)}: {outcome.text}{tries}"))
            await asyncio.sleep(self._pause_s(num_failures, outcome.wait_s))

    def without_key(self, text: str) -> str:
        """What a server says of a request may hold the key that came with it."""
        return self._without_key(text.encode("utf-8", "replace")).decode()

    def _without_key(self, body: bytes) -> bytes:
        hides = self.key is not None and len(self.key) >= _SHORTEST_SECRET
        return body.replace((self.key or "").encode(), b"[key]") if hides else body

    async def _try(self, path: str, content: bytes | None) -> Answer | _Failure:
        url, started = self._url(path), time.perf_counter()
        try:
            async with asyncio.timeout(self._time_limit_s), self._client() as client:
                method = "GET" if content is None else "POST"
                async with client.stream(method, url, content=content, headers=self._headers()) as response:
                    body = await _read(response)
        except (TimeoutError, httpx.TimeoutException):
            return _Failure(f"no answer within {self._time_limit_s:g} s")
        except httpx.DecodingError as error:
            raise EngineError(self.without_key(f"{url}: the answer cannot be unpacked: {error}")) from error
        except httpx.TransportError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):  # OpenSSL's name of it, whatever httpx wraps it in
                raise EngineError(f"{url}: the server's certificate is not trusted here: {error}") from error
            return _Failure(f"{_what_failed(error)}: {str(error) or type(error).__name__}")
        except httpx.InvalidURL as error:
            raise EngineError(self.without_key(f"engine.base_url cannot be used: {error}")) from error
        if response.status_code >= 300:
            body = self._without_key(body)  # before an excerpt cuts it in two
        if response.status_code in _TRY_AGAIN or response.status_code >= 500:
            text = f"answered {response.status_code}: {excerpt(body) or 'nothing'}"
            return _Failure(text, _wanted_wait_s(response.headers))
        location = response.headers.get("location")
        return Answer(response.status_code, body, location, time.perf_counter() - started)

    def _client(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(None, connect=min(_CONNECT_S, self._time_limit_s))
        return httpx.AsyncClient(
            verify=self._verify, trust_env=self._uses_proxies, timeout=timeout, follow_redirects=False
        )

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "loopeng"}
        return headers if self.key is None else headers | {"authorization": f"Bearer {self.key}"}

    def _url(self, path: str) -> str:
        return f"{self.base_url}/{path}"

    def _pause_s(self, num_failures: int, wanted_s: float) -> float:
        """Spread at random, so that requests which failed together do not come back together."""
        most_s = min(self._first_pause_s * 2 ** (num_failures - 1), _LONGEST_PAUSE_S)
        return wanted_s + random.uniform(most_s / 2, most_s)


def excerpt(body: bytes) -> str:
    """The beginning of an answer that is not what was asked for, on one line; of an HTML page its title.

    >>> excerpt(b"<html><head><title>502 Bad Gateway</title></head></html>"), excerpt(b"out  of\\nmemory")
    ('502 Bad Gateway', 'out of memory')
    """
    text = body[: 16 * _EXCERPT].decode("utf-8", "replace")
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    text = " ".join((title[1] if title else text).split())
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]} ..."


async def _read(response: httpx.Response) -> bytes:
    """The body, unpacked. Raises EngineError where there is too much of it."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise EngineError(f"{response.url}: the answer is longer than {_MOST_BYTES // 2**20} MiB")
    return bytes(body)


def _what_failed(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError):
        return "no connection; is the server running?"
    return "the connection broke off"


def _wanted_wait_s(headers: Mapping[str, str]) -> float:
    """What ``Retry-After`` says, in seconds or as a date; 0 where it says nothing that can be read."""
    value = headers.get("retry-after", "").strip()
    try:
        wait_s = float(value)
    except ValueError:
        wait_s = _seconds_until(value)
    return wait_s if math.isfinite(wait_s) and wait_s > 0 else 0.0


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
