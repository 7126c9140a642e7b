"""Samples side by side: the same rows as one after the other, exact limits, events in order, and an end at Ctrl-C."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.attempt.budget import Budget
from loopeng.attempt.events import AttemptFinished, ProgressEvent, RunFinished, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop, StoreError
from loopeng.ports import AgentContext
from loopeng.runner import run_suite
from loopeng.schema import Task
from loopeng.schema.task import BudgetSpec, EngineSpec, RunSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import SHORT, make_attempt, make_task
from tests.loopeng.engines.openai_server import Call, ChatServer, computes, says, sends

LONG = "one two three four five six"


def make(server: ChatServer, num_samples: int, concurrency: int | None, **changes: Any) -> Task:
    engine = EngineSpec(
        kind="openai", base_url=server.url, model="m", concurrency=concurrency, max_retries=0, max_tokens=64
    )
    return make_task(num_samples, engine=engine, **changes)


def draws(body: Any) -> str:
    """A text that the request alone decides: about every third one is short enough."""
    told = repr((body["messages"], body["seed"], body["temperature"]))
    number = int.from_bytes(hashlib.sha256(told.encode()).digest()[:4])
    return SHORT if number % 3 == 0 else f"{LONG} {number % 2}"  # two different ones: some come twice


def rows(store: LoopStore, run_id: str) -> dict[str, Any]:
    """Everything that is kept of a run, but ids, clocks and latencies."""
    run = store.run(run_id)
    return {
        "status": run.status,
        "attempts": [_without_clock(attempt.model_dump()) for attempt in store.attempts(run_id)],
        "results": [result.model_dump(exclude={"run_id"}) for result in store.sample_results(run_id)],
        "patterns": [(each.fingerprint, each.num_occurrences, each.num_samples) for each in store.patterns()],
        "usage": store.run_usage(run_id),
    }


def _without_clock(attempt: dict[str, Any]) -> dict[str, Any]:
    results = tuple({**result, "latency_s": 0} for result in attempt["results"])
    return {**attempt, "run_id": "", "created_at": "", "latency_s": 0, "results": results}


def no_threads_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("attempts-")]


@settings(max_examples=5, deadline=None)
@given(
    num_samples=st.integers(2, 9),
    max_attempts=st.integers(1, 3),
    retry=st.sampled_from(["escalate", "feedback", "critique"]),
    repeats=st.integers(1, 2),
    limit=st.none() | st.integers(1, 12),
)
def test_one_or_eight_at_a_time_give_the_same_rows(
    num_samples: int, max_attempts: int, retry: str, repeats: int, limit: int | None
) -> None:
    """Also where a limit stops the run half-way and a resume goes on."""
    found = []
    with ChatServer(computes(draws)) as server:
        for concurrency in (1, 8):
            with TemporaryDirectory() as folder, LoopStore.open(Path(folder) / "loop.db") as store:
                about = {"max_attempts": max_attempts, "retry": retry, "run": RunSpec(repeats=repeats)}
                limited = make(server, num_samples, concurrency, limits=BudgetSpec(attempts=limit), **about)
                summary = run_suite(Harness.build(store, limited))
                stopped = summary.run.status == "budget"
                assert limit is None or summary.attempts <= limit
                if stopped:
                    assert summary.attempts == limit, "a limit is used up, and never passed"
                    summary = run_suite(
                        Harness.build(store, make(server, num_samples, concurrency, **about)), resume=True
                    )
                found.append((rows(store, summary.run.id), stopped))
    assert found[0] == found[1]
    assert no_threads_left()


def test_so_many_are_really_at_work_at_once_and_no_more(store: LoopStore) -> None:
    """Nobody is answered before four are there; a fifth one would stand before the second meeting of four."""
    meeting, at_work, most = threading.Barrier(4), [], []

    def meet(call: Call) -> None:
        at_work.append(call)
        most.append(len(at_work))
        meeting.wait(30)
        at_work.remove(call)
        says(SHORT)(call)

    with ChatServer(meet) as server:
        summary = run_suite(Harness.build(store, make(server, 8, 4)))
    assert (summary.run.status, summary.attempts) == ("finished", 8)
    assert max(most) == 4


def test_the_attempts_of_a_sample_are_in_order_and_events_come_to_the_callers_thread(store: LoopStore) -> None:
    events: list[ProgressEvent] = []
    threads = set()

    def on_event(event: ProgressEvent) -> None:
        events.append(event)
        threads.add(threading.current_thread())

    with ChatServer(computes(lambda body: LONG + str(body["seed"]))) as server:
        summary = run_suite(Harness.build(store, make(server, 6, 6, retry="critique"), on_event=on_event))
    assert threads == {threading.current_thread()}
    assert isinstance(events[0], RunStarted) and isinstance(events[-1], RunFinished)
    told = defaultdict(list)
    for event in events:
        if isinstance(event, AttemptFinished):
            told[event.attempt.sample_id].append(event.attempt.attempt_index)
        elif isinstance(event, SampleFinished):
            told[event.result.sample_id].append("done")
    assert told == {f"s{index}": [0, 1, 2, "done"] for index in range(6)}
    assert summary.attempts == 18


def test_a_limit_of_tokens_lets_what_is_under_way_be_finished(store: LoopStore) -> None:
    """Six begin together, and each costs more than the limit allows: none of them is lost, and no other begins."""
    meeting = threading.Barrier(6)

    def meet(call: Call) -> None:
        meeting.wait(30)
        says(LONG)(call)  # ten tokens

    with ChatServer(meet) as server:
        task = make(server, 12, 6, limits=BudgetSpec(total_tokens=10))
        summary = run_suite(Harness.build(store, task))
    assert (summary.run.status, summary.attempts, len(server.calls)) == ("budget", 6, 6)
    assert (summary.run.stop_reason or "").startswith("limits.total_tokens: ")
    assert summary.exit_code(task) == 5 and no_threads_left()


@pytest.mark.parametrize("error", [ZeroDivisionError("a broken callback"), StoreError("the disk is full")])
def test_what_a_callback_raises_stops_the_run_which_can_be_resumed(store: LoopStore, error: Exception) -> None:
    told: list[ProgressEvent] = []

    def on_event(event: ProgressEvent) -> None:
        told.append(event)
        if isinstance(event, SampleFinished):
            raise error

    with ChatServer(computes(draws)) as server:
        task = make(server, 12, 4)
        with pytest.raises(type(error), match=str(error)):
            run_suite(Harness.build(store, task, on_event=on_event))
        assert isinstance(told[-1], SampleFinished), "a broken callback is not called again"
        assert no_threads_left()
        assert run_suite(Harness.build(store, task), resume=True).total.samples == 12


def test_a_store_that_breaks_in_a_thread_ends_the_run(store: LoopStore, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = store.save_attempt

    def save_attempt(attempt: Any) -> bool:
        if attempt.sample_id == "s2":
            raise StoreError("the disk is full")
        return saved(attempt)

    monkeypatch.setattr(store, "save_attempt", save_attempt)
    with ChatServer(computes(draws)) as server, pytest.raises(StoreError, match="the disk is full"):
        run_suite(Harness.build(store, make(server, 8, 4)))
    assert no_threads_left()


@pytest.mark.parametrize(("concurrency", "most"), [(None, 1), (3, 3)])
@pytest.mark.parametrize("own", ["agent", "evaluator"])
def test_code_of_the_users_runs_in_one_thread_unless_the_task_says_how_many(
    store: LoopStore, own: str, concurrency: int | None, most: int
) -> None:
    threads = set()
    meeting = threading.Barrier(most)

    def agent(context: AgentContext) -> str:
        threads.add(threading.current_thread())
        meeting.wait(30)
        return SHORT

    def check(text: str) -> bool:
        agent(None)  # type: ignore[arg-type]
        return True

    with ChatServer(says(SHORT)) as server:
        given: dict[str, Any] = {"agent": agent} if own == "agent" else {"evaluators": [check]}
        run_suite(Harness.build(store, make(server, 3, concurrency), **given))
    assert len(threads) == most
    assert (threading.current_thread() in threads) == (most == 1)


def test_a_server_that_breaks_makes_errors_of_its_samples_alone(store: LoopStore) -> None:
    """The engine has tried again itself: the loop does not multiply that."""

    def some(call: Call) -> None:
        broken = "mug 1" in call.body["messages"][0]["content"]
        (sends(b"down", 503) if broken else says(SHORT))(call)

    with ChatServer(some) as server:
        task = make(server, 6, 3)
        summary = run_suite(Harness.build(store, task))
    assert (summary.total.errors, summary.total.final_passed, summary.exit_code(task)) == (1, 5, 4)
    assert len(server.calls) == 6
    (broken,) = [each for each in store.attempts(summary.run.id) if each.error is not None]
    assert (broken.sample_id, broken.finish_reason) == ("s1", "engine_error")
    assert "answered 503: down" in (broken.error or "")


def test_how_answers_come_may_change_in_a_run_and_what_decides_them_may_not(store: LoopStore) -> None:
    with ChatServer(says(LONG)) as server:
        stopped = run_suite(Harness.build(store, make(server, 4, 2, limits=BudgetSpec(attempts=2))))
        task = make(server, 4, 1)
        slower = task.model_copy(
            update={"engine": task.engine.model_copy(update={"max_retries": 9, "time_limit_s": 5})}
        )
        finished = run_suite(Harness.build(store, slower), resume=True)
    assert (finished.run.id, finished.run.status) == (stopped.run.id, "finished")


def test_a_server_that_is_not_there_leaves_no_run(store: LoopStore) -> None:
    with ChatServer(says(SHORT)) as server:
        task = make(server, 2, 2)
    with pytest.raises(Exception, match="no connection; is the server running"):
        run_suite(Harness.build(store, task))
    assert store.runs() == []


def test_threads_share_a_budget_exactly() -> None:
    """Two hundred try to begin; as many as the limit allows may, whatever their order."""
    budget, begun, go = Budget(BudgetSpec(attempts=50)), [], threading.Barrier(20)

    def begin() -> None:
        go.wait(30)
        for _ in range(10):
            try:
                budget.begin()
            except BudgetStop:
                continue
            begun.append(True)
            budget.count(make_attempt())

    _run(begin, 20)
    assert len(begun) == budget.num_attempts == 50
    budget = Budget(BudgetSpec(attempts=1))
    budget.begin()
    with pytest.raises(BudgetStop, match=r"limits\.attempts: 1 of 1 attempts made"):
        budget.begin()
    budget.drop()
    budget.begin()  # what was not kept counts for nothing


def _run(work: Callable[[], None], num_threads: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
