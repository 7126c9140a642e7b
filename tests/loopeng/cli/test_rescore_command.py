"""``loopeng rescore`` as people meet it: stopped, gone on with, and asked for again."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

STOPS = """\
from pathlib import Path

def stops(sample, attempt):
    if Path("stop").exists() and sample.id == "p-03":
        raise KeyboardInterrupt
    return True
"""
BY_THIS_FILE = ("--task", "task.yaml")  # the run's own is elsewhere: the folder is a copy


def stop_a_rescore(shop: Shop, invoke: Invoke) -> tuple[str, str]:
    """The run that was judged again, and what was said when that was stopped."""
    module = f"stops_{uuid.uuid4().hex}"  # Python keeps one module of a name
    shop.write(f"{module}.py", STOPS)
    shop.change("{id: short, type: length, max_words: 10}", f'{{id: short, type: python, function: "{module}:stops"}}')
    shop.write("stop", "")
    (run,) = json.loads(invoke("runs", "list", "--json").stdout)
    told = invoke("rescore", *BY_THIS_FILE, "-j", "1", code=130).stderr
    (shop.folder / "stop").unlink()
    return run["run"]["id"], told


def test_latest_stays_the_suite_run_when_a_rescore_was_stopped(ran: Shop, invoke: Invoke) -> None:
    """Ctrl-C, then the same words again: the answers of the run are judged, not those of the stopped rescore."""
    original, told = stop_a_rescore(ran, invoke)
    assert "; 3 of 15 samples are judged, everything is saved. Go on with:" in told
    assert f"rescore {original} --resume --task task.yaml --jobs 1\n" in told
    again = invoke("rescore", *BY_THIS_FILE, code=3)
    assert "was not finished; this is a new rescore" in again.stderr
    document = json.loads(invoke("rescore", *BY_THIS_FILE, "--json", code=3).stdout)
    assert document["before"]["id"] == original
    with LoopStore.open(ran.db) as store:
        assert {run.rescore_of for run in store.runs(kind="rescore")} == {original}
        assert store.runs(kind=("suite", "rescore"), limit=1)[0].kind == "rescore"
    assert f"outputs of {original}" in invoke("report").stdout, "a report's latest may be a rescore"


def test_resume_finds_the_rescore_that_was_stopped(ran: Shop, invoke: Invoke) -> None:
    original, _ = stop_a_rescore(ran, invoke)
    with LoopStore.open(ran.db) as store:
        (stopped,) = store.runs(kind="rescore")
    resumed = invoke("rescore", *BY_THIS_FILE, "--resume", "--json", code=3)
    assert json.loads(resumed.stdout)["run"]["id"] == stopped.id
    assert "was not finished" not in resumed.stderr
    assert "no unfinished rescore" in invoke("rescore", original, *BY_THIS_FILE, "--resume", code=2).stderr
