"""What this machine has for the engine: device, cache folder and embedded models, looked at rather than believed."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specdec_core.cache_dir import METADATA_NAME, cache_root, cached_folder, is_intact
from specdec_core.embedded import EMBEDDED_MODELS
from specdec_core.errors import ModelLoadError

__all__ = [
    "CacheReport",
    "DeviceReport",
    "EmbeddedReport",
    "examine_cache",
    "examine_device",
    "examine_embedded_models",
]


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What an engine with device and dtype ``auto`` would run on. A small product was computed there."""

    torch: str
    device: str
    hardware: str
    instruction_set: str  # of the CPU
    dtype: str
    exactness: str
    width: int
    num_threads: int
    unused_gpu: bool  # the system shows an NVIDIA device, and torch sees none


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The cache folder. ``free_bytes`` is that of its disk."""

    folder: Path
    exists: bool
    writable: bool
    free_bytes: int


@dataclass(frozen=True, slots=True)
class EmbeddedReport:
    """One embedded model. ``absent`` is fetched at its first use, ``unfinished`` built anew."""

    name: str
    state: Literal["intact", "damaged", "unfinished", "absent"]
    folder: Path
    requirement: str


def examine_device() -> DeviceReport:
    """Choose device and numerics as an engine would, and compute there. Imports torch.

    Raises:
        ModelLoadError: the device computes something else than it should.
        RuntimeError: of torch, where the device cannot be used.
    """
    import torch

    from specdec_core.hardware import choose_device, choose_numerics, instruction_set

    device = choose_device("auto")
    numerics = choose_numerics(device)
    ones = torch.ones(8, 8, dtype=numerics.dtype, device=device)
    if not bool((ones @ ones == 8).all()):
        raise ModelLoadError(f"{device} gives wrong products in {numerics.dtype}")
    return DeviceReport(
        torch=str(torch.__version__),
        device=str(device),
        hardware=numerics.hardware,
        instruction_set=instruction_set(),
        dtype=str(numerics.dtype).removeprefix("torch."),
        exactness=numerics.geometry.exactness,
        width=numerics.geometry.width,
        num_threads=torch.get_num_threads(),
        unused_gpu=device.type != "cuda" and Path("/dev/nvidia0").exists(),
    )


def examine_cache() -> CacheReport:
    """Try to write there; of a folder that does not exist yet, into the nearest one above that does."""
    folder = cache_root()
    nearest = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return CacheReport(folder, folder.is_dir(), _takes_files(nearest), _free_bytes(nearest))


def examine_embedded_models() -> list[EmbeddedReport]:
    """Each embedded model: whether it is in the cache, from the pinned source, and whole. Reads all of its weights."""
    reports = []
    for model in EMBEDDED_MODELS.values():
        name = f"{model.name}-{model.sha256[:12]}"
        folder = cache_root() / "models" / name
        if cached_folder(name) is not None:
            state: Literal["intact", "damaged", "unfinished", "absent"] = "intact" if is_intact(folder) else "damaged"
        else:
            state = "damaged" if (folder / METADATA_NAME).exists() else "unfinished" if folder.exists() else "absent"
        reports.append(EmbeddedReport(model.name, state, folder, model.requirement))
    return reports


def _takes_files(folder: Path) -> bool:
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".specdec-") as file:
            file.write(b"1")
            file.flush()
    except OSError:
        return False
    return True


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
