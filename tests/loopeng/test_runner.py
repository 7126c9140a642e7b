"""Suite runs on a real database: budgets, resume, errors, summaries and exit codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loopeng.attempt.events import EngineChanged, RunFinished, RunStarted, TemplateChanged
from loopeng.attempt.harness import Harness
from loopeng.engines.scripted import Script as Replies
from loopeng.engines.scripted import ScriptedEngine, ScriptedReply
from loopeng.errors import ConflictError, EngineError, NotFoundError, UsageError
from loopeng.ports import TextReply, TextRequest
from loopeng.run_summary import RunSummary, SplitSummary, summarize
from loopeng.runner import execute_run, run_suite
from loopeng.schema import Run, Usage, utc_now
from loopeng.schema.task import BudgetSpec, ImproveSpec, RunSpec
from loopeng.store import LeaseOwner, LoopStore
from tests.loopeng.attempt.making import LONG, SHORT, Judge, Script, make_harness, make_samples, make_task


def rows(store: LoopStore, run_id: str) -> list[tuple[Any, ...]]:
    """Everything about the attempts that does not depend on the clock."""
    return [
        (a.sample_id, a.repeat, a.attempt_index, a.seed, a.policy, a.temperature, a.text, a.verdict, a.duplicate_of)
        for a in store.attempts(run_id)
    ]


def test_a_run_covers_all_splits_and_reports_each(store: LoopStore) -> None:
    events: list[Any] = []
    script = Script(LONG, SHORT, SHORT, LONG, LONG + " i", LONG + " j")
    summary = run_suite(make_harness(store, script, on_event=events.append))
    assert summary.run.status == "finished" and summary.attempts == 6
    assert summary.total == SplitSummary(samples=3, first_passed=1, final_passed=2, errors=0, first_errors=0)
    assert {name: (part.first_passed, part.final_passed) for name, part in summary.splits.items()} == {
        "gate": (1, 1),
        "reflect": (0, 1),
        "holdout": (0, 0),
    }
    assert summary.pass_rate("first") == pytest.approx(1 / 3) and summary.pass_rate() == pytest.approx(2 / 3)
    assert isinstance(events[0], RunStarted) and (events[0].num_samples, events[0].num_finished) == (3, 0)
    assert isinstance(events[-1], RunFinished) and events[-1].run == summary.run
    assert summary.run.engine["kind"] == "scripted" and store.task(summary.run.task_hash).name == "mugs"
    assert [pattern.num_occurrences for pattern in store.patterns()] == [1]  # s0, the only reflect sample


def test_repeats_have_seeds_of_their_own_and_count_apart(store: LoopStore) -> None:
    summary = run_suite(make_harness(store, Script(SHORT), make_task(2, run=RunSpec(repeats=3))))
    attempts = store.attempts(summary.run.id)
    assert len({attempt.seed for attempt in attempts}) == 6 and summary.total.samples == 6


def test_limit_takes_the_first_samples(store: LoopStore) -> None:
    summary = run_suite(make_harness(store, Script(SHORT)), limit=2)
    assert [result.sample_id for result in store.sample_results(summary.run.id)] == ["s0", "s1"]


@pytest.mark.parametrize("limits", [{"attempts": 4}, {"total_tokens": 30}])
def test_a_limit_stops_between_attempts_and_a_raised_one_lets_the_run_go_on(store: LoopStore, limits: dict) -> None:
    whole = run_suite(make_harness(store, lambda request: LONG + str(request.seed)))
    assert whole.attempts == 9
    task = make_task(limits=BudgetSpec(**limits))
    stopped = run_suite(make_harness(store, lambda request: LONG + str(request.seed), task))
    assert stopped.run.status == "budget" and stopped.exit_code(task) == 5 and 0 < stopped.attempts < 9
    assert (stopped.run.stop_reason or "").startswith(f"limits.{next(iter(limits))}: ")
    again = run_suite(make_harness(store, lambda request: LONG + str(request.seed), task), resume=True)
    assert again.run.id == stopped.run.id and again.attempts == stopped.attempts  # counted from the rows
    raised = make_task(limits=BudgetSpec(attempts=1000))
    finished = run_suite(make_harness(store, lambda request: LONG + str(request.seed), raised), resume=True)
    assert finished.run.id == stopped.run.id and finished.run.status == "finished"
    assert rows(store, finished.run.id) == rows(store, whole.run.id)


def test_a_limit_that_is_just_enough_does_not_stop(store: LoopStore) -> None:
    assert (
        run_suite(make_harness(store, Script(SHORT), make_task(limits=BudgetSpec(attempts=3)))).run.status == "finished"
    )


def test_wall_time_counts_per_invocation(store: LoopStore) -> None:
    engine = ScriptedEngine(Replies(default=SHORT, delay_s=0.6))
    task = make_task(limits=BudgetSpec(total_time_s=0.5))
    harness = Harness.build(store, task, engine=engine)
    assert run_suite(harness).attempts == 1
    assert run_suite(harness, resume=True).attempts == 2
    last = run_suite(harness, resume=True)
    assert (last.attempts, last.run.status) == (3, "finished")


def test_one_bad_sample_never_stops_the_run(store: LoopStore) -> None:
    def replies(request: TextRequest) -> str:
        if "mug 1" in request.messages[0].content:
            raise MemoryError("too large")
        return SHORT

    task = make_task()
    summary = run_suite(make_harness(store, replies, task))
    assert summary.total == SplitSummary(samples=3, first_passed=2, final_passed=2, errors=1, first_errors=1)
    assert (summary.error_attempts, summary.pass_rate(), summary.exit_code(task)) == (1, 1.0, 4)


def test_ctrl_c_saves_and_is_raised_again(store: LoopStore) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_suite(make_harness(store, Script(LONG, SHORT, LONG, KeyboardInterrupt())))
    (run,) = store.runs()
    assert run.status == "interrupted" and summarize(store, run.id).exit_code(make_task()) == 130
    events: list[Any] = []
    done = run_suite(make_harness(store, Script(SHORT), on_event=events.append), resume=True)
    assert done.run.id == run.id and done.run.status == "finished" and done.attempts == 5
    assert (events[0].num_samples, events[0].num_finished) == (3, 1)


def test_two_processes_do_not_work_on_one_run(store: LoopStore) -> None:
    """Both would count their own budget, and the slower one's Ctrl-C would unfinish what the other has finished."""
    with pytest.raises(KeyboardInterrupt):
        run_suite(make_harness(store, Script(SHORT, KeyboardInterrupt())))
    (run,) = store.runs()
    elsewhere = LeaseOwner(host="elsewhere", pid=1, started_at="1")
    assert store.acquire_lease(f"run:{run.id}", elsewhere), "a run that was stopped gave its lease back"
    with pytest.raises(ConflictError, match=f"another process is at work on {run.id}$"):
        run_suite(make_harness(store, Script(SHORT)), resume=True)
    assert len(store.attempts(run.id)) == 1
    store.release_lease(f"run:{run.id}", elsewhere)
    assert run_suite(make_harness(store, Script(SHORT)), resume=True).total.samples == 3


