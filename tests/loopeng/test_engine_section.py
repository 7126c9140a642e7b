"""Keys of the engine section: what does not go with a kind, what is missing, and secrets that belong in no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from loopeng.errors import TaskError
from loopeng.schema.engine_section import KEYS_OF_ONE_KIND, EngineSpec
from loopeng.task_file import load_task, task_from_dict
from tests.loopeng.task_texts import Broken, check_mistake, write

OLD = "  kind: specdec\n  drafter: auto"
SERVER = "  kind: openai\n  model: m\n  base_url: http://127.0.0.1:8000/v1"
SECRET = "sk-proj-abcDEF0123456789"


def server(*lines: str) -> str:
    return "\n  ".join([SERVER, *lines])


BROKEN = [
    Broken(
        "no address", OLD, "  kind: openai\n  model: m", "engine:", "kind openai needs the key 'base_url'", "http://"
    ),
    Broken(
        "no model",
        OLD,
        "  kind: openai\n  base_url: http://127.0.0.1:8000/v1",
        "engine:",
        "kind openai needs the key 'model'",
        "/models",
    ),
    Broken(
        "key of another kind",
        OLD,
        server("drafter: auto"),
        "drafter",
        "engine.drafter does not go with kind openai",
        "write kind: specdec, or remove the key",
    ),
    Broken(
        "server's key with a model of our own",
        OLD,
        "  kind: specdec\n  concurrency: 4",
        "concurrency",
        "engine.concurrency does not go with kind specdec",
        "write kind: openai, or remove the key",
    ),
    Broken("script", OLD, server("script: a.yaml"), "script", "engine.script does not go with kind openai"),
    Broken("typo", OLD, server("concurency: 4"), "concurency", "unknown key 'concurency'", "'concurrency'"),
    Broken("the key itself", OLD, server(f"api_key: {SECRET}"), "api_key", "unknown key 'api_key'", "'api_key_env'"),
    Broken(
        "the key where its variable belongs",
        OLD,
        server(f"api_key_env: {SECRET}"),
        "api_key_env",
        "engine.api_key_env: must be the name of an environment variable, in capitals",
    ),
    Broken(
        "password in the address",
        OLD,
        SERVER.replace("127", f"me:{SECRET}@127"),
        "base_url",
        "engine.base_url: must not hold a user or password",
    ),
    Broken("no scheme", OLD, SERVER.replace("http://", ""), "base_url", "must be an address that begins with http://"),
    Broken("no host", OLD, SERVER.replace("127.0.0.1:8000", ""), "base_url", "must be an address that begins with"),
    Broken("bad port", OLD, SERVER.replace("8000", "80000"), "base_url", "its host or port cannot be read"),
    Broken("a query", OLD, f"{SERVER}?key={SECRET}", "base_url", "must end with its path"),
    Broken("too much path", OLD, f"{SERVER}/chat/completions", "base_url", "the address before /chat/completions"),
    Broken("a field of ours", OLD, server("extra_body: {stream: true, n: 2}"), "extra_body", "n, stream cannot be set"),
    Broken("no threads", OLD, server("concurrency: 0"), "concurrency", "engine.concurrency must be at least 1"),
    Broken("no time", OLD, server("time_limit_s: 0"), "time_limit_s", "engine.time_limit_s must be more than 0"),
    Broken("retries for ever", OLD, server("max_retries: 1000"), "max_retries", "must be at most 20"),
    Broken("limit's name", OLD, server("max_tokens_name: max_token"), "max_tokens_name", "must be", "'max_tokens'"),
    Broken(
        "reflector's server",
        "reflector: hints",
        "reflector: llm, engine: {kind: openai, model: m}",
        "improve",
        "improve.engine: kind openai needs the key 'base_url'",
    ),
    Broken(
        "judge's server",
        "  - {id: one, type: sentences, max: 1}",
        "  - {id: one, type: llm_judge, criteria: It is short., engine: {kind: openai, model: m}}",
        "llm_judge",
        "kind openai needs the key 'base_url'",
    ),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_every_mistake_names_its_place_and_a_way_out_and_no_secret(case: Broken, tmp_path: Path) -> None:
    check_mistake(case, tmp_path)
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    assert SECRET not in str(caught.value)


def test_a_whole_section_is_taken(tmp_path: Path) -> None:
    lines = [
        "api_key_env: SHOP_KEY",
        "time_limit_s: 30",
        "concurrency: 16",
        "max_retries: 0",
        "structured_output: true",
    ]
    path = write(tmp_path)
    more = ["max_tokens_name: max_completion_tokens", "extra_body: {reasoning_effort: low}"]
    path.write_text(path.read_text().replace(OLD, server(*lines, *more)), encoding="utf-8")
    engine = load_task(path).engine
    assert (engine.num_at_once, engine.time_limit_s, engine.extra_body) == (16, 30, {"reasoning_effort": "low"})
    assert EngineSpec.model_validate_json(engine.model_dump_json()) == engine


def test_a_mistake_in_python_does_not_show_the_key_either() -> None:
    for keys in ({"api_key_env": SECRET}, {"base_url": f"https://me:{SECRET}@host/v1"}):
        with pytest.raises(ValidationError) as caught:
            EngineSpec(kind="openai", model="m", **keys)
        assert SECRET not in str(caught.value)


def test_every_key_of_one_kind_is_a_key_and_no_two_kinds_share_one() -> None:
    keys = [key for each in KEYS_OF_ONE_KIND.values() for key in each]
    assert len(keys) == len(set(keys))
    assert set(keys) < set(EngineSpec.model_fields)


def test_a_task_made_in_python_is_checked_as_a_file_is() -> None:
    keys = {
        "version": 1,
        "name": "t",
        "prompt": {"name": "p", "template": "{{ x }}{{ rules }}"},
        "dataset": {"samples": [{"x": "1"}]},
        "evaluators": [{"id": "e", "type": "length", "max_words": 5}],
        "engine": {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1", "device": "cpu"},
    }
    with pytest.raises(TaskError, match=r"engine\.device does not go with kind openai"):
        task_from_dict(keys)
