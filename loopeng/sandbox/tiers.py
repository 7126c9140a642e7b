"""Where generated code runs. Three tiers, strongest first; ``choose_tier`` takes the first that works here.

========== =================================== ====================================================================
tier       holds                               does not hold
========== =================================== ====================================================================
container  network, files, processes, memory   a hole in the kernel or the container engine
bubblewrap network, files, processes, memory   a hole in the kernel
subprocess memory, time, its own process group  on Linux 5.13 and newer (x86-64, ARM-64) a filter of system calls and
                                               Landlock hold processes, network and files too; elsewhere the code
                                               can read and change what you can, use the network, and read the tests
========== =================================== ====================================================================

In every tier the process also takes the limits of ``confinement`` upon itself. No tier is proof against an attacker
with a hole in the kernel: for code of people who mean harm, use a machine of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import ClassVar, Literal

from loopeng.errors import SandboxError
from loopeng.sandbox.ending import VARIABLE
from loopeng.sandbox.jobs import Limits
from loopeng.sandbox.programs import BASE_PYTHON, CLEAN_ENVIRONMENT, WORKER, program

__all__ = [
    "DEFAULT_IMAGE",
    "TIERS",
    "Bubblewrap",
    "Container",
    "Place",
    "Subprocess",
    "Tier",
    "TierName",
    "choose_tier",
    "tier_states",
]

TierName = Literal["auto", "container", "bubblewrap", "subprocess"]
_PYTHON = ("-P", "-s", "-S", "-B", "-X", "utf8", "-c")
_ENGINES = ("docker", "podman")
_PROBE_S, _RECHECK_S = 20, 30.0
_SIGKILL = 9
_BESIDES_S = 120  # beside the tests: to start, and for their setup; then a container without its client ends
DEFAULT_IMAGE = "python:3.12-slim"
_INSIDE = "/tmp"  # the only folder that is not read-only in a container or bubblewrap, where Landlock is missing


@dataclass(frozen=True)
class Place:
    """Of one run: its own name, its folder on this machine, and the image for containers."""

    name: str
    folder: str
    image: str


class Tier(ABC):
    """One way to run a process of generated code."""

    name: ClassVar[str]
    start_s: ClassVar[float] = 20.0  # patience until the process is ready
    holds: ClassVar[str]

    @abstractmethod
    def unavailable(self, image: str = DEFAULT_IMAGE) -> str | None:
        """Why this tier cannot be used here; None where it can."""

    @abstractmethod
    def command(self, limits: Limits, place: Place) -> list[str]:
        """What to start; the worker's channel is its standard input and output."""

    def environment(self, place: Place) -> Mapping[str, str]:
        """Of the process that is started; its name in there lets everything it started be found again."""
        return {**CLEAN_ENVIRONMENT, VARIABLE: place.name}

    def folder(self, place: Place) -> str:
        """The folder the code stands in, as it sees it."""
        return _INSIDE

    def died(self, returncode: int, held: Sequence[str]) -> bool:
        """Whether the sandbox itself, not the code in it, ended so, after it was ready.

        Here for those with a process around the code's own: the code cannot reach it, and chooses any other status.
        """
        return returncode < 0

    def stop(self, place: Place) -> None:  # noqa: B027  most leave nothing over
        """End what killing the process group leaves over."""


class Container(Tier):
    """A container without network and rights, its files read-only."""

    name = "container"
    start_s = 60.0
    holds = "no network, read-only files, no rights, limits on memory, processes and processor"

    def unavailable(self, image: str = DEFAULT_IMAGE) -> str | None:
        return _no_engine() or _image_problem(image)

    def command(self, limits: Limits, place: Place) -> list[str]:
        memory = f"{limits.memory_mb + 64}m"
        options = {
            "--name": place.name,
            "--network": "none",
            "--memory": memory,
            "--memory-swap": memory,
            "--pids-limit": "64",
            "--cpus": "1",
            "--user": "65534:65534",
            "--cap-drop": "ALL",
            "--security-opt": "no-new-privileges",
            "--tmpfs": f"{_INSIDE}:rw,noexec,nosuid,nodev,size=16m",
            "--workdir": _INSIDE,
            "--ulimit": "nofile=64:64",
            "--pull": "never",
            "--log-driver": "none",
        }
        flat = [word for pair in options.items() for word in pair] + ["--ulimit", "nproc=1024:1024"]
        told = {name: CLEAN_ENVIRONMENT[name] for name in ("PYTHONHASHSEED", "LANG")}
        variables = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
        python = ["timeout", "-s", "KILL", str(int(limits.total_s) + _BESIDES_S), "python", *_PYTHON, program(WORKER)]
        return [*_client(), "run", "--rm", "-i", "--read-only", *flat, *variables, place.image, *python]

    def environment(self, place: Place) -> Mapping[str, str]:
        return os.environ  # of the engine's client; the code sees none of it

    def stop(self, place: Place) -> None:
        _problem_of([*_client(), "rm", "--force", place.name])


