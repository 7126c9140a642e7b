"""Lossless speculative decoding: the same text as plain decoding, in fewer passes of the model.

Importing this package loads nothing heavy: each name below is fetched from its module on first use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec_core.engine import Engine, load_engine
    from specdec_core.errors import SpecDecError
    from specdec_core.metrics import DecodeStats
    from specdec_core.sampling import SamplingParams
    from specdec_core.types import GenerationChunk, GenerationOutput, GenerationRequest, StructuredOutput

__all__ = [
    "DecodeStats",
    "Engine",
    "GenerationChunk",
    "GenerationOutput",
    "GenerationRequest",
    "SamplingParams",
    "SpecDecError",
    "StructuredOutput",
    "__version__",
    "load_engine",
]

# OpenMP reads these once, when torch loads. Threads that spin while they wait cost 30 times the pass as soon as another
# process wants a core (1184 ms against 42 ms a pass, 135M, 2 cores); threads that sleep at once cost a half more on a
# quiet machine (33 ms against 22), because a pass wakes them 120 times. A short spin (some microseconds) has most of
# both: 27 ms quiet, 48 ms beside a busy process.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

_MODULES = {
    "DecodeStats": "specdec_core.metrics",
    "Engine": "specdec_core.engine",
    "GenerationChunk": "specdec_core.types",
    "GenerationOutput": "specdec_core.types",
    "GenerationRequest": "specdec_core.types",
    "SamplingParams": "specdec_core.sampling",
    "SpecDecError": "specdec_core.errors",
    "StructuredOutput": "specdec_core.types",
    "load_engine": "specdec_core.engine",
}

__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("loopeng")  # one distribution holds both packages
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
