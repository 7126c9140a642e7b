"""The head is kept for a few seconds, and forgotten at once where this process moves it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loopeng import Loop
from loopeng.live.heads import Heads
from loopeng.store import LoopStore, head_moves
from loopeng.store.prompts import move_head
from tests.loopeng.live.traffic import TEMPLATE, ask, open_loop

OTHER = "Say what it is: {{ product }}{{ rules }}"


def test_a_head_that_this_process_moves_counts_at_once(path: Path) -> None:
    with open_loop(path, head_seconds=3600) as loop, LoopStore.open(path) as elsewhere:
        assert ask(loop).version.number == 1
        elsewhere.adopt_template("describe", OTHER, by="test")
        result = ask(loop)
        assert result.version.number == 2
        assert result.attempts[0].messages[0].content == "Say what it is: mug"
        loop.rollback("describe", by="ana", reason="for the test")
        assert ask(loop).version.number == 1


def test_a_head_that_another_process_moves_counts_when_the_time_is_over(path: Path) -> None:
    program = (
        "import sys; from loopeng.store import LoopStore\n"
        "with LoopStore.open(sys.argv[1]) as store:\n"
        f"    store.adopt_template('describe', {OTHER!r}, by='test')"
    )
    with open_loop(path, head_seconds=3600) as slow, open_loop(path, head_seconds=0) as quick:
        assert (ask(slow).version.number, ask(quick).version.number) == (1, 1)
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        assert (ask(slow).version.number, ask(quick).version.number) == (1, 2)


def test_an_application_brings_its_template_once(loop: Loop) -> None:
    """It must not undo, call by call, what somebody has changed since."""
    assert ask(loop).version.number == 1
    loop.store.adopt_template("describe", OTHER, by="a person")
    assert ask(loop, template=TEMPLATE).version.number == 2
    assert ask(loop, template="Now: {{ product }}{{ rules }}").version.number == 3


def test_time_goes_by_the_clock(loop: Loop) -> None:
    version = ask(loop).version
    now = [0.0]
    heads = Heads(3.0, clock=lambda: now[0])
    assert heads.fresh("describe") is heads.last_known("describe") is None
    assert heads.read("describe", lambda: version) is version
    now[0] = 2.9
    assert heads.fresh("describe") is version
    now[0] = 3.0
    assert heads.fresh("describe") is None
    assert heads.last_known("describe") is version


def test_a_head_that_moves_while_it_is_read_is_read_again(loop: Loop) -> None:
    version, heads = ask(loop).version, Heads(3600.0)

    def read() -> object:
        thread = threading.Thread(target=loop.store.adopt_template, args=("describe", OTHER), kwargs={"by": "test"})
        thread.start()
        thread.join()
        return version

    heads.read("describe", read)  # type: ignore[arg-type]
    assert heads.fresh("describe") is None


def test_what_is_not_committed_moves_nothing(loop: Loop) -> None:
    ask(loop)
    before, head = head_moves(), loop.store.head("describe").id

    def moves_and_breaks() -> None:
        with loop.store._database.write() as session:
            move_head(session, "describe", frm=head, to=head)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        moves_and_breaks()
    assert head_moves() == before
