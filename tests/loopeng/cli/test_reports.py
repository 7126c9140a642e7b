"""``report``, ``export``, ``rescore`` and ``runs diff``, as they are typed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from typing import TYPE_CHECKING

import defusedxml.ElementTree
import pytest

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop


def test_a_run_in_every_format(ran: Shop, invoke: Invoke) -> None:
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    text = invoke("report").stdout
    assert f"run {run_id}  shop, prompt describe version 1: finished" in text
    assert re.search(r"total +15 +5/15 \(33 %\) \[15, 58\] +5/15 \(33 %\) \[15, 58\] +0", text)
    assert invoke("report", run_id[:7]).stdout == text

    document = json.loads(invoke("report", "latest", "--format", "json").stdout)
    assert document["run"]["id"] == run_id and len(document["samples"]) == 15
    assert sum(len(sample["attempts"]) for sample in document["samples"]) == 25
    assert invoke("report", "--format", "md").stdout.startswith("## shop: 5 of 15 pass\n")
    junit = defusedxml.ElementTree.fromstring(invoke("report", "--format", "junit").stdout_bytes)
    assert junit.get("tests") == "15"
    rows = list(csv.DictReader(io.StringIO(invoke("report", "--format", "csv").stdout)))
    assert len(rows) == 15
    rows = list(csv.DictReader(io.StringIO(invoke("report", "-f", "csv", "--rows", "attempts").stdout)))
    assert len(rows) == 25


def test_a_file_is_written_whole_or_not_at_all(ran: Shop, invoke: Invoke) -> None:
    result = invoke("report", "--format", "junit", "-o", "out.xml")
    assert result.stdout == "" and "written to out.xml" in result.stderr
    assert defusedxml.ElementTree.fromstring((ran.folder / "out.xml").read_bytes()).get("tests") == "15"
    invoke("report", "--format", "csv", "-o", "out.csv")
    data = (ran.folder / "out.csv").read_bytes()
    assert data.count(b"\r\n") == 16 and b"\r\r" not in data
    for bad in ("nowhere/out.xml", "."):
        assert "cannot write" in invoke("report", "-o", bad, code=2).stderr
    assert {path.name for path in ran.folder.iterdir() if path.name.startswith("out")} == {"out.xml", "out.csv"}
    if os.path.exists("/dev/null"):
        invoke("report", "--format", "json", "-o", "/dev/null")


def test_a_dash_is_stdout(ran: Shop, invoke: Invoke) -> None:
    assert invoke("report", "-f", "csv", "-o", "-").stdout == invoke("report", "-f", "csv").stdout
    assert not (ran.folder / "-").exists()


def test_a_table_on_a_terminal_has_lines_and_no_odd_signs(
    ran: Shop, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from loopeng.cli.writing import write_pieces

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_pieces(["a,b\r\n", "1,\x1b[2J\r\n"], None)
    assert capfdbinary.readouterr().out == "a,b\n1,\ufffd[2J\n".encode()


def test_exports_are_json(ran: Shop, invoke: Invoke) -> None:
    promptfoo = json.loads(invoke("export", "latest", "--format", "promptfoo").stdout)
    assert promptfoo["results"]["stats"]["successes"] == 5
    invoke("export", "--format", "inspect", "-o", "log.json")
    log = json.loads((ran.folder / "log.json").read_text(encoding="utf-8"))
    assert log["results"]["total_samples"] == 15


def test_unknown_runs_and_formats_are_refused(ran: Shop, invoke: Invoke) -> None:
    assert "no run 'run-nothing'" in invoke("report", "run-nothing", code=2).stderr
    assert "'xlsx'" in invoke("report", "--format", "xlsx", code=2).stderr
    assert "no run 'zzz'" in invoke("runs", "diff", "zzz", "latest", code=2).stderr


def test_latest_needs_a_run(shop: Shop, invoke: Invoke) -> None:
    shop.db.parent.mkdir()
    LoopStore.open(shop.db).close()
    for command in (("report",), ("export",), ("rescore",), ("runs", "show", "latest")):
        assert "there is no run yet" in invoke(*command, code=2).stderr


def test_changed_evaluators_are_tried_on_what_was_said(shop: Shop, invoke: Invoke) -> None:
    """The file is edited, the outputs are judged again, and the original stays as it was."""
    invoke("run", "--no-improve", code=3)
    original = invoke("report", "--format", "json").stdout
    shop.change("max_words: 10", "max_words: 100")
    result = invoke("rescore", "latest", code=3)
    assert "judged by task.yaml" in result.stderr
    assert "judges the outputs of" in result.stdout and "task file: evaluators" in result.stdout
    rows = {
        line.split("  ")[1].strip() or line.split()[0]: line for line in result.stdout.splitlines() if "points" in line
    }
    assert "+0 points" in rows["final"] and "+67 points" in rows["short"]  # two sentences fail all the same
    shop.change("type: sentences, max: 1", "type: sentences, max: 2")
    run_id = json.loads(original)["run"]["id"]
    document = json.loads(invoke("rescore", run_id, "--json").stdout)
    assert document["exit_code"] == 0
    assert document["final"]["fixed"] == 10 and document["final"]["broken"] == 0
    assert len(document["final"]["fixed_samples"]) == 10
    assert document["final"]["p_value"] == pytest.approx(2 / 2**10)

    listed = json.loads(invoke("runs", "list", "--kind", "rescore", "--json").stdout)
    assert [each["run"]["engine"]["rescore_of"] for each in listed] == [run_id, run_id]
    assert invoke("report", run_id, "--format", "json").stdout == original
    assert f"outputs of {run_id}, judged again" in invoke("report", "latest").stdout
    assert "rescore" in invoke("runs", "show", "latest", "--json").stdout


def test_another_task_file_can_judge(ran: Shop, invoke: Invoke) -> None:
    text = (ran.folder / "task.yaml").read_text(encoding="utf-8")
    ran.write("lenient.yaml", text.replace("max_words: 10", "max_words: 100").replace("max: 1}", "max: 2}"))
    assert "+67 points" in invoke("rescore", "--task", "lenient.yaml", "-j", "2").stdout


def test_two_runs_are_compared(ran: Shop, invoke: Invoke) -> None:
    ran.write("script.yaml", 'default: "A fine thing."\n')
    first = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    invoke("run", "--no-improve")
    shown = invoke("runs", "diff", first, "latest").stdout
    assert shown.startswith(f"before: {first}   after: run-")
    assert "engine fingerprint: " in shown or "no difference but chance" in shown
    assert "fixed, final (10): p-00, p-01" in shown
    assert 'before "This is a very fine product' in shown and 'after  "A fine thing."' in shown
    assert shown.count("\n    after  ") == 3
    assert invoke("runs", "diff", first, "latest", "--answers", "0").stdout.count("\n    after  ") == 0
    document = json.loads(invoke("runs", "diff", first, "latest", "--json").stdout)
    assert document["final"]["fixed"] == 10 and len(document["answers"]) == 3
    assert document["first"]["evaluators"]["short"]["fixed"] == 10
