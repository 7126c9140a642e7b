"""``loopeng runs``, ``failures``, ``prompts`` and ``propose``: what is shown, and where the database is looked for."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop


def test_runs(ran: Shop, invoke: Invoke) -> None:
    head, line = invoke("runs", "list").stdout.splitlines()
    assert head.split()[:3] == ["run", "started", "task"]
    assert re.search(r"^run-\w+ .* shop +suite +finished +describe v1 +15 +5/15 \(33 %\)", line)
    everything = json.loads(invoke("runs", "list", "--kind", "all", "--json").stdout)
    assert [each["run"]["kind"] for each in everything] == ["holdout", "holdout", "gate", "gate", "suite"]
    assert invoke("runs", "list", "--task", "other").stderr == "no runs\n"
    others = "no runs of kind live; there are some of kind gate, holdout, suite: see --kind\n"
    assert invoke("runs", "list", "--kind", "live").stderr == others
    assert "suite, rescore, live" in invoke("runs", "list", "--kind", "sweet", code=2).stderr


def test_one_run(ran: Shop, invoke: Invoke) -> None:
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    text = invoke("runs", "show", run_id[:8]).stdout
    for part in (f"run {run_id}  shop", "25 attempts", "recurring failures", "loopeng queue approve prop-"):
        assert part in text
    assert json.loads(invoke("runs", "show", run_id, "--json").stdout)["exit_code"] == 3
    gate = json.loads(invoke("runs", "list", "--kind", "gate", "--json").stdout)[0]["run"]["id"]
    assert "goal" not in invoke("runs", "show", gate).stdout
    assert "run-none" in invoke("runs", "show", "run-none", code=2).stderr


def test_a_proposal_for_a_pattern_by_hand(shop: Shop, invoke: Invoke) -> None:
    """Below the thresholds nothing is proposed, unless a person names the pattern."""
    assert "proposal" not in invoke("run", "--limit", "3", code=3).stdout
    told = invoke("propose").stderr
    assert "nothing to propose" in told
    assert "seen 3 times on 3 reflect samples; a proposal needs 5 over 3 (improve.min_occurrences" in told
    pattern = json.loads(invoke("failures", "list", "--json").stdout)[0]["id"]
    line = invoke("failures", "show", pattern).stdout.splitlines()[-1]
    assert line == f"propose  loopeng propose --pattern {pattern} task.yaml"
    (proposal,) = json.loads(invoke("propose", "--pattern", pattern, "--json").stdout)
    assert len(proposal["rules"]) == 1
    assert pattern in invoke("propose", "--pattern", pattern, code=7).stderr


def test_it_is_said_what_stands_in_the_way_of_a_proposal(ran: Shop, invoke: Invoke) -> None:
    """Not "nothing came back often enough" when a person's own no, or a proposal that waits, is the reason."""
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    told = invoke("propose").stderr
    assert told.count(f"{proposal['id']} (pending) is about it already") == 2
    assert "often enough" not in told

    invoke("queue", "reject", proposal["id"], "--seen", proposal["text_hash"][:8], "--reason", "too strict")
    report = invoke("run", code=3).stdout
    assert report.count(f"no proposal: {proposal['id']} about it was rejected; it rests until 20") == 2
    ran.change("run: {", "improve: {cool_down: 0s}\nrun: {")
    report = invoke("propose").stdout  # the same text again: a guard refuses it
    assert "archived (duplicates: the same text was rejected before: 'too strict')" in report
    told = invoke("propose").stderr
    assert told.count("came to nothing (duplicates: the same text was rejected before: 'too strict')") == 2
    assert "'remedy' in the task file" in told and "--pattern" in told
    report = invoke("run", code=3).stdout
    assert report.count("no proposal: prop-") == 2 and report.count("rejected before: 'too strict'") == 2
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    failures = json.loads(invoke("runs", "show", run_id, "--json").stdout)["failures"]
    assert all("too strict" in failure["no_proposal"] for failure in failures)


def test_a_run_is_compared_only_with_one_of_the_same_samples(ran: Shop, invoke: Invoke) -> None:
    """Three samples after fifteen look like a better prompt and are only fewer samples."""
    (first,) = json.loads(invoke("runs", "list", "--json").stdout)
    assert "before: " not in invoke("run", "--no-improve", "--limit", "3", code=3).stdout
    assert f"before: {first['run']['id']} " in invoke("run", "--no-improve", code=3).stdout


def test_repeats_are_not_taken_for_samples(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "run: {repeats: 2, ")
    report = invoke("run", "--no-improve", code=3).stdout
    assert re.search(r"samples x 2 repeats +first attempt.*\n +total +30 ", report)
    assert "30 (2 repeats)" in invoke("runs", "list").stdout


