"""Judging stored outputs again: nothing is generated, every row comes back, and the diff says what the change did."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopeng import Attempt, Loop, Sample, evaluator
from loopeng.attempt.events import AttemptFinished, ProgressEvent, RunFinished, RunStarted, SampleFinished
from loopeng.cli.run_names import read_report
from loopeng.errors import NotFoundError, UsageError
from loopeng.ports import AgentContext, AgentResult
from loopeng.report.json_report import json_report
from loopeng.report.markdown import markdown_report
from loopeng.report.terminal import run_text
from loopeng.run_diff import Key
from loopeng.schema import Task, Usage
from loopeng.task_file import task_from_dict

WORDS = {"s0": "one", "s1": "one two", "s2": "one two three", "s3": "one two three four"}
KEPT = ("policy", "seed", "temperature", "messages", "text", "trajectory", "usage", "latency_s", "fingerprint")


def make_task(most: int = 2, words: Mapping[str, str] = WORDS, **changes: Any) -> Task:
    samples = [{"id": name, "text": text, "gold": text.split()[-1], "split": "gate"} for name, text in words.items()]
    keys = {
        "version": 1,
        "name": "echo",
        "prompt": {"name": "echo", "template": "{{ text }}{{ rules }}"},
        "dataset": {"samples": samples, "id": "id", "split": "split", "target": "gold"},
        "evaluators": [{"id": "short", "type": "length", "max_words": most}],
        "loop": {"max_attempts": 2, "retry": "resample", "temperatures": [0, 0.5]},
        "improve": {"enabled": False},
    }
    return task_from_dict({**keys, **changes})


def echo(messages: Sequence[Mapping[str, str]], params: Mapping[str, Any]) -> str:
    return messages[-1]["content"]


def _never(messages: Sequence[Mapping[str, str]], params: Mapping[str, Any]) -> str:
    raise AssertionError("something was generated")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "loop.db"


@pytest.fixture
def original(db: Path) -> str:
    """s0 and s1 pass at most two words at once; s2 and s3 fail twice."""
    with Loop.open(db, engine=echo) as loop:
        return loop.run(make_task()).run.id


@pytest.fixture
def loop(db: Path, original: str) -> Iterator[Loop]:
    """After the run, with an engine that must not be asked."""
    with Loop.open(db, engine=_never) as loop:
        yield loop


def test_new_limits_are_judged_by_without_generating(loop: Loop, original: str) -> None:
    result = loop.rescore(original, make_task(most=3))
    store = loop.store
    assert (result.run.kind, result.run.status, result.run.rescore_of) == ("rescore", "finished", original)
    assert result.score == 0.75 and result.exit_code == 3
    before, after = store.attempts(original), store.attempts(result.run.id)
    assert len(before) == len(after) == 6
    for old, new in zip(before, after, strict=True):
        assert all(getattr(old, name) == getattr(new, name) for name in KEPT)
    diff = result.diff.final.total
    assert (diff.fixed, diff.broken, diff.pairs.both_passed, diff.pairs.both_failed) == ((Key("s2", 0),), (), 2, 1)
    assert result.diff.differences == (
        f"{result.run.id} judges the outputs of {original} again: the answers are the same",
        "task file: evaluators",
    )
    assert result.diff.num_same_text == 4
    assert store.attempts(original) == before


def test_what_the_original_cost_is_told_as_the_originals(loop: Loop, original: str) -> None:
    result = loop.rescore(original)
    report, records = read_report(loop.store, result.run)
    assert result.summary.tokens_per_second is None
    assert f"Nothing was generated; the cost of `{original}`: 6 attempts" in "".join(markdown_report(report, records))
    assert "nothing was generated; the original took: 6 attempts" in run_text(result.summary)
    assert json.loads("".join(json_report(report, records)))["cost"]["of"] == original


def test_an_unchanged_task_gives_the_same_verdicts(loop: Loop, original: str) -> None:
    result = loop.rescore(original)
    assert result.diff.first.total.fixed == result.diff.first.total.broken == ()
    assert result.diff.first.total.p_value == 1.0
    old, new = (loop.store.sample_results(run_id) for run_id in (original, result.run.id))
    assert [each.model_copy(update={"run_id": original}) for each in new] == old


def test_the_same_text_is_judged_again_where_the_text_is_not_all(db: Path) -> None:
    """As in a run: the second attempt says the same in fewer tokens, which is what the evaluator counts."""

    def agent(context: AgentContext) -> AgentResult:
        return AgentResult(text="same words", usage=Usage(generated_tokens=10 - context.attempt_index))

    task = make_task(evaluators=[{"id": "few", "type": "tokens", "max_generated": 9}])
    with Loop.open(db, engine=_never, agent=agent) as loop:
        run = loop.run(task).run
        result = loop.rescore(run.id, task)
        for run_id in (run.id, result.run.id):
            assert [each.verdict for each in loop.store.attempts(run_id, "s0")] == ["fail", "pass"]
        assert result.score == 1.0 and result.diff.final.total.broken == ()


def test_a_corrected_target_counts(loop: Loop, original: str) -> None:
    """The evaluator looks at the target; the answers were right all along."""
    task = make_task(evaluators=[{"id": "last", "type": "contains", "value": "{{ target }}"}])
    assert loop.rescore(original, task).score == 1.0
    wrong = task.model_copy(
        update={"samples": tuple(sample.model_copy(update={"target": "none"}) for sample in task.samples)}
    )
    result = loop.rescore(original, wrong)
    assert result.score == 0.0
    assert any(line.startswith("dataset: ") for line in result.diff.differences)


def test_answers_to_other_inputs_are_left_out_and_named(loop: Loop, original: str) -> None:
    words = {"s0": WORDS["s0"], "s1": "something else", "s9": "new"}
    result = loop.rescore(original, make_task(words=words))
    assert set(result.left_out) == {"s1", "s2", "s3"}
    assert [each.sample_id for each in loop.store.sample_results(result.run.id)] == ["s0"]
    assert len(result.diff.only_before) == 3
    with pytest.raises(UsageError, match=r"no sample of .* the task it was made for"):
        loop.rescore(original, make_task(words={"s9": "new"}))


def test_what_the_engine_broke_stays_an_error(db: Path) -> None:
    def breaks(messages: Sequence[Mapping[str, str]], params: Mapping[str, Any]) -> str:
        if "two" in messages[-1]["content"]:
            raise RuntimeError("out of memory")
        return echo(messages, params)

    with Loop.open(db, engine=breaks) as loop:
        run = loop.run(make_task()).run
    with Loop.open(db, engine=_never) as loop:
        result = loop.rescore(run.id, make_task(most=9))
        assert (result.summary.total.errors, result.summary.total.final_passed, result.exit_code) == (3, 1, 4)
        assert result.diff.final.total.errors == 3


def test_a_broken_evaluator_is_an_error_never_a_fail(loop: Loop, original: str) -> None:
    function = f"{__name__}:always_raises"
    result = loop.rescore(original, make_task(evaluators=[{"id": "bad", "type": "python", "function": function}]))
    assert result.summary.total.errors == 4 and result.exit_code == 4
    assert result.diff.final.total.pairs.num_pairs == 0


def always_raises(sample: Sample, attempt: Attempt) -> bool:
    raise RuntimeError("no")


_MEETING = threading.Barrier(4, timeout=30)
_MET = threading.Event()


def meets_three_others(sample: Sample, attempt: Attempt) -> bool:
    """Raises where no four evaluations are under way at once; those that come after the meeting need no other."""
    if not _MET.is_set():
        _MEETING.wait()
        _MET.set()
    return True


def test_samples_are_judged_side_by_side_and_written_in_order(loop: Loop, original: str) -> None:
    events: list[ProgressEvent] = []
    function = f"{__name__}:meets_three_others"
    task = make_task(evaluators=[{"id": "meeting", "type": "python", "function": function}])
    result = loop.rescore(original, task, jobs=4, on_event=events.append)
    assert result.score == 1.0 and result.summary.total.errors == 0
    started, *middle, finished = events
    assert isinstance(started, RunStarted) and isinstance(finished, RunFinished)
    ended = [event.result.sample_id for event in middle if isinstance(event, SampleFinished)]
    assert ended == ["s0", "s1", "s2", "s3"]
    assert sum(isinstance(event, AttemptFinished) for event in middle) == 6


_THREADS: set[str] = set()


def notes_its_thread(sample: Sample, attempt: Attempt) -> bool:
    _THREADS.add(threading.current_thread().name)
    return True


@pytest.mark.parametrize("in_a_composite", [False, True])
def test_functions_of_the_user_are_called_by_one_thread_unless_more_are_asked_for(
    loop: Loop, original: str, in_a_composite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    spec: dict[str, Any] = {"id": "mine", "type": "python", "function": f"{__name__}:notes_its_thread"}
    if in_a_composite:
        spec = {"id": "both", "type": "composite", "evaluators": [spec]}
    _THREADS.clear()
    loop.rescore(original, make_task(evaluators=[spec]))
    assert len(_THREADS) == 1


_COUNTED: list[str] = []


def counts_calls(sample: Sample, attempt: Attempt) -> bool:
    _COUNTED.append(sample.id)
    return True


def test_a_stopped_rescore_goes_on_and_counts_nothing_twice(loop: Loop, original: str) -> None:
    task = make_task(evaluators=[{"id": "calls", "type": "python", "function": f"{__name__}:counts_calls"}])

    def stop_early(event: ProgressEvent) -> None:
        if isinstance(event, SampleFinished) and event.result.sample_id == "s1":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.rescore(original, task, jobs=1, on_event=stop_early)
    (stopped,) = loop.store.runs(kind="rescore")
    assert stopped.status == "interrupted" and len(loop.store.sample_results(stopped.id)) == 2
    with pytest.raises(UsageError, match="the task changed since it began"):
        loop.rescore(original, make_task(most=5), resume=True)
    _COUNTED.clear()
    result = loop.rescore(original, task, resume=True)
    assert result.run.id == stopped.id and result.run.status == "finished"
    assert sorted(_COUNTED) == ["s2", "s2", "s3", "s3"]  # two attempts each: it gets the attempt, not the text alone
    assert len(loop.store.sample_results(stopped.id)) == 4 and len(loop.store.attempts(stopped.id)) == 6
    with pytest.raises(NotFoundError, match="no unfinished rescore"):
        loop.rescore(original, task, resume=True)


def test_a_sample_that_was_half_written_keeps_its_first_word(loop: Loop, original: str) -> None:
    """Killed between an attempt's row and the sample's: the result is that of the rows, whatever evaluators say now."""

    def stop_at_once(event: ProgressEvent) -> None:
        if isinstance(event, AttemptFinished):
            raise KeyboardInterrupt

    task = make_task(evaluators=[{"id": "moody", "type": "moody-at-resume"}])
    with pytest.raises(KeyboardInterrupt):
        loop.rescore(original, task, jobs=1, on_event=stop_at_once)
    result = loop.rescore(original, task, resume=True)
    verdicts = {each.sample_id: each.verdict for each in loop.store.sample_results(result.run.id)}
    assert verdicts["s0"] == loop.store.attempts(result.run.id, "s0")[0].verdict == "pass"


_MOODS = iter([True])


@evaluator("moody-at-resume")
def moody(text: str) -> bool:
    """Content the first time only."""
    return next(_MOODS, False)


def test_repeats_and_later_attempts_come_along(db: Path) -> None:
    """Every stored attempt is judged, also those after one that passes now; the first pass is the best one."""
    with Loop.open(db, engine=echo) as loop:
        run = loop.run(make_task(run={"repeats": 2})).run
        result = loop.rescore(run.id, make_task(most=9, run={"repeats": 2}))
        rows = loop.store.sample_results(result.run.id)
        assert [(each.sample_id, each.repeat) for each in rows] == [(f"s{n}", r) for n in range(4) for r in range(2)]
        assert {each.num_attempts for each in rows if each.sample_id in ("s2", "s3")} == {2}
        assert {each.best_attempt_index for each in rows} == {0}
        assert result.score == 1.0


def test_a_rescore_shapes_no_proposal_and_no_resume(loop: Loop, original: str) -> None:
    result = loop.rescore(original, make_task(most=1))
    assert result.score == 0.25
    assert loop.store.patterns_of_run(result.run.id) == []
    assert [run.id for run in loop.store.runs(kind="suite")] == [original]


def test_a_rescore_can_be_judged_again(loop: Loop, original: str) -> None:
    first = loop.rescore(original, make_task(most=3))
    second = loop.rescore(first.run.id, make_task(most=4))
    assert second.run.rescore_of == first.run.id and second.score == 1.0


def test_unknown_runs_and_empty_ones_are_refused(loop: Loop, db: Path) -> None:
    with pytest.raises(NotFoundError):
        loop.rescore("run-nothing")
    with Loop.open(db, engine=echo) as other:
        empty = other.run(make_task(limits={"total_time_s": 1e-9})).run
    with pytest.raises(UsageError, match="no finished samples"):
        loop.rescore(empty.id)
