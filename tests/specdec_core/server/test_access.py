"""Who is let in: tokens, hosts, pages of a browser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.server import RequestDefaults, Server
from specdec_core.server.access import Access
from specdec_core.server.refusals import Refusal
from tests.specdec_core.server.asking import ask, chat_body

CHAT = "/v1/chat/completions"


def test_without_a_token_there_is_only_health_and_metrics(server: Server) -> None:
    for path, body in ((CHAT, chat_body()), ("/v1/completions", {"prompt": "a"}), ("/v1/models", None)):
        for token in (None, "wrong", server.api_key + "x", server.api_key[:-1], "specdec-grant-x"):
            answer = ask(server.url, path, body, token=token)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
            assert str(token) not in answer.text
    other_scheme = ask(server.url, "/v1/models", headers={"Authorization": f"Basic {server.api_key}"})
    assert other_scheme.status == 401
    assert ask(server.url, "/v1/models", headers={"Authorization": f"bearer  {server.api_key} "}).status == 200
    assert ask(server.url, "/health").status == ask(server.url, "/metrics").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8000"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:9"}, 200),
        ({"Host": "[::1]:9"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Host": "localhost:9", "Origin": "http://localhost:9"}, 200),
        ({"Host": "localhost:9", "Origin": "http://localhost:10"}, 403),
    ],
    ids=str,
)
def test_pages_of_other_sites_are_refused_and_none_may_read(
    server: Server, headers: dict[str, str], status: int
) -> None:
    for path in ("/v1/models", "/health", "/metrics"):
        answer = ask(server.url, path, token=server.api_key, headers=headers)
        assert answer.status == status
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    preflight = ask(server.url, CHAT, method="OPTIONS", token=server.api_key, headers=headers)
    assert preflight.status in (403, 405)


def test_an_open_server_takes_any_token_but_that_of_an_ended_grant() -> None:
    access = Access(None, "127.0.0.1")
    for authorization in (None, "Bearer anything", "Basic x", ""):
        assert access.check_token(authorization) is None
    with access.grant(RequestDefaults()) as grant:
        assert access.check_token(f"Bearer {grant.token}") is grant
    assert grant.ended
    with pytest.raises(Refusal, match="its grant has ended"):
        access.check_token(f"Bearer {grant.token}")


@pytest.mark.parametrize("key", ["", " ", " key", "key\n", "schl\u00fcssel", "\udc80"], ids=ascii)
def test_a_key_that_no_client_can_send_is_refused_before_anything_is_served(engine: Engine, key: str) -> None:
    """The empty one would let everybody in, who send no token; the others would let nobody in, or break the answer."""
    with pytest.raises(RequestError, match="the API key"):
        Server(engine, api_key=key)


def test_on_other_addresses_the_name_of_the_host_is_free_and_the_origin_is_not() -> None:
    access = Access("key", "0.0.0.0")
    access.check_origin({"host": "model-box:8000"})
    with pytest.raises(Refusal, match=r"evil\.example"):
        access.check_origin({"host": "model-box:8000", "origin": "http://evil.example"})


@given(st.text(st.characters(max_codepoint=255), max_size=40))
def test_no_header_but_the_right_one_is_let_in(authorization: str) -> None:
    """Whatever arrives is refused in order; nothing else is raised."""
    access = Access("the key", "127.0.0.1")
    with pytest.raises(Refusal):
        access.check_token(authorization)
    with pytest.raises(Refusal):
        access.check_origin({"host": "localhost", "origin": authorization})
