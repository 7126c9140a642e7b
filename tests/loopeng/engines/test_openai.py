"""The engine of kind openai, against a real server that behaves as it is told to."""

from __future__ import annotations

import gzip
import shutil
import ssl
import subprocess
import threading
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from loopeng.engines import build_engine
from loopeng.engines.interruption import Interruption
from loopeng.engines.openai_http import OpenAIEngine
from loopeng.engines.openai_transport import Server
from loopeng.errors import EngineError, RequestRefusedError, RetriesExhaustedError, TaskError, UsageError
from loopeng.ports import TextEngine, TextRequest
from loopeng.schema import Message, Usage, utc_now
from loopeng.schema.task import EngineSpec
from tests.loopeng.engines.openai_server import (
    Behaviour,
    ChatServer,
    breaks_off,
    completion,
    drips,
    hangs,
    hangs_up,
    packed,
    says,
    sends,
    zipped,
)

SECRET = "sk-very-secret-0123456789"
OURS = {"data": [{"id": "m", "owned_by": "specdec", "exactness": "bitwise", "system_fingerprint": "abc"}]}
OURS["data"][0] |= {"structured_output": True}


def make(server: ChatServer, key: str | None = None, **keys: Any) -> OpenAIEngine:
    """As a task makes it, but without the long pauses between tries."""
    spec = EngineSpec(**({"kind": "openai", "base_url": server.url, "model": "m", "max_retries": 2} | keys))
    made = Server(server.url, key=key, time_limit_s=spec.time_limit_s, max_retries=spec.max_retries, first_pause_s=0.01)
    return OpenAIEngine(made, spec)


def ask(content: str = "hi", **changes: Any) -> TextRequest:
    return TextRequest(messages=(Message(role="user", content=content),), **changes)


def test_an_answer_comes_through_with_usage_latency_and_the_model_that_gave_it() -> None:
    with ChatServer(says("A mug.", model="m-2026", system_fingerprint="fp_1")) as server:
        engine = build_engine(EngineSpec(kind="openai", base_url=server.url + "/", model="m"))
        assert isinstance(engine, TextEngine)
        reply = engine.generate(ask(seed=2**40 + 5))
    assert (reply.text, reply.finish_reason, reply.token_ids, reply.fingerprint) == ("A mug.", "stop", None, "m-2026")
    assert reply.usage == Usage(prompt_tokens=7, generated_tokens=3)
    assert reply.latency_s > 0
    (call,) = server.calls
    assert call.path == "/v1/chat/completions" and "authorization" not in call.headers
    assert call.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 256,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 5,  # what every server can keep of it
    }


def test_what_the_task_sets_is_sent_and_null_leaves_a_field_out() -> None:
    with ChatServer(says()) as server:
        extra = {"temperature": None, "chat_template_kwargs": {"enable_thinking": False}}
        engine = make(server, max_tokens_name="max_completion_tokens", extra_body=extra)
        sampling = {"max_tokens": 9, "top_k": 3, "top_p": 0.5, "repetition_penalty": 1.1, "stop": ("\n", "END")}
        engine.generate(ask(reference_texts=("never sent",), response_schema={"type": "object"}, **sampling))
    (body,) = server.bodies
    assert body["stop"] == ["\n", "END"]
    assert (body["max_completion_tokens"], body["top_k"], body["top_p"], body["repetition_penalty"]) == (9, 3, 0.5, 1.1)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    unsent = {"max_tokens", "temperature", "prediction", "reference_texts", "response_format"}
    assert not unsent & body.keys()


def test_characters_of_all_kinds_and_long_texts_go_there_and_back() -> None:
    prompt, text = "é→中 \U0001f600 \u2028", "é→中 \U0001f600 \x00" + "long " * 200_000
    with ChatServer(says(text)) as server:
        assert make(server).generate(ask(prompt)).text == text
    assert server.bodies[0]["messages"][0]["content"] == prompt


