"""One run of tests: start both processes, read the reports, end everything. Runs side by side within limits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

from loopeng.errors import SandboxError
from loopeng.sandbox.channel import ClosedError, receive, send
from loopeng.sandbox.ending import end_process, exit_status, remove_folder
from loopeng.sandbox.jobs import Outcome, SandboxJob, SandboxReport, StepReport
from loopeng.sandbox.literals import MAX_CHARS, TooLargeError, decode, encode
from loopeng.sandbox.programs import CLEAN_ENVIRONMENT, TRUSTED, program
from loopeng.sandbox.tiers import DEFAULT_IMAGE, Place, Tier

__all__ = ["MAX_SIDE_BY_SIDE", "run_many", "run_tests"]

_CPUS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
MAX_SIDE_BY_SIDE = min(2 * _CPUS, 32)  # starting a process is half waiting
_TURN = threading.BoundedSemaphore(MAX_SIDE_BY_SIDE)
_GRACE_S = 1.0  # for a test's own work after its candidate's last moment
_CLOSING_S = 1.0  # from the end of the candidate to that of the sandbox around it
_SETUP_S = 30.0  # for the tests' own preparation, before the candidate's clock runs
_MAX_CODE = MAX_CHARS // 2  # as literals; the prompt travels with it
_NOT_RUN: frozenset[Outcome] = frozenset({"timeout", "exit", "protocol"})


def run_tests(job: SandboxJob, tier: Tier, *, image: str = DEFAULT_IMAGE) -> SandboxReport:
    """Run the tests of a job. May be called from any thread; at most MAX_SIDE_BY_SIDE run at once, others wait.

    Raises SandboxError where the sandbox cannot be started or died, ValueError where the tests themselves are broken.
    Nothing is left behind: no process, no file.
    """
    if _is_too_large(job.code):
        return SandboxReport(tier.name, (), loading="too large")
    with _TURN, _own_folder() as folder:
        place = Place(f"loopeng-{uuid.uuid4().hex}", folder, image)
        with _candidate(job, tier, place) as (channel, process, held):
            report = _Reports(job, tier.name, held)
            _run_trusted(job, channel, report)
            status = exit_status(process, _CLOSING_S if report.has_ended else 0.0)
            if status is not None and tier.died(status, held):
                raise SandboxError(f"the sandbox ({tier.name}) died with status {status} while tests ran")
            return report.made()


@contextmanager
def _own_folder() -> Iterator[str]:
    folder = os.path.realpath(tempfile.mkdtemp(prefix="loopeng-"))
    try:
        yield folder
    finally:
        remove_folder(folder)


def _is_too_large(code: str) -> bool:
    try:
        return len(encode(code, _MAX_CODE)) > _MAX_CODE
    except TooLargeError:
        return True


def run_many(jobs: Sequence[SandboxJob], tier: Tier, *, image: str = DEFAULT_IMAGE) -> list[SandboxReport]:
    """The reports of several jobs in their order, run side by side."""
    with ThreadPoolExecutor(MAX_SIDE_BY_SIDE) as pool:
        return list(pool.map(lambda job: run_tests(job, tier, image=image), jobs))


@contextmanager
def _candidate(
    job: SandboxJob, tier: Tier, place: Place
) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes], tuple[str, ...]]]:
    """The candidate's process, ready and confined; ended whatever happens."""
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as complaints:
        with theirs:
            try:
                process = subprocess.Popen(
                    tier.command(job.limits, place),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=complaints.fileno(),
                    cwd=place.folder,
                    env=tier.environment(place),
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"the sandbox ({tier.name}) cannot be started: {error}") from None
        try:
            held = _handshake(job, tier, place, ours)
            if held is None:
                status = exit_status(process, _CLOSING_S)
                complaints.seek(0)
                words = complaints.read().decode(errors="replace").strip()[-500:]
                raise SandboxError(f"the sandbox ({tier.name}) did not start: {words or status}")
            yield ours, process, held
        finally:
            end_process(process, place.name)
            tier.stop(place)


