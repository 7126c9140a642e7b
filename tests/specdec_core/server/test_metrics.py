"""Numbers at ``/metrics``: vLLM's names, and sums that agree with what clients were told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specdec_core.engine import Engine
from specdec_core.server import Server
from tests.specdec_core.server.asking import ask, chat_body, metric

# What dashboards for vLLM ask for, of what a server of one engine has.
COUNTERS = [
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:request_success_total",
]
GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting"]
HISTOGRAMS = [
    "vllm:time_to_first_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:request_time_per_output_token_seconds",
]


@pytest.fixture
def fresh(engine: Engine) -> Iterator[Server]:
    """A server whose numbers begin at 0."""
    with Server(engine) as server:
        yield server


def test_sums_agree_with_what_clients_were_told(engine: Engine, fresh: Server) -> None:
    engine.memory.clear()
    usages = [
        ask(fresh.url, "/v1/chat/completions", chat_body(max_tokens=30), token=fresh.api_key).json["usage"]
        for _ in range(3)
    ]
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        total = sum(usage["speculation"][name] for usage in usages)
        assert metric(fresh, f"vllm:spec_decode_{name}_total", model_name="tiny", engine="0") == total > 0
    accepted = metric(fresh, "vllm:spec_decode_num_accepted_tokens_total")
    assert metric(fresh, "vllm:spec_decode_num_accepted_tokens_per_pos_total") == accepted
    first = metric(fresh, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position="0")
    assert metric(fresh, "vllm:spec_decode_num_drafts_total") >= first > 0
    assert metric(fresh, "vllm:generation_tokens_total") == sum(usage["completion_tokens"] for usage in usages)
    assert metric(fresh, "vllm:prompt_tokens_total") == sum(usage["prompt_tokens"] for usage in usages)
    assert metric(fresh, "vllm:request_success_total") == 3
    for name in HISTOGRAMS:
        assert metric(fresh, f"{name}_count") == 3, name


def test_names_and_kinds_are_vllms(fresh: Server) -> None:
    ask(fresh.url, "/v1/chat/completions", chat_body(max_tokens=30), token=fresh.api_key)
    answer = ask(fresh.url, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    kinds = {sample.name: family.type for family in families.values() for sample in family.samples}
    assert [kinds[name] for name in COUNTERS] == ["counter"] * len(COUNTERS)
    assert [kinds[name] for name in GAUGES] == ["gauge"] * len(GAUGES)
    assert [families[name].type for name in HISTOGRAMS] == ["histogram"] * len(HISTOGRAMS)


def test_two_servers_count_apart(engine: Engine, fresh: Server) -> None:
    with Server(engine, names=("other",)) as other:
        ask(other.url, "/v1/chat/completions", chat_body(), token=other.api_key)
        assert metric(other, "vllm:request_success_total", model_name="other") == 1
        assert metric(fresh, "vllm:request_success_total") == 0
