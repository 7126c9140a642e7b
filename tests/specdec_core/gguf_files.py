"""Writes a tiny Llama as a GGUF file, tokenizer included; and fetches in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy

from tests.specdec_core.tiny_models import TINY_CONFIG, random_tensors

ROOT = Path(__file__).parents[2]

_GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(path: Path) -> None:
    from gguf import GGUFWriter

    config = TINY_CONFIG
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<|end|>", *(chr(33 + index) for index in range(94)), "ab", "abc"])
    writer.add_token_types([3] + [1] * 96)
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, tensor in random_tensors(config).items():
        writer.add_tensor(_gguf_name(name), tensor.numpy().astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    outside = {
        "model.embed_tokens.weight": "token_embd",
        "model.norm.weight": "output_norm",
        "lm_head.weight": "output",
    }
    if name in outside:
        return outside[name] + ".weight"
    _, _, layer_id, inner = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer_id}.{_GGUF_NAMES[inner]}.weight"


def run_fetch(references: list[str], cache: Path, **environment: str) -> str:
    """What a process prints that fetches each reference: its folder, or the error."""
    program = (
        "import sys\n"
        "from specdec_core.errors import ModelLoadError\n"
        "from specdec_core.loading_sources import fetch\n"
        "for reference in sys.argv[1:]:\n"
        "    try:\n"
        "        print(fetch(reference))\n"
        "    except ModelLoadError as error:\n"
        "        print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *references],
        env=os.environ | {"SPECDEC_CACHE": str(cache), "PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
