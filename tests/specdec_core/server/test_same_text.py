"""What a client reads is what ``engine.generate`` writes: greedy and seeded, whole and streamed, by OpenAI's client."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import openai
import pytest

from specdec_core.engine import Engine
from specdec_core.server import Server
from specdec_core.types import GenerationOutput, GenerationRequest
from tests.specdec_core.server.asking import ask, chat_body, sent_events

QUESTION = "Name three fruits."
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 0.8, "seed": 7},
    "filtered": {"temperature": 1.2, "seed": 11, "top_p": 0.9, "top_k": 40, "min_p": 0.01},
    "penalised": {"temperature": 0, "presence_penalty": 0.5, "frequency_penalty": 1.0, "repetition_penalty": 1.1},
    "biased": {"temperature": 0.5, "seed": 3, "logit_bias": {"40": 5, "41": -100}},
    "stopped": {"temperature": 1.0, "seed": 2, "stop": ["e", "<sep>"]},
}
EXTRAS = ("top_k", "min_p", "repetition_penalty")
EACH = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))


def written(engine: Engine, sampling: dict[str, Any], chat: bool, **more: Any) -> GenerationOutput:
    prompt: dict[str, Any] = {"messages": ({"role": "user", "content": QUESTION},)} if chat else {"prompt": QUESTION}
    return engine.generate(GenerationRequest(**prompt, sampling={"max_tokens": 16, **sampling, **more}))


def asked(sampling: dict[str, Any]) -> dict[str, Any]:
    """Arguments of OpenAI's client: what it does not know goes into the extra body."""
    known = {name: value for name, value in sampling.items() if name not in EXTRAS}
    return {"max_tokens": 16, **known, "extra_body": {name: sampling[name] for name in EXTRAS if name in sampling}}


@EACH
def test_chat(engine: Engine, client: openai.OpenAI, sampling: dict[str, Any]) -> None:
    output = written(engine, sampling, chat=True)
    messages: Any = [{"role": "user", "content": QUESTION}]
    reply = client.chat.completions.create(model="tiny-model", messages=messages, **asked(sampling))
    choice, usage = reply.choices[0], reply.usage
    assert choice.message.content == output.text
    assert choice.finish_reason == output.finish_reason
    assert usage.completion_tokens == len(output.token_ids)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens == len(QUESTION) + len(output.token_ids)
    assert usage.speculation["num_decode_passes"] >= 1
    assert reply.system_fingerprint


@EACH
def test_chat_streamed(engine: Engine, client: openai.OpenAI, sampling: dict[str, Any]) -> None:
    output = written(engine, sampling, chat=True)
    messages: Any = [{"role": "user", "content": QUESTION}]
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model="tiny-model", messages=messages, stream=True, stream_options=options, **asked(sampling)
    ) as stream:
        chunks = list(stream)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == output.text
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == output.finish_reason and set(reasons[:-1]) == {None}
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == len(output.token_ids)
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


@EACH
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_completion(engine: Engine, client: openai.OpenAI, sampling: dict[str, Any], stream: bool) -> None:
    output = written(engine, sampling, chat=False)
    reply: Any = client.completions.create(model="tiny-model", prompt=QUESTION, stream=stream, **asked(sampling))
    if not stream:
        assert reply.choices[0].text == output.text
        assert reply.choices[0].finish_reason == output.finish_reason
        return
    with reply:
        choices = [chunk.choices[0] for chunk in reply]
    assert "".join(choice.text for choice in choices) == output.text
    assert choices[-1].finish_reason == output.finish_reason


def test_a_prompt_may_be_token_ids_or_a_list_of_one(engine: Engine, client: openai.OpenAI) -> None:
    text = written(engine, {"max_tokens": 8}, chat=False).text
    ids = engine.model.tokenizer.encode(QUESTION)
    for prompt in (ids, [ids], [QUESTION]):
        arguments: Any = {"prompt": prompt, "temperature": 0, "max_tokens": 8}
        assert client.completions.create(model="tiny-model", **arguments).choices[0].text == text


def test_content_may_be_text_parts_and_a_developer_is_the_system(engine: Engine, server: Server) -> None:
    parts = [{"type": "text", "text": "Name three"}, {"type": "text", "text": "fruits."}]
    answer = ask(
        server.url,
        "/v1/chat/completions",
        chat_body() | {"messages": [{"role": "developer", "content": "Be short."}, {"role": "user", "content": parts}]},
        token=server.api_key,
    )
    assert answer.status == 400  # parts are joined by a line break, which the tiny tokenizer does not know
    assert answer.error["param"] == "messages"
    one = {"role": "user", "content": parts[:1], "name": None}
    told = ask(server.url, "/v1/chat/completions", chat_body() | {"messages": [one]}, token=server.api_key)
    same = ask(server.url, "/v1/chat/completions", chat_body("Name three"), token=server.api_key)
    assert told.json["choices"] == same.json["choices"]


