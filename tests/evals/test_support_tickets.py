"""The support tickets: a fair data set, evaluators that cannot be fooled, and a script that reports whatever comes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.bench.support_tickets import TASK, main, measure, suite_task
from loopeng import Loop
from loopeng.evaluators import build_evaluators, judge_attempt, run_evaluators
from loopeng.prompts import PromptTemplate
from loopeng.references import import_reference
from loopeng.schema import Attempt, EvalResult, Message, Sample, Task, utc_now
from loopeng.schema.task import EngineSpec
from loopeng.task_file import load_task
from tests.evals.scripted_triage import answer_to

SIZES = {"gate": 40, "reflect": 20, "holdout": 20}
URGENCIES = {"gate": (12, 16, 12), "reflect": (6, 8, 6), "holdout": (6, 8, 6)}


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(TASK)


@pytest.fixture(scope="module")
def judge(task: Task) -> Callable[[Sample, str], tuple[str, dict[str, EvalResult]]]:
    evaluators = build_evaluators(task)

    def judged(sample: Sample, text: str) -> tuple[str, dict[str, EvalResult]]:
        prompt = PromptTemplate(task.template).render(sample.inputs)
        attempt = Attempt(
            run_id="run",
            sample_id=sample.id,
            seed=0,
            messages=(Message(role="user", content=prompt),),
            text=text,
            verdict="error",
            created_at=utc_now(),
        )
        results = run_evaluators(evaluators, sample, attempt)
        verdict, _ = judge_attempt(results, task.pass_, {spec.id: spec.weight for spec in task.evaluators})
        return verdict, {result.evaluator: result for result in results}

    return judged


def test_the_tickets_are_many_different_and_short(task: Task) -> None:
    texts = [sample.inputs["ticket"] for sample in task.samples]
    assert len(texts) == len(set(texts)) == len({sample.id for sample in task.samples}) == 80
    assert all(20 <= len(text.split()) <= 60 for text in texts)
    openings = Counter(" ".join(text.split()[:4]) for text in texts)
    assert max(openings.values()) <= 2  # not one text with other words filled in


@pytest.mark.parametrize("split", SIZES)
def test_every_split_holds_every_kind_in_equal_shares(task: Task, split: str) -> None:
    """A gate without urgent tickets would pass a rule that calls nothing urgent."""
    targets = [sample.target for sample in task.samples if sample.split == split]
    assert len(targets) == SIZES[split]
    categories = Counter(target["category"] for target in targets)
    assert set(categories.values()) == {SIZES[split] // 5} and len(categories) == 5
    urgencies = Counter(target["urgency"] for target in targets)
    assert (urgencies["low"], urgencies["medium"], urgencies["high"]) == URGENCIES[split]
    assert 5 <= sum(target["order"] is not None for target in targets) <= len(targets) // 2


def test_an_order_number_stands_in_its_ticket_and_nowhere_else(task: Task) -> None:
    for sample in task.samples:
        numbers = re.findall(r"\b\d{5}\b", sample.inputs["ticket"])
        assert numbers == ([sample.target["order"]] if sample.target["order"] else [])


def test_the_right_answer_passes_every_ticket(
    task: Task, judge: Callable[[Sample, str], tuple[str, dict[str, EvalResult]]]
) -> None:
    assert [sample.id for sample in task.samples if judge(sample, answer_to(sample))[0] != "pass"] == []


@pytest.mark.parametrize("key", ["category", "urgency", "order"])
def test_one_wrong_key_fails_by_its_own_evaluator_alone(
    task: Task, judge: Callable[[Sample, str], tuple[str, dict[str, EvalResult]]], key: str
) -> None:
    other = {"category": ("billing", "other"), "urgency": ("low", "medium"), "order": ("99999", "11111")}[key]
    for sample in task.samples:
        wrong = next(value for value in other if value != sample.target[key])
        verdict, results = judge(sample, json.dumps({**sample.target, key: wrong}))
        assert verdict == "fail"
        assert [each for each, result in results.items() if result.passed is False] == [key]


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        ('```json\n{"category": "billing", "urgency": "low", "order": null}\n```', "json.extra_text"),
        ("billing, low, no order", "category.unreadable"),
        ('{"category": "Billing", "urgency": "low", "order": null}', "category.unknown"),
        ('{"category": "billing", "urgency": "normal", "order": null}', "urgency.unknown"),
        ('{"category": "billing", "urgency": "low", "order": "none"}', "order.invented"),
        ('{"category": "billing", "urgency": "low", "order": ["12345"]}', "order.invented"),
        ('{"category": ["billing"], "urgency": "low", "order": null}', "category.unknown"),
        ("[1, 2]", "json.wrong_type"),
    ],
)
def test_wrong_forms_have_their_category(
    judge: Callable[[Sample, str], tuple[str, dict[str, EvalResult]]], answer: str, category: str
) -> None:
    target = {"category": "billing", "urgency": "low", "order": None}
    sample = Sample(id="x", inputs={"ticket": "How do I pay?"}, target=target, split="reflect")
    verdict, results = judge(sample, answer)
    assert verdict == "fail"
    assert category in {result.category for result in results.values()}


def test_answers_without_thought_do_not_pass(
    task: Task, judge: Callable[[Sample, str], tuple[str, dict[str, EvalResult]]]
) -> None:
    """A constant triage is right now and then, never often; the empty answer and the echo never are."""
    constants = [
        json.dumps({"category": category, "urgency": urgency, "order": None})
        for category in ("billing", "shipping", "technical", "account", "other")
        for urgency in ("low", "medium", "high")
    ]
    for answer in ("", "{}", "null", *constants):
        num_passed = sum(judge(sample, answer)[0] == "pass" for sample in task.samples)
        assert num_passed <= (6 if answer in constants else 0), answer
    for sample in task.samples:
        assert judge(sample, sample.inputs["ticket"])[0] == "fail"
        assert judge(sample, PromptTemplate(task.template).render(sample.inputs))[0] == "fail"


def test_no_remedy_tells_an_answer(task: Task) -> None:
    """A remedy becomes a rule of the prompt: it may name the closed sets, never a ticket's number or words of one."""
    remedies: dict[str, str] = import_reference("triage:REMEDIES", TASK)
    spec_remedies = {spec.remedy for spec in task.evaluators} - {None}
    assert spec_remedies == set()
    for remedy in remedies.values():
        assert len(remedy) <= 4 * task.improve.max_rule_tokens
        words = remedy.split()
        for sample in task.samples:
            assert sample.target["order"] is None or sample.target["order"] not in remedy
            ticket = " ".join(sample.inputs["ticket"].lower().split())
            runs = [" ".join(words[start : start + 5]).lower() for start in range(len(words) - 4)]
            assert not [run for run in runs if run in ticket]


