"""Decode on a CUDA device at 1B and 8B shapes with random weights, against the time of one read of the weights.

    python -m evals.bench.gpu [--output evals/results/gpu.json] [--budget-s 240] [--tiny]

For each shape: whether the self-test holds; T(rows), the time of a pass of so many rows, captured and eager, arms
interleaved, medians; the share of the bandwidth floor (weights read once at the speed of a device copy); and tokens per
second plainly, with drafts that are all right and with drafts that are all wrong, whose texts must be equal.
Random weights cost what trained ones do. ``--tiny`` runs the same code over a tiny shape on any device: a smoke test.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec_core.models.base import BITWISE_KV_BLOCK, Geometry
from specdec_core.models.cuda_graph import GraphedLlamaTarget, with_graphs
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.runner import LlamaTarget, target_from_config
from specdec_core.models.selftest import agreeing_widths, find_variance
from specdec_core.profile.machine import timed
from specdec_core.sampling import SamplingParams
from specdec_core.testing import AntiOracleDrafter, OracleDrafter, generate_ids

CONTEXT_LENGTH = 2048
PROMPT = [1 + (7 * index * index) % 90 for index in range(300)]
ROWS = (1, 2, 4, 8, 16, 32)


def make_config(hidden: int, intermediate: int, layers: int, heads: tuple[int, int, int], vocab: int) -> LlamaConfig:
    num_heads, num_kv_heads, head_dim = heads
    return LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_layers=layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        max_position_embeddings=CONTEXT_LENGTH,
        inv_freq=tuple(500_000.0 ** (-2 * i / head_dim) for i in range(head_dim // 2)),
        tie_word_embeddings=layers == 16,
    )


SHAPES = {
    "1B": make_config(2048, 8192, 16, (32, 8, 64), 128_256),
    "8B": make_config(4096, 14_336, 32, (32, 8, 128), 128_256),
}
TINY = {"tiny": make_config(64, 96, 2, (4, 2, 16), 97)}


class RandomTensors(Mapping[str, Tensor]):
    """A checkpoint that makes each tensor when it is asked for, on the device."""

    def __init__(self, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> None:
        hidden, intermediate = config.hidden_size, config.intermediate_size
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self._device, self._dtype = device, dtype
        self._shapes: dict[str, tuple[int, ...]] = {"model.norm.weight": (hidden,)}
        self._shapes["model.embed_tokens.weight"] = (config.vocab_size, hidden)
        if not config.tie_word_embeddings:
            self._shapes["lm_head.weight"] = (config.vocab_size, hidden)
        for layer_id in range(config.num_layers):
            prefix = f"model.layers.{layer_id}"
            self._shapes |= {
                f"{prefix}.input_layernorm.weight": (hidden,),
                f"{prefix}.post_attention_layernorm.weight": (hidden,),
                f"{prefix}.self_attn.q_proj.weight": (queries, hidden),
                f"{prefix}.self_attn.k_proj.weight": (keys, hidden),
                f"{prefix}.self_attn.v_proj.weight": (keys, hidden),
                f"{prefix}.self_attn.o_proj.weight": (hidden, queries),
                f"{prefix}.mlp.gate_proj.weight": (intermediate, hidden),
                f"{prefix}.mlp.up_proj.weight": (intermediate, hidden),
                f"{prefix}.mlp.down_proj.weight": (hidden, intermediate),
            }

    def __getitem__(self, name: str) -> Tensor:
        shape = self._shapes[name]
        if len(shape) == 1:
            return torch.ones(shape, device=self._device, dtype=self._dtype)
        return torch.randn(shape, device=self._device, dtype=self._dtype) * shape[-1] ** -0.5

    def __contains__(self, name: object) -> bool:
        return name in self._shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def bytes_per_pass(self) -> int:
        """Of weights that a pass reads: all linears, not the embedding's unused rows."""
        head = "lm_head.weight" if "lm_head.weight" in self._shapes else "model.embed_tokens.weight"
        skipped = {"model.embed_tokens.weight"} - {head}
        num_values = sum(torch.Size(shape).numel() for name, shape in self._shapes.items() if name not in skipped)
        return num_values * self._dtype.itemsize


