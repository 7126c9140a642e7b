"""Tiny random models: no files, no network, milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from specdec_core.drafters.registry import DrafterChoice
from specdec_core.engine import Engine
from specdec_core.loading import LoadedModel
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness, Geometry
from specdec_core.models.llama import LlamaConfig, LlamaNetwork
from specdec_core.models.runner import LlamaTarget, target_from_config

TINY_CONFIG = LlamaConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    max_position_embeddings=2048,
    inv_freq=(1.0, 0.1, 0.01, 0.001),
)


def random_tensors(config: LlamaConfig, seed: int = 0) -> dict[str, Tensor]:
    """A state dict that fits ``config``, float64; sizes of weights keep hidden states and logits of order one."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5

    hidden, query_size = config.hidden_size, config.num_heads * config.head_dim
    key_size, intermediate = config.num_kv_heads * config.head_dim, config.intermediate_size
    tensors = {
        "model.embed_tokens.weight": normal(config.vocab_size, hidden) * hidden**0.5,
        "model.norm.weight": 1 + normal(hidden),
        "lm_head.weight": normal(config.vocab_size, hidden) * 3,
    }
    for layer_id in range(config.num_layers):
        prefix = f"model.layers.{layer_id}"
        tensors |= {
            f"{prefix}.input_layernorm.weight": 1 + normal(hidden),
            f"{prefix}.post_attention_layernorm.weight": 1 + normal(hidden),
            f"{prefix}.self_attn.q_proj.weight": normal(query_size, hidden),
            f"{prefix}.self_attn.k_proj.weight": normal(key_size, hidden),
            f"{prefix}.self_attn.v_proj.weight": normal(key_size, hidden),
            f"{prefix}.self_attn.o_proj.weight": normal(hidden, query_size),
            f"{prefix}.mlp.gate_proj.weight": normal(intermediate, hidden),
            f"{prefix}.mlp.up_proj.weight": normal(intermediate, hidden),
            f"{prefix}.mlp.down_proj.weight": normal(hidden, intermediate),
        }
    return tensors


def make_tiny_llama(
    *,
    exactness: Exactness = "bitwise",
    width: int = 8,
    narrow_widths: tuple[int, ...] = (),
    chunk: int = 64,
    kv_block: int = 64,
    context_length: int = 1024,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
) -> LlamaTarget:
    """A random two-layer Llama with 97 tokens."""
    geometry = Geometry(exactness, width, chunk, kv_block, narrow_widths)
    return target_from_config(
        TINY_CONFIG,
        random_tensors(TINY_CONFIG, seed),
        geometry,
        context_length=context_length,
        device=device,
        dtype=dtype,
    )


class TinyTokenizer:
    """Printable ASCII, one character per id; 0 is the special token ``<end>``, which ends a text, 1 is ``<sep>``."""

    vocab_size = 97
    eos_token_ids = frozenset({0})
    _specials = ("<end>", "<sep>")

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return [self._specials.index(text)] if text in self._specials else [ord(char) - 30 for char in text]

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("\x20".join(message["content"] for message in messages))

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join(chr(token_id + 30) for token_id in token_ids if token_id > 1)

    def token_text(self, token_id: int) -> str:
        return self._specials[token_id] if token_id < 2 else chr(token_id + 30)


def make_tiny_engine(
    drafter: DrafterChoice = "auto", *, context_length: int = 128, exactness: Exactness = "bitwise"
) -> Engine:
    """An engine over the tiny float64 Llama: it writes nonsense, in milliseconds."""
    target = make_tiny_llama(context_length=context_length, exactness=exactness)
    fingerprint = NumericsFingerprint(exactness, 8, 64, 64, "float64", "cpu:test", 1, torch.__version__, "tiny")
    device, dtype = target.network.device, target.network.dtype
    model = LoadedModel(target, TinyTokenizer(), fingerprint, device, dtype, target.geometry, ("for tests",), "tiny")
    return Engine(model, drafter=drafter)


Leak = Callable[[Tensor, int, int], Tensor]  # (hidden, start, extent) -> hidden


class LeakyNetwork(LlamaNetwork):
    """A network whose rows learn something about the pass they are in."""

    leak: Leak

    def forward(self, token_ids: Tensor, start: int, extent: int, *args: Any, **kwargs: Any) -> Tensor:
        return self.leak(super().forward(token_ids, start, extent, *args, **kwargs), start, extent)


def make_leaky_llama(leak: Leak, **options: Any) -> LlamaTarget:
    """A tiny float32 Llama that breaks the bitwise promise by ``leak``."""
    target = make_tiny_llama(dtype=torch.float32, context_length=2048, **options)
    target.network.__class__ = LeakyNetwork
    target.network.leak = leak  # type: ignore[attr-defined]
    return target