def test_prompts(ran: Shop, invoke: Invoke) -> None:
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    options = ("--seen", proposal["text_hash"][:8], "--accept-untested", "--reason", "good")
    assert "has none before it" in invoke("prompts", "diff", "describe", code=2).stderr
    invoke("queue", "approve", proposal["id"], *options)

    assert re.search(r"describe +2 +\w{8} +2 +proposal +ana", invoke("prompts", "list").stdout)
    log = invoke("prompts", "log", "describe").stdout
    assert re.search(r"version 2 +ana +proposal, text \w{8}, 2 rules, prop-\w+ +<- current", log)
    assert re.search(r"approve +ana +prop-\w+ revision 1, saw \w{8}, accepted without evidence, reason: good", log)
    assert [
        each["number"] for each in json.loads(invoke("prompts", "log", "describe", "--json").stdout)["versions"]
    ] == [1, 2]
    assert invoke("prompts", "show", "describe").stdout.endswith("- Use at most 8 words.\n\n")
    assert invoke("prompts", "show", "describe", "1").stdout == "Describe this product: {{ product }}\n\n"
    assert "\n+- Use at most 8 words.\n" in invoke("prompts", "diff", "describe", "1", "2").stdout
    assert "{+- Use at most 8 words.+}" in invoke("prompts", "diff", "describe", "--words").stdout
    assert "read the same" in invoke("prompts", "diff", "describe", "2").stderr

    back = invoke("prompts", "rollback", "describe", "--reason", "wrong tone", "--by", "ben").stdout
    assert "back at version 1" in back
    assert re.search(r"rollback +ben +to version 1, reason: wrong tone", invoke("prompts", "log", "describe").stdout)
    invoke("prompts", "rollback", "describe", "--to", "2", "--reason", "after all", "--json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "other"), "describe"),
        (("show", "describe", "9"), "it has: 1"),
        (("log", "other"), "describe"),
        (("rollback", "describe"), "--reason"),
        (("rollback", "describe", "--reason", "x"), "nothing to go back to"),
        (("rollback", "describe", "--reason", " ", "--to", "1"), "reason"),
        (("rollback", "describe", "--reason", "x", "--to", "9"), "no version '9'"),
    ],
)
def test_prompt_mistakes(ran: Shop, invoke: Invoke, arguments: tuple[str, ...], message: str) -> None:
    assert message in invoke("prompts", *arguments, code=2).stderr


def test_the_database_is_found_from_below(ran: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    below = ran.folder / "deep" / "er"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert "prop-" in invoke("queue", "list").stdout
    proposal = json.loads(invoke("queue", "list", "--json").stdout)[0]
    assert "--db" not in proposal["commands"]["approve"]


def test_without_a_database_it_says_how_to_name_one(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for group in ("queue", "runs", "failures", "prompts"):
        result = invoke(group, "list", code=2)
        assert "--db PATH or LOOPENG_DB" in result.stderr
        assert result.stderr.count("\n") == 1
    assert "no database nowhere.db (--db)" in invoke("queue", "list", "--db", "nowhere.db", code=2).stderr
    monkeypatch.setenv("LOOPENG_DB", "elsewhere.db")
    assert "elsewhere.db (LOOPENG_DB)" in invoke("queue", "list", code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_by_option_or_environment(
    ran: Shop, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = json.loads(invoke("queue", "list", "--json", "--db", "shop/.loopeng/loop.db").stdout)[0]
    assert named["commands"]["show"].endswith(" --db shop/.loopeng/loop.db")
    monkeypatch.setenv("LOOPENG_DB", str(ran.db))
    found = json.loads(invoke("queue", "list", "--json").stdout)[0]
    assert found["commands"]["show"] == f"loopeng queue show {found['id']}"


def test_what_is_no_database_is_said_so(shop: Shop, invoke: Invoke) -> None:
    """A slip of the hand in --db is a mistake of usage, in the words of the person who made it."""
    shop.write("x.db", "not a database at all, however long this text may be")
    with closing(sqlite3.connect(shop.folder / "other.db")) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
    for db, message in (
        (".", "error: . is a folder, not a database file\n"),
        ("x.db", "error: x.db is not a loopeng database: it is no SQLite file\n"),
        ("other.db", "error: other.db is not a loopeng database: it has a table 'customers'\n"),
    ):
        assert invoke("runs", "list", "--db", db, code=2).stderr == message
        assert invoke("run", "--db", db, code=2).stderr == message


def test_an_expired_proposal_is_no_longer_in_the_queue(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "approval: {expires: 0.001s}\nrun: {")
    invoke("run", code=3)
    assert "nothing waits" in invoke("queue", "list").stderr
    assert "expired" in invoke("queue", "list", "--all").stdout
    with LoopStore.open(shop.db) as store:
        assert store.decisions() == []
