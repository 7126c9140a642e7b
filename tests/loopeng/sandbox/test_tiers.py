"""Tiers: which is taken, what is said where none can be, and what happens when one dies."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest

from loopeng.errors import SandboxError
from loopeng.sandbox import (
    TIERS,
    Limits,
    SandboxJob,
    choose_tier,
    plan_tests,
    run_tests,
    running,
    tier_states,
)
from loopeng.sandbox.confinement import syscall_filter
from loopeng.sandbox.ending import VARIABLE, end_process, remove_folder, strays
from loopeng.sandbox.tiers import Bubblewrap, Container, Place, Subprocess
from tests.loopeng.sandbox.places import children, orphans

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
        "--log-driver none",
        "python:3.12-slim timeout -s KILL 150 python -P -s -S",
    ):
        assert wanted in text
    assert "-v" not in command and "--volume" not in text and "--privileged" not in text


def test_a_tier_that_comes_to_work_is_found(tmp_path: Path) -> None:
    """In a process of its own, with a bwrap that works only while a file is there."""
    made, works = tmp_path / "bwrap", tmp_path / "works"
    made.write_text(f"#!/bin/sh\ntest -e {works} || {{ echo not yet >&2; exit 1; }}\n", encoding="utf-8")
    made.chmod(0o755)
    script = (
        "import pathlib, sys\n"
        "from loopeng.sandbox import TIERS, tiers\n"
        "works, state, tiers._RECHECK_S = pathlib.Path(sys.argv[1]), TIERS['bubblewrap'].unavailable, 0.0\n"
        "print(state()); works.touch(); print(state()); works.unlink(); print(state())\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-c", script, str(works)]
    said = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["bwrap cannot start Python: not yet", "None", "None"]


class _Missing(Subprocess):
    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["/nowhere/python"]


class _Broken(Subprocess):
    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["sh", "-c", "echo it is broken >&2; exit 3"]


class _Chatty(Subprocess):
    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["sh", "-c", "echo this is the message of the day; sleep 60"]


class _Silent(Subprocess):
    start_s = 0.2

    def command(self, limits: Limits, place: Place) -> list[str]:
        return ["sleep", "60"]


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        (_Missing(), "cannot be started"),
        (_Broken(), "did not start: it is broken"),
        (_Chatty(), "printed something before it was ready"),
        (_Silent(), "was not ready"),
    ],
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


# Calls by their numbers on x86-64 and ARM-64, their arguments, and what the filter says to them.
VERDICTS = [
    ("read", (0, 63), (), 0),
    ("fork", (57, None), (), EPERM),
    ("a thread", (56, 220), (0x3D0F00,), 0),
    ("a process", (56, 220), (17,), EPERM),
    ("clone3", (435, 435), (), ENOSYS),
    ("a limit of its own asked for", (302, 261), (0, 7, 0, 1 << 40), 0),
    ("a limit of its own set", (302, 261), (0, 7, 1 << 40, 0), EPERM),
    ("a limit of its own set, low half", (302, 261), (0, 7, 1 << 20, 0), EPERM),
    ("a limit of another asked for", (302, 261), (1, 7, 0, 1 << 40), EPERM),
    ("setrlimit", (160, 164), (), EPERM),
    ("F_GETFL", (72, 25), (3, 3), 0),
    ("F_SETOWN", (72, 25), (3, 8), EPERM),
    ("F_SETSIG", (72, 25), (3, 10), EPERM),
    ("F_SETOWN_EX", (72, 25), (3, 15), EPERM),
    ("TCGETS", (16, 29), (3, 0x5401), 0),
    ("FIOCLEX", (16, 29), (3, 0x5451), 0),
    ("FIOSETOWN", (16, 29), (3, 0x8901), EPERM),
    ("SIOCSPGRP", (16, 29), (3, 0x8902), EPERM),
    ("FS_IOC_SETFLAGS", (16, 29), (3, 0x40086602), EPERM),
    ("its name", (157, 167), (15,), 0),
    ("to live on alone", (157, 167), (1,), EPERM),
    ("truncate", (76, 45), (), EPERM),
    ("mkdirat", (258, 34), (), EPERM),
    ("mount_setattr", (442, 442), (), EPERM),
    ("the newest that the filter knows", (452, 452), (), EPERM),
    ("newer than the filter", (453, 453), (), ENOSYS),
    ("the second convention of x86", (0x40000000 + 57, None), (), ENOSYS),
]


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_the_filter_decides_by_call_and_arguments(machine: str, column: int) -> None:
    program = syscall_filter(machine)
    assert program is not None
    architecture = (0xC000003E, 0xC00000B7)[column]
    for name, numbers, arguments, verdict in VERDICTS:
        if (number := numbers[column]) is not None:
            assert _decided(program, architecture, number, arguments) == verdict, name
    assert _decided(program, 0x40000003, 0, ()) == EPERM  # another architecture
    assert syscall_filter("toaster") is None


def _decided(program: bytes, architecture: int, number: int, arguments: Sequence[int]) -> int:
    """Runs the filter as the kernel does: an error number, 0 where the call is let through."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    rows = list(struct.iter_unpack("<HBBI", program))
    at = held = 0
    while True:
        operation, yes, no, value = rows[at]
        if operation == 0x06:
            return 0 if value == 0x7FFF0000 else value - 0x00050000
        if operation == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
            at += 1
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
            at += 1 + (yes if holds else no)


