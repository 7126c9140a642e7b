"""``loopeng queue``: the card, the decisions, and what is refused."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

Started = Callable[..., subprocess.Popen[str]]
Pending = dict[str, Any]


def seen(pending: Pending) -> tuple[str, str]:
    return ("--seen", pending["text_hash"][:8])


def test_the_list_has_one_line_for_each_proposal(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    head, line = invoke("queue", "list").stdout.splitlines()
    assert head.split() == ["proposal", "state", "prompt", "text", "change", "gate", "samples", "that", "pass"]
    assert line.startswith(
        f"{pending['id']}  pending  describe  {pending['text_hash'][:8]}  + Write exactly one sentence."
    )
    assert line.endswith("  0 -> 5 of 5, underpowered")
    assert len(line) <= 120


def test_the_card(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    text = invoke("queue", "show", pending["id"][:9]).stdout
    for part in (
        "by reflector hints: pending",
        "    Describe this product: {{ product }}\n\n    {+Rules:+}\n    {+- Write exactly one sentence.+}\n",
        'p-00: 2 sentences, at most one sentence wanted\n        "This is a very fine product',
        "gate 0/5 -> 5/5",
        "holdout 5/5 -> 5/5",
        "effect +100 points (95 % interval +39 to +100) · expected power 0 % · A/A check skipped: decoding is determin",
        "verdict       proposal",
        'fixed  p-05\n        before "This is a very fine',
        '        after  "A fine thing for the home."',
        "cost of the gate samples: prompt tokens ",
        "loopeng: proposal started",
        f"approve  loopeng queue approve {pending['id']} --seen {pending['text_hash'][:8]} --accept-untested\n",
    ):
        assert part in text
    assert re.search(r"sample passes +5 +0 +5 +5 +0\n +one-sentence +5 +0 +5 +5 +0\n", text)
    assert "\x1b" not in text


def test_the_card_as_json(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    card = json.loads(invoke("queue", "show", pending["id"], "--json").stdout)
    assert card["text_hash"] == pending["text_hash"]
    assert card["gate"]["fixed_samples"] == [f"p-{index:02d}" for index in range(5, 10)]
    assert card["patterns"][0]["sample_id"] == "p-00"
    assert "+- Write exactly one sentence." in card["diff"]


def test_approving_needs_eyes_then_the_flag(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    blind = invoke("queue", "approve", pending["id"], code=2)
    assert f"loopeng queue show {pending['id']}" in blind.stderr
    assert f"--seen {pending['text_hash'][:8]}" in blind.stderr
    assert blind.stdout == ""
    untested = invoke("queue", "approve", pending["id"], *seen(pending), code=2)
    assert "add --accept-untested" in untested.stderr and "accept_untested" not in untested.stderr
    for flag in ((), ("--accept-untested",)):  # that it is another text is the first thing to say
        other = invoke("queue", "approve", pending["id"], "--seen", "0" * 8, *flag, code=7)
        assert f"has the text {pending['text_hash'][:8]}, not '00000000'" in other.stderr
    options = ("--accept-untested", "--by", "ben", "--reason", "reads well")
    done = invoke("queue", "approve", pending["id"], *seen(pending), *options)
    assert "approved by ben: prompt describe is now version 2" in done.stdout
    again = invoke("queue", "approve", pending["id"], *seen(pending), *options, code=7)
    assert "decided" in again.stderr
    assert invoke("queue", "list").stderr == "nothing waits for a decision\n"
    assert "committed" in invoke("queue", "list", "--all").stdout
    with LoopStore.open(ran.db) as store:
        (decision,) = store.decisions()
    assert (decision.by, decision.reason, decision.accepted_untested) == ("ben", "reads well", True)


def test_a_decision_names_what_was_seen(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    for words in (("approve", "--accept-untested"), ("reject", "--reason", "no"), ("edit", "--rule", "Be brief.")):
        result = invoke("queue", words[0], pending["id"], *words[1:], "--seen", "0" * 8, code=7)
        assert result.stderr.count("\n") == 1
    assert json.loads(invoke("queue", "list", "--json").stdout)[0]["state"] == "pending"


def test_rejecting_needs_a_reason(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    assert "--reason" in invoke("queue", "reject", pending["id"], *seen(pending), code=2).stderr
    assert "reason" in invoke("queue", "reject", pending["id"], *seen(pending), "--reason", " ", code=2).stderr
    done = invoke("queue", "reject", pending["id"], *seen(pending), "--reason", "too strict", "--json")
    assert json.loads(done.stdout)["decision"]["reason"] == "too strict"


def test_editing_makes_a_revision_that_is_counted(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    rule = "Write exactly one short sentence."
    done = invoke("queue", "edit", pending["id"], *seen(pending), "--rule", rule).stdout
    assert "edited by ana: revision 2, testing" in done
    assert f"+ {rule}" in done and "gate: not run" in done and "work  loopeng work\n" in done
    listed = invoke("queue", "list").stdout
    assert re.search(r"^prop-\w+  testing ", listed, re.MULTILINE) and "not tested yet  loopeng work" in listed
    card = invoke("queue", "show", pending["id"]).stdout
    assert ": testing (edited by ana; 'loopeng work' tests it)" in card and "approve" not in card
    invoke("queue", "approve", pending["id"], "--seen", "0" * 8, code=7)
    worked = invoke("work").stdout
    assert f"{pending['id']}  testing -> pending" in worked and "gate 0/5 -> 5/5" in worked
    assert invoke("work").stderr == "nothing to do\n"
    (new,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert (new["revision"], new["rules"]) == (2, [rule])
    assert new["text_hash"] != pending["text_hash"]
    invoke("queue", "approve", pending["id"], *seen(pending), "--accept-untested", code=7)
    invoke("queue", "approve", pending["id"], *seen(new), "--accept-untested")


def test_rules_from_a_file(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    ran.write("rules.txt", "# mine\n- Write exactly one sentence.\n\nName the product.\n")
    invoke("queue", "edit", pending["id"], *seen(pending), "--rules-file", "rules.txt")
    (new,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert new["rules"] == ["Write exactly one sentence.", "Name the product."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--rule TEXT (repeated) or --rules-file FILE"),
        (("--rules-file", "nowhere.txt"), "nowhere.txt"),
        (("--rule", "Be brief.", "--rules-file", "x"), "not both"),
        (("--rule", "Write exactly one sentence.", "--rule", "Use at most 8 words."), "change something"),
        (("--rule", "Be brief. " * 1000), "characters"),
        (("--rule", ""), "a rule is empty"),
        (("--rule", "Be brief.", "--rule", " "), "a rule is empty"),
    ],
)
def test_edits_that_cannot_be(
    ran: Shop, pending: Pending, invoke: Invoke, options: tuple[str, ...], message: str
) -> None:
    result = invoke("queue", "edit", pending["id"], *seen(pending), *options, code=2)
    assert message in result.stderr
    assert json.loads(invoke("queue", "list", "--json").stdout)[0]["revision"] == 1


def test_a_stale_proposal_cannot_be_approved(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    with LoopStore.open(ran.db) as store:
        store.adopt_template("describe", "Another text: {{ product }}{{ rules }}", by="task file")
    assert "nothing waits" in invoke("queue", "list").stderr
    shown = invoke("queue", "show", pending["id"]).stdout
    assert "stale" in shown
    assert "approve " not in shown
    assert "stale" in invoke("queue", "approve", pending["id"], "--accept-untested", code=7).stderr


def test_unknown_proposals(ran: Shop, invoke: Invoke) -> None:
    for words in (("show",), ("approve", "--seen", "0" * 8), ("reject", "--seen", "0" * 8, "--reason", "x")):
        assert "prop-none" in invoke("queue", words[0], "prop-none", *words[1:], code=2).stderr


def on_a_terminal(started: Started, *arguments: str, answer: str = "") -> tuple[int, str, str]:
    """Exit code, what stdout said, and what the terminal showed; ``answer`` is typed when a question stands there."""
    master, slave = pty.openpty()
    process = started(*arguments, stdin=slave, stderr=slave)
    os.close(slave)
    shown, end = "", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                shown += os.read(master, 65536).decode(errors="replace")
            except OSError:
                break
            if answer and "[y/N]" in shown:
                os.write(master, answer.encode())
                answer = ""
    assert process.stdout is not None
    stdout = process.stdout.read()
    os.close(master)
    return process.wait(timeout=60), stdout, shown


def test_on_a_terminal_the_change_is_shown_and_asked(ran: Shop, pending: Pending, started: Started) -> None:
    command = ("queue", "approve", pending["id"], "--accept-untested")
    code, stdout, shown = on_a_terminal(started, *command, answer="y\n")
    assert code == 0
    assert "\x1b[32m{+- Write exactly one sentence.+}" in shown
    assert "approve this change? [y/N]" in shown
    assert "prompt describe is now version 2" in stdout


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there: only the look at the terminal is replaced."""
    monkeypatch.setattr("loopeng.cli.output.can_ask", lambda: True)


