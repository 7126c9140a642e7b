from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import NotFoundError, UsageError
from loopeng.store import LoopStore


def test_a_run_comes_back_equal_and_keeps_its_task(store: LoopStore, make: Any) -> None:
    task = make.task()
    run = make.run(task=task, seed=2**64 - 1, engine={"kind": "specdec", "numerics": {"W": 16}})
    assert store.run(run.id) == run
    assert (run.status, run.task_hash, run.prompt_name) == ("running", task.version_hash, "describe")
    assert store.task(run.task_hash) == task


@pytest.mark.parametrize("kind", ["gate", "holdout", "reproduce"])
def test_a_proposal_has_one_run_by_kind_revision_and_arm(store: LoopStore, make: Any, kind: str) -> None:
    proposal = make.pending()
    key = {"kind": kind, "proposal_id": proposal.id, "revision": 1}
    first = make.run(**key, arm="baseline", seed=3)
    assert make.run(**key, arm="baseline", seed=4) == first
    others = [
        make.run(**key, arm="candidate"),
        make.run(**key),
        make.run(**(key | {"revision": None})),
        make.run(**(key | {"revision": 2}), arm="baseline"),
    ]
    assert len({run.id for run in [first, *others]}) == 5
    assert make.run(**key) == others[1]
    assert make.run(**(key | {"revision": None})) == others[2]


def test_suite_runs_are_always_new(store: LoopStore, make: Any) -> None:
    assert make.run().id != make.run().id


def test_runs_are_listed_newest_first(store: LoopStore, make: Any) -> None:
    runs = [make.run(task=make.task(name=name), kind=kind) for name in ("a", "b") for kind in ("suite", "live")]
    assert store.runs() == runs[::-1]
    assert store.runs(limit=2) == [runs[3], runs[2]]
    assert store.runs(task_name="a") == [runs[1], runs[0]]
    assert store.runs(task_name="b", kind="suite") == [runs[2]]


def test_a_run_ends_once_and_can_go_on(store: LoopStore, make: Any, clock: Any) -> None:
    run = make.run()
    clock.advance(hours=1)
    stopped = store.finish_run(run.id, "budget", "300 attempts")
    assert (stopped.status, stopped.stop_reason, stopped.finished_at) == ("budget", "300 attempts", clock())
    clock.advance(hours=1)
    assert store.finish_run(run.id, "budget", "300 attempts") == stopped
    resumed = store.reopen_run(run.id)
    assert resumed == run == store.run(run.id)
    assert store.finish_run(run.id, "finished").finished_at == clock()


def test_ending_as_running_is_a_mistake(store: LoopStore, make: Any) -> None:
    with pytest.raises(UsageError, match="reopen_run"):
        store.finish_run(make.run().id, "running")


def test_resumable_is_the_newest_unfinished_suite_run_of_the_task(store: LoopStore, make: Any) -> None:
    task = make.task()
    assert store.resumable_run(task) is None
    older, newer, finished = make.run(), make.run(), make.run()
    make.run(kind="live")
    make.run(task=make.task(name="other"))
    store.finish_run(finished.id, "finished")
    store.finish_run(newer.id, "interrupted")
    resumable = store.resumable_run(task)
    assert resumable is not None
    assert resumable.id == newer.id
    store.finish_run(newer.id, "finished")
    assert store.resumable_run(task) == older


def test_another_engine_is_appended_once(store: LoopStore, make: Any) -> None:
    run = make.run(engine={"torch": "2.9"})
    for engine in ({"torch": "2.9"}, {"torch": "2.10"}, {"torch": "2.10"}, {"torch": "2.11"}):
        store.note_run_engine(run.id, engine)
    assert store.run_engines(run.id) == [{"torch": "2.9"}, {"torch": "2.10"}, {"torch": "2.11"}]
    assert store.run(run.id) == run


@pytest.mark.parametrize("method", ["run", "reopen_run", "run_engines"])
def test_an_unknown_run_is_not_found(store: LoopStore, method: str) -> None:
    with pytest.raises(NotFoundError):
        getattr(store, method)("run-none")
