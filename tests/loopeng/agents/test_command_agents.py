"""Programs as agents: real ones, well-behaved and not. Nothing they start may live on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.agents import CommandAgent, as_agent, build_agent
from loopeng.agents.command import _result
from loopeng.agents.programs import ProgramLimits, run_program
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import AgentLimitError, EngineError, TaskError
from loopeng.ports import AgentBudget, Endpoint, TextRequest
from loopeng.schema import Message, Usage
from loopeng.schema.task import AgentSpec
from tests.loopeng.agents.contexts import make_context, shout

ROOT = Path(__file__).parents[3]
LIMITS = ProgramLimits(time_s=60, output_bytes=1_000_000)


def agent(script: str, folder: Path, **changes: Any) -> CommandAgent:
    values = {"command": ("sh", "-c", script), "folder": folder, "limits": LIMITS} | changes
    return CommandAgent(**values)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Any) -> None:
    """A killed process takes its time to be gone."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_the_attempt_goes_in_as_json_and_text_comes_out(tmp_path: Path) -> None:
    context = make_context(
        instructions="Beschreibe den Krug – kurz.",
        input={"product": "Krug"},
        messages=(Message(role="user", content="x"),),
        feedback="Zu lang.",
        earlier_outputs=("lang",),
        attempt_index=1,
        temperature=0.5,
        budget=AgentBudget(attempts=3),
    )
    echo = agent("cat; echo; echo", tmp_path)(context)
    assert not echo.text.endswith("\n") and echo.trajectory is None and echo.usage == Usage()
    assert json.loads(echo.text) == {
        "instructions": "Beschreibe den Krug – kurz.",
        "input": {"product": "Krug"},
        "messages": [{"role": "user", "content": "x"}],
        "feedback": "Zu lang.",
        "earlier_outputs": ["lang"],
        "attempt_index": 1,
        "seed": 7,
        "temperature": 0.5,
        "budget": {"attempts": 3, "total_tokens": None, "total_time_s": None},
        "endpoint": None,
    }


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ('{"text": "x", "label": 1}', '{"text": "x", "label": 1}'),  # an answer that is JSON of its own
        ('{"text": 3}', '{"text": 3}'),
        ('{"trajectory": []}', '{"trajectory": []}'),
        ('[{"text": "x"}]', '[{"text": "x"}]'),
        ('{"text": "x"} and more', '{"text": "x"} and more'),
        ("{" * 50_000, "{" * 50_000),
        ('  {"text": "x"}\n', "x"),
        ('{"text": "x", "trajectory": null, "usage": null}', "x"),
        ("", ""),
    ],
)
def test_only_the_exact_object_is_read_as_one(printed: str, text: str) -> None:
    result = _result(printed)
    assert result.text == text and result.trajectory is None


@given(st.text())
def test_any_other_text_is_the_answer_as_it_is(text: str) -> None:
    assert _result("> " + text).text == "> " + text


def test_trajectory_and_usage_of_the_object_count() -> None:
    steps = [{"name": "find", "args": {}}]
    result = _result(json.dumps({"text": "x", "trajectory": steps, "usage": {"generated_tokens": 5}}))
    assert (result.trajectory, result.usage) == (steps, Usage(generated_tokens=5))
    with pytest.raises(EngineError, match=r"usage cannot be read: .*'generated_token'.*did you mean"):
        _result('{"text": "x", "usage": {"generated_token": 5}}')
    with pytest.raises(EngineError, match="usage cannot be read"):
        _result('{"text": "x", "usage": 5}')


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no key >&2; exit 3", "^the command exited with 3: no key$"),
        ("exit 1", "^the command exited with 1 and wrote no reason$"),
        ("kill -SEGV $$", "^the command was killed by SIGSEGV"),
        (r"printf 'ab\377'", "not UTF-8: byte 0xff at place 2"),
        (r"printf 'bad \377\n' >&2; exit 1", "bad \ufffd"),
    ],
)
def test_how_a_program_fails_is_the_error(script: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=words):
        agent(script, tmp_path)(make_context())


