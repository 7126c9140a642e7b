"""Structured output by every field that can ask for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from specdec_core.server import Server
from tests.specdec_core.server.asking import ask, grammar_engine

SCHEMA = {"type": "object", "properties": {"name": {"enum": ["red", "true"]}}, "required": ["name"]}
SCHEMA |= {"additionalProperties": False}
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}, "json"),
    "vllm schema": ({"structured_outputs": {"json": SCHEMA}}, "json"),
    "vllm schema as text": ({"guided_json": json.dumps(SCHEMA)}, "json"),
    "regex": ({"structured_outputs": {"regex": "(red|blue)[12]"}}, "(red|blue)[12]"),
    "older regex": ({"guided_regex": "[ab]{3}"}, "[ab]{3}"),
    "choice": ({"structured_outputs": {"choice": ["a.b", "[c]", "d+"]}}, r"a\.b|\[c\]|d\+"),
    "older choice": ({"guided_choice": ["a.b"]}, r"a\.b"),
}


@pytest.fixture(scope="module")
def forming() -> Iterator[Server]:
    pytest.importorskip("llguidance")
    with Server(grammar_engine()) as server:
        yield server


@pytest.mark.parametrize("name", FORMS)
def test_the_text_has_the_form(forming: Server, name: str) -> None:
    fields, form = FORMS[name]
    for seed in range(3):
        body = {"messages": [{"role": "user", "content": "say it"}], "max_tokens": 40, "seed": seed, **fields}
        answer = ask(forming.url, "/v1/chat/completions", body, token=forming.api_key)
        text = answer.json["choices"][0]["message"]["content"]
        if form == "json":
            assert json.loads(text)["name"] in ("red", "true")
        else:
            assert re.fullmatch(form, text)


def test_any_json_object(forming: Server) -> None:
    body = {"prompt": "say it", "max_tokens": 60, "seed": 1, "response_format": {"type": "json_object"}}
    choice = ask(forming.url, "/v1/completions", body, token=forming.api_key).json["choices"][0]
    assert choice["text"].startswith("{")
    assert choice["finish_reason"] == "length" or isinstance(json.loads(choice["text"]), dict)


def test_openais_client_parses_into_a_class(forming: Server) -> None:
    class Answer(BaseModel):
        model_config = ConfigDict(extra="forbid")
        red: bool

    messages: Any = [{"role": "user", "content": "say it"}]
    with openai.OpenAI(base_url=forming.url, api_key=forming.api_key, max_retries=0) as client:
        reply = client.chat.completions.parse(
            model="tiny", messages=messages, response_format=Answer, seed=5, logit_bias={"0": -100}
        )
    assert isinstance(reply.choices[0].message.parsed, Answer)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "(a"}, "guided_regex"),
        ({"guided_regex": "\ud83d"}, "guided_regex"),
        ({"guided_choice": ["\ud83d"]}, "guided_choice"),
        ({"guided_json": {"minLenght": 3}}, "guided_json"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "dog"}}}}, "response_format"),
    ],
)
def test_a_form_that_cannot_be_read_is_a_400_with_its_field(
    forming: Server, fields: dict[str, Any], param: str
) -> None:
    body = {"prompt": "say it", "max_tokens": 5, **fields}
    answer = ask(forming.url, "/v1/completions", body, token=forming.api_key)
    assert (answer.status, answer.error["param"]) == (400, param)
