"""Ending a process with all that it started, and its folder with all that is in it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from loopeng.errors import SandboxError

__all__ = ["VARIABLE", "end_process", "exit_status", "remove_folder", "strays"]

VARIABLE = "LOOPENG_SANDBOX"
_MAX_ROUNDS, _ROUND_S = 200, 0.01
_KILLED_S = 10.0  # a killed process that does not end by then hangs in the kernel


def end_process(process: subprocess.Popen[bytes], name: str) -> None:
    """Kill a process that leads a session, its group, and whatever still carries ``name`` in its environment.

    Raises SandboxError where something lives on.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_KILLED_S)
    except subprocess.TimeoutExpired:
        raise SandboxError(f"process {process.pid} of a sandbox cannot be ended") from None
    left: list[int] = []
    for _ in range(_MAX_ROUNDS if name else 0):
        left = strays(name)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(_ROUND_S)
    if left:
        raise SandboxError(f"processes of a sandbox cannot be ended: {', '.join(map(str, left))}")


def exit_status(process: subprocess.Popen[bytes], patience_s: float) -> int | None:
    """As ``poll`` after at most that time, but the process stays a zombie: nobody else is given its number yet."""
    end = time.monotonic() + patience_s
    while (status := _status(process)) is None and time.monotonic() < end:
        time.sleep(_ROUND_S)
    return status


def _status(process: subprocess.Popen[bytes]) -> int | None:
    if sys.platform != "linux":
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return process.poll()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def remove_folder(folder: str) -> None:
    """Delete a folder, however deep. Raises SandboxError where it cannot be.

    Inner folders are lifted up one after the other, so that no path and no recursion grows long.
    """
    try:
        os.chmod(folder, 0o700)
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            for each in list(os.scandir(path)):
                if not each.is_dir(follow_symlinks=False):
                    os.unlink(each.path)
                    continue
                os.chmod(each.path, 0o700)  # or it could neither be moved nor read
                lifted = os.path.join(folder, uuid.uuid4().hex)
                os.rename(each.path, lifted)
                waiting.append(lifted)
            if path != folder:
                os.rmdir(path)
        os.rmdir(folder)
    except FileNotFoundError:
        return  # it removed itself
    except OSError as error:
        raise SandboxError(f"a sandbox left {folder} behind: {error}") from None


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
