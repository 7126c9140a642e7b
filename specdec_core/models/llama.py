"""Our own forward for the Llama family: Llama, SmolLM2, Mistral, Qwen2/2.5 (qkv biases) and Qwen3 (q and k norms).

Few, large operations: one linear for q, k and v, one for gate and up, one copy into the cache, one attention call with
the query heads of a group folded into rows. Which biases and norms a model has is read off its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from specdec_core.errors import ModelLoadError
from specdec_core.kv_cache import StaticKVCache
from specdec_core.models.linear import Linear, make_linear
from specdec_core.models.tensor_reader import TensorReader

__all__ = ["LlamaConfig", "LlamaNetwork"]

_CUDA_BACKENDS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # cuDNN chooses plans by shape: bits would move


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The facts of a network that its tensors do not tell. Raises ModelLoadError for what the forward cannot do."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int
    inv_freq: tuple[float, ...]  # [head_dim / 2], radians per position; carries every static rope type
    rope_attention_scaling: float = 1.0  # factor on cos and sin (yarn)
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    hidden_act: str = "silu"
    rope_type: str = "default"
    sliding_window: int | None = None  # active only in contexts longer than this
    num_experts: int = 0

    def __post_init__(self) -> None:
        if self.hidden_act not in ("silu", "swish"):
            raise ModelLoadError(f"activation {self.hidden_act!r} is not supported: the Llama family uses 'silu'")
        if self.num_experts:
            raise ModelLoadError(f"mixture-of-experts models are not supported ({self.num_experts} experts)")
        if self.rope_type in ("dynamic", "longrope"):
            raise ModelLoadError(f"rope type {self.rope_type!r} changes with the length and is not supported")
        if self.num_heads % self.num_kv_heads:
            raise ModelLoadError(f"{self.num_heads} heads do not divide into {self.num_kv_heads} key-value heads")
        if 2 * len(self.inv_freq) != self.head_dim:
            raise ModelLoadError(
                f"partial rotary embeddings are not supported: {len(self.inv_freq)} frequencies for head size"
                f" {self.head_dim}"
            )

    @property
    def num_groups(self) -> int:
        """Query heads per key-value head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: Tensor  # [hidden]
    qkv: Linear  # hidden -> (num_heads + 2 * num_kv_heads) * head_dim
    query_norm: Tensor | None  # [head_dim]
    key_norm: Tensor | None  # [head_dim]
    output: Linear  # num_heads * head_dim -> hidden
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear  # intermediate -> hidden