def test_every_category_of_a_failure_has_a_remedy(task: Task) -> None:
    remedies: dict[str, str] = import_reference("triage:REMEDIES", TASK)
    declared = {name for spec in task.evaluators for name in spec.params.get("categories", ())}
    assert declared == remedies.keys()


def test_the_prompt_names_the_closed_sets(task: Task) -> None:
    """What it leaves to be learned is what they mean."""
    for name in ("billing", "shipping", "technical", "account", "other", "low", "medium", "high", "category", "order"):
        assert name in task.template
    assert "null" not in task.template and "deadline" not in task.template


def scripted(script: str, **changes: Any) -> Task:
    engine = EngineSpec(kind="scripted", script=f"tests.evals.scripted_triage:{script}")
    return suite_task(**changes).model_copy(update={"engine": engine})


def test_a_perfect_model_leaves_nothing_to_propose(tmp_path: Path) -> None:
    with Loop.open(tmp_path / "loop.db") as loop:
        result = measure(loop, scripted("perfect"))
    assert result["suite"]["first_attempts"] == {
        split: {"passed": size, "judged": size} for split, size in SIZES.items()
    }
    assert (result["patterns"], result["proposals"], result["error"]) == ([], [], None)


def test_an_invented_order_number_leads_to_the_rule_that_stops_it(tmp_path: Path) -> None:
    with Loop.open(tmp_path / "loop.db") as loop:
        result = measure(loop, scripted("invents_orders"))
    assert result["suite"]["first_attempts"]["gate"] == {"passed": 9, "judged": 40}
    (proposal,) = result["proposals"]
    assert proposal["patterns"] == ["order.invented"] and proposal["state"] == "pending"
    (revision,) = proposal["revisions"]
    assert revision["rules"] == ['The value of "order" is null when the ticket names no order number.']
    assert (revision["gate"]["pairs"]["fixed"], revision["gate"]["pairs"]["broken"]) == (31, 0)
    assert revision["holdout"]["pairs"]["num_pairs"] == 20
    json.dumps(result)  # all of it can be written


def test_a_reflector_that_breaks_is_reported_with_what_was_measured(tmp_path: Path) -> None:
    """An hour of measuring must not be lost because the last step fails."""
    with Loop.open(tmp_path / "loop.db") as loop:
        result = measure(loop, scripted("invents_orders", reflector="tests.evals.scripted_triage:target_of"))
    assert result["suite"]["first_attempts"]["gate"]["judged"] == 40
    assert "reflector" in result["error"]


def test_fewer_tickets_are_a_part_of_each_split() -> None:
    few = suite_task(tickets=3)
    assert Counter(sample.split for sample in few.samples) == {"gate": 3, "reflect": 3, "holdout": 3}


def test_a_reflecting_model_gets_room_for_its_answer() -> None:
    plain, own = suite_task(reflector="llm"), suite_task(reflector="llm", reflector_model="some/model")
    assert plain.improve.engine is not None and plain.improve.engine.model == plain.engine.model
    assert own.improve.engine is not None and own.improve.engine.model == "some/model"
    assert min(plain.improve.engine.max_tokens, own.improve.engine.max_tokens) > 4 * plain.engine.max_tokens
    assert suite_task().improve.engine is None


def test_the_script_writes_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = scripted("invents_orders", tickets=2)
    monkeypatch.setattr("evals.bench.support_tickets.suite_task", lambda *_: task)
    out = tmp_path / "deep" / "out.json"
    assert main(["--out", str(out), "--db", str(tmp_path / "kept.db")]) == 0
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["conditions"]["num_tickets"] == 6 and result["proposals"] == []
    assert json.loads(capsys.readouterr().out)["first_attempts"] == result["suite"]["first_attempts"]
    assert (tmp_path / "kept.db").exists()


def test_a_model_that_is_not_there_is_told_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty-model").mkdir()
    out = tmp_path / "out.json"
    code = main(["--agent", str(tmp_path / "empty-model"), "--tickets", "1", "--out", str(out)])
    assert code != 0 and not out.exists()
    assert "the suite cannot run" in capsys.readouterr().err
