"""The agent with two tools: a sound data set, tools that are safe, and the whole loop around a LangGraph agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loopeng import Loop, Task, load_task
from loopeng.evaluators.trajectory import calls_in
from loopeng.references import import_reference
from loopeng.schema.task import EngineSpec
from specdec_core.integrations.reply_form import call_text
from tests.evals.scripted_shop import script

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "evals" / "suites" / "agent-tools"
RULE = "Look up every product with find_product, by its name in the singular, and work out sums with calculate."
find_product = import_reference("shop_agent:find_product", SUITE)
calculate = import_reference("shop_agent:calculate", SUITE)


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SUITE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


def scripted(folder: Path, document: dict[str, Any], **changes: Any) -> Task:
    (folder / "script.json").write_text(json.dumps(document), encoding="utf-8")
    engine = EngineSpec(kind="scripted", script=str(folder / "script.json"))
    return load_task(SUITE).model_copy(update={"engine": engine, **changes})


def test_the_expected_calls_lead_to_the_target() -> None:
    tools = {"find_product": find_product, "calculate": calculate}
    for row in rows():
        results = [tools[call["name"]].invoke(call["args"]) for call in row["calls"]]
        last = json.loads(results[-1])
        found = last.values() if isinstance(last, dict) else [last]
        assert any(abs(value - row["target"]) < 0.005 for value in found), (row, results)


def test_the_questions_are_different_and_spread_over_the_splits() -> None:
    assert len({row["question"] for row in rows()}) == len({row["id"] for row in rows()}) == 36
    assert Counter(row["split"] for row in rows()) == {"reflect": 9, "gate": 18, "holdout": 9}
    for split in ("reflect", "gate", "holdout"):
        kinds = Counter(tuple(call["name"] for call in row["calls"]) for row in rows() if row["split"] == split)
        assert len(kinds) == 4 and max(kinds.values()) <= 6


def test_a_product_that_is_not_there_is_told_with_those_that_are() -> None:
    assert json.loads(find_product.invoke({"name": " Mug "})) == {"price_eur": 8.5, "weight_g": 320, "in_stock": 40}
    assert find_product.invoke({"name": "mugs"}).startswith("There is no product 'mugs'. There are: basket, blanket,")


@pytest.mark.parametrize(
    ("expression", "result"),
    [("2 * (3 + 4)", "14"), ("-1.5 / 2", "-0.75"), ("0.1 + 0.2", "0.3"), (" 10 ", "10"), ("86.40 / 4", "21.6")],
)
def test_the_calculator_reckons(expression: str, result: str) -> None:
    assert calculate.invoke({"expression": expression}) == result


@pytest.mark.parametrize(
    "expression", ["1 / 0", "2 ** 9", "__import__('os')", "'a' * 9", "True + 1", "x", "", "(" * 300, "1" * 5000 + "/3"]
)
def test_the_calculator_refuses_with_words(expression: str) -> None:
    assert "cannot be worked out" in calculate.invoke({"expression": expression})


def test_a_run_finds_the_failures_the_feedback_mends_them_and_a_rule_is_proposed(tmp_path: Path) -> None:
    """``loopeng run`` as users type it: all attempts go through LangGraph."""
    folder = tmp_path / "agent-tools"
    shutil.copytree(SUITE, folder, ignore=shutil.ignore_patterns(".loopeng", "__pycache__"))
    (folder / "script.json").write_text(json.dumps(script(rows())), encoding="utf-8")
    text = (folder / "task.yaml").read_text(encoding="utf-8")
    engine = next(line for line in text.splitlines() if line.startswith("engine:"))
    (folder / "task.yaml").write_text(text.replace(engine, "engine: {kind: scripted, script: script.json}"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("LOOPENG_DB", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "loopeng", "run", "task.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert RULE in done.stdout
    with Loop.open(folder / ".loopeng" / "loop.db") as loop:
        (proposal,) = loop.queue()
        (suite_run,) = loop.store.runs(kind="suite")
        attempts = loop.store.attempts(suite_run.id)
        report = loop.store.gate_report(proposal.id, 1)
        patterns = {(each.evaluator, each.category) for each in loop.store.patterns("shop-question")}
    assert patterns == {("tools", "tool_calls.missing"), ("number", "numeric.wrong")}
    assert report is not None and (report.verdict, report.pairs.fixed, report.pairs.broken) == ("pass", 18, 0)
    first, second = ([each for each in attempts if each.attempt_index == index] for index in (0, 1))
    assert len(first) == len(second) == 36
    assert {each.verdict for each in first} == {"fail"} and {each.verdict for each in second} == {"pass"}
    by_id = {row["id"]: row for row in rows()}
    for attempt in second:
        assert [vars(call) for call in calls_in(attempt.trajectory)] == by_id[attempt.sample_id]["calls"]
        assert attempt.usage.generated_tokens > 0 and attempt.policy == "critique"


def test_an_agent_that_goes_on_calling_is_stopped_and_judged_by_what_it_did(tmp_path: Path) -> None:
    endless = {"default": call_text([("find_product", {"name": "lamp"})])}
    task = scripted(tmp_path, endless, samples=load_task(SUITE).samples[:1])
    with Loop.open(tmp_path / "loop.db") as loop:
        result = loop.run(task, improve=False)
        attempt = loop.store.attempts(result.run.id)[0]
    assert (attempt.verdict, attempt.text) == ("fail", "")
    assert [call.name for call in calls_in(attempt.trajectory)] == ["find_product"] * 6


def test_an_unknown_tool_or_wrong_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    row = rows()[0]
    document = script([row], told="")
    wrong = [call_text([("find_product", {"product": "teapot"})]), call_text([("order", {})])]
    right = document["replies"]
    replies = [{"when": f"(?:Error of.*){{{n}}}", "say": say} for n, say in ((1, wrong[1]), (0, wrong[0]))]
    document["replies"] = [{"when": "Error of.*Error of.*Result of", "say": right[0]["say"]}]
    document["replies"] += [{"when": "Error of.*Error of", "say": right[1]["say"]}, *replies]
    task = scripted(tmp_path, document, samples=load_task(SUITE).samples[:1])
    with Loop.open(tmp_path / "loop.db") as loop:
        result = loop.run(task, improve=False)
        attempt = loop.store.attempts(result.run.id)[0]
    assert attempt.verdict == "pass", attempt.results
    errors = [each["content"] for each in attempt.trajectory if each["type"] == "tool" and each["status"] == "error"]
    assert len(errors) == 2 and "name" in errors[0] and "order is not a valid tool" in errors[1]
