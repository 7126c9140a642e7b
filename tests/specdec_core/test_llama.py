"""Our forward against transformers', and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_core.checkpoint import (
    SafetensorsFolder,
    config_from_transformers,
    read_config,
    target_from_transformers,
)
from specdec_core.errors import ModelLoadError
from specdec_core.models.base import Geometry
from specdec_core.models.linear import can_pack
from specdec_core.models.runner import LlamaTarget, target_from_config
from tests.specdec_core.tiny_models import TINY_CONFIG, make_tiny_llama, random_tensors

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"num_key_value_heads": 2}),
    "llama-mha-tied": ("Llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    "llama-biases": ("Llama", {"num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True}),
    "llama-head-dim": ("Llama", {"num_key_value_heads": 1, "head_dim": 16}),
    "llama3-rope": ("Llama", {"num_key_value_heads": 2, "rope_parameters": LLAMA3_ROPE}),
    "yarn-rope": ("Llama", {"num_key_value_heads": 2, "rope_parameters": YARN_ROPE}),
    "linear-rope": (
        "Llama",
        {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
    ),
    "mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": None}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "qwen2-tied": ("Qwen2", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
}


def reference_model(family: str, dtype: torch.dtype) -> Any:
    import transformers

    name, changes = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **changes})
    model = getattr(transformers, f"{name}ForCausalLM")(config).to(dtype).eval()
    for tensor in model.parameters():  # the default spread leaves logits near zero, biases and norms trivial
        torch.nn.init.normal_(tensor, mean=float(tensor.ndim == 1), std=0.3 if tensor.ndim > 1 else 0.5)
    return model


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def random_ids(num_tokens: int, vocab_size: int = 97) -> list[int]:
    return torch.randint(vocab_size, (num_tokens,), generator=torch.Generator().manual_seed(1)).tolist()


def target_logits(target: LlamaTarget, token_ids: list[int], num_prompt_tokens: int) -> Tensor:
    """Logits of the last prompt token and all after it, decoded as widely as the geometry allows."""
    rows = [target.prefill(token_ids[:num_prompt_tokens])[None]]
    for start in range(num_prompt_tokens, len(token_ids), target.geometry.width):
        rows.append(target.decode(token_ids[start : start + target.geometry.width]))
    return torch.cat(rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, dtype: torch.dtype) -> None:
    """transformers drops to float32 in its norms and rope even in float64, hence the same tolerance for both."""
    model, token_ids = reference_model(family, dtype), random_ids(150)
    with torch.inference_mode():
        theirs = model(torch.tensor([token_ids])).logits[0]
    for exactness in ("bitwise", "law"):
        target = target_from_transformers(model, Geometry(exactness, 8), context_length=512)
        ours = target_logits(target, token_ids, 130)
        assert ours.dtype == dtype
        assert relative_difference(ours, theirs[129:]) < 1e-5


@pytest.mark.parametrize("num_prompt_tokens", [1, 2, 63, 64, 65, 127, 128, 129, 511, 512, 513, 700])
def test_float64_stays_float64_across_chunk_boundaries(num_prompt_tokens: int) -> None:
    """One row at a time and 64 at a time agree to 1e-12, which a single step in float32 anywhere would spoil."""
    token_ids = random_ids(num_prompt_tokens + 3)
    by_chunks = target_logits(make_tiny_llama(), token_ids, num_prompt_tokens)
    by_rows = target_logits(make_tiny_llama(exactness="law", width=1, chunk=5), token_ids, num_prompt_tokens)
    assert relative_difference(by_chunks, by_rows) < 1e-12


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_a_mask_is_a_copy_that_starts_aligned(num_kv_heads: int) -> None:
    """CUDA's kernel refuses an unaligned mask; with one query head per key-value head it was a view into the table."""
    config = replace(TINY_CONFIG, num_kv_heads=num_kv_heads)
    target = target_from_config(config, random_tensors(config), Geometry("bitwise", 8), context_length=100)
    mask = target.network.mask(8, 13, 64)
    assert (mask.is_contiguous(), mask.storage_offset(), mask.shape[1]) == (True, 0, 64)
    for row, seen in enumerate(mask.unflatten(0, (-1, 8)).transpose(0, 1)):
        assert (seen[:, : 14 + row] == 0).all() and (seen[:, 14 + row :] == -torch.inf).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packed_weights_compute_the_same(dtype: torch.dtype) -> None:
    if not can_pack(torch.device("cpu"), dtype):
        pytest.skip("oneDNN cannot pack this dtype here")
    outcomes = []
    for packed in (False, True):
        target = target_from_config(
            TINY_CONFIG,
            random_tensors(TINY_CONFIG),
            Geometry("law", 8),
            context_length=256,
            dtype=dtype,
            packed=packed,
        )
        outcomes.append(target_logits(target, random_ids(40), 30).double())
    assert relative_difference(*outcomes) < (1e-5 if dtype == torch.float32 else 0.03)


