"""Patterns that people merge and mute: one decision each, and nothing counted twice or lost."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import ConflictError, LoopError, NotFoundError, UsageError
from loopeng.store import LoopStore


def test_a_merge_moves_past_and_future_failures(store: LoopStore, make: Any) -> None:
    first, second = make.run(), make.run()
    source = make.pattern("v1:a", run=first)
    make.pattern("v1:a", run=first, sample_id="s2")
    into = make.pattern("v2:b", run=first)  # s1 showed both: it counts once
    kept = store.merge_patterns(source[:6], into, by=" ana ", reason="the same")
    assert (kept.id, kept.num_occurrences, kept.num_samples) == (into, 2, 2)
    gone = store.pattern(source)
    assert (gone.merged_into, gone.num_occurrences, store.occurrences(source)) == (into, 0, [])
    assert gone.state_reason == f"merged into {into} by ana: the same"

    assert make.pattern("v1:a", run=second) == into  # and its fingerprint leads on
    assert make.pattern("v1:a", run=second) == into
    assert store.pattern(into).num_occurrences == 3
    assert store.pattern_of_fingerprint("describe", "v1:a") == into
    assert store.pattern_of_fingerprint("describe", "v1:none") is None


def test_a_merge_is_a_decision_that_stays(store: LoopStore, make: Any) -> None:
    source, into = make.pattern("v2:a"), make.pattern("v2:b")
    store.merge_patterns(source, into, by="ana", reason="the same")
    for pattern_id in (source, into):
        (decision,) = store.pattern_decisions(pattern_id)
        assert (decision.action, decision.by, decision.reason) == ("merge", "ana", "the same")
        assert (decision.proposal_id, decision.revision, decision.automatic) == (None, None, False)
        assert decision.evidence["pattern_ids"] == [source, into] and decision.evidence["num_occurrences"] == 1
    assert [each.action for each in store.decisions(prompt_name="describe")] == ["merge"]


def test_merges_in_a_row_lead_to_the_last(store: LoopStore, make: Any) -> None:
    run = make.run()
    a, b, c = (make.pattern(f"v2:{name}", run=run, sample_id=name) for name in "abc")
    store.merge_patterns(a, b, by="ana")
    store.merge_patterns(b, c, by="ana")
    assert store.pattern(c).num_samples == 3
    assert make.pattern("v2:a", run=make.run()) == c
    with pytest.raises(ConflictError, match=f"{b} was merged: name {c}"):
        store.merge_patterns(make.pattern("v2:d"), b, by="ana")
    with pytest.raises(ConflictError, match=f"{a} was merged: name {c}"):
        store.merge_patterns(a, c, by="ana")
    with pytest.raises(ConflictError, match=f"{a} was merged: name {c}"):
        store.merge_patterns(c, a, by="ana")  # no circle


def test_what_cannot_be_merged_is_left_alone(store: LoopStore, make: Any) -> None:
    a, b = make.pattern("v2:a"), make.pattern("v2:b")
    run = make.run()
    broken = store.record_occurrence(
        prompt_name="describe", prompt_version_id=run.prompt_version_id, run_id=run.id, sample_id="s1",
        fingerprint="v2:e", evaluator="short", category="grader.error", reason="x", remedy=None, fault_side="grader",
    )  # fmt: skip
    make.prompt_name = "title"
    other = make.pattern("v2:a")
    make.prompt_name = "describe"
    refused: list[tuple[str, str, str, type[LoopError]]] = [
        (a, a, f"{a} cannot be merged into itself", UsageError),
        (a, other, "only failures of one prompt can be merged", UsageError),
        (a, broken, "the fault of the model, .* of the grader", UsageError),
        (a, "pat-none", "no failure pattern 'pat-none'", NotFoundError),
    ]
    for source, into, message, kind in refused:
        with pytest.raises(kind, match=message):
            store.merge_patterns(source, into, by="ana")
    with pytest.raises(UsageError, match="needs a name"):
        store.merge_patterns(a, b, by=" ")
    proposal = make.proposal(pattern_ids=(a,))
    with pytest.raises(ConflictError, match=rf"{proposal.id} \(drafting\) is about {a}: decide it first, or merge the"):
        store.merge_patterns(a, b, by="ana")
    assert store.decisions() == [] and store.pattern(a).num_occurrences == 1
    assert store.merge_patterns(b, a, by="ana").state == "proposed"  # the other way round


def test_a_watched_pattern_is_not_merged_away(store: LoopStore, make: Any) -> None:
    """Its watch would see no failure ever again, and call the mistake fixed."""
    watched = make.pattern("v2:a")
    make.committed(pattern_ids=(watched,))
    fresh = make.pattern("v2:b", run=make.run(version=store.head("describe")))
    with pytest.raises(ConflictError, match=f"{watched} is being watched"):
        store.merge_patterns(watched, fresh, by="ana")
    assert store.merge_patterns(fresh, watched, by="ana").num_samples == 1


def test_a_remedy_found_later_reaches_the_pattern_that_stayed(store: LoopStore, make: Any) -> None:
    run = make.run()
    a, b = make.pattern("v2:a", run=run), make.pattern("v2:b", run=run)
    store.merge_patterns(a, b, by="ana")
    store.record_occurrence(
        prompt_name="describe", prompt_version_id=run.prompt_version_id, run_id=run.id, sample_id="s9",
        fingerprint="v2:a", evaluator="short", category="c", reason="r", remedy="New.", fault_side="model",
    )  # fmt: skip
    assert store.pattern(b).remedy == "New."


def test_muting_and_unmuting(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    muted = store.mute_pattern(pattern_id, by="ana", reason=" long names ")
    assert (muted.state, muted.state_reason) == ("muted", "long names")
    make.pattern(sample_id="s2")
    assert store.pattern(pattern_id).num_samples == 2  # counted as before
    with pytest.raises(ConflictError, match=f"{pattern_id} is muted already: long names"):
        store.mute_pattern(pattern_id, by="ben", reason="x")
    back = store.unmute_pattern(pattern_id[:7], by="ben", reason="not any more")
    assert (back.state, back.state_reason) == ("open", None)
    with pytest.raises(ConflictError, match=f"{pattern_id} is open, not muted"):
        store.unmute_pattern(pattern_id, by="ben")
    told = [(each.action, each.by, each.reason) for each in store.pattern_decisions(pattern_id)]
    assert told == [("mute", "ana", "long names"), ("unmute", "ben", "not any more")]


@pytest.mark.parametrize(("by", "reason", "needs"), [("", "x", "needs a name"), ("ana", " ", "needs a reason")])
def test_nobody_mutes_without_a_name_and_a_reason(
    store: LoopStore, make: Any, by: str, reason: str, needs: str
) -> None:
    pattern_id = make.pattern()
    with pytest.raises(UsageError, match=needs):
        store.mute_pattern(pattern_id, by=by, reason=reason)
    assert store.pattern(pattern_id).state == "open" and store.decisions() == []


def test_an_unmuted_pattern_is_what_it_would_be(store: LoopStore, make: Any) -> None:
    """Open after a proposal that ended meanwhile, proposed while one is open, fixed where it was fixed."""
    pattern_id = make.pattern()
    proposal = make.proposal(pattern_ids=(pattern_id,))
    store.mute_pattern(pattern_id, by="ana", reason="x")
    assert store.unmute_pattern(pattern_id, by="ana").state == "proposed"
    store.mute_pattern(pattern_id, by="ana", reason="x")
    store.move_proposal(proposal.id, to="archived", frm={"drafting"})
    assert store.pattern(pattern_id).state == "muted"
    assert store.unmute_pattern(pattern_id, by="ana").state == "open"
    store.set_pattern_state(pattern_id, "fixed")
    store.mute_pattern(pattern_id, by="ana", reason="x")
    assert store.unmute_pattern(pattern_id, by="ana").state == "fixed"


def test_a_merged_pattern_is_neither_muted_nor_unmuted(store: LoopStore, make: Any) -> None:
    a, b = make.pattern("v2:a"), make.pattern("v2:b")
    store.merge_patterns(a, b, by="ana")
    with pytest.raises(ConflictError, match=f"name {b}"):
        store.mute_pattern(a, by="ana", reason="x")
    with pytest.raises(ConflictError, match=f"name {b}"):
        store.unmute_pattern(a, by="ana")


def test_what_suite_runs_saw_of_the_reflect_split(store: LoopStore, make: Any) -> None:
    """Repeats are one sample; a sample counts as judged where one of its first attempts could be."""
    run = make.run()
    for sample, split, repeat, verdict in [
        ("s1", "reflect", 0, "error"),
        ("s1", "reflect", 1, "fail"),
        ("s2", "reflect", 0, "error"),
        ("s3", "gate", 0, "pass"),
    ]:
        store.save_sample_result(
            make.sample_result(run.id, sample_id=sample, split=split, repeat=repeat, first_verdict=verdict)
        )
    gate = make.run(kind="gate")
    store.save_sample_result(make.sample_result(gate.id, sample_id="s4"))
    seen = {(each.sample_id, each.judged) for each in store.seen_samples(run.prompt_version_id)}
    assert seen == {("s1", True), ("s2", False)}
    make.pattern(run=run)
    (failure,) = store.failures_under(run.prompt_version_id)
    assert (failure.run_id, failure.sample_id, failure.at) == (run.id, "s1", run.created_at)