def test_a_schema_is_sent_where_the_task_or_the_server_says_that_it_is_held() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with ChatServer(says("{}")) as server:
        told, untold = make(server, structured_output=True), make(server)
        assert told.describe().structured_output and not untold.describe().structured_output
        told.generate(ask(response_schema=schema))
    sent = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}
    assert server.bodies[0]["response_format"] == sent
    with ChatServer(says("{}"), models=OURS) as server:
        assert make(server).describe().structured_output
        assert not make(server, structured_output=False).describe().structured_output


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (sends(b""), "the answer is no JSON: it is empty"),
        (sends(b'{"choices": ['), "the answer is no JSON: .*choices"),
        (sends(b"\xff\xfe\x00"), "the answer is no JSON"),
        (sends(b"[" * 100_000), "the answer is no JSON"),
        (sends(b"<html><title>It works!</title></html>"), "the answer is no JSON: It works!$"),
        (sends(b"[]"), "another shape than the protocol's: it: "),
        (sends({"choices": []}), "the answer has no choices"),
        (sends({"object": "list"}), "the answer has no choices"),
        (sends({"error": {"message": "upstream is gone"}}), "the server broke off: upstream is gone"),
        (says(text=None), "the answer has no content .finish_reason stop"),
        (says(text=5), "choices.0.message.content: "),  # type: ignore[arg-type]
        (says(choice={"message": "fine"}), "choices.0.message: "),
        (says(choice={"finish_reason": 3}), "choices.0.finish_reason: "),
        (says(usage={"prompt_tokens": "7", "completion_tokens": 3}), "usage.prompt_tokens: "),
        (says(usage={"prompt_tokens": -7}), "usage.prompt_tokens: "),
        (says(usage=[]), "usage: "),
        (says(text=None, message={"tool_calls": [{"id": "1"}]}), "called a tool instead of answering"),
        (packed(b"not zipped at all"), "cannot be unpacked"),
        (packed(gzip.compress(b" " * (33 * 1024 * 1024))), "the answer is longer than 32 MiB"),
    ],
)
def test_an_answer_that_is_none_is_an_engine_error(behaviour: Behaviour, told: str) -> None:
    with ChatServer(behaviour) as server:
        with pytest.raises(EngineError, match=told) as caught:
            make(server).generate(ask())
        assert server.url in str(caught.value)
    assert len(server.calls) == 1, "it came from the model: only the loop asks again"
    assert type(caught.value) is EngineError


@pytest.mark.parametrize(
    ("behaviour", "text", "finish_reason"),
    [
        (zipped(completion("zipped")), "zipped", "stop"),
        (says(""), "", "stop"),
        (says(text=None, choice={"finish_reason": "length"}), "", "length"),
        (says(text=None, message={"refusal": "I cannot."}), "I cannot.", "stop"),
        (says(usage=None, choice={"finish_reason": None}, model=None), "fine", None),
        (says(message={"reasoning_content": 3}, created="now"), "fine", "stop"),
    ],
)
def test_odd_answers_that_can_be_read(behaviour: Behaviour, text: str, finish_reason: str | None) -> None:
    with ChatServer(behaviour) as server:
        reply = make(server).generate(ask())
    assert (reply.text, reply.finish_reason) == (text, finish_reason)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (
            sends(
                {"error": {"message": "maximum context length is 2048 tokens", "code": "context_length_exceeded"}}, 400
            ),
            "answered 400: maximum context length is 2048 tokens$",
        ),
        (
            sends({"error": {"message": "Use 'max_completion_tokens' instead."}}, 400),
            "set engine.max_tokens_name: max_completion_tokens",
        ),
        (sends({"error": {"message": "'temperature' must be 1"}}, 400), "engine.extra_body with null"),
        (sends({"object": "error", "message": "bad"}, 400), "answered 400: bad$"),
        (sends({"detail": [{"loc": ["body", "seed"]}]}, 422), "answered 422: .*seed"),
        (sends({"error": "no such model"}, 404), "answered 404: no such model .*/v1; engine.model is 'm'"),
        (sends(b"<html><title>Forbidden</title>", 403), "answered 403: Forbidden .a key is wanted"),
        (sends(b"", 405), "answered 405: nothing"),
        (sends(b"", 307, Location="http://elsewhere/v1"), "a redirect to http://elsewhere/v1: name that address"),
        (says("half", choice={"finish_reason": "content_filter"}), "content filter stopped the answer"),
    ],
)
def test_what_the_server_would_refuse_again_is_asked_once(behaviour: Behaviour, told: str) -> None:
    with ChatServer(behaviour) as server, pytest.raises(RequestRefusedError, match=told):
        make(server).generate(ask())
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        sends({"error": {"message": "slow down"}}, 429),
        sends({"error": {"message": "slow down"}}, 429, Retry_After="soon"),
        sends(b"", 429, Retry_After="-5"),
        sends(b"", 503, Retry_After=format_datetime(utc_now())),
        sends(b"", 503, Retry_After="Wed, 21 Oct 2015 07:28:00"),
        sends(b"", 503, Retry_After="inf"),
        sends(b"<html><title>502 Bad Gateway</title></html>", 502),
        sends(b"", 500),
        sends(b"", 408),
        hangs_up,
        breaks_off,
    ],
)
def test_what_passes_is_tried_again_and_costs_the_loop_nothing(trouble: Behaviour) -> None:
    with ChatServer(trouble, trouble, says("at last")) as server:
        assert make(server).generate(ask()).text == "at last"
    assert len(server.calls) == 3
    assert server.bodies[0] == server.bodies[2]


