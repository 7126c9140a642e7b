"""What a measurement was made on and with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

import specdec_core


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


def cpu_name() -> str:
    """What the processor calls itself."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
