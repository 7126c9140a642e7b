"""Who may ask: bearer tokens, grants, and the pages of a browser, which may not."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from specdec_core.errors import RequestError
from specdec_core.metrics import DecodeStats
from specdec_core.sampling import SamplingParams
from specdec_core.server.refusals import Refusal

__all__ = ["Access", "Grant", "RequestDefaults", "check_key", "is_loopback"]

_GRANT_PREFIX = "specdec-grant-"


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """What the requests of a grant take where they name nothing themselves.

    Of ``sampling`` count the fields that were given, as in ``SamplingParams(temperature=0, seed=7)``. A seed is that of
    the first request; each further one takes the next number, so that who asks twice does not hear the same twice.
    ``reference_texts`` are added to a request's own, behind them.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    reference_texts: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Grant:
    """A token for one purpose, and what was used of it: a ``DecodeStats`` for every text that was finished."""

    token: str = field(repr=False)
    defaults: RequestDefaults
    num_requests: int = 0  # that could be read and had room in the line
    stats: list[DecodeStats] = field(default_factory=list)
    ended: bool = False

    def defaults_of_next(self) -> RequestDefaults:
        """What the next request takes where it names nothing."""
        sampling = self.defaults.sampling
        if "seed" not in sampling.model_fields_set:
            return self.defaults
        seed = (sampling.seed + self.num_requests) % 2**63
        return replace(self.defaults, sampling=sampling.model_copy(update={"seed": seed}))


class Access:
    """Tokens that are good now. Without ``api_key`` any token is, but for those of grants that have ended.

    ``host`` is where the server listens. Where only this machine reaches it, requests must name it so: the page of a
    browser whose host name was pointed here (DNS rebinding) names its own.

    Raises RequestError for a key that no client could send, or that one would send with an empty token.
    """

    def __init__(self, api_key: str | None, host: str) -> None:
        check_key(api_key)
        self._api_key = api_key
        self._grants: dict[str, Grant] = {}
        self._host_names = {host, "localhost", "127.0.0.1", "::1"} if is_loopback(host) else None

    @contextmanager
    def grant(self, defaults: RequestDefaults) -> Iterator[Grant]:
        """A token that is good for the block."""
        grant = Grant(_GRANT_PREFIX + secrets.token_urlsafe(24), defaults)
        self._grants[grant.token] = grant
        try:
            yield grant
        finally:
            del self._grants[grant.token]
            grant.ended = True

    def check_token(self, authorization: str | None) -> Grant | None:
        """The grant of an ``Authorization`` header, None for the server's own key. Raises Refusal (401)."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if (grant := self._grants.get(token)) is not None:
            return grant
        if self._api_key is None:
            good = not token.startswith(_GRANT_PREFIX)
        else:
            good = secrets.compare_digest(token.encode(), self._api_key.encode())
        if not good:
            said = "the bearer token is not known here, or its grant has ended" if token else "no bearer token was sent"
            headers = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, f"{said}: send 'Authorization: Bearer KEY'", code="invalid_api_key", headers=headers)
        return None

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Raises Refusal (403) for a request that another site's page makes in a browser that reaches this server."""
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if self._host_names is not None and host and _split(f"//{host}").hostname not in self._host_names:
            raise Refusal(403, f"the host {host!r} is not served here", code="host_not_allowed")
        if origin is not None and _split(origin.lower()).netloc != host:
            raise Refusal(403, f"pages of {origin!r} may not use this server", code="origin_not_allowed")


def check_key(api_key: str | None) -> None:
    """Raises RequestError for a key that a header cannot carry, or not alone. What it is is never said.

    >>> check_key(None)
    >>> check_key("a\\n")
    Traceback (most recent call last):
        ...
    specdec_core.errors.RequestError: the API key must be plain ASCII without spaces around it or line breaks: ...
    """
    if api_key == "":
        raise RequestError("the API key is empty: leave it out, or give one")
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()):
        raise RequestError(
            "the API key must be plain ASCII without spaces around it or line breaks: no header carries it"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "model-box")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(url: str) -> SplitResult:
    """The parts of an address, empty where it is none.

    >>> [_split(url).hostname for url in ("//localhost:8000", "//[::1]:8000", "//[::1", "null")]
    ['localhost', '::1', None, None]
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