def measure(shape: str, config: LlamaConfig, device: torch.device, deadline: float, repeats: int) -> dict[str, Any]:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    tensors = RandomTensors(config, device, dtype)
    bitwise = Geometry("bitwise", 16, kv_block=BITWISE_KV_BLOCK)
    target = target_from_config(config, tensors, bitwise, context_length=CONTEXT_LENGTH, device=device, dtype=dtype)
    graphed, _ = with_graphs(target)
    variance = find_variance(graphed)
    result: dict[str, Any] = {"shape": shape, "dtype": str(dtype), "self_test": variance or "passed"}
    result["agreeing_widths"] = agreeing_widths(graphed.with_geometry(replace(bitwise, narrow_widths=(1, 4, 8))))
    bandwidth = copy_bandwidth(device)
    floor_ms = tensors.bytes_per_pass() / bandwidth * 1e3
    result |= {"weight_gb": tensors.bytes_per_pass() / 1e9, "copy_gb_per_s": bandwidth / 1e9, "floor_ms": floor_ms}
    result["pass_ms"] = pass_times(target, deadline, repeats)
    result["floor_share"] = {
        arm: {rows: floor_ms / ms for rows, ms in times.items()} for arm, times in result["pass_ms"].items()
    }
    result["decode"] = decode_speeds(graphed, num_tokens=16 if shape == "tiny" else 128)
    return result


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second, read and written together, of a copy on the device."""
    source = torch.empty((1 << 30) if device.type == "cuda" else (1 << 24), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * 10 * source.nbytes / timed(device, lambda: [target.copy_(source) for _ in range(10)])


def pass_times(target: LlamaTarget, deadline: float, repeats: int) -> dict[str, dict[int, float]]:
    """Milliseconds of a pass by arm and rows, medians over interleaved rounds; the first two rounds warm up."""
    law = target.with_geometry(Geometry("law", max(ROWS)))
    arms = {
        "eager": law,
        "graph": GraphedLlamaTarget(law.network, law.cache, law.geometry, law.context_length),
    }
    times: dict[str, dict[int, list[float]]] = {arm: {rows: [] for rows in ROWS} for arm in arms}
    law.prefill(PROMPT)
    device = law.network.device
    for round_ in range(repeats + 2):
        if round_ > 2 and time.monotonic() > deadline:
            break
        for rows in ROWS:
            for arm, timed_target in arms.items():

                def one_pass(timed_target: LlamaTarget = timed_target, rows: int = rows) -> None:
                    timed_target.decode(PROMPT[:rows])

                elapsed = timed(device, one_pass)
                timed_target.rollback(len(PROMPT))
                if round_ >= 2:
                    times[arm][rows].append(elapsed * 1e3)
    return {arm: {rows: statistics.median(ms) for rows, ms in by_rows.items()} for arm, by_rows in times.items()}


def decode_speeds(target: LlamaTarget, num_tokens: int) -> dict[str, Any]:
    """Tokens per second after prefill. Random weights write nonsense, but the same nonsense whatever is drafted."""
    sampling = SamplingParams(max_tokens=num_tokens)
    generate_ids(target, PROMPT, sampling)  # captures what it needs
    plain = generate_ids(target, PROMPT, sampling)
    arms = {"plain": plain}
    for drafter in (OracleDrafter(plain.generated_ids), AntiOracleDrafter(plain.generated_ids, target.vocab_size)):
        arms[drafter.name] = generate_ids(target, PROMPT, sampling, drafter)
    return {
        "texts_equal": all(arm.generated_ids == plain.generated_ids for arm in arms.values()),
        "tokens_per_second": {name: (num_tokens - 1) / arm.stats.decode_time_s for name, arm in arms.items()},
        "acceptance_length": {name: arm.stats.acceptance_length for name, arm in arms.items()},
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="file for the JSON line")
    parser.add_argument("--budget-s", type=float, default=240, help="seconds after which no pass is timed again")
    parser.add_argument("--device-tests", default="not run", help="what pytest -m cuda said")
    parser.add_argument("--tiny", action="store_true", help="a tiny shape on any device: a smoke test")
    options = parser.parse_args(arguments)
    if not (options.tiny or torch.cuda.is_available()):
        print("no CUDA device: nothing was measured (--tiny is a smoke test without one)", file=sys.stderr)
        return 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    deadline = time.monotonic() + options.budget_s
    shapes = TINY if options.tiny else SHAPES
    torch.manual_seed(0)
    results = []
    for share, (shape, config) in enumerate(shapes.items(), start=1):
        until = deadline - options.budget_s * (1 - share / len(shapes))
        results.append(measure(shape, config, device, until, repeats=2 if options.tiny else 30))
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "cpu",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device_tests": options.device_tests,
        "results": results,
    }
    print(text := json.dumps(line))
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")
    return 0 if all(result["decode"]["texts_equal"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