def test_of_long_complaints_the_end_is_kept(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; echo the reason >&2; exit 2"
    with pytest.raises(EngineError) as caught:
        agent(script, tmp_path)(make_context())
    assert str(caught.value).endswith("the reason") and len(str(caught.value)) < 4_100


def test_a_program_that_reads_nothing_and_one_that_says_much_before_it_reads(tmp_path: Path) -> None:
    """Neither blocks, though what goes in and what comes out are each larger than a pipe holds."""
    context = make_context(input={"text": "x" * 500_000})
    assert agent("echo done", tmp_path)(context).text == "done"
    assert agent("exec <&-; sleep 0.05; echo done", tmp_path)(context).text == "done"
    loud = "import sys; sys.stdout.write('y' * 400_000); sys.stdout.flush(); print(len(sys.stdin.read()) > 500_000)"
    result = CommandAgent((sys.executable, "-c", loud), tmp_path, LIMITS)(context)
    assert result.text == "y" * 400_000 + "True"


def test_a_program_that_says_too_much_is_stopped(tmp_path: Path) -> None:
    few = ProgramLimits(time_s=60, output_bytes=1_000)
    with pytest.raises(AgentLimitError, match="printed more than 1,000 bytes"):
        agent("yes", tmp_path, limits=few)(make_context())
    assert agent("printf %1000d 1", tmp_path, limits=few)(make_context()).text.strip() == "1"


def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    short = ProgramLimits(time_s=0.3, output_bytes=1_000)
    script = "sleep 1000 & echo $! > child; echo waiting >&2; wait"
    with pytest.raises(AgentLimitError, match=r"took more than 0\.3 s; it wrote to standard error: waiting"):
        agent(script, tmp_path, limits=short)(make_context())
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child))


def test_a_child_that_keeps_the_output_open_ends_with_the_program(tmp_path: Path) -> None:
    result = agent("sleep 1000 & echo $! > child; echo done", tmp_path)(make_context())
    assert result.text == "done"
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child))


def test_a_program_that_closes_its_outputs_and_works_on_is_waited_for(tmp_path: Path) -> None:
    assert agent("echo early; exec >&- 2>&-; sleep 0.2; echo 1 > late", tmp_path)(make_context()).text == "early"
    assert (tmp_path / "late").exists()


@pytest.mark.skipif(not hasattr(os, "setsid"), reason="needs sessions")
def test_one_who_escaped_the_group_holds_nobody_up(tmp_path: Path) -> None:
    """It left the session, so it lives on; its output does not count, and is not waited for."""
    escape = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid(); open('child', 'w').write(str(os.getpid()))\n"
        "    while True: sys.stderr.write('noise'); sys.stderr.flush()\n"
        "while not os.path.exists('child'): time.sleep(0.01)\n"
        "print('done', flush=True); os._exit(0)\n"
    )
    result = CommandAgent((sys.executable, "-c", escape), tmp_path, LIMITS)(make_context())
    wait_until(lambda: (tmp_path / "child").read_text() != "")
    with suppress(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert result.text == "done"


def test_no_descriptor_and_no_zombie_is_left(tmp_path: Path) -> None:
    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    agent("echo", tmp_path)(make_context())
    before = open_descriptors()
    for script in ("echo", "exit 1", "yes"):
        with pytest.raises(EngineError) if script != "echo" else nullcontext():
            agent(script, tmp_path)(make_context())
    assert open_descriptors() == before
    with suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)


INTERRUPTED = """\
import sys
from pathlib import Path
from loopeng.agents.programs import ProgramLimits, run_program
script = "sleep 1000 & echo $! > child; echo $$ > leader; wait"
run_program(["sh", "-c", script], b"x", folder=Path(sys.argv[1]), environment={"PATH": sys.argv[2]},
            limits=ProgramLimits(600, 1000))
"""


