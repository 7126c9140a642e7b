"""Tiny random models of other families, saved as folders with a tiny tokenizer: no network, milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

VOCAB_SIZE = 103  # rows of the embedding; the tokenizer knows 97
NUM_TOKENIZER_IDS = 97
WINDOW = 8
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "gpt_neox": SIZES,
    "gemma": {**SIZES, "head_dim": 8},
    "gemma3_text": {
        **SIZES,
        "head_dim": 8,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mistral": {**SIZES, "sliding_window": WINDOW},
    "qwen3_moe": {**SIZES, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "lfm2": {**SIZES, "layer_types": ["conv", "full_attention"]},
    "mamba": {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2},
    "mamba2": {
        "hidden_size": 32,
        "state_size": 8,
        "num_hidden_layers": 2,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 1,
        "chunk_size": 8,
    },
    "falcon_h1": {**SIZES, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8},
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "context_length": 64, "attention_hidden_size": 32},
}


def make_model(family: str, *, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> Any:
    """A random model whose logits differ by several units between tokens."""
    from transformers import AutoConfig, AutoModelForCausalLM

    options: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0}
    config = AutoConfig.for_model(family, **{**options, **FAMILIES[family], **changes})
    config._experts_implementation = "eager"
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def save_folder(folder: Path, family: str, **changes: Any) -> Path:
    """The model in float32 with its tokenizer, as ``load_model`` reads it."""
    make_model(family, dtype=torch.float32, **changes).save_pretrained(folder)
    _make_tokenizer().save_pretrained(folder)
    return folder


def _make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<end>": 0, "<start>": 1, **{chr(30 + token_id): token_id for token_id in range(2, 97)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", bos_token="<start>")
