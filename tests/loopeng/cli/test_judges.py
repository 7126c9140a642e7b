"""A judge in a task: what the report of a run says of its cost and its anchors, and what comes from the cache."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

JUDGE = """\
  - id: tone
    type: llm_judge
    criteria:
      - {id: calm, description: The text does not shout.}
    anchors: anchors.jsonl
    engine: {kind: scripted, script: judge.yaml}
"""
JUDGE_SCRIPT = """\
replies:
  - {when: "</answer>.*could not be used", say: '{"verdicts": {"calm": "pass"}}'}
  - {when: "<answer>.*today.*</answer>", say: '{"reasoning": "It shouts.", "verdicts": {"calm": "fail"}}'}
  - {when: "<answer>.*odd.*</answer>", say: "pass"}
default: '{"reasoning": "Calm.", "verdicts": {"calm": "pass"}}'
"""


def add_judge(shop: Shop) -> None:
    shop.change("  - {id: short, type: length, max_words: 10}\n", JUDGE)
    shop.write("judge.yaml", JUDGE_SCRIPT)
    anchors = [
        {"answer": "A mug.", "expect": "pass"},
        {"answer": "Buy it today!", "expect": "fail"},
        {"answer": "It is an odd mug.", "expect": {"calm": "pass"}},
        {"answer": "BUY IT NOW", "expect": "fail"},
    ]
    shop.write("anchors.jsonl", "".join(json.dumps(row) + "\n" for row in anchors))


def test_a_run_shows_cost_agreement_and_doubt_and_the_next_asks_only_what_is_new(shop: Shop, invoke: Invoke) -> None:
    add_judge(shop)
    first = invoke("run", "--no-improve", code=3).stdout
    assert re.search(r"judges\n  tone: \d+ calls? · \d+ from the cache · [\d,]+ tokens generated", first)
    assert "anchors, calm: agrees with 3/4 (75 %), kappa 0.50" in first
    assert "warning: below 80 % agreement on calm: do not trust this judge there" in first
    run_id = re.search(r"run (run-\w+)", first)[1]  # type: ignore[index]
    assert "anchors, calm: agrees with 3/4" in invoke("runs", "show", run_id).stdout

    document = json.loads(invoke("run", "--no-improve", "--json", code=3).stdout)
    (judge,) = document["judges"]
    assert judge["evaluator"] == "tone"
    assert judge["usage"]["num_calls"] == 0 < judge["usage"]["num_cached"]
    assert judge["anchors"]["accuracy"] == {"calm": 0.75}
    assert judge["anchors"]["doubtful"] == ["calm"]
    assert judge["anchors"]["usage"]["num_calls"] == 5, "anchors are judged anew in every run"
    assert judge["anchors"]["usage"]["num_asked_again"] == 1


def test_written_reports_exports_and_rescores_know_the_judge(shop: Shop, invoke: Invoke) -> None:
    """Its cost, and how far it agrees with people; a rescore judges the anchors anew, as a run does."""
    add_judge(shop)
    invoke("run", "--no-improve", code=3)
    document = json.loads(invoke("report", "-f", "json").stdout)
    (judge,) = document["judges"]
    assert judge["usage"]["num_calls"] > 0 and judge["anchors"]["accuracy"] == {"calm": 0.75}
    for kind in ("text", "md", "junit"):
        told = invoke("report", "-f", kind).stdout.replace("\\", "")
        assert "agrees with 3/4 (75 %)" in told and "do not trust this judge there" in told
    calls = judge["usage"]["num_calls"] + judge["anchors"]["usage"]["num_calls"]
    exported = json.loads(invoke("export").stdout)["results"]
    assert exported["stats"]["tokenUsage"]["assertions"]["numRequests"] == calls
    each = [result["tokenUsage"]["assertions"]["numRequests"] for result in exported["results"]]
    assert sum(each) == judge["usage"]["num_calls"]
    role = json.loads(invoke("export", "-f", "inspect").stdout)["stats"]["role_usage"]["grader"]
    assert role["total_tokens"] == exported["stats"]["tokenUsage"]["assertions"]["total"] > 0

    shop.write("anchors.jsonl", '{"answer": "A mug.", "expect": "pass"}\n')
    rescored = json.loads(invoke("rescore", "--json", code=3).stdout)["run"]["id"]
    with LoopStore.open(shop.db) as store:
        (report,) = store.anchor_reports(rescored)
    assert (report.num_anchors, report.criteria[0].accuracy) == (1, 1.0)


def test_check_says_how_often_a_judge_will_be_asked(shop: Shop, invoke: Invoke) -> None:
    """15 samples, two attempts, three votes; and the anchors."""
    add_judge(shop)
    shop.change("    anchors:", "    votes: 3\n    anchors:")
    assert "plus up to 90 calls of judges and 12 about anchors" in invoke("check").stdout
    cost = json.loads(invoke("check", "--json").stdout)["cost"]
    assert (cost["judge_calls"], cost["anchor_calls"]) == (90, 12)


def test_check_finds_mistakes_in_a_judge_and_asks_none(shop: Shop, invoke: Invoke) -> None:
    add_judge(shop)
    invoke("check")
    shop.write("anchors.jsonl", '{"answer": "A mug.", "expect": {"clam": "pass"}}\n')
    refused = invoke("check", code=2).stderr
    assert "anchors.jsonl:1: anchor 1: there is no criterion 'clam' (did you mean 'calm'?)" in " ".join(refused.split())
    shop.change("engine: {kind: scripted, script: judge.yaml}", "engine: {model: ./no-such-folder}")
    shop.change("    anchors: anchors.jsonl\n", "")
    assert "there is no file or folder" in invoke("check", code=2).stderr


def test_a_run_without_judges_says_nothing_of_them(shop: Shop, invoke: Invoke) -> None:
    assert "judges" not in invoke("run", "--no-improve", code=3).stdout


def test_a_resumed_run_does_not_judge_its_anchors_twice(shop: Shop, invoke: Invoke, tmp_path: Path) -> None:
    add_judge(shop)
    shop.change("loop: {max_attempts: 2", "limits: {attempts: 5}\nloop: {max_attempts: 2")
    invoke("run", "--no-improve", code=5)
    shop.change("limits: {attempts: 5}", "limits: {attempts: 500}")
    invoke("run", "--no-improve", "--resume", code=3)
    with LoopStore.open(shop.db) as store:
        (run,) = store.runs()
        (report,) = store.anchor_reports(run.id)
    assert report.num_anchors == 4