def test_a_request_that_names_nothing_is_drawn_anew_each_time(server: Server) -> None:
    """As with OpenAI: temperature 1 and a seed of its own; plain completions have 16 tokens."""
    bodies = [{"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 20}] * 2
    texts = [ask(server.url, "/v1/chat/completions", body, token=server.api_key).json for body in bodies]
    first, second = (text["choices"][0]["message"]["content"] for text in texts)
    assert first != second
    short = ask(server.url, "/v1/completions", {"prompt": QUESTION, "logit_bias": {"0": -100}}, token=server.api_key)
    assert short.json["usage"]["completion_tokens"] == 16
    long = chat_body(QUESTION, logit_bias={"0": -100})
    del long["max_tokens"]
    whole = ask(server.url, "/v1/chat/completions", long, token=server.api_key).json
    assert whole["usage"]["total_tokens"] == 128  # a chat goes on to the end of the context
    assert whole["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_log_probabilities_are_those_of_the_engine_for_every_token(
    engine: Engine, client: openai.OpenAI, stream: bool
) -> None:
    output = written(engine, {"temperature": 0.7, "seed": 4}, chat=True, logprobs=3)
    messages: Any = [{"role": "user", "content": QUESTION}]
    reply: Any = client.chat.completions.create(
        model="tiny-model",
        messages=messages,
        temperature=0.7,
        seed=4,
        max_tokens=16,
        logprobs=True,
        top_logprobs=3,
        stream=stream,
    )
    choices = [chunk.choices[0] for chunk in reply] if stream else [reply.choices[0]]
    found = [each for choice in choices if choice.logprobs for each in choice.logprobs.content]
    assert [each.logprob for each in found] == [each.logprob for each in output.logprobs]
    assert [len(each.top_logprobs) for each in found] == [3] * len(output.token_ids)
    decode = engine.model.tokenizer.decode
    assert [each.token for each in found] == [decode([i], skip_special_tokens=False) for i in output.token_ids]
    assert all(bytes(each.bytes).decode() == each.token for each in found)


def test_log_probabilities_of_a_completion_are_lists_side_by_side(engine: Engine, server: Server) -> None:
    output = written(engine, {"max_tokens": 6}, chat=False, logprobs=2)
    body = {"prompt": QUESTION, "temperature": 0, "max_tokens": 6, "logprobs": 2}
    whole = ask(server.url, "/v1/completions", body, token=server.api_key).json["choices"][0]["logprobs"]
    assert whole["token_logprobs"] == [each.logprob for each in output.logprobs]
    assert "".join(whole["tokens"]) == output.text
    assert all(
        output.text.startswith(token, start) for start, token in zip(whole["text_offset"], whole["tokens"], strict=True)
    )
    assert all(token in top for token, top in zip(whole["tokens"], whole["top_logprobs"], strict=True))
    events = sent_events(ask(server.url, "/v1/completions", body | {"stream": True}, token=server.api_key))
    parts = [event["choices"][0]["logprobs"] for event in events if event["choices"][0]["logprobs"]]
    assert {name: [each for part in parts for each in part[name]] for name in whole} == whole


def test_a_prediction_changes_the_passes_and_never_the_text(engine: Engine, client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": QUESTION}]
    engine.memory.clear()
    alone = client.chat.completions.create(model="tiny-model", messages=messages, temperature=0, max_tokens=24)
    text = alone.choices[0].message.content
    for content in (text, [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]):
        engine.memory.clear()
        prediction: Any = {"type": "content", "content": content}
        helped = client.chat.completions.create(
            model="tiny-model", messages=messages, temperature=0, max_tokens=24, prediction=prediction
        )
        assert helped.choices[0].message.content == text
        details = helped.usage.completion_tokens_details
        assert details.accepted_prediction_tokens == helped.usage.speculation["num_accepted_tokens"] > 12
        assert details.rejected_prediction_tokens >= 0
        assert helped.usage.speculation["num_decode_passes"] < alone.usage.speculation["num_decode_passes"]
    assert alone.usage.completion_tokens_details is None
    engine.memory.clear()
    ours = client.chat.completions.create(
        model="tiny-model", messages=messages, temperature=0, max_tokens=24, extra_body={"reference_texts": [text]}
    )
    assert ours.choices[0].message.content == text
    assert ours.usage.speculation["num_accepted_tokens"] > 12


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl(engine: Engine, server: Server) -> None:
    command = ["curl", "-sS", f"{server.url}/chat/completions", "-H", f"Authorization: Bearer {server.api_key}"]
    body = json.dumps(chat_body(QUESTION, max_tokens=16))
    done = subprocess.run([*command, "-d", body], capture_output=True, text=True, check=True)
    text = written(engine, {}, chat=True).text
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == text
    streamed = json.dumps(chat_body(QUESTION, max_tokens=16, stream=True))
    done = subprocess.run([*command, "-N", "-d", streamed], capture_output=True, text=True, check=True)
    events = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == text
    assert done.stdout.endswith("data: [DONE]\n\n")
