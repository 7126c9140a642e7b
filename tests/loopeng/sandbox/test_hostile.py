"""Generated code that means harm, in every tier that works here: it passes nothing and leaves nothing."""

from __future__ import annotations

import builtins
import contextlib
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopeng.errors import SandboxError
from loopeng.sandbox import Limits, SandboxJob, SandboxReport, choose_tier, plan_tests, run_many, run_tests
from tests.loopeng.sandbox.hostile import HOSTILE, SQUARES
from tests.loopeng.sandbox.places import IMAGE, orphans

LIMITS = Limits(timeout_s=0.7, total_s=2.0, memory_mb=256)
TIERS = ["bubblewrap", "subprocess", pytest.param("container", marks=pytest.mark.slow)]
PLACES = ("/", "/var/tmp", "/dev/shm", "/root", "/home")


@dataclass
class Outcome:
    """What became of all programs in one tier."""

    reports: dict[str, SandboxReport]
    loot: Path
    heard: list[bytes]
    seconds: float


@pytest.fixture(scope="module", params=TIERS)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    try:
        tier = choose_tier(request.param, allow_unsandboxed=True, image=IMAGE)
    except SandboxError as error:
        pytest.skip(str(error))
    plan = plan_tests(SQUARES)
    held = run_tests(SandboxJob("def f(n):\n    return n * n", plan), tier, image=IMAGE).held
    if tier.name == "subprocess" and set(held) != {"limits", "memory", "files", "system calls"}:
        pytest.skip("this system cannot filter system calls: a fork bomb would be a real one")
    loot = tmp_path_factory.mktemp("loot") / "loot"
    loot.mkdir()
    (loot.parent / "secret.txt").write_text("treasure", encoding="utf-8")
    os.environ["LOOPENG_TEST_SECRET"] = "treasure"
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        texts = [text.replace("LOOT", str(loot)).replace("PORT", port) for text in HOSTILE.values()]
        started = time.monotonic()
        reports = run_many([SandboxJob(text, plan, limits=LIMITS) for text in texts], tier, image=IMAGE)
        seconds = time.monotonic() - started
        server.settimeout(0.01)
        with contextlib.suppress(TimeoutError):
            heard.append(server.accept()[0].recv(100))
    del os.environ["LOOPENG_TEST_SECRET"]
    return Outcome(dict(zip(HOSTILE, reports, strict=True)), loot, heard, seconds)


@pytest.mark.parametrize("name", HOSTILE)
def test_it_passes_nothing(outcome: Outcome, name: str) -> None:
    report = outcome.reports[name]
    assert report.num_passed == 0
    assert not report.passed
    assert report.loading is not None or len(report.tests) == 3


def test_nothing_is_left_behind(outcome: Outcome) -> None:
    assert orphans() == []
    assert list(outcome.loot.iterdir()) == []
    assert [place for place in PLACES if Path(place, "loopeng-was-here").exists()] == []
    assert outcome.heard == []
    assert (outcome.loot.parent / "secret.txt").read_text(encoding="utf-8") == "treasure"


def test_a_report_holds_no_name_that_the_code_made_up(outcome: Outcome) -> None:
    steps = [step for report in outcome.reports.values() for step in report.tests]
    names = {step.error_type for step in steps} | {
        report.detail for report in outcome.reports.values() if report.loading == "raised"
    }
    assert all(issubclass(getattr(builtins, name), BaseException) for name in names - {""})


def test_most_outcomes_are_what_they_should_be(outcome: Outcome) -> None:
    """A tier that refuses everything for the wrong reason would pass the tests above."""
    got = {name: report.loading or report.tests[0].outcome for name, report in outcome.reports.items()}
    wanted = {
        "memory bomb": "memory",
        "infinite loop": "timeout",
        "infinite loop at import": "timeout",
        "infinite output": "timeout",
        "sys.exit(0)": "raised",
        "os._exit(0)": "exit",
        "os._exit(0) at import": "exit",
        "prints results": "assert",
        "always equal": "not plain",
        "int that is always equal": "not plain",
        "list of always equal": "not plain",
        "kills its parent and everybody": "assert",
        "daemon that outlives": "raised",
        "huge text": "too large",
        "huge number": "too large",
        "nested value": "too large",
        "assertion of its own": "raised",
        "reads the environment": "assert",
        "crash": "exit",
        "fork bomb": "timeout",
        "other program": "raised",
        "network": "assert",
        "writes files outside": "raised",
        "symbolic link": "assert",
        "deletes its folder": "raised",
        "fills the disk": "raised",
        "raises its limits": "assert",
        "has rights of the superuser": "assert",
        "makes a device": "assert",
        "asks for signals to its parent": "assert",
        "changes what a file may be used for": "assert",
        "cuts a file": "assert",
        "calls that are newer than the filter": "assert",
        "many files": "assert",
        "deep folders": "assert",
        "files in memory": "assert",
        "timer that kills": "assert",
        "long name of an exception": "raised",
        "exception that carries what it was called with": "raised",
        "exception that looks like the system's own": "raised",
        "forged reply of no use": "protocol",
        "huge program": "too large",
        "generator": "not plain",
    }
    assert {name: got[name] for name in wanted} == wanted
