"""What the tests of the sandbox look at around it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from loopeng.sandbox.ending import VARIABLE

__all__ = ["IMAGE", "children", "orphans"]

IMAGE = os.environ.get("LOOPENG_TEST_IMAGE", "python:3.12-slim")  # a Python of 3.11 or newer, for the container tier
_PATIENCE_S = 5.0


def orphans() -> list[int]:
    """Processes of sandboxes that nobody waits for, or that this process still has; looked for until there are none."""
    end = time.monotonic() + _PATIENCE_S
    while (found := [*children(1), *children(os.getpid())]) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def children(parent: int) -> list[int]:
    """Processes of a sandbox, or started by one, that have this parent."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            its_parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if (b"loopeng.sandbox.worker" in told or f"{VARIABLE}=".encode() in told) and parent == its_parent:
            found.append(int(entry.name))
    return found