def test_reasons_with_half_a_character_are_stored(store: LoopStore) -> None:
    """A check that quotes raw bytes may say such a thing; it must not end the run."""

    def odd(text: str) -> dict[str, Any]:
        return {"passed": False, "reason": "got \udc80", "feedback": "not \udc80", "metadata": {"raw": "\udc80"}}

    summary = run_suite(make_harness(store, Script(LONG), make_task(max_attempts=2), evaluators=[odd]))
    assert summary.run.status == "finished"
    (result,) = store.attempts(summary.run.id)[0].results
    assert (result.reason, result.feedback) == ("got ?", "not ?")
    assert [pattern.reason for pattern in store.patterns()] == ["got ?"]


def test_resume_refuses_another_task_and_says_what_changed(store: LoopStore) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_suite(make_harness(store, Script(KeyboardInterrupt())))
    changed = make_task(4, max_attempts=2, run=RunSpec(seed=3))
    with pytest.raises(UsageError, match=r"loop, samples, run.seed changed"):
        run_suite(make_harness(store, Script(SHORT), changed), resume=True)
    harmless = make_task(improve=ImproveSpec(enabled=False), run=RunSpec(min_pass_rate=0.5))
    assert run_suite(make_harness(store, Script(SHORT), harmless), resume=True).run.status == "finished"
    with pytest.raises(NotFoundError, match="no unfinished run: run without --resume"):
        run_suite(make_harness(store, Script(SHORT)), resume=True)
    with pytest.raises(UsageError, match="a suite of 'other'"):
        run_suite(make_harness(store, Script(SHORT), make_task(name="other")), run_id=store.runs()[0].id)


def test_a_resumed_run_keeps_its_prompt_version_and_notes_another_engine(store: LoopStore) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_suite(make_harness(store, Script(SHORT, KeyboardInterrupt())))
    version = store.runs()[0].prompt_version_id
    store.adopt_template("describe", "New {{ product }}{{ rules }}", by="somebody")
    events: list[Any] = []
    other = ScriptedEngine(Replies(replies=(ScriptedReply(when="Describe", say=SHORT),)))
    harness = Harness.build(store, make_task(), engine=other, on_event=events.append)
    summary = run_suite(harness, resume=True)
    assert summary.run.prompt_version_id == version and summary.run.status == "finished"
    (changed,) = [event for event in events if isinstance(event, EngineChanged)]
    assert changed.engine["fingerprint"] == other.describe().fingerprint
    assert [engine["fingerprint"] for engine in store.run_engines(summary.run.id)] == [
        "scripted:" + summary.run.engine["fingerprint"].split(":")[1],
        other.describe().fingerprint,
    ]


