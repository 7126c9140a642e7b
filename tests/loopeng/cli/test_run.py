"""``loopeng run`` from the first run to the approved change, and every way it can end."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopeng.api import Loop
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

Started = Callable[..., subprocess.Popen[str]]


def follow_up(output: str, name: str) -> list[str]:
    """The arguments of a command that a report prints, without the program."""
    line = next(line for line in output.splitlines() if line.strip().startswith(f"{name} "))
    words = shlex.split(line.strip().removeprefix(name))
    return words[words.index("loopeng") + 1 :]


def test_from_the_first_run_to_a_better_prompt(shop: Shop, invoke: Invoke) -> None:
    first = invoke("run", code=3).stdout
    assert re.search(r"total +15 +5/15 \(33 %\) +5/15 \(33 %\) +0", first)
    assert re.search(r"reflect +5 +0/5 \(0 %\)", first)
    assert "25 attempts · " in first
    assert "tokens/s" not in first and "acceptance length" not in first  # a script decodes nothing
    assert "goal: 90 % of the samples pass in the end: not reached" in first
    assert re.search(r"pat-\w+  5 samples  short: length.too_long", first)
    assert '"This is a very fine product' in first
    assert "    + Write exactly one sentence.\n" in first
    assert (
        "gate 0/5 -> 5/5 first attempts pass (5 fixed, 0 broken)\n"
        "    holdout 5/5 -> 5/5 first attempts pass (0 fixed, 0 broken): +0 points, 95 % interval -43 to +43\n"
        "    no evidence: p = 0.031 is above alpha 0.025 of look 1, and 5 pairs are too few to tell (expected power "
        "0 %, gate.min_power 80 %)\n    effect +100 points (95 % interval +"
    ) in first
    assert "before: " not in first

    invoke(*follow_up(first, "show"))
    approved = invoke(*follow_up(first, "approve")).stdout
    assert "approved by ana: prompt describe is now version 2" in approved
    second = invoke(*follow_up(approved, "run again")).stdout
    assert re.search(r"total +15 +15/15 \(100 %\)", second)
    assert re.search(
        r"before: run-\w+ under version 1 had first attempts 5/15 \(33 %\), final 5/15 \(33 %\); "
        r"now first attempts 15/15 \(100 %\), final 15/15 \(100 %\)",
        second,
    )
    assert "no recurring failures" in second
    assert "proposal" not in second


@pytest.mark.parametrize("called", ["module", "script that is not on the path"])
def test_the_printed_commands_work_in_a_shell(shop: Shop, called: str) -> None:
    """Typed in as they stand, from another folder than the task's, with a database elsewhere."""
    here = shop.folder.parent
    program = f"{sys.executable} -m loopeng"
    if called != "module":
        program = "own/bin/loopeng"  # as after `make demo`, where nobody activated the environment
        script = here / program
        script.parent.mkdir(parents=True)
        script.write_text(f"#!{sys.executable}\nfrom loopeng.cli import main\nmain()\n")
        script.chmod(0o755)

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(line, shell=True, cwd=here, capture_output=True, text=True, check=False)

    first = shell(f"{program} run shop --db 'a place/x.db'")
    assert (first.returncode, first.stderr) == (3, "")
    approve = next(line for line in first.stdout.splitlines() if line.strip().startswith("approve "))
    assert "--db 'a place/x.db'" in approve
    approved = shell(approve.strip().removeprefix("approve "))
    assert approved.returncode == 0, approved.stderr
    if called != "module":
        return  # what is printed last is made in the same way
    again = next(line for line in approved.stdout.splitlines() if line.strip().startswith("run again "))
    assert shell(again.strip().removeprefix("run again ")).returncode == 0


def test_json_is_one_document(shop: Shop, invoke: Invoke) -> None:
    result = invoke("run", "--json", code=3)
    document = json.loads(result.stdout)
    assert document["exit_code"] == 3
    assert document["total"]["samples"] == 15
    assert document["splits"]["gate"]["first_passed"] == 0
    assert document["attempts"] == 25
    assert document["previous"] is None
    assert {failure["num_samples"] for failure in document["failures"]} == {5}
    (proposal,) = document["proposals"]
    assert proposal["rules"] == ["Write exactly one sentence.", "Use at most 8 words."]
    assert proposal["gate"]["pairs"]["fixed"] == 5
    assert "--accept-untested" in proposal["commands"]["approve"]
    assert result.stderr == ""


def test_limit_and_no_improve(shop: Shop, invoke: Invoke) -> None:
    output = invoke("run", "--limit", "12", "--no-improve", code=3).stdout
    assert re.search(r"total +12 ", output)
    assert "proposal" not in output


def test_improvement_can_be_off_in_the_task(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "improve: {enabled: false}\nrun: {")
    assert "proposal" not in invoke("run", code=3).stdout


def test_a_limit_stops_resumably(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "limits: {attempts: 7}\nrun: {")
    stopped = invoke("run", code=5)
    assert "stopped by a limit" in stopped.stderr
    assert "Raise limits.attempts in task.yaml, then go on with:\n  loopeng run --resume task.yaml" in stopped.stderr
    assert re.search(r"note: run-\w+ was not finished; this is a new run", invoke("run", code=5).stderr)
    shop.change("attempts: 7", "attempts: 100")
    for _ in range(2):
        assert "25 attempts" in invoke("run", "--resume", "task.yaml", code=3).stdout
    assert "no unfinished run" in invoke("run", "--resume", code=2).stderr


