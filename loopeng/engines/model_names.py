"""What ``engine.model``, ``engine.drafter`` and ``engine.device`` may name, told without torch and without network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from loopeng.schema.task import EngineSpec
from loopeng.validation import Problem, did_you_mean

__all__ = [
    "EMBEDDED_MODEL_NAMES",
    "MODEL_DRAFTER",
    "drafter_names",
    "local_model",
    "problems_of_names",
    "with_local_paths",
]

EMBEDDED_MODEL_NAMES = ("smollm2-135m",)  # those of specdec_core.embedded; a test compares
MODEL_DRAFTER = "model:"  # before the name of a model that drafts
_GGUF = ".gguf"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def problems_of_names(spec: EngineSpec, base_dir: Path) -> Iterator[Problem]:
    """Names that no specdec engine could be made from. A hub id is believed: only the network knows."""
    drafting = [name.removeprefix(MODEL_DRAFTER) for name in drafter_names(spec) if name.startswith(MODEL_DRAFTER)]
    for key, model in (("model", spec.model), *(("drafter", model) for model in drafting)):
        mistake = _model_mistake(model, base_dir)
        if mistake is not None:
            yield Problem(("engine", key), f"engine.{key}: {mistake[0]}", mistake[1])
    if not _DEVICE.fullmatch(spec.device):
        hint = did_you_mean(spec.device, ("auto", "cpu", "cuda")) or "there is: auto, cpu, cuda, cuda:0, cuda:1 ..."
        yield Problem(("engine", "device"), f"engine.device: unknown device {spec.device!r}", hint)


def drafter_names(spec: EngineSpec) -> tuple[str, ...]:
    """``engine.drafter`` as a list."""
    return (spec.drafter,) if isinstance(spec.drafter, str) else spec.drafter


def with_local_paths(spec: EngineSpec, base_dir: Path) -> EngineSpec:
    """The models that are files or folders, drafting ones too, by their whole paths: the same from every folder."""

    def whole(model: str) -> str:
        local = local_model(model, base_dir)
        return model if local is None else str(local.resolve())

    names = [
        MODEL_DRAFTER + whole(name.removeprefix(MODEL_DRAFTER)) if name.startswith(MODEL_DRAFTER) else name
        for name in drafter_names(spec)
    ]
    drafter = names[0] if isinstance(spec.drafter, str) else tuple(names)
    return spec.model_copy(update={"model": whole(spec.model), "drafter": drafter})


def local_model(model: str, base_dir: Path) -> Path | None:
    """The file or folder that ``model`` names, seen from the task's folder. An embedded name is never one."""
    if not model or model in EMBEDDED_MODEL_NAMES:  # an empty name would be the task's folder itself
        return None
    try:
        path = base_dir / Path(model).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # no such user's home, a name that no file can have
        return None


def _model_mistake(model: str, base_dir: Path) -> tuple[str, str | None] | None:
    """What is wrong with a name, and a way out."""
    local = local_model(model, base_dir)
    is_gguf = Path(model).suffix.lower() == _GGUF
    if local is not None:
        return _mistake_in(local)
    if model in EMBEDDED_MODEL_NAMES or (_HUB_ID.fullmatch(model) and not is_gguf):
        return None
    if is_gguf or "/" in model or model.startswith("~"):
        return f"there is no file or folder {str(base_dir / model)!r}", "paths begin at the task file's folder"
    hint = did_you_mean(model, EMBEDDED_MODEL_NAMES)
    known = f"there is: {', '.join(EMBEDDED_MODEL_NAMES)}; else name a model folder, a .gguf file or a hub id, org/name"
    return f"unknown model {model!r}", hint or known


def _mistake_in(local: Path) -> tuple[str, str | None] | None:
    if local.is_dir() and not (local / "config.json").is_file():
        return f"the folder {str(local)!r} has no config.json", "there belong config.json and .safetensors files"
    if local.is_file() and local.suffix.lower() != _GGUF:
        return f"{str(local)!r} is no .gguf file", "name a .gguf file, or the folder that holds config.json"
    return None
