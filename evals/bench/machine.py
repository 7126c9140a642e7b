"""What a measurement was made on and with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

import specdec_core
from specdec_core.profile.machine import cpu_name


def model_name(reference: str) -> str:
    """One name for a model, whether it came from a folder or from the hub."""
    return Path(reference).name.lower()


def machine() -> dict[str, Any]:
    """Versions, threads and processor, ready for JSON."""
    return {
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "specdec_core": specdec_core.__version__,
            "python": sys.version.split()[0],
        },
        "num_threads": torch.get_num_threads(),
        "cpu": cpu_name(),
    }
