"""Tiers: which is taken, what is said where none can be, and what happens when one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loopeng.errors import SandboxError
from loopeng.sandbox import TIERS, Limits, SandboxJob, choose_tier, plan_tests, run_tests, tier_states
from loopeng.sandbox.confinement import syscall_filter
from loopeng.sandbox.ending import VARIABLE, end_process, strays
from loopeng.sandbox.tiers import Bubblewrap, Place, Subprocess

PLAN = plan_tests("assert f(2) == 4")
PLACE = Place("a-name", "/nowhere", "python:3.12-slim")


def test_the_strongest_that_works_is_taken_and_the_last_only_with_consent() -> None:
    working = [name for name, problem in tier_states().items() if problem is None]
    assert list(TIERS) == ["container", "bubblewrap", "subprocess"]
    assert choose_tier(allow_unsandboxed=True).name == working[0]
    with pytest.raises(SandboxError, match=r"accidents, not attackers.*allow_unsandboxed: true"):
        choose_tier("subprocess")


def test_a_tier_that_cannot_be_used_says_why_and_nothing_takes_its_place() -> None:
    with pytest.raises(SandboxError, match=r"the sandbox tier 'container' cannot be used here: .+"):
        choose_tier("container", allow_unsandboxed=True, image="no/such-image:here")


def test_a_container_gets_no_network_no_rights_and_read_only_files() -> None:
    command = TIERS["container"].command(Limits(memory_mb=100), PLACE)
    text = " ".join(command)
    for wanted in (
        "--network none",
        "--read-only",
        "--memory 164m --memory-swap 164m",
        "--pids-limit 64",
        "--cpus 1",
        "--user 65534:65534",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pull never",
        "--name a-name",
        "python:3.12-slim python -P -s -S",
    ):
        assert wanted in text
    assert "-v" not in command and "--volume" not in text and "--privileged" not in text


class _Missing(Subprocess):
    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["/nowhere/python"]


class _Broken(Subprocess):
    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["sh", "-c", "echo it is broken >&2; exit 3"]


class _Silent(Subprocess):
    start_s = 0.2

    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["sleep", "60"]


@pytest.mark.parametrize(
    ("tier", "message"),
    [(_Missing(), "cannot be started"), (_Broken(), "did not start: it is broken"), (_Silent(), "was not ready")],
)
def test_a_sandbox_that_does_not_start_is_an_error(tier: Subprocess, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        run_tests(SandboxJob("def f(n): return 4", PLAN), tier)


def test_a_sandbox_that_dies_is_an_error_not_a_failure() -> None:
    tier = Bubblewrap()
    problem = tier.unavailable()
    if problem is not None:
        pytest.skip(problem)

    def kill_soon() -> None:
        for _ in range(500):
            time.sleep(0.01)
            mine = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_own_bwrap(pid)]
            if mine:
                time.sleep(0.3)
                os.kill(mine[0], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill_soon)
    killer.start()
    try:
        with pytest.raises(SandboxError, match="died"):
            run_tests(SandboxJob("import time\ndef f(n): time.sleep(20)", PLAN, limits=Limits(10, 10)), tier)
    finally:
        killer.join()


def _is_own_bwrap(pid: int) -> bool:
    try:
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        return int(parent) == os.getpid() and b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_left_its_group_is_found_by_its_environment() -> None:
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True); sys.stdin.read()"
    environment = {**os.environ, VARIABLE: "this-test"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, start_new_session=True, stdin=subprocess.PIPE
    )
    for _ in range(500):
        if len(strays("this-test")) == 2:
            break
        time.sleep(0.02)
    assert len(strays("this-test")) == 2
    end_process(process, "this-test")
    assert process.stdin is not None
    process.stdin.close()
    assert strays("this-test") == []


def test_the_filter_is_whole_instructions_with_jumps_inside() -> None:
    for machine in ("x86_64", "aarch64"):
        program = syscall_filter(machine)
        assert program is not None and len(program) % 8 == 0
        rows = [program[start : start + 8] for start in range(0, len(program), 8)]
        for index, row in enumerate(rows):
            if row[0] in (0x15, 0x35, 0x45):
                assert index + 1 + max(row[2], row[3]) < len(rows)
        assert rows[-1][0] == 0x06
    assert syscall_filter("toaster") is None