@pytest.mark.usefixtures("person")
def test_a_no_or_no_answer_changes_nothing(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    for words in (("approve", "--accept-untested"), ("reject", "--reason", "x"), ("edit", "--rule", "Be brief.")):
        result = invoke("queue", words[0], pending["id"], *words[1:], code=6)
        assert f"{words[0]} this change? [y/N]" in result.stderr
        assert "nothing changed" in result.stderr
    assert json.loads(invoke("queue", "list", "--json").stdout)[0]["revision"] == 1


@pytest.mark.usefixtures("person")
def test_the_missing_flag_is_said_before_the_question(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    result = invoke("queue", "approve", pending["id"], code=2)
    assert "--accept-untested" in result.stderr and "[y/N]" not in result.stderr


def test_an_edit_in_a_folder_that_was_moved(
    ran: Shop, pending: Pending, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored path is gone; the task file beside the database is the same one."""
    forget_the_place(ran, pending)
    rule = "Write exactly one short sentence."
    edited = invoke("queue", "edit", pending["id"], *seen(pending), "--rule", rule, "--now")
    assert "revision 2, pending" in edited.stdout
    (new,) = json.loads(invoke("queue", "list", "--json").stdout)
    approved = invoke("queue", "approve", pending["id"], *seen(new), "--accept-untested").stdout
    assert "run again  loopeng run task.yaml\n" in approved


def test_an_edit_that_cannot_be_counted_is_recorded_and_says_so(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    forget_the_place(ran, pending)
    (ran.folder / "script.yaml").rename(ran.folder / "elsewhere.yaml")
    rule = ("--rule", "Write exactly one sentence.")
    result = invoke("queue", "edit", pending["id"], *seen(pending), *rule, "--now", code=2)
    assert "the edit is recorded, but not tested yet. Go on with:\n  loopeng work\n" in result.stderr
    assert "script.yaml" in invoke("work", code=2).stdout
    (ran.folder / "elsewhere.yaml").rename(ran.folder / "script.yaml")
    assert "revision 2, pending" in invoke("work").stdout


def forget_the_place(shop: Shop, pending: Pending) -> None:
    """As if the folder had been another one when the proposal was made."""
    with LoopStore.open(shop.db) as store:
        task = store.task(store.proposal(pending["id"]).task_hash)
        store.save_task(task.model_copy(update={"path": shop.folder.parent / "gone" / "task.yaml"}))


@pytest.mark.usefixtures("person")
def test_the_editor_opens_with_one_rule_per_line(
    ran: Shop, pending: Pending, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran.write("editor.sh", "grep -v '^#' \"$1\" > before.txt\nsed -i 's/at most 8 words/at most 7 words/' \"$1\"\n")
    monkeypatch.setenv("EDITOR", "sh editor.sh")
    assert "+ Use at most 7 words." in invoke("queue", "edit", pending["id"]).stdout
    assert (ran.folder / "before.txt").read_text() == "Write exactly one sentence.\nUse at most 8 words.\n"


@pytest.mark.usefixtures("person")
def test_an_editor_that_changes_nothing_or_fails(
    ran: Shop, pending: Pending, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    for editor, message in (("true", "nothing changed"), ("false", "editor 'false' failed"), ("no-such", "no-such")):
        monkeypatch.setenv("EDITOR", editor)
        assert message in invoke("queue", "edit", pending["id"], code=2).stderr


def test_an_edit_that_is_interrupted_says_how_to_go_on(
    ran: Shop, pending: Pending, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("loopeng.engines.scripted.Script.__call__", interrupted)
        result = invoke("queue", "edit", pending["id"], *seen(pending), "--rule", "Be brief.", "--now", code=130)
    assert "the edit is recorded, but not tested yet. Go on with:\n  loopeng work" in result.stderr
    assert "testing" in invoke("queue", "list").stdout


def test_a_proposal_that_got_no_readable_reply_says_what_was_said(shop: Shop, invoke: Invoke) -> None:
    """Archived without a text; ``queue show`` must not only say that there is nothing to show."""
    shop.write("reflections.json", '{"default": "I would add a rule about brevity."}')
    shop.change(
        "loop: {",
        "improve: {reflector: llm, candidates: 2, engine: {kind: scripted, script: reflections.json}}\nloop: {",
    )
    report = invoke("run", code=3).stdout
    assert "nothing to propose: the reply could not be read" in report
    (proposal,) = json.loads(invoke("queue", "list", "--all", "--json").stdout) or [None]
    assert proposal is None  # nothing to decide: the list in words has it
    line = invoke("queue", "list", "--all").stdout.splitlines()[-1]
    told = invoke("queue", "show", line.split()[0], code=2).stderr
    assert "suggestion 1, malformed: the reply could not be read" in told and "suggestion 2, malformed" in told
    for kind in ("reflect", "screen"):
        assert isinstance(json.loads(invoke("runs", "list", "--kind", kind, "--json").stdout), list)
    run_id = json.loads(invoke("runs", "list", "--kind", "reflect", "--json").stdout)[0]["run"]["id"]
    assert run_id in invoke("runs", "show", run_id).stdout


def test_what_was_not_chosen_is_on_the_card(shop: Shop, invoke: Invoke) -> None:
    replies = [
        '{"operations": [{"op": "add", "text": "Be kind."}]}',
        '{"operations": [{"op": "add", "text": "Write one short sentence."}]}',
    ]
    shop.write("reflections.json", json.dumps({"default": [reply for reply in replies for _ in range(2)]}))
    shop.change(
        "loop: {",
        "improve: {reflector: llm, candidates: 2, engine: {kind: scripted, script: reflections.json}}\nloop: {",
    )
    invoke("run", code=3)
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert proposal["rules"] == ["Write one short sentence."]
    text = invoke("queue", "show", proposal["id"]).stdout
    assert "suggestions that were not chosen\n    1  outscored (0 of 5 reflect samples passed): suggestion 2" in text
    assert "add Be kind." in text
    document = json.loads(invoke("queue", "show", proposal["id"], "--json").stdout)
    assert [each["outcome"] for each in document["not_chosen"]] == ["outscored"]
    assert json.loads(invoke("runs", "list", "--kind", "screen", "--json").stdout)


def test_snoozing_and_waking(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    done = invoke("queue", "snooze", pending["id"], "--for", "2d", "--reason", "after the fair").stdout
    assert re.fullmatch(rf"{pending['id']} snoozed by ana until 20\d\d-\d\d-\d\d \d\d:\d\d \w+\n", done)
    assert re.search(r"  snoozed until 20\d\d-", invoke("queue", "list").stdout)
    (listed,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert (listed["state"], listed["snoozed_until"][:2]) == ("snoozed", "20")
    card = invoke("queue", "show", pending["id"]).stdout
    assert ": snoozed until 20" in card and "ana: snooze of revision 1 until 20" in card and "after the fair" in card
    assert "approve  loopeng queue approve" in card  # it can be decided all the same
    assert f"snooze, ana, {pending['id']} revision 1, saw" in re.sub(" {2,}", ", ", invoke_log(invoke))
    assert invoke("queue", "snooze", pending["id"], "--for", "0s").stdout == f"{pending['id']} woken by ana: pending\n"
    assert "ana: woken" in invoke("queue", "show", pending["id"]).stdout


def invoke_log(invoke: Invoke) -> str:
    return invoke("prompts", "log", "describe").stdout


def test_snoozing_until_a_day(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    invoke("queue", "snooze", pending["id"], "--until", "2030-12-01")
    (listed,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert datetime.fromisoformat(listed["snoozed_until"]) == datetime(2030, 12, 1).astimezone()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "give --for TIME or --until DAY"),
        (("--for", "1d", "--until", "2030-12-01"), 2, "both say when it wakes: give one of them"),
        (("--for", "soon"), 2, "'soon' is not a duration"),
        (("--for", "0s"), 2, "it is pending now"),
        (("--for", "999999999999w"), 2, "for how long?"),
        (("--until", "2020-01-01"), 2, "later time"),
        (("--until", "tomorrow"), 2, "tomorrow"),
        (("--for", "1d", "--seen", "0" * 8), 7, "has the text"),
    ],
)
def test_snoozes_that_cannot_be(
    ran: Shop, pending: Pending, invoke: Invoke, options: tuple[str, ...], code: int, message: str
) -> None:
    assert message in invoke("queue", "snooze", pending["id"], *options, code=code).stderr
    assert json.loads(invoke("queue", "list", "--json").stdout)[0]["state"] == "pending"


def test_a_stale_proposal_says_how_to_rebase_it(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    with LoopStore.open(ran.db) as store:
        store.adopt_template("describe", "Another text: {{ product }}{{ rules }}", by="task file")
    command = f"loopeng queue rebase {pending['id']}"
    for words in (("list", "--all"), ("show", pending["id"])):
        shown = invoke("queue", *words).stdout
        assert "stale" in shown and command in shown
    (listed,) = json.loads(invoke("queue", "list", "--all", "--json").stdout)
    assert listed["commands"] == {"rebase": command}
    assert command in invoke("queue", "approve", pending["id"], "--accept-untested", code=7).stderr
    done = invoke("queue", "rebase", pending["id"]).stdout
    assert f"{pending['id']} rebased by ana: revision 2, testing" in done and "work  loopeng work\n" in done
    assert "is testing, not stale" in invoke("queue", "rebase", pending["id"], code=7).stderr
    assert f"{pending['id']}  testing -> pending" in invoke("work").stdout
    card = invoke("queue", "show", pending["id"]).stdout
    assert "    Another text: {{ product }}" in card and "rebase of revision 1 from version 1 to version 2" in card


def test_a_rebase_that_is_tested_at_once(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    with LoopStore.open(ran.db) as store:
        store.adopt_template("describe", "Another text: {{ product }}{{ rules }}", by="task file")
    done = invoke("queue", "rebase", pending["id"], "--now").stdout
    assert "rebased by ana: revision 2, pending" in done and "gate 0/5 -> 5/5" in done
