"""A checkpoint folder -> network config and tensors. With ``tokenizer.py`` the only room that reads transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec_core.errors import ModelLoadError
from specdec_core.models.base import Geometry
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.runner import LlamaTarget, target_from_config

__all__ = [
    "SUPPORTED_MODEL_TYPES",
    "SafetensorsFolder",
    "config_from_transformers",
    "read_config",
    "target_from_transformers",
    "weight_files",
]

SUPPORTED_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")


class SafetensorsFolder(Mapping[str, Tensor]):
    """The tensors of a folder by name, each read from disk when asked for. Raises ModelLoadError on broken files."""

    def __init__(self, folder: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self._files_by_name: dict[str, Any] = {}
        for path in weight_files(folder):
            try:
                file = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise ModelLoadError(f"{path} is not a readable safetensors file: {error}") from error
            self._files_by_name.update(dict.fromkeys(file.keys(), file))

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._files_by_name[name].get_tensor(name)
        return tensor

    def __contains__(self, name: object) -> bool:  # without reading the tensor
        return name in self._files_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._files_by_name)

    def __len__(self) -> int:
        return len(self._files_by_name)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder, in order: those of its index, or ``model.safetensors``.

    Raises:
        ModelLoadError: there are none, or the index names a file that is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise ModelLoadError(f"{index} is not a safetensors index: {error!r}") from error
    else:
        names = ["model.safetensors"]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelLoadError(
            f"{folder} has no {missing[0]!r}: a model folder holds config.json, a tokenizer, and model.safetensors or"
            " the shards of model.safetensors.index.json (pickled .bin weights are not read)"
        )
    return [folder / name for name in names]


def read_config(folder: Path) -> LlamaConfig:
    """``config.json`` of a folder as a network config. Raises ModelLoadError for what cannot be run."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{folder} has no readable config.json: {error}") from error
    _check_model_type(raw.get("model_type") if isinstance(raw, dict) else None)
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers raises many kinds here; all mean the same to the caller
        raise ModelLoadError(f"{path} is not a valid model config: {error}") from error
    return config_from_transformers(config)


def config_from_transformers(config: Any) -> LlamaConfig:
    """A transformers config as ours; rope parameters become plain frequencies. Raises ModelLoadError."""
    _check_model_type(config.model_type)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope_type, inv_freq, attention_scaling = _rope(config, head_dim)
    return LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_dim=head_dim,
        max_position_embeddings=config.max_position_embeddings,
        inv_freq=inv_freq,
        rope_attention_scaling=attention_scaling,
        rms_norm_eps=config.rms_norm_eps,
        tie_word_embeddings=bool(config.tie_word_embeddings),
        hidden_act=config.hidden_act,
        rope_type=rope_type,
        sliding_window=_sliding_window(config),
        num_experts=getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None) or 0,
    )


def target_from_transformers(
    model: Any, geometry: Geometry, *, context_length: int, dtype: torch.dtype | None = None, packed: bool = False
) -> LlamaTarget:
    """Our target over the weights of a loaded transformers model, on its device, in its dtype unless told."""
    return target_from_config(
        config_from_transformers(model.config),
        {name: tensor.detach() for name, tensor in model.state_dict().items()},
        geometry,
        context_length=context_length,
        device=model.device,
        dtype=dtype or model.dtype,
        packed=packed,
    )


def _check_model_type(model_type: object) -> None:
    if model_type not in SUPPORTED_MODEL_TYPES:
        raise ModelLoadError(
            f"model type {model_type!r} is not supported; supported: {', '.join(SUPPORTED_MODEL_TYPES)}"
        )


def _sliding_window(config: Any) -> int | None:
    """The window of the layers that have one, else None."""
    layer_types = getattr(config, "layer_types", None)
    window: int | None = getattr(config, "sliding_window", None)
    if layer_types is not None and "sliding_attention" not in layer_types:
        return None
    return window


def _rope(config: Any, head_dim: int) -> tuple[str, tuple[float, ...], float]:
    """(rope type, inverse frequencies, factor on cos and sin)."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = config.rope_parameters
    rope_type = parameters.get("rope_type", "default")
    if rope_type == "default":
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        return rope_type, tuple((1.0 / parameters["rope_theta"] ** exponents).tolist()), 1.0
    if rope_type not in ROPE_INIT_FUNCTIONS:
        raise ModelLoadError(f"rope type {rope_type!r} is not known to this version of transformers")
    inv_freq, attention_scaling = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"))
    return rope_type, tuple(inv_freq.tolist()), float(attention_scaling)