def test_ctrl_c_ends_the_whole_group(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", INTERRUPTED, str(tmp_path), os.environ["PATH"]]
    process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    leader, child = tmp_path / "leader", tmp_path / "child"
    wait_until(lambda: leader.exists() and leader.read_text().strip())
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in complaints and process.returncode == -signal.SIGINT
    for pid in (int(leader.read_text()), int(child.read_text())):
        wait_until(lambda pid=pid: not is_alive(pid))


class ServedEngine(ScriptedEngine):
    """An engine with an endpoint: an address where nobody listens, and an account."""

    def __init__(self) -> None:
        super().__init__(shout)
        self.requests: list[TextRequest] = []

    @contextmanager
    def endpoint(self, request: TextRequest) -> Iterator[Endpoint | None]:
        self.requests.append(request)
        yield Endpoint("http://127.0.0.1:9/v1", "token-1", "tiny", lambda: Usage(generated_tokens=11))


SHOW = 'echo "$OPENAI_BASE_URL|$OPENAI_API_KEY|$LOOPENG_MODEL|$NO_PROXY|$OWN_KEY"'


def test_the_environment_names_the_endpoint_and_what_is_asked_there_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the user's own")
    monkeypatch.setenv("OWN_KEY", "k")
    monkeypatch.setenv("NO_PROXY", "example.org")
    engine = ServedEngine()
    context = make_context(engine=engine, temperature=0.5)
    shown = agent(SHOW, tmp_path)(context)
    assert shown.text == "http://127.0.0.1:9/v1|token-1|tiny|example.org,127.0.0.1,localhost|k"
    (request,) = engine.requests
    assert (request.seed, request.reference_texts) == (7, ("an earlier answer",))
    assert context.engine.usage == Usage(generated_tokens=11)  # type: ignore[attr-defined]
    assert context.engine.fingerprint == engine.describe().fingerprint  # type: ignore[attr-defined]
    document = json.loads(agent("cat", tmp_path)(make_context(engine=engine)).text)
    assert document["endpoint"] == {"base_url": "http://127.0.0.1:9/v1", "api_key": "token-1", "model": "tiny"}


def test_of_named_variables_only_those_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the user's own")
    monkeypatch.setenv("OWN_KEY", "k")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert agent(SHOW, tmp_path, env=("OWN_KEY",))(make_context()).text == "||||k"
    assert agent(SHOW, tmp_path, env=())(make_context()).text == "||||"
    assert agent(SHOW, tmp_path)(make_context()).text == "|the user's own|||k"
    assert agent('echo "$HOME"', tmp_path, env=())(make_context()).text == os.environ["HOME"]


def test_a_command_comes_from_the_task_and_runs_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.sh").write_text("#!/bin/sh\npwd; echo $1\n")
    spec = AgentSpec(kind="command", command=("./mine.sh", "two words"), time_limit_s=3, replayable=True)
    with pytest.raises(TaskError, match=r"may not be run \(chmod \+x ./mine.sh"):
        build_agent(spec, tmp_path)
    (tmp_path / "mine.sh").chmod(0o755)
    built = build_agent(spec, tmp_path)
    assert isinstance(built, CommandAgent) and built.limits == ProgramLimits(3, 1_000_000) and built.replayable
    assert built(make_context()).text == f"{tmp_path.resolve()}\ntwo words"
    assert built.reference == "command: ./mine.sh 'two words'" and as_agent(built) is built
    default = build_agent(AgentSpec(kind="command", command=("sh",)), tmp_path)
    assert isinstance(default, CommandAgent) and default.limits.time_s == 600 and not default.replayable


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("./mine.hs", r"there is no program .*mine\.hs' \(did you mean './mine\.sh'\?\)"),
        ("mine.sh", r"there is no program 'mine\.sh' on PATH \(write \./mine\.sh for the one beside the task file\)"),
        ("no-such-program-anywhere", "there is no program 'no-such-program-anywhere' on PATH"),
        ("./", "there is no program"),
    ],
)
def test_a_missing_program_is_found_before_anything_runs(program: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.sh").write_text("")
    with pytest.raises(TaskError, match=words):
        build_agent(AgentSpec(kind="command", command=(program,)), tmp_path)


def test_a_program_that_cannot_be_started_after_all_is_the_agents_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(EngineError, match=f"the command {shlex.quote('./broken')!r} cannot be started"):
        run_program(["./broken"], b"", folder=tmp_path, environment=os.environ, limits=LIMITS)
