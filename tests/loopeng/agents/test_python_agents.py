"""Functions as agents: every kind of callable, what they raise, their time limit, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from loopeng.agents import PythonAgent, as_agent
from loopeng.engines import finish
from loopeng.errors import AgentLimitError, EngineError
from loopeng.ports import AgentContext
from tests.loopeng.agents.contexts import make_context

ROOT = Path(__file__).parents[3]


def greet(greeting: str, context: AgentContext, *, mark: str = "") -> str:
    return f"{greeting} {context.instructions}{mark}"


class Polite:
    async def __call__(self, context: AgentContext) -> str:
        return greet("Dear", context)

    async def method(self, context: AgentContext) -> str:
        return greet("Well", context)


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (partial(greet, "Oh", mark="!"), "Oh hi!"),
        (Polite(), "Dear hi"),
        (Polite().method, "Well hi"),
        (lambda context: Polite()(context), "Dear hi"),
    ],
)
def test_every_kind_of_callable(agent: object, text: str) -> None:
    wrapped = as_agent(agent)  # type: ignore[arg-type]
    assert wrapped(make_context()).text == text and wrapped.reference is None


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("inside"), TimeoutError("theirs"), KeyError("x")])
def test_what_an_async_agent_raises_comes_out_and_the_next_one_still_runs(error: BaseException) -> None:
    """SystemExit inside an event loop ends the loop: all later async agents of the process would wait for ever."""

    async def breaks(context: AgentContext) -> str:
        raise error

    for limit_s in (None, 60.0):
        with pytest.raises(type(error)) as caught:
            PythonAgent(breaks, time_limit_s=limit_s)(make_context())
        assert caught.value.args == error.args
    assert as_agent(Polite())(make_context()).text == "Dear hi"


def test_an_async_agent_beyond_its_time_is_cancelled_and_cleans_up() -> None:
    cleaned = []

    async def hangs(context: AgentContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)
        return "never"

    with pytest.raises(AgentLimitError, match=r"the agent took more than 0\.05 s"):
        PythonAgent(hangs, time_limit_s=0.05)(make_context())
    assert cleaned == [True]


def test_a_plain_function_beyond_its_time_is_left_alone_and_answered_no_more() -> None:
    may_go_on, ended = threading.Event(), threading.Event()
    said: list[str] = []

    def hangs(context: AgentContext) -> str:
        may_go_on.wait()
        try:
            context.engine.generate("are you still there?")
        except EngineError as error:
            said.append(str(error))
        ended.set()
        return "too late"

    context = make_context()
    with pytest.raises(AgentLimitError, match=r"took more than 0\.05 s"):
        PythonAgent(hangs, time_limit_s=0.05)(context)
    context.engine.close()  # type: ignore[attr-defined]  as the loop does at the attempt's end
    may_go_on.set()
    assert ended.wait(60) and said == ["the attempt is over: its engine answers no more"]


def test_within_its_time_a_plain_function_answers_as_ever() -> None:
    assert PythonAgent(partial(greet, "Oh"), time_limit_s=60)(make_context()).text == "Oh hi"


async def _answers_in_pieces(context: AgentContext) -> str:
    replies = await asyncio.gather(*(context.engine.agenerate(f"part {number}") for number in range(4)))
    return " ".join(reply.text for reply in replies)


def test_an_async_agent_asks_several_things_at_once_under_seeds_of_their_own() -> None:
    meeting = threading.Barrier(4, timeout=60)
    seeds: dict[str, int] = {}

    def replies(request: object) -> str:
        meeting.wait()  # all four are under way together, or this breaks
        seeds[request.messages[-1].content] = request.seed  # type: ignore[attr-defined]
        return "x"

    context = make_context(replies)
    assert as_agent(_answers_in_pieces)(context).text == "x x x x"
    assert seeds == {f"part {number}": 7 + number for number in range(4)}
    assert context.engine.usage.generated_tokens == 4  # type: ignore[attr-defined]


INTERRUPTED = """\
import asyncio, os, signal, sys
from loopeng.engines import finish

async def agent():
    print("running", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned", flush=True)

finish(agent())
"""


def test_ctrl_c_cancels_an_async_agent_which_cleans_up() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.05)  # it waits for the coroutine now; before, Ctrl-C ends it just the same
    process.send_signal(signal.SIGINT)
    output, complaints = process.communicate(timeout=60)
    assert output == "cleaned\n" and "KeyboardInterrupt" in complaints and process.returncode == -signal.SIGINT


def test_finish_within_its_own_loop() -> None:
    async def outer() -> str:
        return str(finish(Polite()(make_context())))

    assert finish(outer()) == "Dear hi"