def _handshake(job: SandboxJob, tier: Tier, place: Place, channel: socket.socket) -> tuple[str, ...] | None:
    limits = job.limits
    order = {
        "code": job.code,
        "prompt": job.prompt,
        "folder": tier.folder(place),
        "memory_bytes": limits.memory_mb << 20,
        "cpu_s": int(limits.total_s) + 2,
    }
    message = encode(order)
    try:
        send(channel.fileno(), message)
        word, held = decode(receive(channel.fileno(), time.monotonic() + tier.start_s))
    except ClosedError:
        return None
    except ValueError:
        raise SandboxError(f"the sandbox ({tier.name}) printed something before it was ready") from None
    except TimeoutError:
        raise SandboxError(f"the sandbox ({tier.name}) was not ready after {tier.start_s:g} s") from None
    return tuple(held) if word == "ready" else None


class _Reports:
    """Collects what the trusted process says."""

    def __init__(self, job: SandboxJob, tier: str, held: tuple[str, ...]) -> None:
        self.job, self.tier, self.held = job, tier, held
        self.done: list[StepReport] = []
        self.loading: Outcome | None = None
        self.detail = ""
        self.finished = False

    def take(self, message: tuple[Any, ...]) -> None:
        """One report. Raises ValueError where the tests are broken."""
        kind, *rest = message
        if kind == "problem":
            raise ValueError(rest[0])
        if kind == "load" and rest[0] != "loaded":
            self.loading, self.detail = rest[0], rest[1]
        elif kind == "step":
            self.done.append(StepReport(self.job.plan.steps[len(self.done)], *rest))
        elif kind == "done":
            self.finished = True
            if self.loading is None and rest[0] == 0:
                raise ValueError("the tests never call the candidate's function")

    @property
    def has_ended(self) -> bool:
        """The candidate's process closed the channel."""
        return "exit" in (self.loading, *(step.outcome for step in self.done[-1:]))

    def made(self) -> SandboxReport:
        """Steps that did not run share the fate of the one that ended the run."""
        last = self.done[-1].outcome if self.done else "timeout"
        fate: Outcome = last if last in _NOT_RUN else "timeout"
        missing = [StepReport(step, fate) for step in self.job.plan.steps[len(self.done) :]]
        tests = tuple(self.done + missing) if self.loading is None else ()
        return SandboxReport(self.tier, tests, self.loading, self.detail, self.held)


def _run_trusted(job: SandboxJob, channel: socket.socket, report: _Reports) -> None:
    """Run the tests' process to its end, or until a step or the whole takes too long."""
    limits, plan = job.limits, job.plan
    order = {
        "descriptor": channel.fileno(),
        "timeout_s": limits.timeout_s,
        "names": dict(plan.names),
        "setup": plan.setup,
        "steps": [step.source for step in plan.steps],
        "hide": sys.platform == "linux" and "files" not in report.held,
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-s", "-B", "-X", "utf8", "-c", program(TRUSTED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=CLEAN_ENVIRONMENT,
        pass_fds=(channel.fileno(),),
        start_new_session=True,
    )
    reads, writes = cast(Any, process.stdout).fileno(), cast(Any, process.stdin).fileno()
    try:
        send(writes, encode(order))
        _take_ready(report, reads)
        end = time.monotonic() + limits.total_s
        while not report.finished:
            patience = time.monotonic() + limits.timeout_s + _GRACE_S
            report.take(decode(receive(reads, min(end, patience))))
    except TimeoutError:
        return  # what has not been reported took too long
    except ClosedError:
        raise SandboxError("the process that runs the tests died") from None
    finally:
        end_process(process, "")
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _take_ready(report: _Reports, reads: int) -> None:
    try:
        report.take(decode(receive(reads, time.monotonic() + _SETUP_S)))
    except TimeoutError:
        raise ValueError(f"the tests' setup took more than {_SETUP_S:g} s") from None