@pytest.mark.parametrize(
    ("trouble", "limit_s", "told"),
    [
        (sends(b"<html><title>502 Bad Gateway</title></html>", 502), 60, r"answered 502: 502 Bad Gateway \(3 tries\)$"),
        (hangs_up, 60, "the connection broke off: "),
        (breaks_off, 60, "the connection broke off: "),
        (hangs, 0.15, r"no answer within 0.15 s \(3 tries\)$"),
        (drips, 0.15, r"no answer within 0.15 s \(3 tries\)$"),
    ],
)
def test_what_does_not_pass_ends_after_max_retries(trouble: Behaviour, limit_s: float, told: str) -> None:
    with ChatServer(trouble) as server, pytest.raises(RetriesExhaustedError, match=told):
        make(server, time_limit_s=limit_s).generate(ask())
    assert len(server.calls) == 3


def test_retry_after_is_waited_for_and_an_hour_is_not() -> None:
    with ChatServer(sends(b"", 429, Retry_After="0.3"), says()) as server:
        make(server).generate(ask())
    first, second = server.calls
    assert second.at - first.at >= 0.3
    hour = sends(b"quota", 429, Retry_After="3600")
    with ChatServer(hour, says()) as server, pytest.raises(RetriesExhaustedError, match=r"answered 429: quota$"):
        make(server).generate(ask())
    assert len(server.calls) == 1


def test_without_retries_there_is_one_try() -> None:
    with ChatServer(sends(b"", 500)) as server, pytest.raises(RetriesExhaustedError, match=r"answered 500: nothing$"):
        make(server, max_retries=0).generate(ask())
    assert len(server.calls) == 1


def test_no_server_is_said_so() -> None:
    with ChatServer(says()) as server:
        gone = make(server, max_retries=0)
    with pytest.raises(EngineError, match="no connection; is the server running"):
        gone.describe()


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("SHOP_KEY", f" {SECRET}\n")
    caplog.set_level("DEBUG")
    told = {"error": {"message": f"no such key: {SECRET}"}}
    troubles = (
        sends(told, 401),
        sends(told, 500),
        sends(told),
        sends(SECRET.encode()),
        sends(completion(choices=SECRET)),
    )
    with ChatServer(*troubles) as server:
        spec = EngineSpec(kind="openai", base_url=server.url, model="m", api_key_env="SHOP_KEY", max_retries=0)
        engine = build_engine(spec)
        seen = [engine.describe().model_dump_json(), spec.model_dump_json(), repr(engine.describe())]
        for _ in troubles:
            with pytest.raises(EngineError) as caught:
                engine.generate(ask())
            seen.append(str(caught.value))
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {SECRET}"}
    assert SECRET not in "\n".join(seen) + caplog.text
    assert "the key is the one in SHOP_KEY" in seen[3] and "no such key: [key]" in seen[3]