def test_a_folder_of_any_depth_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):  # deeper than Python recurses and than a path may be long
        os.mkdir("deeper", dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (folder / "link").symlink_to(tmp_path)
    (folder / "closed").mkdir(mode=0)
    folder.chmod(0)
    remove_folder(str(folder))
    assert list(tmp_path.iterdir()) == []
    remove_folder(str(folder))  # it may have removed itself


def test_what_cannot_be_deleted_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(SandboxError, match=r"left .* behind"):
        remove_folder(str(tmp_path / "file"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_code_does_not_outlive_the_process_that_runs_it(tmp_path: Path) -> None:
    held = run_tests(SandboxJob("def f(n): return 4", PLAN), Subprocess()).held
    if "files" not in held or "system calls" not in held:
        pytest.skip("nothing ends it where system calls are not filtered")
    script = (
        "from loopeng.sandbox import *\n"
        "job = SandboxJob('import time\\ndef f(n): time.sleep(60)', plan_tests('assert f(2)'), limits=Limits(60, 60))\n"
        "run_tests(job, choose_tier('subprocess', allow_unsandboxed=True))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        for _ in range(500):
            if found := children(process.pid):
                break
            time.sleep(0.02)
        assert found
        time.sleep(0.3)  # so that it sleeps in the candidate's code
    finally:
        process.kill()
        process.wait()
    assert orphans() == []


class _OlderSystem(Subprocess):
    """As on a Linux without Landlock."""

    def command(self, limits: Limits, place: Place) -> list[str]:
        *words, text = super().command(limits, place)
        assert "version < 1" in text
        return [*words, text.replace("version < 1", "True")]


FORGER = """
import os
def f(n):
    for number in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{number}/cmdline", "rb") as file:
            if b"loopeng.sandbox.trusted" not in file.read():
                continue
        for name in range(3, 16):
            try:
                os.close(os.open(f"/proc/{number}/fd/{name}", os.O_WRONLY))
                return 4
            except OSError:
                pass
    return 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_tests_process_hides_where_files_are_not_held() -> None:
    report = run_tests(SandboxJob(FORGER, PLAN), _OlderSystem())
    if "system calls" not in report.held:
        pytest.skip("this system cannot filter system calls")
    assert "files" not in report.held
    assert [test.outcome for test in report.tests] == ["assert"]


def test_a_kill_from_outside_is_an_error_where_the_code_cannot_kill() -> None:
    held = ("limits", "system calls")
    assert Subprocess().died(-9, held)
    assert not Subprocess().died(-9, ("limits",)) and not Subprocess().died(-11, held)
    for tier in (Bubblewrap(), Container()):
        assert tier.died(-9, held)
        assert not any(tier.died(status, held) for status in (0, 125, 137))  # what code can choose to exit with


def test_the_setup_has_a_clock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_tests("assert f(2) == 4", setup="import time\ntime.sleep(1.3)")
    tier = choose_tier(allow_unsandboxed=True)
    assert run_tests(SandboxJob("def f(n): return 4", plan, limits=Limits(0.2, 1.0)), tier).passed
    monkeypatch.setattr(running, "_SETUP_S", 0.3)
    with pytest.raises(ValueError, match=r"setup took more than 0\.3 s"):
        run_tests(SandboxJob("def f(n): return 4", plan), tier)
