"""Ending a process with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["VARIABLE", "end_process", "strays"]

VARIABLE = "LOOPENG_SANDBOX"
_MAX_ROUNDS, _ROUND_S = 200, 0.01


def end_process(process: subprocess.Popen[bytes], name: str) -> None:
    """Kill a process that leads a session, its group, and whatever still carries ``name`` in its environment."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(_MAX_ROUNDS if name else 0):
        left = strays(name)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(_ROUND_S)


def strays(name: str) -> list[int]:
    """Living processes started under ``name``; where there is no /proc, none can be seen."""
    if sys.platform != "linux":
        return []
    mark, found = f"{VARIABLE}={name}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