class LlamaNetwork:
    """The weights on a device, and one pass over them. It keeps no sequence state: that is the cache's.

    Args:
        config: The network's facts.
        tensors: Name -> tensor as in a safetensors checkpoint (``model.layers.0.self_attn.q_proj.weight`` ...).
        num_slots: Positions the tables must cover.
        max_rows: The most rows of one pass.
        packed: Store weights in oneDNN's layout where possible.

    Raises:
        ModelLoadError: a tensor is missing, misshapen or unknown.
    """

    def __init__(
        self,
        config: LlamaConfig,
        tensors: Mapping[str, Tensor],
        *,
        num_slots: int,
        max_rows: int,
        device: torch.device,
        dtype: torch.dtype,
        packed: bool = False,
    ) -> None:
        self.config = config
        self.device = device
        self.dtype = dtype
        self._scale = config.head_dim**-0.5
        self._num_slots = num_slots
        reader = TensorReader(tensors, device, dtype)
        self._embedding, head_weight = self._read_vocabulary(reader)
        self._layers = [self._read_layer(reader, layer_id, packed) for layer_id in range(config.num_layers)]
        self._final_norm = reader.take("model.norm.weight", (config.hidden_size,))
        self._head = make_linear(head_weight, None, packed=packed)
        reader.refuse_unread()
        self._cos, self._sin = self._rope_tables()
        self._mask_table = self._make_mask_table(max_rows)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that every pass reads: all but the embedding, of which it reads one row per token."""
        parts = [getattr(layer, item.name) for layer in self._layers for item in fields(layer)]
        return sum(part.nbytes for part in (*parts, self._final_norm, self._head) if part is not None)

    def _read_vocabulary(self, reader: TensorReader) -> tuple[Tensor, Tensor]:
        """Embedding and head, each [vocab, hidden]. Checkpoints store a tied pair under either name, or both."""
        shape = (self.config.vocab_size, self.config.hidden_size)
        if not self.config.tie_word_embeddings:
            return reader.take("model.embed_tokens.weight", shape), reader.take("lm_head.weight", shape)
        head_weight = reader.take_if_present("lm_head.weight", shape)
        embedding = reader.take_if_present("model.embed_tokens.weight", shape)
        if embedding is None:
            embedding = head_weight if head_weight is not None else reader.take("model.embed_tokens.weight", shape)
        return embedding, embedding

    def _read_layer(self, reader: TensorReader, layer_id: int, packed: bool) -> _Layer:
        config, prefix = self.config, f"model.layers.{layer_id}"
        hidden, head_dim = config.hidden_size, config.head_dim
        query_size, key_size = config.num_heads * head_dim, config.num_kv_heads * head_dim
        qkv = reader.fused(
            f"{prefix}.self_attn", {"q_proj": query_size, "k_proj": key_size, "v_proj": key_size}, hidden
        )
        output = reader.fused(f"{prefix}.self_attn", {"o_proj": hidden}, query_size)
        intermediate = config.intermediate_size
        gate_up = reader.fused(f"{prefix}.mlp", {"gate_proj": intermediate, "up_proj": intermediate}, hidden)
        down = reader.fused(f"{prefix}.mlp", {"down_proj": hidden}, intermediate)
        return _Layer(
            input_norm=reader.take(f"{prefix}.input_layernorm.weight", (hidden,)),
            qkv=make_linear(*qkv, packed=packed),
            query_norm=reader.take_if_present(f"{prefix}.self_attn.q_norm.weight", (head_dim,)),
            key_norm=reader.take_if_present(f"{prefix}.self_attn.k_norm.weight", (head_dim,)),
            output=make_linear(*output, packed=packed),
            mlp_norm=reader.take(f"{prefix}.post_attention_layernorm.weight", (hidden,)),
            gate_up=make_linear(*gate_up, packed=packed),
            down=make_linear(*down, packed=packed),
        )

    def _rope_tables(self) -> tuple[Tensor, Tensor]:
        """cos and sin, each [num_slots, 1, head_dim]; the first half of sin is negated so that a flip rotates."""
        table_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        positions = torch.arange(self._num_slots, dtype=table_dtype)
        angles = torch.outer(positions, torch.tensor(self.config.inv_freq, dtype=table_dtype))
        cos = angles.cos() * self.config.rope_attention_scaling
        sin = angles.sin() * self.config.rope_attention_scaling
        tables = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
        cos_table, sin_table = (table.unsqueeze(1).to(device=self.device, dtype=self.dtype) for table in tables)
        return cos_table, sin_table

    def _make_mask_table(self, max_rows: int) -> Tensor:
        """[max_rows, 2 * num_slots]: 0 where column <= row + num_slots, else -inf.

        The mask of a pass that starts at slot s is the window of columns from num_slots - s on.
        """
        columns = torch.arange(2 * self._num_slots, device=self.device)
        limits = torch.arange(max_rows, device=self.device) + self._num_slots
        table = torch.zeros(max_rows, 2 * self._num_slots, dtype=self.dtype, device=self.device)
        return table.masked_fill_(columns > limits[:, None], float("-inf"))

    def mask(self, num_rows: int, start: int, extent: int) -> Tensor:
        """[num_groups * num_rows, extent]: one copy per pass serves every layer.

        A copy also where there is one group: CUDA's kernel refuses a mask whose first element is not aligned.
        """
        window = self._mask_table.narrow(0, 0, num_rows).narrow(1, self._num_slots - start, extent)
        return window.repeat(self.config.num_groups, 1)

    def forward(
        self, token_ids: Tensor, start: int, extent: int, cache: StaticKVCache, *, num_layers: int | None = None
    ) -> Tensor:
        """Run one pass and write its keys and values into the cache.

        Args:
            token_ids: [num_rows], int64, on the device. Row r stands at position ``start + r``.
            start: Position of the first row; slots before it hold the sequence so far.
            extent: Slots attended over, at least ``start + num_rows``; each row sees slots up to its own.
            cache: Read up to ``extent``, written from ``start``. Its pointer does not move.
            num_layers: Stop after so many layers (the self-test needs few); None runs all.

        Returns:
            Hidden states before the final norm, [num_rows, hidden].
        """
        num_rows = token_ids.shape[0]
        rope = self._cos.narrow(0, start, num_rows), self._sin.narrow(0, start, num_rows)
        return self._run_layers(token_ids, rope, self.mask(num_rows, start, extent), start, cache, num_layers)

    def forward_at(
        self, token_ids: Tensor, positions: Tensor, extent: int, cache: StaticKVCache, *, num_layers: int | None = None
    ) -> Tensor:
        """``forward`` whose place is data: nothing but shapes is fixed, so one CUDA graph serves every start.

        Args:
            positions: [num_rows], int64, on the device, consecutive.
            token_ids, extent, cache, num_layers: As for ``forward``, with the same bits.

        Returns:
            Hidden states before the final norm, [num_rows, hidden].
        """
        rope = self._cos.index_select(0, positions), self._sin.index_select(0, positions)
        hidden_slots = torch.arange(extent, device=self.device) > positions[:, None]
        mask = torch.zeros(hidden_slots.shape, dtype=self.dtype, device=self.device)
        mask = mask.masked_fill_(hidden_slots, float("-inf")).repeat(self.config.num_groups, 1)
        return self._run_layers(token_ids, rope, mask, positions, cache, num_layers)

    def _run_layers(
        self,
        token_ids: Tensor,
        rope: tuple[Tensor, Tensor],
        mask: Tensor,
        start: int | Tensor,
        cache: StaticKVCache,
        num_layers: int | None,
    ) -> Tensor:
        hidden = functional.embedding(token_ids, self._embedding)
        with self.attention_backends():
            for layer_id, layer in enumerate(self._layers[:num_layers]):
                attended = self._attend(layer, layer_id, hidden, rope, mask, start, cache)
                hidden = layer.output(attended, hidden)
                gate, up = layer.gate_up(self._norm(hidden, layer.mlp_norm)).chunk(2, dim=-1)
                hidden = layer.down(functional.silu(gate).mul_(up), hidden)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and head over rows: [num_rows, hidden] -> [num_rows, vocab]."""
        return self._head(self._norm(hidden, self._final_norm))

    def _attend(
        self,
        layer: _Layer,
        layer_id: int,
        hidden: Tensor,
        rope: tuple[Tensor, Tensor],
        mask: Tensor,
        start: int | Tensor,
        cache: StaticKVCache,
    ) -> Tensor:
        """Attention before the output projection: [num_rows, hidden] -> [num_rows, num_heads * head_dim]."""
        config, num_rows = self.config, hidden.shape[0]
        num_heads, num_kv_heads, head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        qkv = layer.qkv(self._norm(hidden, layer.input_norm)).view(num_rows, -1, head_dim)
        rotated = qkv.narrow(1, 0, num_heads + num_kv_heads)  # queries and keys, a view
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = rotated.split((num_heads, num_kv_heads), dim=1)
            queries.copy_(functional.rms_norm(queries, (head_dim,), layer.query_norm, config.rms_norm_eps))
            keys.copy_(functional.rms_norm(keys, (head_dim,), layer.key_norm, config.rms_norm_eps))
        halves_swapped = rotated.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
        rotated.mul_(rope[0]).addcmul_(halves_swapped, rope[1])
        cache.write(layer_id, start, qkv.narrow(1, num_heads, 2 * num_kv_heads))
        keys, values = cache.read(layer_id, mask.shape[1])
        queries = qkv.narrow(1, 0, num_heads).unflatten(1, (num_kv_heads, -1))  # [rows, kv heads, groups, head_dim]
        queries = queries.permute(1, 2, 0, 3).reshape(1, num_kv_heads, -1, head_dim)
        attended = self.attention(queries, keys.unsqueeze(0), values.unsqueeze(0), mask)
        return attended.view(num_kv_heads, -1, num_rows, head_dim).permute(2, 0, 1, 3).reshape(num_rows, -1)

    def attention(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Queries [1, kv heads, groups * rows, head_dim] over keys and values [1, kv heads, extent, head_dim]."""
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self._scale)

    def _norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(rows, (rows.shape[-1],), weight, self.config.rms_norm_eps)

    def attention_backends(self) -> AbstractContextManager[None]:
        """Which kernels attention may use, as a context."""
        if self.device.type != "cuda":
            return nullcontext()
        backends: AbstractContextManager[None] = sdpa_kernel(_CUDA_BACKENDS)
        return backends
