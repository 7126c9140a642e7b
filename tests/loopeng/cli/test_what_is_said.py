"""What a person at a terminal is told of proposals: nothing hidden, nothing that sends them the wrong way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

LONG = 'default: "This is a very fine product that everyone will want to have at home. Buy it today, it is great."\n'


def test_a_reply_that_cannot_be_read_is_shown(shop: Shop, invoke: Invoke) -> None:
    """Whoever tunes a reflector must see what its model said, not only that it was no JSON."""
    shop.write("reflect.yaml", 'default: "You could be\\n\\e[31mbrief."\n')
    engine = "improve: {reflector: llm, engine: {kind: scripted, script: reflect.yaml}}\n"
    shop.change("run: {", f"{engine}run: {{")
    invoke("run", code=3)
    row = invoke("queue", "list", "--all").stdout.splitlines()[-1]
    told = invoke("queue", "show", row.split()[0], code=2).stderr
    assert "suggestion 1, malformed: the reply could not be read" in told
    assert "the reply: You could be" in told and "brief." in told and "\x1b" not in told


def test_a_rollback_looks_like_one(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    """The list said "not run" of a test that no rollback has, and the log printed a Python dict."""
    seen = ("--seen", pending["text_hash"][:8], "--accept-untested")
    invoke("queue", "approve", pending["id"], *seen)
    ran.write("script.yaml", LONG)
    report = invoke("run", code=3).stdout
    (rollback,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert f"rollback {rollback['id']}  revision 1, pending" in report
    pattern_id = json.loads(invoke("failures", "list", "--json").stdout)[0]["id"]
    assert f"    {pattern_id}: failure rate 100 % before" in report
    assert invoke("queue", "list").stdout.splitlines()[-1].endswith("  rollback, see its watch")
    invoke("queue", "approve", rollback["id"], "--seen", rollback["text_hash"][:8])
    log = invoke("prompts", "log", "describe").stdout
    assert f"evidence: watch of {pattern_id}: " in log or f"; watch of {pattern_id}: " in log
    assert "samples fail, no better" in log and "{" not in log


def test_a_commit_that_nobody_was_asked_about_can_be_undone(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "approval: {autonomy: commit}\ngate: {alpha: 0.1}\nrun: {")
    assert "note: approval.autonomy is commit: a change that passes the gate is put in use" in invoke("check").stdout
    report = invoke("run", code=3).stdout
    assert "committed (as ver-" in report
    assert "undo  loopeng prompts rollback describe --reason TEXT" in report


def test_five_gate_samples_are_too_few_for_the_first_look(shop: Shop, invoke: Invoke) -> None:
    """Five fixed pairs give p = 0.031, and the first look is tested at half of gate.alpha."""
    assert "warning: 5 gate samples can never be evidence of improvement; give at least 6" in invoke("check").stdout
    shop.change("run: {", "gate: {alpha: 0.1}\nrun: {")
    assert "can never be evidence" not in invoke("check").stdout


def test_a_stale_proposal_is_not_forgotten(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    """The list of what waits said "nothing waits", and only --all showed what to rebase."""
    ran.change("Describe this", "Describe briefly this")
    invoke("run", "--no-improve", code=3)
    told = invoke("queue", "list").stderr
    assert f"{pending['id']} is stale  loopeng queue rebase {pending['id']}" in told


def test_a_call_that_waits_for_its_next_try_is_not_nothing(
    shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet or not: that nobody could be told is no progress. And work said "nothing to do" until the next try."""
    monkeypatch.setenv("LOOPENG_WEBHOOK_SECRET", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0")
    shop.change("run: {", 'approval: {webhook: {url: "http://127.0.0.1:9/hook"}}\nrun: {')
    assert "note: the webhook does not know of prop-" in invoke("run", "--quiet", code=3).stderr
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    invoke("queue", "snooze", proposal["id"], "--for", "1h")
    told = invoke("work").stderr
    assert told.startswith("nothing to do now\nwebhook for prop-") and "; next try 20" in told


def test_an_address_of_another_kind(shop: Shop, invoke: Invoke) -> None:
    """It was told to begin with a letter and hold only letters, digits, and the like."""
    shop.change("run: {", 'approval: {webhook: {url: "ftp://host/hook"}}\nrun: {')
    told = invoke("check", code=2).stderr
    assert "approval.webhook.url: 'ftp://host/hook' must be an address that begins with http:// or https://" in told


def test_proposing_before_the_first_run_says_what_comes_first(shop: Shop, invoke: Invoke) -> None:
    told = invoke("propose", code=2).stderr
    assert "nothing is known of prompt 'describe' yet: run the task first, to see what fails" in told


@pytest.mark.parametrize("key", ["improve: {cool_down: 99999999999999999999w}", "approval: {expires: 521w}"])
def test_a_time_that_no_calendar_has_is_a_mistake_in_the_file(shop: Shop, invoke: Invoke, key: str) -> None:
    shop.change("loop: {", f"{key}\nloop: {{")
    told = invoke("check", code=2).stderr
    assert "is longer than ten years (520w)" in told and "task.yaml:" in told


@pytest.mark.parametrize("when", [("--for", "999999999999w"), ("--until", "0001-01-01")])
def test_nor_can_anything_sleep_until_then(ran: Shop, invoke: Invoke, when: tuple[str, str]) -> None:
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert "internal error" not in invoke("queue", "snooze", proposal["id"], *when, code=2).stderr


def test_an_alpha_near_nothing_is_told_what_it_takes(shop: Shop, invoke: Invoke) -> None:
    shop.change("loop: {", "gate: {alpha: 1.0e-320}\nloop: {")
    assert "can never be evidence of improvement" in invoke("check").stdout


def test_more_runs_than_there_can_be(ran: Shop, invoke: Invoke) -> None:
    assert "internal error" not in invoke("runs", "list", "--limit", "9" * 23, code=2).stderr
