"""A run in every written format: whole, valid, and harmless whatever the model said."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import defusedxml.ElementTree
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.report.csv_table import csv_report, safe_cell
from loopeng.report.inspect_log import inspect_export
from loopeng.report.json_report import json_report, json_text
from loopeng.report.junit import junit_report, xml_text
from loopeng.report.markdown import markdown_report, markdown_text
from loopeng.report.promptfoo import promptfoo_export
from loopeng.report.rates_text import text_report
from tests.loopeng.report.conftest import ANSWERS, Run, Written
from tests.loopeng.report.export_shapes import INSPECT_LOG, PROMPTFOO_FILE


def _joined(write: Callable[..., Any], written: Written, **options: Any) -> str:
    return "".join(write(written.report, written.records, **options))


def _strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_everything_once(run_of: Run) -> None:
    document = _strict(_joined(json_report, run_of()))
    assert document["rates"]["total"]["final"] == pytest.approx(
        {"passed": 1, "judged": 7, "errors": 1, "rate": 1 / 7, "low": 0.0257, "high": 0.5131, "clusters": 7}, abs=1e-4
    )
    assert set(document["rates"]) == {"total", "gate", "reflect", "holdout"}
    assert document["rates"]["total"]["evaluators"]["no-boom"]["first"]["errors"] == 1
    samples = {sample["id"]: sample for sample in document["samples"]}
    assert {name: sample["attempts"][0]["text"] for name, sample in samples.items()} == ANSWERS
    assert samples["boom"]["verdict"] == "error"
    assert samples["plain"]["attempts"][0]["results"][1]["passed"] is True
    assert all("target" not in sample for sample in samples.values())
    assert "samples" not in document["task"] and document["task"]["num_samples"] == len(ANSWERS)


def test_targets_are_there_when_asked_for(run_of: Run) -> None:
    written = run_of()
    with_them = _strict(_joined(json_report, written, targets=True))
    assert {sample["target"] for sample in with_them["samples"]} == {f"gold-{name}" for name in ANSWERS}
    assert "target" not in next(csv.reader(io.StringIO(_joined(csv_report, written))))
    rows = csv.DictReader(io.StringIO(_joined(csv_report, written, targets=True)))
    assert {row["target"] for row in rows} == {f"gold-{name}" for name in ANSWERS}


def test_numbers_that_json_lacks_become_null() -> None:
    assert _strict(json_text({"a": [float("inf"), {"b": float("nan")}], "c": 1})) == {"a": [None, {"b": None}], "c": 1}


def test_junit_is_valid_and_tells_failures_from_errors(run_of: Run) -> None:
    root = defusedxml.ElementTree.fromstring(_joined(junit_report, run_of()).encode())
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "8", "6", "1")
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [
        f"hostile <task> & co.{s}" for s in ("gate", "reflect", "holdout")
    ]
    for suite in suites:
        for name, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
            assert suite.get(name) == str(len(suite.findall(tag)))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == set(ANSWERS)
    assert cases["plain"].find("failure") is None and cases["plain"].find("error") is None
    assert cases["boom"].find("failure") is None
    assert "the grader fell over� at <line 3>" in (cases["boom"].find("error").get("message") or "")  # type: ignore[union-attr]
    assert cases["markup"].find("system-out").text == ANSWERS["markup"]  # type: ignore[union-attr]
    assert cases["control"].find("system-out").text == "bad��[2J� bell� � end\r\nsecond line"  # type: ignore[union-attr]
    assert cases["markup"].find("failure").get("type") == "python.failed"  # type: ignore[union-attr]
    assert all(case.find("properties/property[@name='attempts']").get("value") == "1" for case in cases.values())  # type: ignore[union-attr]


def test_junit_cuts_long_answers_and_names_repeats(run_of: Run) -> None:
    written = run_of({"long": "x" * 50_000}, run={"repeats": 2})
    root = defusedxml.ElementTree.fromstring(_joined(junit_report, written))
    assert [case.get("name") for case in root.iter("testcase")] == ["long [repeat 0]", "long [repeat 1]"]
    assert all(len(each.text or "") < 11_000 for each in root.iter("system-out"))


def test_junit_judges_as_the_task_says(run_of: Run) -> None:
    """Bad at first, good in the end."""
    changes = {"loop": {"max_attempts": 2, "retry": "critique"}}
    for on, failures in (("first", "1"), ("final", "0")):
        written = run_of({"late": ["bad", "good"]}, run={"on": on}, **changes)
        root = defusedxml.ElementTree.fromstring(_joined(junit_report, written))
        assert root.get("failures") == failures
        assert len(root.findall(".//failure")) == int(failures)


@given(st.text())
def test_any_text_is_xml_content(text: str) -> None:
    root = defusedxml.ElementTree.fromstring(f"<a>{xml_text(text)}</a>")
    read = root.text or ""
    assert len(read) == len(text)
    assert all(after == before or after == "\ufffd" for before, after in zip(text, read, strict=True))


def test_csv_rows_come_back_as_they_went(run_of: Run) -> None:
    written = run_of()
    rows = list(csv.DictReader(io.StringIO(_joined(csv_report, written), newline="")))
    assert [row["sample"] for row in rows] == sorted(ANSWERS)
    by_name = {row["sample"]: row for row in rows}
    assert by_name["formula"]["output"] == f"'{ANSWERS['formula']}"
    assert by_name["minus"]["output"] == "'-2+3"
    assert by_name["quote"]["output"] == ANSWERS["quote"]
    assert by_name["boom"]["no-boom.passed"] == "error" and by_name["boom"]["verdict"] == "error"
    assert by_name["plain"]["says-good.passed"] == "true"
    assert by_name["plain"]["inputs"].startswith("{")


def test_csv_has_a_row_per_attempt_when_asked(run_of: Run) -> None:
    written = run_of({"a": ["bad", "good"], "b": "good"}, loop={"max_attempts": 3, "retry": "critique"})
    rows = list(csv.DictReader(io.StringIO(_joined(csv_report, written, rows="attempts"), newline="")))
    found = [(row["sample"], row["attempt"], row["verdict"], row["kept"]) for row in rows]
    assert found == [("a", "0", "fail", "false"), ("a", "1", "pass", "true"), ("b", "0", "pass", "true")]


@given(st.text())
def test_no_cell_begins_as_a_formula(text: str) -> None:
    cell = safe_cell(text)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert cell.lstrip("'").replace("\ufffd", "\x00") == text.lstrip("'").replace("\ufffd", "\x00")


def test_markdown_shows_hostile_text_as_text(run_of: Run) -> None:
    page = _joined(markdown_report, run_of())
    assert page.startswith("## hostile \\<task\\> \\& co: 1 of 7 pass, 1 could not be judged\n")
    assert "goal: 100 % of the samples pass in the end: not reached by those that could be judged" in page
    assert "| says-good | 1/8 (12 %) [2, 47] |" in page
    assert "### 7 samples did not pass" in page
    assert "Reasons may hold expected answers" in page
    assert "Cost: 8 attempts" in page
    assert "\x1b" not in page and "\x00" not in page and "<b>" not in page
    assert r"\@everyone" in page
    rows = [line for line in page.splitlines() if line.startswith("| markup")]
    assert len(rows) == 1 and rows[0].replace("\\|", "").count("|") == 6


def test_markdown_stays_short(run_of: Run) -> None:
    page = _joined(markdown_report, run_of({f"s{number:02d}": "bad " * 300 for number in range(30)}))
    assert "… and 10 more" in page
    assert len(page) < 25_000


@given(st.text())
def test_markdown_text_is_one_line_without_markup(text: str) -> None:
    shown = markdown_text(text)
    assert shown.isprintable()
    bare = shown.replace("\\\\", "")
    assert not any(char in "|<>`*_[]" and (i == 0 or bare[i - 1] != "\\") for i, char in enumerate(bare))


def test_text_has_rates_with_intervals(run_of: Run) -> None:
    text = _joined(text_report, run_of())
    assert "total          8  1/7 (14 %) [3, 51]  1/7 (14 %) [3, 51]       1" in text
    assert "in brackets: 95 % intervals (Wilson), in per cent" in text
    assert 'boom: "boom"' in text and "no-boom: error: RuntimeError: the grader fell over" in text


def test_repeats_are_clustered_by_sample(run_of: Run) -> None:
    """Four samples with three repeats each: a rate of 12, an interval of four."""
    answers = {"a": ["good"], "b": ["good", "bad", "good"], "c": ["bad"], "d": ["bad"]}
    written = run_of(answers, run={"repeats": 3})
    total = _strict(_joined(json_report, written))["rates"]["total"]
    assert (total["final"]["passed"], total["final"]["judged"], total["final"]["clusters"]) == (5, 12, 4)
    assert total["final"]["low"] < 0.08 and total["final"]["high"] > 0.85
    assert total["repeats"] == {"k": 3, "pass_at_k": 0.5, "pass_hat_k": 0.25, "samples": 4}
    text = _joined(text_report, written)
    assert "clustered by sample" in text
    assert (
        "of 3 first attempts at a sample, one passes for 50 % of the samples, all for 25 % (4 samples with 3 that"
        in text
    )
    assert "clustered by sample" in _joined(markdown_report, written)


def test_groups_are_clusters(run_of: Run) -> None:
    samples = [{"id": f"s{n}", "name": "x", "gold": "", "topic": n // 4, "split": "gate"} for n in range(8)]
    dataset = {"samples": samples, "id": "id", "split": "split", "target": "gold", "group": "topic"}
    written = run_of({"x": "good"}, dataset=dataset)
    assert "clustered by group" in _joined(text_report, written)
    assert len(written.report.total.final.clusters) == 2


def test_an_empty_run_can_be_written(run_of: Run) -> None:
    """Stopped before its first sample ended."""
    written = run_of(limits={"total_time_s": 1e-9})
    assert written.report.run.status == "budget"
    assert _strict(_joined(json_report, written))["samples"] == []
    root = defusedxml.ElementTree.fromstring(_joined(junit_report, written))
    assert (root.get("tests"), root.get("errors")) == ("1", "1"), "a run that is not complete is not green"
    assert "0/0" in _joined(text_report, written)
    assert "0 of 0 pass" in _joined(markdown_report, written)
    for rows, first in (("samples", "sample,repeat,split,verdict"), ("attempts", "sample,repeat,split,attempt,kept")):
        (head,) = csv.reader(io.StringIO(_joined(csv_report, written, rows=rows)))
        assert ",".join(head).startswith(first) and head[-1] == "says-good.reason"
    jsonschema.validate(_strict(_joined(promptfoo_export, written)), PROMPTFOO_FILE)
    log = _strict(_joined(inspect_export, written))
    jsonschema.validate(log, INSPECT_LOG)
    assert log["status"] == "cancelled"


def test_a_run_that_was_stopped_says_how_far_it_came(run_of: Run) -> None:
    """Everything that was judged is right, and yet no report looks like a success."""
    written = run_of(dict.fromkeys("abcde", "good"), run={"repeats": 2}, limits={"attempts": 4})
    told = "not complete (limits.attempts: 4 of 4 attempts made): 4 of the task's 10 samples are finished"
    assert told in _joined(text_report, written)
    assert f"**{told}**" in _joined(markdown_report, written).replace("\\", "")
    assert "goal: 100 % of the samples pass in the end: cannot be said" in _joined(text_report, written)
    root = defusedxml.ElementTree.fromstring(_joined(junit_report, written))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "0", "1")
    assert [each.get("message") for each in root.iter("error")] == [told]
    assert sum(int(suite.get("errors") or 0) for suite in root) == 1


def test_errors_of_first_attempts_are_told_where_they_were_mended(run_of: Run) -> None:
    """One of five could not be judged at first; in the end all could."""
    changes = {"loop": {"max_attempts": 2, "retry": "critique"}, "run": {"on": "first", "min_pass_rate": 0.5}}
    written = run_of({**dict.fromkeys("abcd", "good"), "e": ["boom", "good"]}, **changes)
    for write in (text_report, markdown_report):
        assert "1 at first, 0 in the end" in _joined(write, written)
    assert "4 of 4 pass at the first attempt, 1 could not be judged" in _joined(markdown_report, written)
    assert "goal: 50 % of the samples pass at the first attempt: reached by those" in _joined(text_report, written)


def test_pass_at_k_says_what_it_stands_on(run_of: Run) -> None:
    """One repeat of b could not be judged: what the others say is said of them alone."""
    written = run_of({"a": ["good"], "b": ["good", "boom"], "c": ["bad"]}, run={"repeats": 2})
    assert _strict(_joined(json_report, written))["rates"]["total"]["repeats"] == {
        "k": 2,
        "pass_at_k": 0.5,
        "pass_hat_k": 0.5,
        "samples": 2,
    }
    assert "(2 samples with 2 that could be judged)" in _joined(text_report, written)


def test_junit_has_times_that_its_schema_takes(run_of: Run) -> None:
    root = defusedxml.ElementTree.fromstring(_joined(junit_report, run_of()))
    for suite in root:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp") or "")
        cases = [float(case.get("time") or "") for case in suite.iter("testcase")]
        assert float(suite.get("time") or "") == pytest.approx(sum(cases), abs=0.001 * (len(cases) + 1))


def test_promptfoo_finds_what_it_needs(run_of: Run) -> None:
    written = run_of()
    document = _strict(_joined(promptfoo_export, written))
    jsonschema.validate(document, PROMPTFOO_FILE)
    stats = document["results"]["stats"]
    assert (stats["successes"], stats["failures"], stats["errors"]) == (1, 6, 1)
    results = {result["vars"]["name"]: result for result in document["results"]["results"]}
    assert {name: result["response"]["output"] for name, result in results.items()} == ANSWERS
    assert results["plain"]["success"] and results["plain"]["gradingResult"]["pass"]
    assert results["plain"]["prompt"]["raw"] == "Say plain please"
    assert (results["boom"]["failureReason"], results["boom"]["gradingResult"]) == (2, None)
    assert results["minus"]["failureReason"] == 1
    assert [name for name, result in results.items() if "error" in result] == ["boom"]
    assert [each["pass"] for each in results["minus"]["gradingResult"]["componentResults"]] == [True, False]
    assert results["minus"]["vars"]["target"] == "gold-minus"


def test_inspect_finds_what_it_needs(run_of: Run) -> None:
    written = run_of({"a": ["good", "bad"], "boom": "boom"}, run={"repeats": 2})
    log = _strict(_joined(inspect_export, written))
    jsonschema.validate(log, INSPECT_LOG)
    assert list(log)[:5] == ["version", "status", "eval", "plan", "results"]
    assert (log["status"], log["eval"]["config"]["epochs"]) == ("success", 2)
    samples = {(sample["id"], sample["epoch"]): sample for sample in log["samples"]}
    assert samples["a", 1]["scores"]["says-good"]["value"] == "C"
    assert samples["a", 2]["scores"]["says-good"]["value"] == "I"
    assert samples["a", 1]["input"] == "Say a please" and samples["a", 1]["target"] == "gold-a"
    assert "no-boom" not in samples["boom", 1]["scores"] and "fell over" in samples["boom", 1]["error"]["message"]
    scores = {score["name"]: score for score in log["results"]["scores"]}
    assert scores["no-boom"]["unscored_samples"] == 2
    assert scores["says-good"]["metrics"]["accuracy"]["value"] == 0.25


def test_exports_tell_the_verdict_and_scores_between_0_and_1(run_of: Run) -> None:
    """Three of five words is a score of its own, and the task's verdict is more than its evaluators'."""
    evaluators = [
        {"id": "short", "type": "length", "max_words": 3},
        {"id": "good", "type": "contains", "value": "good"},
    ]
    answers = {"a": "good and short", "b": "good but too long by far", "c": "bad"}
    written = run_of(answers, evaluators=evaluators, **{"pass": {"mode": "any"}})
    scores = {record.result.sample_id: record.best.results[0].score for record in written.records}
    assert scores["b"] not in (None, 0.0, 1.0)
    promptfoo = _strict(_joined(promptfoo_export, written))
    (prompt,) = promptfoo["results"]["prompts"]
    assert prompt["metrics"]["namedScores"]["short"] == pytest.approx(sum(each or 0 for each in scores.values()))
    whole = sum(result["score"] for result in promptfoo["results"]["results"])
    assert prompt["metrics"]["score"] == pytest.approx(whole)
    assert prompt["raw"] == promptfoo["config"]["prompts"][0] == "Say {{ name }} please"

    log = _strict(_joined(inspect_export, written))
    verdicts = {sample["id"]: sample["scores"]["loopeng/verdict"]["value"] for sample in log["samples"]}
    assert verdicts == {"a": "C", "b": "C", "c": "C"}
    assert log["results"]["scores"][0]["name"] == log["eval"]["scorers"][0]["name"] == "loopeng/verdict"
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0


@pytest.mark.parametrize("schema", [PROMPTFOO_FILE, INSPECT_LOG])
def test_the_shapes_refuse_what_lacks_something(schema: dict[str, Any], run_of: Run) -> None:
    write = promptfoo_export if schema is PROMPTFOO_FILE else inspect_export
    document = _strict(_joined(write, run_of()))
    inner = document["results"]["results"][0] if schema is PROMPTFOO_FILE else document["samples"][0]
    del inner["prompt" if schema is PROMPTFOO_FILE else "epoch"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)
