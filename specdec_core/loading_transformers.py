"""A folder whose architecture our own forward does not know -> a target that runs transformers' forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from specdec_core.context_length import choose_context_length
from specdec_core.errors import ExactnessError, ModelLoadError
from specdec_core.hardware import Numerics
from specdec_core.models.base import Exactness
from specdec_core.models.transformers import TransformersTarget, settle_target

__all__ = ["load_foreign_target"]

_LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
_WAYS_BACK = {
    "crop": "its cache is cropped",
    "restore": "its cache cannot be cropped, so the state before a pass is kept and accepted tokens are read again",
    "reread": "passes of several tokens do not go on from its state, so passes have one and no draft is verified",
}


def load_foreign_target(
    folder: Path, numerics: Numerics, refusal: str, *, asked: Exactness | None, context_length: int | None
) -> tuple[TransformersTarget, Numerics, list[str]]:
    """Load what our own forward refused, saying ``refusal``: (target, numerics as they are then, reasons).

    Raises:
        ExactnessError: "bitwise" was asked for.
        ModelLoadError: transformers cannot run it either, or the weights lack tensors (it would make them up).
        RequestError: a context length that the model does not have.
    """
    if asked == "bitwise":
        raise ExactnessError(
            'exactness="bitwise" holds for the Llama family only, which has a forward of fixed shapes here'
            f" ({refusal}); use exactness='law'"
        )
    model = _load(folder, numerics, refusal)
    longest, reasons = _longest(model.config.get_text_config(decoder=True))
    length, reason = choose_context_length(longest, context_length)
    target = settle_target(model, width=numerics.geometry.width, context_length=length)
    version = _transformers_version()
    reasons += [reason, f"forward of transformers {version}: {refusal}", f"rollback: {_WAYS_BACK[target.way_back]}"]
    return target, _without_bits(numerics, target, f"transformers-{version}"), reasons


def _load(folder: Path, numerics: Numerics, refusal: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if numerics.dtype == torch.float64:
            config._experts_implementation = "eager"  # the fused one knows no float64
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=numerics.dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises many kinds here; all mean the same to the caller
        raise ModelLoadError(f"{refusal}; and transformers cannot load {folder}: {error}") from error
    model, report = loaded
    missing = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if missing:
        raise ModelLoadError(
            f"the weights of {folder} lack {len(missing)} tensors of {type(model).__name__}: {', '.join(missing[:4])}"
        )
    return model.eval().to(numerics.device)


def _longest(config: Any) -> tuple[int | None, list[str]]:
    """(the most tokens the model may read, reasons). None where its config names no end.

    Where a rope changes its frequencies with the length, a rejected draft that reaches beyond the change would turn the
    rows before it: such a model ends at the length it was trained on first.
    """
    longest = next((int(value) for name in _LENGTH_NAMES if (value := getattr(config, name, None))), None)
    for rope in _ropes(config):
        first = rope.get("original_max_position_embeddings")
        if rope.get("rope_type") in ("dynamic", "longrope") and first and longest and first < longest:
            return first, [f"at most {first} tokens: beyond them its rope changes with the length"]
    return longest, []


def _ropes(config: Any) -> Iterator[dict[str, Any]]:
    """The rope parameters of a config, which may have several by kind of layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    yield from [value for value in parameters.values() if isinstance(value, dict)] or [parameters]


def _without_bits(numerics: Numerics, target: TransformersTarget, forward: str) -> Numerics:
    kept = tuple(reason for reason in numerics.reasons if not reason.startswith(("exactness ", "width ")))
    return replace(
        numerics,
        geometry=target.geometry,
        packed=False,
        hardware=f"{numerics.hardware.removesuffix('+packed')}+{forward}",
        reasons=(*kept, "exactness law: the shapes of its passes are transformers' own"),
    )


def _transformers_version() -> str:
    import transformers

    return transformers.__version__