def test_an_edit_of_the_file_is_a_new_version_and_said(store: LoopStore) -> None:
    events: list[Any] = []
    run_suite(make_harness(store, Script(SHORT), on_event=events.append))
    assert not [event for event in events if isinstance(event, TemplateChanged)]
    edited = make_task(template="Please describe {{ product }}{{ rules }}")
    summary = run_suite(make_harness(store, Script(SHORT), edited, on_event=events.append))
    (event,) = [event for event in events if isinstance(event, TemplateChanged)]
    assert event.version.number == 2 and summary.run.prompt_version_id == event.version.id == store.head("describe").id


def test_an_engine_that_cannot_be_made_leaves_no_run(store: LoopStore) -> None:
    def broken(messages: object, params: object) -> str:
        raise AssertionError

    class Broken:
        def generate(self, request: TextRequest) -> TextReply: ...  # type: ignore[empty-body]

        def describe(self) -> Any:
            raise EngineError("no such model")

    with pytest.raises(EngineError, match="no such model"):
        run_suite(Harness.build(store, make_task(), engine=Broken()))
    assert store.runs() == []


def test_a_crash_before_the_end_is_made_good_by_a_resume(store: LoopStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mining comes before the run is finished, so that a kill between the two loses nothing."""
    task = make_task(make_samples(2, "reflect"), max_attempts=1)
    harness = make_harness(store, Script(LONG), task)
    version, _, _ = store.adopt_template("describe", task.template, by="test")
    run = store.create_run(
        kind="suite", task=task, version=version, seed=0, engine=harness.engine.describe().model_dump()
    )

    def crash(status: str) -> None:
        raise OSError(f"power is gone before {status}")

    with pytest.raises(OSError, match="power is gone before finished"):
        execute_run(harness, run, version, task.samples, before_finish=crash)
    assert store.run(run.id).status == "running" and store.patterns() == []
    assert run_suite(harness, resume=True).run.id == run.id
    assert [pattern.num_occurrences for pattern in store.patterns()] == [2]


def test_both_arms_of_a_gate_draw_the_same_seeds(store: LoopStore) -> None:
    task = make_task()
    script = Script(SHORT)
    harness = make_harness(store, script, task)
    base, _, _ = store.adopt_template("describe", task.template, by="test")
    seeds = []
    for arm in ("baseline", "candidate"):
        run = store.create_run(kind="gate", task=task, version=base, seed=11, proposal_id=None, revision=None, arm=arm)
        execute_run(harness, run, base, task.samples[1:2], max_attempts=1, repeats=1)
        seeds.append([attempt.seed for attempt in store.attempts(run.id)])
    assert seeds[0] == seeds[1] and len(seeds[0]) == 1


def test_a_broken_callback_stops_the_run_which_can_be_resumed(store: LoopStore) -> None:
    def on_event(event: object) -> None:
        if type(event).__name__ == "SampleFinished":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_suite(make_harness(store, Script(SHORT), on_event=on_event))
    assert run_suite(make_harness(store, Script(SHORT)), resume=True).total.samples == 3


def test_on_first_attempts_and_thresholds_decide_the_exit_code() -> None:
    run = Run(
        id="r", kind="suite", task_name="t", task_hash="h", prompt_name="p", prompt_version_id="v", created_at=utc_now()
    )
    finished = run.model_copy(update={"status": "finished"})

    def summary(of: Run, samples: int, first: int, final: int, errors: int = 0) -> RunSummary:
        total = SplitSummary(samples, first, final, errors, errors)
        return RunSummary(of, total, {}, 0, 0, Usage(), 0.0, None, None)

    whole = make_task()
    half_first = make_task(run=RunSpec(min_pass_rate=0.5, on="first"))
    assert summary(finished, 4, 2, 4).exit_code(whole) == 0
    assert summary(finished, 4, 2, 3).exit_code(whole) == 3
    assert summary(finished, 4, 2, 2).exit_code(half_first) == 0
    assert summary(finished, 4, 1, 4).exit_code(half_first) == 3
    assert summary(finished, 4, 0, 0, errors=1).exit_code(whole) == 4
    assert summary(finished, 4, 0, 0, errors=4).pass_rate() == 0.0
    assert summary(run.model_copy(update={"status": "budget"}), 4, 4, 4, errors=0).exit_code(whole) == 5
    assert summary(run, 4, 4, 4).exit_code(whole) == 130


def test_speed_and_acceptance_come_from_the_rows(store: LoopStore) -> None:
    class Engine:
        def generate(self, request: TextRequest) -> TextReply:
            usage = Usage(prompt_tokens=5, generated_tokens=11, decode_passes=4, draft_tokens=8, accepted_tokens=6)
            return TextReply(text="ok", usage=usage, latency_s=0.5)

        def describe(self) -> Any:
            return ScriptedEngine(lambda request: "").describe()

    harness = replace(make_harness(store, Script(""), evaluators=[Judge()]), engine=Engine())
    summary = run_suite(harness)
    assert summary.acceptance_length == pytest.approx(2.5)
    assert summary.usage == Usage(
        prompt_tokens=15, generated_tokens=33, decode_passes=12, draft_tokens=24, accepted_tokens=18
    )
    assert summary.tokens_per_second == pytest.approx(33 / summary.latency_s)
