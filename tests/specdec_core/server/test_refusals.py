"""Bad requests: OpenAI's error object, the status, the field; and the server goes on."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from specdec_core.errors import RequestError, in_field
from specdec_core.server import RequestDefaults, Server
from specdec_core.server.reading import read_chat
from specdec_core.server.refusals import refusal_of
from tests.specdec_core.server.asking import ask, chat_body

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "boolean"}}}


def message(content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content, **fields}]}


WRONG_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"temprature": 1}, "temprature"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"seed": -1}, "seed"),
    ({"seed": 1 << 70}, "seed"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": None, "max_completion_tokens": -1}, "max_completion_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"logit_bias": {"cat": 1}}, "logit_bias.cat"),
    ({"logit_bias": {"5": 101}}, "logit_bias[5]"),
    ({"logit_bias": {"97": 1}}, "logit_bias"),
    ({"stop": [1]}, "stop[0]"),
    ({"bad_words": [""]}, "bad_words[0]"),
    ({"logprobs": 2}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"n": 2}, "n"),
    ({"stream": "perhaps"}, "stream"),
    ({"stream_options": {"usage": True}}, "stream_options.usage"),
    ({"store": True}, "store"),
    ({"modalities": ["audio"]}, "modalities[0]"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"functions": []}, "functions"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "json_object", "json_schema": SCHEMA["json_schema"]}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "response_format.json_schema.schema"),
    ({"response_format": SCHEMA, "guided_regex": "a"}, "guided_regex"),
    ({"response_format": SCHEMA}, "response_format"),  # this model's tokenizer cannot be used for grammars
    ({"structured_outputs": {"regex": "a", "json_object": True}}, "structured_outputs"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"guided_json": "{"}, "guided_json"),
    ({"prediction": "text"}, "prediction"),
    ({"prediction": {"type": "content", "content": [IMAGE]}}, "prediction.content"),
    ({"reference_texts": [3]}, "reference_texts[0]"),
    ({"messages": []}, "messages"),
    ({"messages": "Tell me"}, "messages"),
    ({"messages": None}, "messages"),
    (message(None), "messages[0].content"),
    (message(""), "messages"),
    (message(5), "messages[0].content"),
    (message([IMAGE]), "messages[0].content"),
    (message("a", role="tool"), "messages[0].role"),
    (message("a", role="assistant", tool_calls=[]), "messages[0].tool_calls"),
    (message("\u0416"), "messages"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG_CHATS, ids=[str(fields)[:60] for fields, _ in WRONG_CHATS])
def test_a_wrong_chat_is_a_400_with_the_field(server: Server, fields: dict[str, Any], param: str) -> None:
    for stream in (False, True):
        body = {**chat_body(), "stream": stream, **fields}
        answer = ask(server.url, CHAT, body, token=server.api_key)
        assert answer.status == 400, answer.text
        assert answer.error["param"] == param, answer.text
        assert answer.error["type"] == "invalid_request_error"
        assert "Traceback" not in answer.text and "Value error" not in answer.text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [[5], [6]]}, "prompt"),
        ({"prompt": [97]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [1 << 70]}, "prompt"),
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": 21}, "logprobs"),
        ({"messages": []}, "messages"),
    ],
    ids=str,
)
def test_a_wrong_completion_is_a_400_with_the_field(server: Server, fields: dict[str, Any], param: str) -> None:
    answer = ask(server.url, COMPLETION, {"prompt": "Tell me", "max_tokens": 3} | fields, token=server.api_key)
    assert (answer.status, answer.error["param"]) == (400, param), answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"5",
        b"[" * 100_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "half", "list", "no text", "number", "deep", "digits"],
)
def test_a_body_that_is_no_json_object_is_a_400(server: Server, body: bytes) -> None:
    answer = ask(server.url, CHAT, body, token=server.api_key)
    assert (answer.status, answer.error["code"]) == (400, "invalid_json")


def test_a_body_without_end_is_a_413(server: Server) -> None:
    """Whether its length is told before or, in chunks, never."""
    answer = ask(server.url, CHAT, b" " * (5 << 20), token=server.api_key)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    place = urlsplit(server.url)
    headers = {"Transfer-Encoding": "chunked", "Authorization": f"Bearer {server.api_key}"}
    with closing(HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
        connection.request("POST", CHAT, (b" " * (1 << 20) for _ in range(5)), headers, encode_chunked=True)
        assert connection.getresponse().status == 413


def test_a_body_that_announces_too_much_is_not_waited_for(server: Server) -> None:
    """The head alone is sent, and the answer comes."""
    head = {"Content-Length": str(1 << 40)}
    answer = ask(server.url, CHAT, b"", token=server.api_key, headers=head)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prediction": {"type": "content", "content": "\ud83d"}}, "prediction"),
        ({"reference_texts": ["\ud83d"]}, "reference_texts"),
    ],
)
def test_a_reference_text_that_no_tokenizer_reads_is_told_by_the_clients_name_of_it(
    fields: dict[str, Any], param: str
) -> None:
    asked = read_chat(json.dumps(chat_body() | fields).encode(), RequestDefaults(), 128)
    with pytest.raises(RequestError) as unreadable, in_field("reference_texts"):
        raise RequestError("the text is not valid Unicode")
    assert refusal_of(unreadable.value, asked.params).param == param


def test_complaints_are_in_the_words_of_json(server: Server) -> None:
    for fields, said in (
        ({"messages": "Tell me"}, "messages: a list is needed (given: 'Tell me')"),
        ({"prediction": "text"}, "prediction: an object is needed (given: 'text')"),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is needed"),
    ):
        assert ask(server.url, CHAT, chat_body() | fields, token=server.api_key).error["message"] == said


def test_half_a_surrogate_pair_is_answered_too(server: Server) -> None:
    for body in (b'{"messages": [], "\\ud83d": 1}', b'{"messages": [{"role": "user", "content": "\\ud83d"}]}'):
        answer = ask(server.url, CHAT, body, token=server.api_key)
        assert answer.status == 400 and answer.error["message"]


def test_a_prompt_longer_than_the_context_is_told_as_openai_tells_it(server: Server) -> None:
    answer = ask(server.url, CHAT, chat_body("a" * 128), token=server.api_key)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "context_length_exceeded", "messages")
    assert "128 tokens" in answer.error["message"]
    whole = ask(server.url, CHAT, chat_body("a" * 120, max_tokens=1000), token=server.api_key)
    assert whole.status == 200  # a text that would be longer ends where the context does


def test_other_names_paths_and_methods(server: Server) -> None:
    answer = ask(server.url, CHAT, chat_body(model="gpt-4o"), token=server.api_key)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")
    for name in ("tiny-model", "tiny", None):
        assert ask(server.url, CHAT, chat_body(model=name), token=server.api_key).status == 200
    assert ask(server.url, "/v1/models/gpt-4o", token=server.api_key).error["code"] == "model_not_found"
    assert ask(server.url, "/v1/embeddings", {}, token=server.api_key).status == 404
    assert (
        ask(server.url, "/v1/embeddings", {}, token=server.api_key).error["message"].startswith("POST /v1/embeddings")
    )
    wrong_method = ask(server.url, CHAT, token=server.api_key)
    assert wrong_method.status == 405 and wrong_method.error and "POST" in wrong_method.headers["allow"]


def test_openais_client_raises_its_own_errors(server: Server, client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Tell me"}]
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="tiny-model", messages=messages, n=2)
    assert wrong.value.param == "n"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="another", messages=messages)
    with (
        openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError, match="not known here"),
    ):
        stranger.models.list()


def test_what_changes_nothing_is_taken(server: Server) -> None:
    harmless = {
        "user": "ana",
        "metadata": {"a": "b"},
        "store": False,
        "n": 1,
        "safety_identifier": "x",
        "service_tier": "auto",
        "modalities": ["text"],
        "prompt_cache_key": "k",
        "response_format": {"type": "text"},
        "logprobs": False,
        "stop": None,
        "tools": None,
        "top_k": -1,
        "stream_options": None,
    }
    plain = ask(server.url, CHAT, chat_body(), token=server.api_key)
    answer = ask(server.url, CHAT, chat_body(**harmless), token=server.api_key)
    assert answer.json["choices"] == plain.json["choices"]


def test_models_are_listed_by_every_name(server: Server, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny-model", "tiny"]
    assert client.models.retrieve("tiny").max_model_len == 128
    assert ask(server.url, "/health").json == {"status": "ok"}
