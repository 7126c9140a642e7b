"""Tokens for one purpose: their defaults, their account, their end."""

from __future__ import annotations

from contextlib import ExitStack

from specdec_core.engine import Engine
from specdec_core.sampling import SamplingParams
from specdec_core.server import RequestDefaults, Server
from tests.specdec_core.server.asking import (
    Asking,
    Gate,
    ask,
    chat_body,
    eventually,
    expected,
    leaving_stream,
    num_aborted,
    num_waiting,
)

CHAT = "/v1/chat/completions"
BARE = {"messages": [{"role": "user", "content": "Tell me"}]}


def test_requests_take_the_defaults_where_they_name_nothing(engine: Engine, server: Server) -> None:
    sampling = SamplingParams(temperature=0.9, seed=5, max_tokens=10, stop=("e",))
    with server.grant(RequestDefaults(sampling)) as grant:
        told = ask(server.url, CHAT, BARE, token=grant.token).json["choices"][0]["message"]["content"]
        assert told == expected(engine, temperature=0.9, seed=5, max_tokens=10, stop=("e",))
        named = ask(server.url, CHAT, {**BARE, "seed": 6, "max_completion_tokens": 7, "stop": []}, token=grant.token)
        assert named.json["choices"][0]["message"]["content"] == expected(engine, temperature=0.9, seed=6, max_tokens=7)
    with server.grant(RequestDefaults(SamplingParams(temperature=0))) as greedy:
        texts = [ask(server.url, CHAT, {**BARE, "max_tokens": 8}, token=greedy.token).json for _ in range(2)]
    assert [text["choices"][0]["message"]["content"] for text in texts] == [expected(engine, max_tokens=8)] * 2


def test_who_asks_twice_does_not_hear_the_same_twice_but_the_same_again_in_another_grant(
    engine: Engine, server: Server
) -> None:
    """As an agent that votes. What was refused takes no number of the seeds; what names its own seed takes one too."""
    heard, first = [], 2**63 - 1
    for _ in range(2):
        with server.grant(RequestDefaults(SamplingParams(temperature=0.9, seed=first, max_tokens=10))) as grant:
            texts = []
            for fields in ({}, {"n": 2}, {}, {"seed": 77}, {}):
                answer = ask(server.url, CHAT, {**BARE, **fields}, token=grant.token)
                if answer.status == 200:
                    texts.append(answer.json["choices"][0]["message"]["content"])
            heard.append(texts)
    seeds = (first, 0, 77, 2)
    assert heard == [[expected(engine, temperature=0.9, seed=seed, max_tokens=10) for seed in seeds]] * 2
    assert len(set(heard[0])) == 4


def test_reference_texts_of_a_grant_are_drafted_from_and_change_no_text(engine: Engine, server: Server) -> None:
    text = expected(engine, max_tokens=24)
    passes = []
    for references in ((), (text,)):
        with server.grant(RequestDefaults(SamplingParams(temperature=0), references)) as grant:
            engine.memory.clear()
            answer = ask(server.url, CHAT, {**BARE, "max_tokens": 24}, token=grant.token).json
        assert answer["choices"][0]["message"]["content"] == text
        passes.append(answer["usage"]["speculation"]["num_decode_passes"])
    assert passes[1] < passes[0]


def test_a_grant_counts_what_was_used_before_the_client_knows_it(server: Server) -> None:
    with server.grant() as grant, server.grant() as other:
        usages = [ask(server.url, CHAT, chat_body(), token=grant.token).json["usage"] for _ in range(3)]
        assert [stats.num_generated_tokens for stats in grant.stats] == [each["completion_tokens"] for each in usages]
        assert [stats.num_prompt_tokens for stats in grant.stats] == [each["prompt_tokens"] for each in usages]
        assert ask(server.url, CHAT, chat_body("a" * 200), token=grant.token).status == 400
        assert ask(server.url, CHAT, chat_body(n=2), token=grant.token).status == 400
        assert (grant.num_requests, len(grant.stats)) == (4, 3)  # what was refused at once is not counted
        assert (other.num_requests, other.stats) == (0, [])
        assert grant.token not in repr(grant)


def test_the_end_of_a_grant_ends_what_runs_and_waits_under_it(gated: tuple[Server, Gate]) -> None:
    server, gate = gated
    with server.grant() as kept, ExitStack() as granted:
        grant = granted.enter_context(server.grant())
        with leaving_stream(server, chat_body(max_tokens=100), grant.token) as next_event:
            gate.let_through(2)
            assert next_event() and next_event()
            waiting = Asking(server, chat_body(), grant.token)
            other = Asking(server, chat_body(max_tokens=2), kept.token)
            eventually(lambda: num_waiting(server) == 2)
            granted.close()
            refused = waiting.answer()
            gate.let_through(1)
            told = list(iter(next_event, ""))
        assert (refused.status, refused.error["code"]) == (401, "grant_ended")
        assert "grant_ended" in told[-1]
        gate.open.set()
        assert other.answer().status == 200
        late = ask(server.url, CHAT, chat_body(), token=grant.token)
        assert (late.status, late.error["code"]) == (401, "invalid_api_key")
    assert num_aborted(server) == 2
