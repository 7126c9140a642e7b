"""Anchors: labelled items, judged anew in every run, and what the report says of a judge that disagrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.cli.judge_views import judge_views
from loopeng.errors import BudgetStop, TaskError
from loopeng.evaluators import build_evaluators
from loopeng.evaluators.judge.anchors import cohens_kappa
from loopeng.ports import AnchoredEvaluator, EvaluationContext, TextRequest
from loopeng.report.judges import judge_document, judges_text
from loopeng.runner import run_suite
from loopeng.schema import AnchorReport, EvaluatorSpec
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import make_harness, make_task
from tests.loopeng.evaluators.judge.judging import CLEAR, POLITE, Engine, Replies, ruling

ANCHORS = [
    {"answer": "Dear Ana", "expect": "pass"},
    {"answer": "Dear Bea", "expect": "pass"},
    {"answer": "Go away", "expect": "fail"},
    {"answer": "Dear, go away", "expect": "fail"},
]


def likes_dear(request: TextRequest) -> str:
    """A judge that falls for a word."""
    answer = request.messages[-1].content.partition("\n<answer>\n")[2]
    return ruling(criteria="pass" if answer.startswith("Dear") else "fail")


def spec(**keys: Any) -> dict[str, Any]:
    return {"id": "polite", "type": "llm_judge", "criteria": "It is polite", "anchors": ANCHORS} | keys


def report(engine: Any, base_dir: Path | None = None, **keys: Any) -> AnchorReport:
    (built,) = build_evaluators([spec(**keys)], base_dir)
    assert isinstance(built, AnchoredEvaluator)
    made = built.judge_anchors(EvaluationContext(engine=engine))
    assert made is not None
    return made


def test_agreement_and_kappa_by_criterion() -> None:
    made = report(Engine(likes_dear))
    (polite,) = made.criteria
    assert (polite.criterion, polite.num_items, polite.num_agreed, polite.accuracy) == ("criteria", 4, 3, 0.75)
    assert polite.kappa == pytest.approx(0.5)
    assert (made.num_anchors, made.num_errors, made.usage.num_calls) == (4, 0, 4)
    assert made.doubtful == ("criteria",)
    assert report(Engine(likes_dear), min_agreement=0.75).doubtful == ()


def test_what_cannot_be_judged_is_counted_apart() -> None:
    replies = Replies(ruling(criteria="pass"), ruling(criteria="pass"), "?", "?", RuntimeError("down"))
    made = report(Engine(replies))
    assert (made.num_errors, made.criteria[0].num_items, made.criteria[0].num_agreed) == (2, 2, 2)
    assert made.criteria[0].kappa is None
    assert "could not be read" in (made.first_error or "")
    assert made.usage.num_calls == 4 and made.usage.num_asked_again == 1
    nothing = report(None)
    assert (nothing.num_errors, nothing.criteria[0].accuracy, nothing.doubtful) == (4, None, ("criteria",))
    with pytest.raises(BudgetStop):
        report(Engine(Replies(BudgetStop("enough"))))


def test_labels_by_criterion_with_inputs_and_values_of_a_scale(tmp_path: Path) -> None:
    rows = [
        {"answer": "a", "inputs": {"name": "Ana"}, "target": "T1", "expect": {"polite": "pass", "clear": 5}},
        {"answer": "b", "inputs": {"name": "Bea"}, "target": "T2", "expect": {"clear": "fail"}},
    ]
    (tmp_path / "anchors.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    replies = Replies(ruling(polite="pass", clear=4), ruling(polite="pass", clear=1))
    made = report(
        Engine(replies), tmp_path, criteria=[POLITE, CLEAR], anchors="anchors.jsonl", reference="{{ target }}"
    )
    assert [(each.criterion, each.num_agreed, each.num_items) for each in made.criteria] == [
        ("polite", 1, 1),
        ("clear", 2, 2),
    ]
    assert "name: Ana" in replies.prompts[0] and "<reference>\nT2\n" in replies.prompts[1]


@pytest.mark.parametrize(
    ("anchors", "says"),
    [
        ([{"answer": "a"}], "anchor 1: expect is missing"),
        ([ANCHORS[0], {"answer": "a", "expect": "good"}], "anchor 2: expect must be 'pass' or 'fail'"),
        ([{"answer": "a", "expect": {"polit": "pass"}}], "there is no criterion 'polit'"),
        ([{"answer": "a", "expect": {}}], "'expect' is empty"),
        ([{"answer": "a", "expect": "pass", "input": {}}], "unknown key 'input'"),
        ("anchors.csv", "'anchors.csv' is no .jsonl file"),
        ("none.jsonl", "none.jsonl: there is no such file"),
        ("bad.jsonl", "bad.jsonl:2: not JSON"),
        ("empty.jsonl", "empty.jsonl: there are no anchors in it"),
    ],
)
def test_mistakes_in_anchors_are_found_when_the_task_is_read(tmp_path: Path, anchors: Any, says: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"answer": "a", "expect": "pass"}\n{', encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        build_evaluators([spec(criteria=[{**POLITE, "id": "criteria"}], anchors=anchors)], tmp_path)
    assert says in str(caught.value)


def test_two_criteria_must_be_named() -> None:
    with pytest.raises(TaskError, match="'expect' must name the criteria"):
        build_evaluators([spec(criteria=[POLITE, CLEAR])])


def friendly(request: TextRequest) -> str:
    return likes_dear(request) if "<answer>" in request.messages[-1].content else "Dear friend"


def suite(store: LoopStore, **keys: Any) -> Any:
    task = make_task(3, max_attempts=1, evaluators=(EvaluatorSpec.model_validate(spec(**keys)),))
    harness = make_harness(store, friendly, task)
    return harness, run_suite(harness)


def test_a_judge_inside_a_composite_is_held_to_its_anchors_too(store: LoopStore) -> None:
    """Two of them with the same id, so each report names the whole as well."""
    wholes = [
        {"id": whole, "type": "composite", "evaluators": [spec(), {"id": "short", "type": "length", "max_words": 9}]}
        for whole in ("one", "other")
    ]
    task = make_task(2, max_attempts=1, evaluators=tuple(map(EvaluatorSpec.model_validate, wholes)))
    run_id = run_suite(make_harness(store, friendly, task)).run.id
    reports = store.anchor_reports(run_id)
    assert [(each.evaluator, each.num_anchors, each.doubtful) for each in reports] == [
        ("one/polite", 4, ("criteria",)),
        ("other/polite", 4, ("criteria",)),
    ]
    views = judge_views(store, run_id)
    assert [(view.evaluator, view.usage.num_calls) for view in views] == [
        ("one", 2),
        ("other", 2),
        ("one/polite", 0),
        ("other/polite", 0),
    ]
    lines = judges_text(views).splitlines()
    assert "  one/polite:" in lines, "its costs are told with the whole's"
    assert lines[lines.index("  one/polite:") + 1].strip().startswith("anchors, criteria: agrees with 3/4")


def test_where_a_limit_stopped_the_run_anchors_wait_for_the_resume(store: LoopStore) -> None:
    """The money is gone; and what is left of the run may be made tomorrow."""
    for limits, status, num_reports in (({"attempts": 1}, "budget", 0), ({}, "finished", 1)):
        evaluators = (EvaluatorSpec.model_validate(spec()),)
        task = make_task(2, max_attempts=1, evaluators=evaluators, limits=BudgetSpec(**limits))
        run = run_suite(make_harness(store, friendly, task), resume=status == "finished").run
        assert (run.status, len(store.anchor_reports(run.id))) == (status, num_reports)


def test_a_run_judges_its_anchors_once_and_reports_them(store: LoopStore) -> None:
    harness, summary = suite(store)
    _, second = suite(store)
    assert len(store.anchor_reports(second.run.id)) == 1
    (view,) = judge_views(store, summary.run.id)
    assert (view.usage.num_calls, view.anchors) == (3, store.anchor_reports(summary.run.id)[0])
    text = judges_text([view])
    assert text.startswith("judges\n  polite: 3 calls · 0 from the cache · ")
    assert "anchors, criteria: agrees with 3/4 (75 %), kappa 0.50" in text
    assert "warning: below 80 % agreement on criteria" in text
    document = judge_document(view)
    assert json.loads(json.dumps(document))["anchors"]["accuracy"] == {"criteria": 0.75}
    assert document["anchors"]["doubtful"] == ["criteria"]  # type: ignore[index]
    assert harness.store.anchor_reports("run-none") == []


def test_anchors_are_judged_anew_though_replies_are_cached(store: LoopStore) -> None:
    engine = Engine(likes_dear)
    (built,) = build_evaluators([spec()])
    assert isinstance(built, AnchoredEvaluator)
    for _ in range(2):
        made = built.judge_anchors(EvaluationContext(engine=engine, cache=store))
        assert made is not None and (made.usage.num_calls, made.usage.num_cached) == (4, 0)


def test_a_judge_without_anchors_says_nothing_of_them(store: LoopStore) -> None:
    _, summary = suite(store, anchors=[])
    (view,) = judge_views(store, summary.run.id)
    assert view.anchors is None and "anchors" not in judges_text([view])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_kappa_is_agreement_beyond_chance(pairs: list[tuple[bool, bool]]) -> None:
    kappa = cohens_kappa(pairs)
    swapped = cohens_kappa([(other, one) for one, other in pairs])
    assert kappa == swapped
    if kappa is not None:
        assert -1 <= kappa <= 1
        assert (kappa == 1) == all(one == other for one, other in pairs)
    else:
        assert len(set(pairs)) <= 1 and all(one == other for one, other in pairs)


def test_kappa_of_a_published_table() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)
