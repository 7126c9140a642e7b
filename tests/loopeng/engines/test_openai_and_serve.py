"""The engine of kind openai on the real endpoint: what ``specdec serve`` answers is what the engine itself writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from loopeng.attempt.harness import Harness
from loopeng.engines import build_engine
from loopeng.engines.openai_http import OpenAIEngine
from loopeng.engines.specdec import SpecDecEngine
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.ports import EndpointEngine, TextReply, TextRequest
from loopeng.runner import run_suite
from loopeng.schema import Message, Usage
from loopeng.schema.task import EngineSpec
from loopeng.store import LoopStore
from specdec_core.engine import Engine
from specdec_core.server import Server
from tests.loopeng.attempt.making import make_task
from tests.specdec_core.tiny_models import make_tiny_engine

VARIABLE = "TINY_KEY"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_tiny_engine("suffix")


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Server]:
    with Server(engine, names=("tiny-model",)) as running:
        yield running


@pytest.fixture
def spec(server: Server, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    monkeypatch.setenv(VARIABLE, server.api_key)
    return EngineSpec(
        kind="openai", base_url=server.url, model="tiny-model", api_key_env=VARIABLE, max_retries=0, max_tokens=24
    )


def ask(content: str = "Name three fruits.", **changes: Any) -> TextRequest:
    return TextRequest(messages=(Message(role="user", content=content),), **({"max_tokens": 24} | changes))


def without_latency(reply: TextReply) -> dict[str, Any]:
    return reply.model_dump(exclude={"latency_s", "token_ids", "usage"})


SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "seeded": {"temperature": 0.8, "seed": 2**62 + 11},
    "filtered": {"temperature": 1.2, "seed": 5, "top_p": 0.9, "top_k": 40},
    "penalised": {"repetition_penalty": 1.2},
    "stopped": {"temperature": 1.0, "seed": 2, "stop": ("e", "<sep>")},
    "followed": {"reference_texts": ("Apples, pears, plums.", "Name three fruits.")},
    "cut": {"max_tokens": 1},
}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))
def test_same_text_and_numerics_as_the_engine_itself(
    engine: Engine, spec: EngineSpec, sampling: dict[str, Any]
) -> None:
    here, there = SpecDecEngine(engine), build_engine(spec)
    expected, reply = here.generate(ask(**sampling)), there.generate(ask(**sampling))
    assert without_latency(reply) == without_latency(expected)
    assert reply.usage.prompt_tokens == expected.usage.prompt_tokens
    assert reply.usage.generated_tokens == expected.usage.generated_tokens
    assert reply.usage.decode_passes > 0 or sampling.get("max_tokens") == 1


def test_reference_texts_are_followed_and_the_passes_fewer(engine: Engine, spec: EngineSpec) -> None:
    remote = build_engine(spec)
    text = remote.generate(ask("Once more.")).text
    followed = remote.generate(ask("Once more.", reference_texts=(text,)))
    assert followed.text == text
    assert followed.usage.accepted_tokens > 0 and followed.usage.decode_passes < followed.usage.generated_tokens


def test_it_says_of_itself_what_the_engine_says(
    engine: Engine, spec: EngineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = SpecDecEngine(engine).describe(), build_engine(spec).describe()
    assert there.deterministic and there.deterministic == here.deterministic
    assert (there.fingerprint, there.structured_output) == (here.fingerprint, here.structured_output)
    assert there.details["server"] == "specdec serve"
    with Server(make_tiny_engine(exactness="law")) as lawful:
        moved = spec.model_copy(update={"base_url": lawful.url})
        with pytest.raises(EngineError, match=rf"answered 401: .*{VARIABLE}"):
            build_engine(moved).describe()
        monkeypatch.setenv(VARIABLE, lawful.api_key)
        assert not build_engine(moved).describe().deterministic


def test_what_it_refuses_is_refused_with_its_words(spec: EngineSpec) -> None:
    with pytest.raises(RequestRefusedError, match=r"answered 400: .*128"):
        build_engine(spec).generate(ask("word " * 60))
    with pytest.raises(RequestRefusedError, match="answered 404: the model 'huge-model' is not served here"):
        build_engine(spec.model_copy(update={"model": "huge-model"})).generate(ask())


def test_a_run_over_http_has_the_rows_of_a_local_one(engine: Engine, spec: EngineSpec, tmp_path: Path) -> None:
    """Four samples side by side on the one engine: they take turns there, and no answer depends on it."""
    found = []
    for name, section in (("local", None), ("remote", spec.model_copy(update={"concurrency": 4}))):
        task = make_task(6, engine=section or EngineSpec(max_tokens=24), retry="critique")
        with LoopStore.open(tmp_path / f"{name}.db") as store:
            made = SpecDecEngine(engine) if section is None else None
            run = run_suite(Harness.build(store, task, engine=made)).run
            found.append(
                [(a.sample_id, a.attempt_index, a.seed, a.text, a.fingerprint) for a in store.attempts(run.id)]
            )
    assert found[0] == found[1]
    assert len({text for *_, text, _ in found[0]}) > 1


def test_programs_get_the_server_itself(server: Server, spec: EngineSpec) -> None:
    made = build_engine(spec)
    assert isinstance(made, EndpointEngine) and isinstance(made, OpenAIEngine)
    with made.endpoint(ask()) as endpoint:
        assert (endpoint.url, endpoint.token, endpoint.model) == (server.url, server.api_key, "tiny-model")
        with openai.OpenAI(base_url=endpoint.url, api_key=endpoint.token, max_retries=0) as client:
            assert client.models.list().data[0].id == endpoint.model
        assert endpoint.usage() == Usage()


def test_the_embedded_model_says_the_same_over_http(embedded_folder: Path) -> None:
    """Greedy and seeded, on the real model."""
    here = build_engine(EngineSpec(exactness="bitwise", context_length=256))
    assert isinstance(here, SpecDecEngine)
    with Server(here.engine, api_key="k" * 8) as server:
        remote = OpenAIEngine.from_spec(EngineSpec(kind="openai", base_url=server.url, model=server.model))
        remote.server.key = "k" * 8
        for sampling in ({}, {"temperature": 0.8, "seed": 7}):
            question = ask("Describe this product: mug", max_tokens=12, **sampling)
            assert without_latency(remote.generate(question)) == without_latency(here.generate(question))