def test_the_real_model_agrees_with_transformers_in_float32(embedded_folder) -> None:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    reference = AutoModelForCausalLM.from_pretrained(embedded_folder, dtype=torch.float32).eval()
    token_ids = random_ids(600, reference.config.vocab_size)
    with torch.inference_mode():
        theirs = reference(torch.tensor([token_ids])).logits[0]
    target = target_from_config(
        read_config(embedded_folder),
        SafetensorsFolder(embedded_folder),
        Geometry("bitwise", 8),
        context_length=1024,
        packed=True,
    )
    for num_prompt_tokens in (60, 520):
        ours = target_logits(target, token_ids[: num_prompt_tokens + 16], num_prompt_tokens)
        theirs_here = theirs[num_prompt_tokens - 1 : num_prompt_tokens + 16]
        assert relative_difference(ours, theirs_here) < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"num_experts": 8}, "mixture-of-experts"),
        ({"rope_type": "dynamic"}, "'dynamic'"),
        ({"rope_type": "longrope"}, "'longrope'"),
        ({"num_kv_heads": 3}, "do not divide"),
        ({"inv_freq": (1.0, 0.1)}, "partial rotary"),
    ],
)
def test_networks_outside_the_family_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        replace(TINY_CONFIG, **changes)


def test_a_context_beyond_the_sliding_window_is_refused_and_one_within_works() -> None:
    config = replace(TINY_CONFIG, sliding_window=128)
    tensors = random_tensors(config)
    with pytest.raises(ModelLoadError, match="context_length <= 128"):
        target_from_config(config, tensors, Geometry("law", 8), context_length=129)
    assert target_from_config(config, tensors, Geometry("law", 8), context_length=128).context_length == 128


def test_a_model_type_we_have_no_forward_for_is_refused() -> None:
    from transformers import GPT2Config

    with pytest.raises(ModelLoadError, match="'gpt2' is not supported; supported: llama"):
        config_from_transformers(GPT2Config())


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_missing_tensor_is_named(name: str) -> None:
    tensors = random_tensors(TINY_CONFIG)
    del tensors[name]
    with pytest.raises(ModelLoadError, match=name):
        target_from_config(TINY_CONFIG, tensors, Geometry("law", 8), context_length=64)


def test_a_tensor_the_forward_would_ignore_is_refused() -> None:
    """Silently skipping an extra norm would give a wrong law."""
    tensors = random_tensors(TINY_CONFIG)
    tensors["model.layers.0.post_feedforward_layernorm.weight"] = torch.ones(32)
    with pytest.raises(ModelLoadError, match="post_feedforward_layernorm"):
        target_from_config(TINY_CONFIG, tensors, Geometry("law", 8), context_length=64)


def test_a_tied_head_is_found_under_either_name() -> None:
    config = replace(TINY_CONFIG, tie_word_embeddings=True)
    tensors = random_tensors(config)
    embedding = tensors["model.embed_tokens.weight"]
    outcomes = []
    for kept in (["model.embed_tokens.weight"], ["lm_head.weight"], ["model.embed_tokens.weight", "lm_head.weight"]):
        body = {name: tensor for name, tensor in tensors.items() if name.startswith(("model.layers", "model.norm"))}
        tied = body | dict.fromkeys(kept, embedding)
        target = target_from_config(config, tied, Geometry("law", 8), context_length=64)
        outcomes.append(target.prefill([1, 2, 3]))
    assert torch.equal(outcomes[0], outcomes[1])
    assert torch.equal(outcomes[0], outcomes[2])
