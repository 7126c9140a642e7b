"""What a pass reads and computes, counted from shapes."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_core.models.runner import LlamaTarget

__all__ = ["PassWork", "decode_work", "prefill_flops"]


@dataclass(frozen=True, slots=True)
class PassWork:
    """One decode pass: bytes that it reads, and the arithmetic it does. Activations stay in the caches."""

    num_rows: int
    weight_bytes: int  # of the embedding only the rows that the tokens ask for
    kv_bytes: int  # keys and values of every slot attended over
    num_weights: int  # each row is multiplied with so many
    attention_flops: int

    @property
    def num_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes

    @property
    def num_flops(self) -> int:
        """Two per weight and row, and attention's."""
        return 2 * self.num_weights * self.num_rows + self.attention_flops


def decode_work(target: LlamaTarget, num_rows: int, num_cached_tokens: int) -> PassWork:
    """The work of a decode pass of ``num_rows`` rows, padding included, behind ``num_cached_tokens`` tokens."""
    network, cache = target.network, target.cache
    extent = target.decode_extent(num_cached_tokens, num_rows)
    layers, head = _num_weights(target)
    return PassWork(
        num_rows=num_rows,
        weight_bytes=network.weight_bytes + num_rows * network.config.hidden_size * network.dtype.itemsize,
        kv_bytes=cache.num_bytes // cache.num_slots * extent,
        num_weights=layers + head,
        attention_flops=_attention_flops(target, num_rows, extent),
    )


def prefill_flops(target: LlamaTarget, num_tokens: int) -> int:
    """FLOP of reading a prompt, chunk by chunk, padding included; the head runs on the last row alone."""
    geometry = target.geometry
    layers, head = _num_weights(target)
    num_flops = 2 * head
    for start in range(0, num_tokens, geometry.chunk):
        num_rows = geometry.num_prefill_rows(min(geometry.chunk, num_tokens - start))
        extent = target.prefill_extent(start, num_rows)
        num_flops += 2 * layers * num_rows + _attention_flops(target, num_rows, extent)
    return num_flops


def _num_weights(target: LlamaTarget) -> tuple[int, int]:
    """Weights of the linears of all layers, and of the head."""
    config = target.network.config
    query_size, key_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    attention = 2 * config.hidden_size * (query_size + key_size)  # queries and output, keys and values
    mlp = 3 * config.hidden_size * config.intermediate_size
    return config.num_layers * (attention + mlp), config.vocab_size * config.hidden_size


def _attention_flops(target: LlamaTarget, num_rows: int, extent: int) -> int:
    """Scores and weighted values: four FLOP per row, slot and number of a query; masked slots are computed too."""
    config = target.network.config
    return 4 * config.num_layers * num_rows * extent * config.num_heads * config.head_dim
