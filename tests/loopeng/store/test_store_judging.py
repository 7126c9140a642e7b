"""Replies of judges, anchors of a run, and what judging cost, added up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from loopeng.errors import StoreError
from loopeng.schema import AnchorReport, CriterionAgreement, EvalResult, JudgeUsage
from loopeng.store import LoopStore

REPORT = AnchorReport(
    evaluator="tone",
    num_anchors=4,
    num_errors=1,
    first_error="ValueError: é \U0001f600",
    criteria=(CriterionAgreement(criterion="polite", num_items=3, num_agreed=2, kappa=None),),
    min_agreement=0.8,
    usage=JudgeUsage(num_calls=5, latency_s=0.25),
)


def test_the_first_reply_stays(store: LoopStore) -> None:
    assert store.judge_reply("k") is None
    assert store.save_judge_reply("k", "one \ud800") is True
    assert store.save_judge_reply("k", "two") is False
    assert store.judge_reply("k") == "one ?"


def test_a_read_waits_for_no_writer(store: LoopStore) -> None:
    store.save_judge_reply("k", "one")
    read: list[str | None] = []
    with store._database.write():
        thread = threading.Thread(target=lambda: read.append(store.judge_reply("k")))
        thread.start()
        thread.join(20)
        assert read == ["one"]


def test_a_report_is_kept_once_for_each_evaluator_of_a_run(store: LoopStore, make: Any) -> None:
    run, other = make.run(), make.run()
    assert store.save_anchor_report(run.id, REPORT) is True
    assert store.save_anchor_report(run.id, REPORT.model_copy(update={"num_errors": 0})) is False
    assert store.save_anchor_report(run.id, REPORT.model_copy(update={"evaluator": "form"})) is True
    assert [each.evaluator for each in store.anchor_reports(run.id)] == ["form", "tone"]
    assert store.anchor_reports(run.id)[1] == REPORT
    assert store.anchor_reports(other.id) == []
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.save_anchor_report("run-none", REPORT)


def test_usage_is_added_up_by_evaluator_whatever_an_attempt_repeats(store: LoopStore, make: Any) -> None:
    def result(evaluator: str, **metadata: Any) -> EvalResult:
        return EvalResult(evaluator=evaluator, score=1, passed=True, metadata=metadata)

    run = make.run()
    usage = JudgeUsage(num_calls=2, num_cached=1, prompt_tokens=10, generated_tokens=3, latency_s=0.5)
    asked = (result("tone", judge_usage=usage.model_dump()), result("short"), result("odd", judge_usage="mine"))
    broken = EvalResult(evaluator="tone", error="unreadable", metadata={"judge_usage": usage.model_dump()})
    store.save_attempt(make.attempt(run.id, results=asked))
    store.save_attempt(make.attempt(run.id, attempt_index=1, results=(broken,)))
    store.save_attempt(make.attempt(run.id, attempt_index=2, results=asked, duplicate_of=0))  # judged all the same
    parts = (result("both", parts=[{"evaluator": "tone", "metadata": {"judge_usage": usage.model_dump()}}]),)
    store.save_attempt(make.attempt(run.id, attempt_index=3, results=parts))
    store.save_attempt(make.attempt(make.run().id, results=asked))
    assert store.judge_usage(run.id) == {"tone": usage + usage + usage, "both": usage}
    assert store.judge_usage("run-none") == {}
