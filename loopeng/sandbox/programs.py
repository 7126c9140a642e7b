"""The programs of the two processes, as text for ``python -c``: they run without this package on their import path."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

__all__ = ["BASE_PYTHON", "CLEAN_ENVIRONMENT", "TRUSTED", "WORKER", "program"]

BASE_PYTHON = os.path.realpath(sys.executable)
CLEAN_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}  # sets order alike each time
_ROOM = "loopeng.sandbox"
WORKER = ("literals", "channel", "confinement", "assembling", "worker")
TRUSTED = ("literals", "channel", "trusted")
# A stand-in for typing while ours are loaded: the true one would take half of the time to start.
_BOOT = """\
import sys
module = type(sys)
sys.modules["typing"] = module("typing")
sys.modules["typing"].Any = object
for name, source in {sources!r}:
    made = sys.modules[name] = module(name)
    exec(compile(source, name, "exec", dont_inherit=True), made.__dict__)
del sys.modules["typing"]
made.main()
"""


@cache
def program(parts: tuple[str, ...]) -> str:
    """One text that defines the modules in order and calls ``main`` of the last."""
    folder = Path(__file__).parent
    sources = [(f"{_ROOM}.{part}", (folder / f"{part}.py").read_text(encoding="utf-8")) for part in parts]
    return _BOOT.format(sources=sources)
