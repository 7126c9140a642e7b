"""Two runs side by side: pairs, what is dropped, what differs besides the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopeng import Loop
from loopeng.report.diff_text import Answers, diff_document, diff_text
from loopeng.run_diff import Key, RunDiff, diff_runs
from tests.loopeng.test_rescoring import make_task

LETTERS = {"a": "a", "b": "b", "c": "c", "d": "d"}
EVALUATORS = [
    {"id": "good", "type": "contains", "value": "good"},
    {"id": "short", "type": "length", "max_words": 2},
]


def _run(db: Path, answers: Mapping[str, str | None], **changes: Any) -> str:
    """One attempt a sample; None breaks the engine."""

    def answer(messages: Sequence[Mapping[str, str]], params: Mapping[str, Any]) -> str:
        text = answers[messages[-1]["content"][0]]
        if text is None:
            raise RuntimeError("lost")
        return text

    keys = {"evaluators": EVALUATORS, "loop": {"max_attempts": 1, "retry": "resample"}} | changes
    with Loop.open(db, engine=answer) as loop:
        return loop.run(make_task(words=keys.pop("words", LETTERS), **keys)).run.id


def _diff(db: Path, before: str, after: str) -> RunDiff:
    with Loop.open(db) as loop:
        return diff_runs(loop.store, before, after)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "loop.db"


def test_fixed_broken_same_and_dropped(db: Path) -> None:
    before = _run(db, {"a": "bad", "b": "good", "c": "good", "d": "good"})
    after = _run(db, {"a": "good", "b": "good and long", "c": "good", "d": None})
    diff = _diff(db, before, after)
    total = diff.first.total
    assert (total.fixed, total.broken, total.errors) == ((Key("a", 0),), (Key("b", 0),), 1)
    assert (total.pairs.num_pairs, total.pairs.both_passed, total.pairs.both_failed) == (3, 1, 0)
    assert (total.difference, total.p_value) == (0.0, 1.0)
    assert diff.first.evaluators["good"].fixed == (Key("a", 0),)
    assert diff.first.evaluators["short"].broken == (Key("b", 0),)
    assert diff.differences == ()
    assert diff.num_same_text == 1

    shown = diff_text(diff, {Key("a", 0): Answers("bad", "good")})
    assert "2/3 (67 %)" in shown and "dropped for errors: 1 of the first attempts, 1 in the end" in shown
    assert 'before "bad"\n    after  "good"' in shown
    document = diff_document(diff, {})
    assert document["first"]["fixed_samples"] == [{"sample_id": "a", "repeat": 0}]
    assert document["first"]["evaluators"]["good"]["fixed"] == 1


def test_the_same_run_twice_differs_in_nothing(db: Path) -> None:
    before = _run(db, {"a": "bad", "b": "good", "c": "good", "d": "good"})
    diff = _diff(db, before, before)
    assert diff.first.total.fixed == diff.first.total.broken == ()
    assert diff.num_same_text == diff.num_pairs == 4
    low, high = diff.first.total.interval
    assert low < 0 < high


def test_an_id_that_means_something_else_by_now_is_no_pair(db: Path) -> None:
    """Sample b was rewritten between the runs: its two answers are to different questions."""
    before = _run(db, dict.fromkeys("abcd", "bad"))
    after = _run(db, dict.fromkeys("abcd", "good"), words=LETTERS | {"b": "b, but asked otherwise"})
    diff = _diff(db, before, after)
    assert (diff.num_pairs, diff.other_inputs) == (3, (Key("b", 0),))
    assert diff.first.total.fixed == (Key("a", 0), Key("c", 0), Key("d", 0))
    assert diff.only_before == diff.only_after == ()
    assert "other inputs under the same id, not compared: b" in diff_text(diff, {})
    assert diff_document(diff, {})["other_inputs"] == [{"sample_id": "b", "repeat": 0}]


def test_equal_tasks_may_run_other_code(db: Path) -> None:
    """An evaluator's function was changed between the runs; nothing that is stored says so, and so the text does."""
    run = _run(db, dict.fromkeys("abcd", "good"))
    said = diff_text(_diff(db, run, run), {})
    assert "no difference but chance and code: same task and engine" in said
    assert "the code of evaluators and agents is not compared" in said


def test_the_other_way_round_fixed_is_broken(db: Path) -> None:
    before = _run(db, {"a": "bad", "b": "bad", "c": "bad", "d": "good"})
    after = _run(db, dict.fromkeys("abcd", "good"))
    there, back = _diff(db, before, after).final.total, _diff(db, after, before).final.total
    assert there.fixed == back.broken and there.broken == back.fixed == ()
    assert there.p_value == back.p_value == 0.25
    assert there.interval == pytest.approx(tuple(-limit for limit in reversed(back.interval)))


def test_what_else_differs_is_said_first(db: Path) -> None:
    before = _run(db, dict.fromkeys("abcd", "good"))
    after = _run(
        db,
        dict.fromkeys("abcz", "good"),
        words={"a": "a", "b": "b", "c": "c", "z": "z"},
        name="other",
        prompt={"name": "echo", "template": "{{ text }}!{{ rules }}"},
        run={"seed": 5, "min_pass_rate": 0.5},
    )
    diff = _diff(db, before, after)
    said = "\n".join(diff.differences)
    assert "task: echo -> other" in said
    assert "prompt: echo version 1 -> echo version 2" in said
    assert "seed: 0 -> 5" in said
    assert "task file: run" in said
    assert "dataset: " in said
    assert (diff.only_before, diff.only_after) == ((Key("d", 0),), (Key("z", 0),))
    lines = diff_text(diff, {}).splitlines()
    assert lines[0].startswith("before: run-") and lines[1].startswith("  task: ")
    assert any(line.startswith(f"only in {before}, not compared: d") for line in lines)


def test_another_engine_and_an_unfinished_run_are_said(db: Path) -> None:
    from loopeng.engines.scripted import ScriptedEngine

    before = _run(db, dict.fromkeys("abcd", "good"))
    with Loop.open(db, engine=ScriptedEngine(lambda request: "good", reference="{}")) as loop:
        task = make_task(words=LETTERS, evaluators=EVALUATORS, limits={"attempts": 2})
        after = loop.run(task).run.id
    diff = _diff(db, before, after)
    said = "\n".join(diff.differences)
    assert "engine kind: " in said and " -> scripted" in said
    assert f"{after} is not complete (budget)" in said
    assert diff.num_pairs == 2 and len(diff.only_before) == 2


def test_repeats_count_by_sample(db: Path) -> None:
    """Three repeats of four samples, all better: p is that of four, not of twelve."""
    before = _run(db, dict.fromkeys("abcd", "bad"), run={"repeats": 3})
    after = _run(db, dict.fromkeys("abcd", "good"), run={"repeats": 3})
    total = _diff(db, before, after).final.total
    assert total.pairs.fixed == 12 and total.p_value == 0.125
    low, high = total.interval
    assert low < 0.55 and high == 1.0
    assert "a (repeat 1)" in diff_text(_diff(db, before, after), {})
