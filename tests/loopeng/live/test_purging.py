"""Texts go when their time is over; what was counted stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from loopeng import LiveSettings, Loop
from loopeng.store import LoopStore
from tests.loopeng.live.test_redaction import everything_on_disk
from tests.loopeng.live.traffic import LONG, ask, open_loop, rows, traffic

COUNTED = (
    "SELECT run_id, sample_id, repeat, attempt_index, verdict, score, prompt_tokens, generated_tokens FROM attempt",
    "SELECT run_id, sample_id, repeat, position, evaluator, passed, score, category, remedy FROM eval_result",
    "SELECT * FROM sample_result",
    "SELECT id, run_id, sample_id, repeat, created_at FROM live_call",
    "SELECT * FROM failure_pattern",
    "SELECT * FROM occurrence",
    "SELECT * FROM gate_report",
    "SELECT * FROM decision",
)


def counted(path: Path) -> list[list[tuple[object, ...]]]:
    return [sorted(rows(path, query), key=repr) for query in COUNTED]


def a_week_later(path: Path) -> None:
    """Everything that is there happened a week ago."""
    with LoopStore.open(path)._database.write() as session:
        then = (datetime.now(UTC) - timedelta(days=7)).isoformat(timespec="microseconds")
        session.connection().exec_driver_sql("UPDATE live_call SET created_at = ?", (then,))
        session.connection().exec_driver_sql("UPDATE live_sample SET seen_at = ?, created_at = ?", (then, then))


def test_old_texts_go_and_counts_stay(busy_path: Path) -> None:
    path = busy_path
    with open_loop(path) as loop:
        (proposal,) = loop.propose("live:describe")
        (card,) = loop.queue()
        loop.approve(card.id, by="ana", seen=card.text_hash)
        patterns = loop.store.patterns("describe")
    a_week_later(path)
    before = counted(path)
    with open_loop(path, keep_days=3) as loop:
        done = loop.purge()
        assert (done.num_calls, done.num_samples) == (40, 40)
        assert loop.purge().num_calls == 0
        new = loop.observe(
            "describe", {"product": "new"}, "Kept.", evaluators=[{"id": "x", "type": "length", "max_words": 9}]
        )
        after = counted(path)
        for then, now in zip(before, after, strict=True):
            assert set(then) <= set(now) and len(now) - len(then) <= 1  # the new call's
        assert [sample.inputs for sample in loop.store.live_samples("describe")] == [{"product": "new"}]
        assert loop.store.attempts(new.attempts[0].run_id)[0].text == "Kept."
        assert loop.store.patterns("describe") == patterns
        assert loop.store.gate_report(proposal.id, 1) == card.gate
        for run in loop.store.runs(kind=["live", "gate", "holdout"], limit=None):
            texts = {attempt.text for attempt in loop.store.attempts(run.id)}
            assert texts <= {"", "Kept."}
        found = everything_on_disk(path)
    assert LONG.encode() not in found and b"thing 7" not in found and b"Kept." in found


def test_only_so_many_inputs_are_kept(path: Path) -> None:
    with open_loop(path, keep_samples=5) as loop:
        traffic(loop, 12)
        ask(loop, "thing 0", max_attempts=1)  # an old one, sent again
        loop.purge()
        kept = [sample.inputs["product"] for sample in loop.store.live_samples("describe")]
        assert kept == ["thing 0", "thing 11", "thing 10", "thing 9", "thing 8"]
        (run,) = loop.store.runs(kind="live")
        attempts = loop.store.attempts(run.id)
        assert len(attempts) == 13 and sum(bool(attempt.text) for attempt in attempts) == 6


def test_a_proposal_that_is_open_keeps_what_it_is_made_from(busy_path: Path) -> None:
    path = busy_path
    with open_loop(path) as loop:
        (proposal,) = loop.propose("live:describe")
    a_week_later(path)
    with open_loop(path, keep_days=3) as loop:
        loop.purge()
        task = loop.store.task(proposal.task_hash)
        assert all(sample.inputs for sample in task.samples)
        gate = loop.store.runs(kind="gate")[0]
        assert all(attempt.text for attempt in loop.store.attempts(gate.id))
        (card,) = loop.queue()
        loop.reject(card.id, by="ana", seen=card.text_hash, reason="not now")
        ask(loop, "another", max_attempts=1)
        a_week_later(path)
        loop.purge()
        assert not any(sample.inputs for sample in loop.store.task(proposal.task_hash).samples)
        assert not any(attempt.text for attempt in loop.store.attempts(gate.id))


def test_a_proposal_that_ends_when_its_samples_are_long_gone(busy_path: Path) -> None:
    """No call comes any more, so nothing but ``purge`` looks at its copies, attempts without text among them."""
    path = busy_path
    with open_loop(path) as loop:
        (proposal,) = loop.propose("live:describe")
        (card,) = loop.queue()
        with loop.store._database.write() as session:
            session.connection().exec_driver_sql("UPDATE attempt SET text = '' WHERE sample_id LIKE 'a%'")
    a_week_later(path)
    with open_loop(path, keep_days=3) as loop:
        loop.purge()
        assert all(sample.inputs for sample in loop.store.task(proposal.task_hash).samples)
        loop.reject(card.id, by="ana", seen=card.text_hash, reason="not now")
        assert loop.purge().num_samples == 0
        assert not any(sample.inputs for sample in loop.store.task(proposal.task_hash).samples)
        found = everything_on_disk(path)
    assert LONG.encode() not in found and b"thing 7" not in found and b"Describe thing" not in found


def test_what_reflectors_and_judges_said_goes_as_well(busy_path: Path) -> None:
    path = busy_path
    with open_loop(path) as loop:
        (proposal,) = loop.propose("live:describe")
        (card,) = loop.queue()
        loop.reject(card.id, by="ana", seen=card.text_hash, reason="not now")
        loop.store.save_judge_reply("old", "a judge's word on thing 7")
        said = "INSERT INTO suggestion VALUES (?, 9, 'chosen', '', '[]', NULL, '', 'I saw thing 8', 1, 1, ?)"
        then = (datetime.now(UTC) - timedelta(days=7)).isoformat(timespec="microseconds")
        with loop.store._database.write() as session:
            session.connection().exec_driver_sql("UPDATE judge_reply SET created_at = ?", (then,))
            session.connection().exec_driver_sql(said, (proposal.id, then))
        loop.store.save_judge_reply("new", "a judge's word of today")
    a_week_later(path)
    with open_loop(path, keep_days=3) as loop:
        loop.purge()
        assert (loop.store.judge_reply("old"), loop.store.judge_reply("new")) == (None, "a judge's word of today")
        found = everything_on_disk(path)
    assert b"thing 7" not in found and b"thing 8" not in found


def test_calls_purge_now_and_then_by_themselves(path: Path) -> None:
    with open_loop(path) as loop:
        traffic(loop, 3)
    a_week_later(path)
    with open_loop(path, keep_days=3) as loop:
        ask(loop, "new", max_attempts=1)
    assert [row[0] for row in rows(path, "SELECT json_extract(inputs, '$.product') FROM live_sample")] == ["new"]


def test_nothing_goes_unless_somebody_said_so(loop: Loop, path: Path) -> None:
    traffic(loop, 3)
    a_week_later(path)
    assert loop.purge().num_samples == 0
    assert len(rows(path, "SELECT * FROM live_sample")) == 3
    assert LiveSettings().keep_days is None


def test_what_judging_cost_stays_counted(path: Path) -> None:
    cost = '{"judge_usage": {"prompt_tokens": 7}, "reply": "private"}'
    with open_loop(path) as loop:
        ask(loop, max_attempts=1)
        with loop.store._database.write() as session:
            session.connection().exec_driver_sql("UPDATE eval_result SET metadata = ?, error = 'private'", (cost,))
    a_week_later(path)
    with open_loop(path, keep_days=3) as loop:
        loop.purge()
    assert rows(path, "SELECT metadata, error, reason FROM eval_result") == [
        ('{"judge_usage":{"prompt_tokens":7}}', "purged", "")
    ]
