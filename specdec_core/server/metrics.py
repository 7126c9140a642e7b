"""What Prometheus reads at ``/metrics``, under vLLM's names, so that its dashboards show this server too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from specdec_core.types import GenerationOutput, Round

__all__ = ["ServerMetrics"]

_COUNTERS = {
    "prompt_tokens": "Prompt tokens of finished requests.",
    "generation_tokens": "Tokens generated.",
    "prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Of these, found there and not computed again.",
    "spec_decode_num_drafts": "Decode passes that verified a draft.",
    "spec_decode_num_draft_tokens": "Draft tokens verified.",
    "spec_decode_num_accepted_tokens": "Draft tokens accepted.",
}
_HISTOGRAMS = {
    "request_queue_time_seconds": "From arrival to the beginning of the work.",
    "time_to_first_token_seconds": "From arrival to the first token.",
    "e2e_request_latency_seconds": "From arrival to the last token.",
    "request_prefill_time_seconds": "Reading the prompt, to the first token.",
    "request_decode_time_seconds": "Decoding after the first token.",
    "request_time_per_output_token_seconds": "Decoding, for each token after the first.",
}
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class ServerMetrics:
    """The numbers of one server. The worker counts; any thread may read."""

    def __init__(self, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._labels = {"model_name": model_name, "engine": "0"}
        names = list(self._labels)
        self._counters = {
            name: Counter(f"vllm:{name}", text, names, registry=self._registry).labels(**self._labels)
            for name, text in _COUNTERS.items()
        }
        self._times = {
            name: Histogram(f"vllm:{name}", text, names, registry=self._registry, buckets=_BUCKETS).labels(
                **self._labels
            )
            for name, text in _HISTOGRAMS.items()
        }
        self._accepted_per_pos = Counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens accepted, by place in the draft.",
            [*names, "position"],
            registry=self._registry,
        )
        self._ended = Counter(
            "vllm:request_success", "Requests by how they ended.", [*names, "finished_reason"], registry=self._registry
        )

    def watch(self, num_running: Callable[[], float], num_waiting: Callable[[], float]) -> None:
        """Where to ask for the numbers of now."""
        for name, text, ask in (
            ("vllm:num_requests_running", "Requests at work.", num_running),
            ("vllm:num_requests_waiting", "Requests in the line.", num_waiting),
        ):
            gauge = Gauge(name, text, list(self._labels), registry=self._registry)
            gauge.labels(**self._labels).set_function(ask)

    def begun(self, submitted_at: float) -> None:
        """A request has left the line."""
        self._times["request_queue_time_seconds"].observe(time.perf_counter() - submitted_at)

    def round_made(self, round_: Round) -> None:
        """A decode pass has been verified."""
        if not round_.draft.token_ids:
            return
        self._counters["spec_decode_num_drafts"].inc()
        self._counters["spec_decode_num_draft_tokens"].inc(len(round_.draft.token_ids))
        self._counters["spec_decode_num_accepted_tokens"].inc(round_.num_accepted)
        for position in range(round_.num_accepted):
            self._accepted_per_pos.labels(**self._labels, position=str(position)).inc()

    def tokens_made(self, num_tokens: int) -> None:
        """So many tokens have been generated."""
        self._counters["generation_tokens"].inc(num_tokens)

    def first_token_made(self, submitted_at: float) -> None:
        """The first token of a request is there."""
        self._times["time_to_first_token_seconds"].observe(time.perf_counter() - submitted_at)

    def finished(self, output: GenerationOutput, submitted_at: float) -> None:
        """A text has come to its end."""
        stats = output.stats
        self._counters["prompt_tokens"].inc(stats.num_prompt_tokens)
        self._counters["prefix_cache_queries"].inc(stats.num_prompt_tokens)
        self._counters["prefix_cache_hits"].inc(stats.num_cached_prompt_tokens)
        self._times["e2e_request_latency_seconds"].observe(time.perf_counter() - submitted_at)
        self._times["request_prefill_time_seconds"].observe(stats.prefill_time_s)
        self._times["request_decode_time_seconds"].observe(stats.decode_time_s)
        if stats.num_generated_tokens > 1:
            per_token_s = stats.decode_time_s / (stats.num_generated_tokens - 1)
            self._times["request_time_per_output_token_seconds"].observe(per_token_s)
        self.ended(output.finish_reason)

    def ended(self, how: Literal["stop", "length", "abort", "error"]) -> None:
        """A request has ended: its text by ``stop`` or ``length``, or before, as nobody wants it or by an error."""
        self._ended.labels(**self._labels, finished_reason=how).inc()

    def exposition(self) -> bytes:
        """All numbers in Prometheus' text format."""
        return generate_latest(self._registry)