@pytest.mark.parametrize(
    ("value", "told"), [(None, "is not set"), ("  ", "is not set"), ("schlüssel", "no plain ASCII")]
)
def test_a_variable_that_holds_no_key_is_a_mistake_of_usage(
    value: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SHOP_KEY", value)
    with pytest.raises(UsageError, match=rf"SHOP_KEY .*{told}") as caught:
        build_engine(EngineSpec(kind="openai", base_url="http://127.0.0.1:1/v1", model="m", api_key_env="SHOP_KEY"))
    assert "schlüssel" not in str(caught.value)


def test_a_spec_that_lacks_what_it_needs_cannot_be_built() -> None:
    with pytest.raises(TaskError, match="kind openai needs the key 'base_url'"):
        build_engine(EngineSpec(kind="openai", model="m"))
    with pytest.raises(TaskError, match="kind openai needs the key 'model'"):
        build_engine(EngineSpec(kind="openai", base_url="http://127.0.0.1:1"))


def test_a_spec_that_was_stored_builds_the_same_engine() -> None:
    """A stored section holds every key, also those of other kinds."""
    with ChatServer(says()) as server:
        info = make(server).describe()
        assert info.reference is not None
        again = build_engine(EngineSpec.model_validate_json(info.reference))
        assert again.describe() == info


def test_another_server_promises_nothing() -> None:
    listed = {"data": [{"id": "m", "owned_by": "vllm", "exactness": "bitwise", "structured_output": True}]}
    with ChatServer(says(), models=listed) as server:
        info = make(server, concurrency=3).describe()
    assert (info.kind, info.model, info.deterministic, info.structured_output) == ("openai", "m", False, False)
    assert (info.fingerprint, info.concurrency, info.details["server"]) == (None, 3, None)
    assert EngineSpec(kind="openai").num_at_once == 8 and EngineSpec().num_at_once == 1


def test_our_own_server_is_known_by_its_list_and_trusted_with_all_of_a_request() -> None:
    speculation = {"num_decode_passes": 2, "num_draft_tokens": 6, "num_accepted_tokens": 5, "acceptance_rate": 0.8}
    usage = {"prompt_tokens": 7, "completion_tokens": 8, "speculation": speculation}
    with ChatServer(says(usage=usage, system_fingerprint="abc"), models=OURS) as server:
        engine = make(server)
        info = engine.describe()
        reply = engine.generate(ask(seed=2**62 + 1, reference_texts=("earlier", "before")))
        engine.generate(ask())
    assert (info.deterministic, info.fingerprint, info.details["server"]) == (True, "abc", "specdec serve")
    assert reply.fingerprint == "abc"
    assert reply.usage == Usage(prompt_tokens=7, generated_tokens=8, decode_passes=2, draft_tokens=6, accepted_tokens=5)
    assert server.bodies[0]["seed"] == 2**62 + 1
    assert server.bodies[0]["reference_texts"] == ["earlier", "before"]
    assert server.num_lists == 1, "asked once"


@pytest.mark.parametrize(
    "models",
    [sends(b"", 404), sends({"error": "restricted key"}, 403), sends(b"<html>"), sends({"data": [{"name": 5}]}), b"{}"],
)
def test_a_server_without_a_list_of_models_is_no_obstacle(models: Any) -> None:
    with ChatServer(says("fine"), models=models) as server:
        engine = make(server)
        assert not engine.describe().deterministic
        assert engine.generate(ask()).text == "fine"


def test_a_key_that_is_not_taken_is_told_before_any_work() -> None:
    told = r"answered 401: no: \[key\] .*engine.api_key_env"
    refuses = sends({"error": {"message": f"no: {SECRET}"}}, 401)
    with ChatServer(says(), models=refuses) as server, pytest.raises(EngineError, match=told) as caught:
        make(server, key=SECRET).describe()
    assert not isinstance(caught.value, RequestRefusedError), "it is of the engine, not of one request"
    assert server.calls == []


def test_ctrl_c_reaches_threads_that_wait_for_the_server() -> None:
    """The server never answers; the waits end at once, and so does one that begins afterwards."""
    interruption, ended, waiting = Interruption(), [], threading.Barrier(4)

    def hang(call: Any) -> None:
        waiting.wait(30)
        hangs(call)

    with ChatServer(hang) as server:
        engine = make(server)

        def wait() -> None:
            with interruption.covering():
                try:
                    engine.generate(ask())
                except KeyboardInterrupt:
                    ended.append(True)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        waiting.wait(30)  # all three are there
        interruption.set()
        for thread in threads:
            thread.join(30)
        wait()
    assert ended == [True] * 4


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
def test_a_certificate_that_is_not_trusted_is_said_so_at_once(tmp_path: Path) -> None:
    """It was tried again as if the server were away."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ChatServer(says()) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        spec = EngineSpec(kind="openai", base_url=server.url.replace("http:", "https:"), model="m")
        with pytest.raises(EngineError, match=r"certificate is not trusted here: .*self.signed") as caught:
            build_engine(spec).generate(ask())
    assert not isinstance(caught.value, RetriesExhaustedError)


def test_the_users_proxies_are_not_asked_for_a_server_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with ChatServer(says("direct")) as server:
        assert make(server, max_retries=0).generate(ask()).text == "direct"