class Bubblewrap(Tier):
    """Namespaces of its own for everything (``bwrap``): Python's files read-only, one small folder in memory."""

    name = "bubblewrap"
    holds = "no network, only Python's files and these read-only, no other process in sight, limits on memory and time"

    def unavailable(self, image: str = DEFAULT_IMAGE) -> str | None:
        return _bubblewrap_problem()

    def command(self, limits: Limits, place: Place) -> list[str]:
        return [*_bubblewrap(), BASE_PYTHON, *_PYTHON, program(WORKER)]


class Subprocess(Tier):
    """A process of the same user. See the table above for what holds where."""

    name = "subprocess"
    holds = "limits on memory and time; processes, network and files as far as this system can filter system calls"

    def unavailable(self, image: str = DEFAULT_IMAGE) -> str | None:
        return None if os.name == "posix" else f"there are no limits for processes on {sys.platform}"

    def command(self, limits: Limits, place: Place) -> list[str]:
        return [BASE_PYTHON, *_PYTHON, program(WORKER)]

    def folder(self, place: Place) -> str:
        return place.folder

    def died(self, returncode: int, held: Sequence[str]) -> bool:
        """Code whose system calls are filtered cannot kill: then it was the system, for want of memory."""
        return returncode == -_SIGKILL and "system calls" in held


TIERS: dict[str, Tier] = {tier.name: tier for tier in (Container(), Bubblewrap(), Subprocess())}
"""Strongest first."""


def choose_tier(name: TierName = "auto", *, allow_unsandboxed: bool = False, image: str = DEFAULT_IMAGE) -> Tier:
    """The tier of that name, or the strongest that works here. Raises SandboxError, never falls back in silence.

    ``subprocess`` is taken only with ``allow_unsandboxed``.
    """
    if name != "auto":
        tier = TIERS[name]
        if isinstance(tier, Subprocess) and not allow_unsandboxed:
            raise SandboxError(_needs_consent())
        problem = tier.unavailable(image)
        if problem is not None:
            raise SandboxError(f"the sandbox tier {name!r} cannot be used here: {problem}")
        return tier
    problems = []
    for tier in TIERS.values():
        problem = tier.unavailable(image)
        if problem is None and (allow_unsandboxed or not isinstance(tier, Subprocess)):
            return tier
        problems += [f"{tier.name}: {problem}"] if problem else []
    raise SandboxError(f"no sandbox works here ({'; '.join(problems)}). {_needs_consent()}")


def tier_states(image: str = DEFAULT_IMAGE) -> dict[str, str | None]:
    """Every tier, strongest first, with why it cannot be used here or None."""
    return {name: tier.unavailable(image) for name, tier in TIERS.items()}


def _needs_consent() -> str:
    return (
        "The tier 'subprocess' runs the code as you, on this machine: it guards against accidents, not attackers, and "
        "may not keep the code from your files and the network. Install bubblewrap or start docker or podman, or set "
        "allow_unsandboxed: true"
    )


def _remembered(probe: Callable[..., str | None]) -> Callable[..., str | None]:
    """A probe that asks again for good reason alone: what works does so from then on, a problem may soon be gone."""
    known: dict[tuple[str, ...], tuple[str | None, float]] = {}

    @wraps(probe)
    def ask(*args: str) -> str | None:
        problem, until = known.get(args, (None, 0.0))
        if time.monotonic() >= until:
            problem = probe(*args)
            known[args] = (problem, time.monotonic() + _RECHECK_S if problem else float("inf"))
        return problem

    return ask


def _engine() -> str | None:
    """The container engine that answers."""
    return next((name for name in _ENGINES if _engine_problem(name) is None), None)


@_remembered
def _engine_problem(name: str) -> str | None:
    if shutil.which(name) is None:
        return f"{name} is not installed"
    problem = _problem_of([name, "info"])
    return problem and f"{name} does not answer: {problem}"


def _no_engine() -> str | None:
    return None if _engine() else "; ".join(filter(None, map(_engine_problem, _ENGINES)))


@_remembered
def _image_problem(image: str) -> str | None:
    missing = _problem_of([*_client(), "image", "inspect", image])
    return f"there is no image {image!r} on this machine: {' '.join(_client())} pull {image}" if missing else None


def _client() -> tuple[str]:
    return (_engine() or "docker",)


@_remembered
def _bubblewrap_problem() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    problem = _problem_of([*_bubblewrap(), BASE_PYTHON, *_PYTHON, "pass"])
    return problem and f"bwrap cannot start Python: {problem}"


@cache
def _bubblewrap() -> tuple[str, ...]:
    prefix = os.path.realpath(sys.base_prefix)
    shown = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", *([] if prefix == "/usr" else [prefix])]
    binds = [word for path in shown for word in ("--ro-bind-try", path, path)]
    devices = [
        word for name in ("null", "urandom", "random") for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    ]
    rights = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
    memory = ["--size", str(16 << 20), "--tmpfs", _INSIDE, "--remount-ro", "/", "--chdir", _INSIDE]
    return (shutil.which("bwrap") or "bwrap", *rights, *binds, *devices, *memory)


def _problem_of(command: list[str]) -> str | None:
    """Run a short command; its last line of complaint where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
