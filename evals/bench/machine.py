"""What a measurement was made on and with."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

import specdec_core
from specdec_core.hardware import choose_device, choose_numerics
from specdec_core.profile.machine import cpu_name


def model_name(reference: str) -> str:
    """One name for a model, whether it came from a folder or from the hub."""
    return Path(reference).name.lower()


def machine() -> dict[str, Any]:
    """Versions, threads, processor and the default shape of passes, ready for JSON.

    Rows that were made under other shapes are another measurement, so a checkpoint that differs here is not resumed.
    """
    geometry = asdict(choose_numerics(choose_device("auto")).geometry)
    return {
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "specdec_core": specdec_core.__version__,
            "python": sys.version.split()[0],
        },
        "num_threads": torch.get_num_threads(),
        "cpu": cpu_name(),
        "geometry": {key: list(value) if isinstance(value, tuple) else value for key, value in geometry.items()},
    }
