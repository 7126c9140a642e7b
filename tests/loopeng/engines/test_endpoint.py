"""The speculative core over HTTP, for one attempt: a real server, and real programs that ask it."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest

from loopeng import Loop
from loopeng.engines import LazyEngine, MeteredEngine, build_engine
from loopeng.engines.specdec import SpecDecEngine
from loopeng.ports import Endpoint, TextRequest
from loopeng.schema import Message, Usage
from loopeng.schema.task import EngineSpec
from tests.specdec_core.tiny_models import make_tiny_engine

MESSAGES = (Message(role="user", content="Say it again."),)
ASKING = """\
import json, os, sys, urllib.request

attempt = json.load(sys.stdin)
body = {"model": os.environ["LOOPENG_MODEL"], "messages": attempt["messages"]}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers
)
with urllib.request.urlopen(request) as reply:
    print(json.dumps({"text": json.load(reply)["choices"][0]["message"]["content"]}))
"""


@pytest.fixture(scope="module")
def tiny() -> SpecDecEngine:
    return SpecDecEngine(make_tiny_engine("suffix", context_length=1024), reference="{}")


def ask(endpoint: Endpoint, **fields: Any) -> str:
    with openai.OpenAI(base_url=endpoint.url, api_key=endpoint.token, max_retries=0) as client:
        reply = client.chat.completions.create(
            model=endpoint.model, messages=[{"role": "user", "content": MESSAGES[0].content}], **fields
        )
    return reply.choices[0].message.content or ""


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_whoever_asks_the_endpoint_hears_what_the_engine_would_say(tiny: SpecDecEngine, temperature: float) -> None:
    """Seed, temperature, length and reference texts of the attempt hold, so even the counts are the same."""
    request = TextRequest(messages=MESSAGES, max_tokens=40, temperature=temperature, seed=11, top_p=0.95)
    own = tiny.generate(request)
    request = request.model_copy(update={"reference_texts": (own.text,)})
    own = tiny.generate(request)
    metered = MeteredEngine(LazyEngine(lambda: tiny), request)
    with metered.endpoint() as endpoint:
        assert endpoint is not None and endpoint.url.startswith("http://127.0.0.1:")
        assert ask(endpoint) == own.text
        assert ask(endpoint, seed=12, temperature=1.0, max_tokens=3) != own.text
    assert metered.usage.prompt_tokens == 2 * own.usage.prompt_tokens
    assert metered.usage.generated_tokens == own.usage.generated_tokens + 3
    assert metered.usage.accepted_tokens >= own.usage.accepted_tokens > 0
    assert metered.fingerprint == own.fingerprint


def test_after_the_attempt_its_token_is_refused_and_the_address_stays(tiny: SpecDecEngine) -> None:
    request = TextRequest(messages=MESSAGES, max_tokens=4)
    with tiny.endpoint(request) as endpoint, tiny.endpoint(request) as other:
        assert endpoint is not None and other is not None
        assert endpoint.url == other.url and endpoint.token != other.token
        ask(other)
        assert endpoint.usage() == Usage() and other.usage().generated_tokens > 0
    with pytest.raises(openai.AuthenticationError):
        ask(endpoint)


def answers_of(folder: Path, engine: Any, agent: Any) -> list[tuple[str, int, str | None]]:
    """Of one sample that never passes: text, tokens and fingerprint of each attempt (drafts depend on earlier runs)."""
    path = folder / "task.yaml"
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "name": "asking",
                "prompt": {"name": "describe", "template": "Describe a {{ product }} in a few words.{{ rules }}"},
                "dataset": {"samples": [{"product": "mug", "split": "reflect"}]},
                "agent": agent,
                "engine": {"max_tokens": 24},
                "evaluators": [{"id": "never", "type": "contains", "value": "no such words"}],
                "loop": {"max_attempts": 3, "retry": "resample", "temperatures": [0, 0.5, 0.9]},
                "improve": {"enabled": False},
            }
        )
    )
    with Loop.open(folder / "loop.db", engine=engine) as loop:
        result = loop.run(path)
        attempts = loop.store.attempts(result.summary.run.id)
    assert [attempt.error for attempt in attempts] == [None] * 3
    return [(attempt.text, attempt.usage.total_tokens, attempt.fingerprint) for attempt in attempts]


def test_the_loop_around_a_program_that_asks_the_endpoint_is_that_around_the_engine(
    tiny: SpecDecEngine, tmp_path: Path
) -> None:
    (tmp_path / "ask.py").write_text(ASKING)
    through = answers_of(tmp_path, tiny, {"command": [sys.executable, "ask.py"]})
    assert through == answers_of(tmp_path, tiny, "llm")
    assert len({text for text, _, _ in through}) > 1


@pytest.mark.slow
def test_the_same_with_the_embedded_model(embedded_folder: Path, tmp_path: Path) -> None:
    engine = build_engine(EngineSpec(model=str(embedded_folder), context_length=512))
    (tmp_path / "ask.py").write_text(ASKING)
    through = answers_of(tmp_path, engine, {"command": [sys.executable, "ask.py"]})
    assert through == answers_of(tmp_path, engine, "llm")
    assert json.dumps(through[0][0]).isascii() and len(through[0][0].split()) > 3


def test_a_wrong_request_is_answered_with_400_and_costs_nothing(tiny: SpecDecEngine) -> None:
    with tiny.endpoint(TextRequest(messages=MESSAGES)) as endpoint:
        assert endpoint is not None
        headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": "application/json"}
        url = f"{endpoint.url}/chat/completions"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url, b'{"messages": 3}', headers))
        caught.value.close()
        assert caught.value.code == 400 and endpoint.usage() == Usage()
