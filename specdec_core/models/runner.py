"""A Llama-family target: network, static cache and pass geometry behind the TargetModel protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from specdec_core.errors import ModelLoadError
from specdec_core.kv_cache import StaticKVCache
from specdec_core.models.base import Geometry, check_pass, check_prompt, round_up
from specdec_core.models.llama import LlamaConfig, LlamaNetwork
from specdec_core.prefix_cache import PrefixCache
from specdec_core.sequences import common_length

__all__ = ["LlamaTarget", "target_from_config"]

_PADDING_ID = 0  # any valid id: padded rows come last, so no token ever sees them


class LlamaTarget:
    """One sequence through a :class:`LlamaNetwork`. See :class:`specdec_core.models.base.TargetModel`.

    Logits come in the network's dtype and are inference tensors: outside ``torch.inference_mode`` they may be read
    and computed with, not changed in place. ``num_passes`` and ``num_pass_rows`` count since construction.
    """

    def __init__(self, network: LlamaNetwork, cache: StaticKVCache, geometry: Geometry, context_length: int) -> None:
        self.network = network
        self.cache = cache
        self.num_passes = 0
        self.num_pass_rows = 0
        self.num_cached_prompt_tokens = 0
        self.prefix_cache: PrefixCache | None = None
        self._geometry = geometry
        self._context_length = context_length

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding; every id below is accepted."""
        return self.network.config.vocab_size

    @property
    def context_length(self) -> int:
        """The most tokens, prompt and output together."""
        return self._context_length

    @property
    def geometry(self) -> Geometry:
        """The shape of every pass."""
        return self._geometry

    @property
    def cache_length(self) -> int:
        """Tokens whose keys and values are valid."""
        return self.cache.length

    def reuse_prefixes(self, max_bytes: int) -> None:
        """Let later prompts that begin alike share prefill work; 0, the state at first, reads every prompt whole.

        In ``bitwise`` exactness nothing changes but time: only whole prefill chunks are reused, and a chunk's bits
        depend on the ids up to its end alone. Keys and values that decode passes wrote are read again in ``law``
        exactness only, where the tokens that the cache still holds are kept, whoever wrote them.

        Args:
            max_bytes: Memory for copies of chunks, the cache itself not counted. What was kept before is dropped.
        """
        chunk = self._geometry.chunk
        max_blocks = max_bytes // (self.cache.num_bytes // self.cache.num_slots * chunk)
        self.prefix_cache = PrefixCache(chunk, max_blocks) if max_bytes else None

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int], before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Start a new sequence and read ``token_ids``; the logits after the last, [vocab].

        ``before_chunk`` is called before each chunk, and may raise to end the reading.

        Raises as :func:`specdec_core.models.base.check_prompt`.
        """
        check_prompt(self, token_ids)
        self._take_up(token_ids[:-1])  # the last token is computed in any case: its logits are wanted
        self.num_cached_prompt_tokens = self.cache.length
        chunk = self._geometry.chunk
        for start in range(self.cache.length, len(token_ids), chunk):
            before_chunk()
            chunk_ids = token_ids[start : start + chunk]
            num_rows = self._geometry.num_prefill_rows(len(chunk_ids))
            hidden = self._run_pass(chunk_ids, num_rows, self.prefill_extent(start, num_rows))
        last_row = hidden.narrow(0, len(chunk_ids) - 1, 1)  # always a one-row head: its geometry is fixed too
        logits = self.network.logits(last_row)[0]
        if self.prefix_cache is not None and torch.isfinite(logits).all():  # NaN anywhere before would show here
            self.prefix_cache.store(token_ids, self.cache.copy)
        return logits

    @torch.inference_mode()
    def decode(self, token_ids: Sequence[int]) -> Tensor:
        """One pass over the next 1 to ``geometry.width`` tokens; the logits after each, [num_tokens, vocab].

        Raises as :func:`specdec_core.models.base.check_pass`.
        """
        check_pass(self, token_ids)
        return self._decode_pass(token_ids)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises CacheRollbackError outside 0..cache_length."""
        self.cache.rollback(length)

    def with_geometry(self, geometry: Geometry) -> Self:
        """A target of the same kind over the same network and cache, with other passes."""
        return type(self)(self.network, self.cache, geometry, self._context_length)

    def decode_extent(self, start: int, num_rows: int) -> int:
        """Slots that a decode pass attends over."""
        return self._geometry.decode_extent(start, num_rows)

    def prefill_extent(self, start: int, num_rows: int) -> int:
        """Slots that a prefill pass attends over."""
        return round_up(start + num_rows, self._geometry.chunk)

    def _decode_pass(self, token_ids: Sequence[int]) -> Tensor:
        """Logits after each token, [num_tokens, vocab]; the pointer moves over them."""
        num_rows = self._geometry.num_decode_rows(len(token_ids))
        hidden = self._run_pass(token_ids, num_rows, self.decode_extent(self.cache.length, num_rows))
        return self.network.logits(hidden)[: len(token_ids)]

    def _take_up(self, token_ids: Sequence[int]) -> None:
        """Leave in the cache what is known of a new sequence that begins with ``token_ids``, and zeros behind it."""
        if self.prefix_cache is None:
            self.cache.cut(0)
            return
        num_kept = 0
        if self._geometry.exactness == "law":
            self.prefix_cache.store(self.cache.token_ids, self.cache.copy)
            num_kept = common_length(token_ids, self.cache.token_ids)
        chunk, blocks = self._geometry.chunk, self.prefix_cache.find(token_ids)
        if len(blocks) * chunk > num_kept:
            num_kept -= num_kept % chunk
        self.cache.cut(num_kept)
        for start in range(num_kept, len(blocks) * chunk, chunk):
            self.cache.append(token_ids[start : start + chunk], blocks[start // chunk])

    def _run_pass(self, token_ids: Sequence[int], num_rows: int, extent: int) -> Tensor:
        """Pad to ``num_rows``, run, move the pointer over the real tokens; hidden states [num_rows, hidden]."""
        start, num_tokens = self.cache.length, len(token_ids)
        padded_ids = [*token_ids, *[_PADDING_ID] * (num_rows - num_tokens)]
        row_ids = torch.tensor(padded_ids, dtype=torch.int64, device=self.network.device)
        hidden = self.network.forward(row_ids, start, extent, self.cache)
        self.cache.advance(token_ids)
        self.num_passes += 1
        self.num_pass_rows += num_rows
        return hidden


def target_from_config(
    config: LlamaConfig,
    tensors: Mapping[str, Tensor],
    geometry: Geometry,
    *,
    context_length: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    packed: bool = False,
) -> LlamaTarget:
    """Build a target out of a config and a state dict, without files.

    Args:
        config: The network's facts.
        tensors: Name -> tensor, safetensors names.
        geometry: The shape of every pass.
        context_length: The most tokens, prompt and output together.
        device, dtype: Of weights and cache; logits come in ``dtype``.
        packed: Store weights in oneDNN's layout (CPU, float32 or bfloat16).

    Raises:
        ModelLoadError: tensors do not fit the config, or the context reaches into a sliding window.
    """
    if config.sliding_window is not None and context_length > config.sliding_window:
        raise ModelLoadError(
            f"sliding-window attention is not supported: the window is {config.sliding_window} tokens, so ask for"
            f" context_length <= {config.sliding_window} (asked: {context_length})"
        )
    device = torch.device(device)
    num_slots = geometry.num_slots(context_length)
    max_rows = max(geometry.width, geometry.chunk)
    with torch.no_grad():
        network = LlamaNetwork(
            config, tensors, num_slots=num_slots, max_rows=max_rows, device=device, dtype=dtype, packed=packed
        )
        cache = StaticKVCache(
            config.num_layers, config.num_kv_heads, num_slots, config.head_dim, dtype=dtype, device=device
        )
    return LlamaTarget(network, cache, geometry, context_length)
