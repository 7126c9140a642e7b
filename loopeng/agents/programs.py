"""One run of a program: standard input is written, both outputs are read, and limits hold, all at the same time.

The program leads a process group of its own. However the run ends, at a limit and at Ctrl-C too, nothing of the group
lives on: what the program leaves running in the background ends with it.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from loopeng.engines.interruption import raise_if_interrupted
from loopeng.errors import AgentLimitError, EngineError
from loopeng.sandbox.ending import end_process, exit_status

__all__ = ["Ended", "ProgramLimits", "run_program"]

_CHUNK = 1 << 16
_LOOK_S = 0.05  # how often to see whether the program ended while somebody else holds its outputs open
_LAST_READS = 32  # after the end: what a pipe holds, though somebody who escaped may go on writing
_KEPT_COMPLAINTS = 4_000  # bytes of standard error: its end


@dataclass(frozen=True)
class ProgramLimits:
    """Of one run."""

    time_s: float
    output_bytes: int


@dataclass(frozen=True)
class Ended:
    """A program that ended by itself. A negative status is the signal that killed it."""

    status: int
    output: bytes
    complaints: bytes  # the end of its standard error


def run_program(
    argv: Sequence[str], given: bytes, *, folder: Path, environment: Mapping[str, str], limits: ProgramLimits
) -> Ended:
    """Run a program to its end. Raises AgentLimitError at a limit, EngineError where it cannot be started."""
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise EngineError(f"the command {argv[0]!r} cannot be started: {error}") from None
    with process:
        try:
            talk = _Talk(process, memoryview(given), limits)
            talk.until_it_ends()
        finally:
            if process.returncode is None:
                end_process(process, "")
    return Ended(process.returncode, bytes(talk.output), bytes(talk.complaints))


@dataclass
class _Talk:
    """What is left to write, and what was read so far. Pipes do not block."""

    process: subprocess.Popen[bytes]
    given: memoryview
    limits: ProgramLimits
    output: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.time_s
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin is not None and stdout is not None and stderr is not None
        return stdin, stdout, stderr

    def until_it_ends(self) -> None:
        """Write and read until the program has ended; then end what it left behind, and take what it said last."""
        stdin, stdout, stderr = self._pipes
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE, stdin)
            selector.register(stdout, selectors.EVENT_READ, stdout)
            selector.register(stderr, selectors.EVENT_READ, stderr)
            while exit_status(self.process, 0 if selector.get_map() else _LOOK_S) is None:
                raise_if_interrupted()
                left_s = self._deadline - time.monotonic()
                if left_s <= 0:
                    raise AgentLimitError(self._said(f"the command took more than {self.limits.time_s:g} s"))
                for key, _ in selector.select(min(left_s, _LOOK_S)) if selector.get_map() else ():
                    if not self._go_on(key.data):
                        selector.unregister(key.data)
                        key.data.close()
        end_process(self.process, "")
        for pipe in (stdout, stderr):
            for _ in range(_LAST_READS):
                if pipe.closed or not self._read(pipe):
                    break

    def _go_on(self, pipe: IO[bytes]) -> bool:
        """One step with a pipe that is ready; False where it is done."""
        return self._write(pipe) if pipe is self.process.stdin else self._read(pipe)

    def _write(self, pipe: IO[bytes]) -> bool:
        try:
            self.given = self.given[os.write(pipe.fileno(), self.given[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:  # the program reads no more, which is its own affair
            return False
        return len(self.given) > 0

    def _read(self, pipe: IO[bytes]) -> bool:
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if pipe is self.process.stderr:
            self.complaints = (self.complaints + chunk)[-_KEPT_COMPLAINTS:]
            return bool(chunk)
        self.output += chunk
        if len(self.output) > self.limits.output_bytes:
            raise AgentLimitError(self._said(f"the command printed more than {self.limits.output_bytes:,} bytes"))
        return bool(chunk)

    def _said(self, problem: str) -> str:
        complaints = self.complaints.decode("utf-8", "replace").strip()
        return f"{problem}; it wrote to standard error: {complaints}" if complaints else problem
