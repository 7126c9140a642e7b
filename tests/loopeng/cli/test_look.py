"""``loopeng runs``, ``failures``, ``prompts`` and ``propose``: what is shown, and where the database is looked for."""

from __future__ import annotations

import json
import re
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
    assert "suite, live" in invoke("runs", "list", "--kind", "sweet", code=2).stderr


def test_one_run(ran: Shop, invoke: Invoke) -> None:
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    text = invoke("runs", "show", run_id[:8]).stdout
    for part in (f"run {run_id}  shop", "25 attempts", "recurring failures", "loopeng queue approve prop-"):
        assert part in text
    assert json.loads(invoke("runs", "show", run_id, "--json").stdout)["exit_code"] == 3
    gate = json.loads(invoke("runs", "list", "--kind", "gate", "--json").stdout)[0]["run"]["id"]
    assert "goal" not in invoke("runs", "show", gate).stdout
    assert "run-none" in invoke("runs", "show", "run-none", code=2).stderr


def test_failures(ran: Shop, invoke: Invoke) -> None:
    lines = invoke("failures", "list").stdout.splitlines()
    assert len(lines) == 3
    assert re.search(r"^pat-\w+ +proposed +5 +5 +describe +short +length.too_long", "\n".join(lines), re.MULTILINE)
    patterns = json.loads(invoke("failures", "list", "--prompt", "describe", "--json").stdout)
    text = invoke("failures", "show", patterns[0]["id"], "--examples", "2").stdout
    assert text.count("This is a very fine product") == 2
    assert "remedy: " in text
    assert json.loads(invoke("failures", "show", patterns[0]["id"], "--json").stdout)["examples"][0]["run_id"]
    assert "describe" in invoke("failures", "list", "--prompt", "other", code=2).stderr
    assert "pat-none" in invoke("failures", "show", "pat-none", code=2).stderr


def test_a_proposal_for_a_pattern_by_hand(shop: Shop, invoke: Invoke) -> None:
    """Below the thresholds nothing is proposed, unless a person names the pattern."""
    assert "proposal" not in invoke("run", "--limit", "3", code=3).stdout
    assert "nothing to propose" in invoke("propose").stderr
    pattern = json.loads(invoke("failures", "list", "--json").stdout)[0]["id"]
    line = invoke("failures", "show", pattern).stdout.splitlines()[-1]
    assert line.strip() == f"loopeng propose --pattern {pattern} task.yaml"
    (proposal,) = json.loads(invoke("propose", "--pattern", pattern, "--json").stdout)
    assert len(proposal["rules"]) == 1
    assert pattern in invoke("propose", "--pattern", pattern, code=7).stderr


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


def test_what_is_no_database_is_said_so(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.db").write_text("not a database at all, however long this text may be")
    assert "x.db" in invoke("queue", "list", "--db", "x.db", code=1).stderr


def test_an_expired_proposal_is_no_longer_in_the_queue(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "approval: {expires: 0s}\nrun: {")
    invoke("run", code=3)
    assert "nothing waits" in invoke("queue", "list").stderr
    assert "expired" in invoke("queue", "list", "--all").stdout
    with LoopStore.open(shop.db) as store:
        assert store.decisions() == []