def test_a_sample_in_error_outranks_the_pass_rate(shop: Shop, invoke: Invoke) -> None:
    script = (shop.folder / "script.yaml").read_text(encoding="utf-8")
    shop.write("script.yaml", script.replace("replies:", 'replies:\n  - {when: "p-13", error: "out of steam"}'))
    output = invoke("run", "--no-improve", code=4).stdout
    assert re.search(r"holdout +5 +4/4 \(100 %\) +4/4 \(100 %\) +1", output)
    assert "not reached by those that could be judged (1 could not)" in output


def test_a_run_says_what_broke(shop: Shop, invoke: Invoke) -> None:
    """A person who sees fifteen errors and no word of why has nothing to repair; and nothing is "reached"."""
    shop.write("script.yaml", "replies: []\n")
    shop.change("min_pass_rate: 0.9", "min_pass_rate: 0.0")
    report = invoke("run", code=4).stdout
    assert "goal: 0 % of the samples pass in the end: cannot be judged, every sample is in error" in report
    assert "  engine or agent: 15 attempts on 15 samples (p-00, p-01, p-02 ...)\n" in report
    assert "the script has no reply to 'user: Describe this product: p-00' and no default" in report
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    assert "the script has no reply" in invoke("runs", "show", run_id).stdout
    (error,) = json.loads(invoke("runs", "show", run_id, "--json").stdout)["errors"]
    assert (error["source"], error["num_samples"], error["sample_ids"]) == (
        "engine or agent",
        15,
        ["p-00", "p-01", "p-02"],
    )


CHATTY = """\
print("imported")

def judge(sample, attempt, context):
    print("judging", sample.id)
    if sample.id == "p-03":
        raise ValueError("no price list")
    return True
"""


def test_what_user_code_prints_is_not_in_the_result(shop: Shop, started: Started) -> None:
    """``loopeng run --json | jq`` works however talkative an evaluator is; a broken one is named with its reason."""
    shop.write("chatty.py", CHATTY)
    shop.change(
        "  - {id: short, type: length, max_words: 10}", '  - {id: mine, type: python, function: "chatty:judge"}'
    )
    for command in ("check", "run"):
        stdout, stderr = started(command, "--json").communicate(timeout=60)
        document = json.loads(stdout)
        assert "imported" in stderr and "judging p-00" in stderr
    assert [(each["source"], each["sample_ids"]) for each in document["errors"]] == [("evaluator mine", ["p-03"])]
    assert "no price list" in document["errors"][0]["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("max: 1", "maxx: 1"), "task.yaml:10: .*maxx"),
        (("products.jsonl", "product.jsonl"), "no such file: product.jsonl .*products.jsonl"),
        (("script.yaml", "scripts.yaml"), "scripts.yaml"),
        (("{{ product }}", "{{ prodcut }}"), "prodcut.*product"),
        (("retry: critique", "retry: again"), "retry"),
    ],
)
def test_mistakes_in_the_task_are_one_line(shop: Shop, invoke: Invoke, change: tuple[str, str], message: str) -> None:
    shop.change(*change)
    result = invoke("run", code=2)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert re.search(message, result.stderr), result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nowhere.yaml"), "nowhere.yaml"),
        (("run", "--wait-timeout", "soon"), "--wait-timeout: 'soon' is not a duration"),
        (("run", "--limit", "0"), "--limit"),
        (("run", "--resume"), "no unfinished run"),
    ],
)
def test_mistakes_on_the_command_line(shop: Shop, invoke: Invoke, arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments, code=2)
    assert message in result.stderr
    assert result.stdout == ""


def test_a_changed_template_is_said_and_makes_proposals_stale(ran: Shop, invoke: Invoke) -> None:
    ran.change("Describe this product:", "Describe this nice product:")
    result = invoke("run", "--no-improve", code=3)
    assert re.search(r"prompt describe is at version 2, it has no rules; stale now: prop-\w+", result.stderr)


def test_wait_ends_at_its_time(shop: Shop, invoke: Invoke) -> None:
    result = invoke("run", "--wait", "--wait-timeout", "0.2s", code=6)
    assert re.search(r"prop-\w+ is still pending", result.stderr)
    assert "queue approve" in result.stdout


def test_wait_sees_the_decision_of_another_process(shop: Shop, invoke: Invoke) -> None:
    def approve_soon() -> None:
        with Loop.open(shop.db) as loop:
            while not (queue := loop.queue()):
                time.sleep(0.05)
            loop.approve(queue[0].id, by="ben", seen=queue[0].text_hash, accept_untested=True)

    LoopStore.open(shop.db).close()
    other = threading.Thread(target=approve_soon)
    other.start()
    document = json.loads(invoke("run", "--wait", "--wait-timeout", "30s", "--json", code=3).stdout)
    other.join()
    assert document["proposals"][0]["state"] == "committed"


def test_what_stops_the_proposals_leaves_the_report(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "improve: {limits: {attempts: 4}}\nrun: {")
    result = invoke("run", code=3)
    assert "25 attempts" in result.stdout
    assert re.search(r"proposal prop-\w+  revision 1, testing \(.*limit.*\)", result.stdout), result.stdout
    assert (
        "Raise improve.limits.attempts in task.yaml, then go on with the proposals:\n  loopeng propose task.yaml"
    ) in result.stderr
    shop.change("attempts: 4", "attempts: 100")
    assert "pending" in invoke("propose", "task.yaml").stdout


def test_a_folder_stands_for_its_task_file(shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.folder.parent)
    output = invoke("run", "shop", code=3).stdout
    assert Path("shop/.loopeng/loop.db").is_file()
    assert "loopeng queue show" in output
    assert "--db shop/.loopeng/loop.db" in output
