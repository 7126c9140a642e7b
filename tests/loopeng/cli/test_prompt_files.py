"""Prompts and git: files written on commit and by hand, read back by new databases, never over a person's text."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loopeng.approvals import approve
from loopeng.improve import recover
from loopeng.prompt_file import parse_prompt_file, prompt_file_text
from loopeng.store import LoopStore
from tests.loopeng.cli.conftest import Shop, make_shop

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke

TEMPLATE = "Describe this product: {{ product }}{{ rules }}\n"
FILE = "prompts/describe.md"


def filed_shop(folder: Path) -> Shop:
    """The shop with its prompt in a file of its own."""
    shop = make_shop(folder)
    inline = f"  template: |\n    {TEMPLATE}"
    shop.change(inline, f"  file: {FILE}\n  export: on_commit\n")
    (folder / "prompts").mkdir()
    shop.write(FILE, TEMPLATE)
    return shop


@pytest.fixture(scope="session")
def filed_after_a_run(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    from loopeng.api import Loop

    shop = filed_shop(tmp_path_factory.mktemp("filed") / "shop")
    with Loop.open(shop.db) as loop:
        loop.run(shop.folder / "task.yaml")
    return shop


@pytest.fixture
def filed(filed_after_a_run: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A copy of it, with one proposal pending, in the current folder."""
    shutil.copytree(filed_after_a_run.folder, tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return Shop(tmp_path / "shop")


def text_of(shop: Shop) -> str:
    return (shop.folder / FILE).read_text(encoding="utf-8")


def approve_it(invoke: Invoke) -> str:
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    seen = proposal["text_hash"][:8]
    return invoke("queue", "approve", proposal["id"], "--seen", seen, "--accept-untested").stdout


def head_hash(shop: Shop) -> str:
    with LoopStore.open(shop.db) as store:
        return store.head("describe").text_hash


def test_the_git_story(
    filed: Shop, filed_after_a_run: Shop, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approve here, commit the file, check it out elsewhere: the same text is in use, rules and all."""
    assert str(Path(FILE)) in approve_it(invoke)
    assert parse_prompt_file(text_of(filed)).rules
    assert (filed_after_a_run.folder / FILE).read_text() == TEMPLATE  # a copied folder writes its own file
    elsewhere = filed_shop(tmp_path / "elsewhere")
    elsewhere.write(FILE, text_of(filed))
    monkeypatch.chdir(elsewhere.folder)
    invoke("run", "--no-improve")
    assert head_hash(elsewhere) == head_hash(filed)
    with LoopStore.open(filed.db) as here, LoopStore.open(elsewhere.db) as there:
        assert [rule.id for rule in there.head("describe").rules] == [rule.id for rule in here.head("describe").rules]
        assert (there.head("describe").number, there.head("describe").source) == (1, "task file")


def test_a_run_after_the_export_makes_no_version(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    told = invoke("run", "--no-improve").stderr
    assert "template changed" not in told and "holds version" not in told
    assert json.loads(invoke("prompts", "list", "--json").stdout)[0]["number"] == 2


def test_a_rollback_writes_the_file_too(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    with_rules = text_of(filed)
    assert FILE in invoke("prompts", "rollback", "describe", "--reason", "wrong tone").stderr
    assert parse_prompt_file(text_of(filed)).rules == ()
    invoke("prompts", "rollback", "describe", "--to", "2", "--reason", "after all")
    assert text_of(filed) == with_rules  # no time, no name: git sees no change


def test_an_earlier_version_in_the_file_is_no_edit(filed: Shop, invoke: Invoke) -> None:
    """Somebody checked out an older commit: that must neither undo the head nor be overwritten unasked."""
    with LoopStore.open(filed.db) as store:
        first = prompt_file_text(store.head("describe"))
    approve_it(invoke)
    filed.write(FILE, first)
    told = invoke("run", "--no-improve").stderr
    assert "the file of prompt describe holds version 1, but version 2 is in use" in told
    assert "prompts export describe" in told and "prompts rollback describe --to 1" in told
    assert text_of(filed) == first
    assert "holds version 2" in invoke("prompts", "export", "describe").stderr
    assert "held already version 2" in invoke("prompts", "export", "describe").stderr


def test_a_template_edited_in_an_older_file_loses_no_rule(filed: Shop, invoke: Invoke) -> None:
    """Its rules are those of version 1, none: nobody meant to take away what was learned since."""
    with LoopStore.open(filed.db) as store:
        older = prompt_file_text(store.head("describe"))
    approve_it(invoke)
    filed.write(FILE, older.replace("Describe this", "Please describe this"))
    assert "at version 3, its 2 rules carried over" in invoke("run", "--no-improve").stderr
    told = invoke("run", "--no-improve").stderr  # the same file once more is no further edit
    assert "template changed" not in told and "holds version 1, but version 3 is in use" in told
    with LoopStore.open(filed.db) as store:
        head = store.head("describe")
        assert (head.number, len(head.rules)) == (3, 2) and head.template.startswith("Please describe")


def test_rules_edited_in_the_file_are_a_file_edit(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    text = text_of(filed)
    first, second = parse_prompt_file(text).rules or ()
    without = re.sub(rf'  - id: "{second.id}"\n    text: .*\n', "", text)
    filed.write(FILE, without.replace(first.text, "One sentence, please."))
    told = invoke("run", "--no-improve").stderr
    assert f"at version 3, with the 1 rule of its file; no longer there: '{second.text}'" in told
    with LoopStore.open(filed.db) as store:
        head = store.head("describe")
        (rule,) = head.rules
        assert (head.source, rule.id, rule.text) == ("file edit", first.id, "One sentence, please.")
        assert rule.pattern_ids == store.prompt_versions("describe")[1].rules[0].pattern_ids != ()
    assert invoke("prompts", "verify").stdout == "3 versions verified\n"


def test_a_plain_template_carries_the_rules_as_ever(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    filed.write(FILE, f"Please. {TEMPLATE}")
    assert "its 2 rules carried over" in invoke("run", "--no-improve").stderr


def test_a_text_that_is_nowhere_else_is_not_overwritten(filed: Shop, invoke: Invoke) -> None:
    mine = f"My own words. {TEMPLATE}"
    filed.write(FILE, mine)
    shown = approve_it(invoke)  # the commit is made all the same
    assert "is now version 2" in shown and "holds a text that is no version of 'describe'" in shown
    assert text_of(filed) == mine
    assert "--force" in invoke("prompts", "export", "describe", code=2).stderr
    assert text_of(filed) == mine
    invoke("prompts", "export", "describe", "--force")
    assert parse_prompt_file(text_of(filed)).template == TEMPLATE
    assert not [name for name in os.listdir(filed.folder / "prompts") if name != "describe.md"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('---\nname: "other"\n---\n' + TEMPLATE, "is the file of the prompt 'other'"),
        ("a shopping list\n", "is no version of 'describe'"),
        ('---\nrules: [{text: "Mine."}]\n---\n' + TEMPLATE, "is no version of 'describe'"),
        ("---\nrules: 7\n---\n", "is no prompt file"),
    ],
)
def test_export_refuses_what_is_not_ours(filed: Shop, invoke: Invoke, text: str, says: str) -> None:
    filed.write("notes.txt", text)
    assert says in invoke("prompts", "export", "describe", "--to", "notes.txt", code=2).stderr
    assert (filed.folder / "notes.txt").read_text() == text


def test_export_elsewhere_and_to_stdout(ran: Shop, invoke: Invoke) -> None:
    """The task of ``ran`` holds its template itself, so there is no file to write by default."""
    assert "name one with --to FILE" in invoke("prompts", "export", "describe", code=2).stderr
    shown = invoke("prompts", "export", "describe", "--to", "-").stdout
    found = parse_prompt_file(shown)
    assert (found.name, found.rules, found.template) == ("describe", (), TEMPLATE)
    invoke("prompts", "export", "describe", "--to", "out.md")
    assert (ran.folder / "out.md").read_text() == shown
    missing = invoke("prompts", "export", "describe", "--to", "no/such/folder.md", code=2).stderr
    assert "cannot be written" in missing


def cut_off(filed: Shop) -> Any:
    """An approval whose process died between the head's move and the file: the text before it, and the store."""
    before = text_of(filed)
    with LoopStore.open(filed.db) as store:
        (proposal,) = store.proposals()
        approve(store, proposal.id, by="ana", seen=store.revision(proposal.id).text_hash, accept_untested=True)
    moved_at = (filed.folder / FILE).stat().st_mtime
    filed.write(FILE, before)
    os.utime(filed.folder / FILE, (moved_at - 3600, moved_at - 3600))
    return before


def test_a_kill_before_the_file_was_written_is_made_good(filed: Shop) -> None:
    before = cut_off(filed)
    with LoopStore.open(filed.db) as store:
        recover(store)
        assert text_of(filed) == prompt_file_text(store.head("describe")) != before


def test_a_failure_to_write_fails_no_commit(filed: Shop, invoke: Invoke) -> None:
    shutil.rmtree(filed.folder / "prompts")
    shown = approve_it(invoke)
    assert "is now version 2" in shown and "cannot be written" in shown


def test_verify(filed: Shop, invoke: Invoke) -> None:
    assert invoke("prompts", "verify").stdout == "1 version verified\n"
    approve_it(invoke)
    assert invoke("prompts", "verify", "describe").stdout == "2 versions verified\n"
    assert json.loads(invoke("prompts", "verify", "--json").stdout) == {"verified": 2, "found": []}
    with closing(sqlite3.connect(filed.db)) as connection:
        connection.execute("UPDATE prompt_version SET template = 'Sell {{ product }}{{ rules }}' WHERE number = 2")
        connection.commit()
    found = invoke("prompts", "verify", code=1).stdout
    assert re.search(
        r"^describe: ver-\w+ \(version 2\): has the text hash \w{8}, but its text gives \w{8}$", found, re.M
    )
    assert json.loads(invoke("prompts", "verify", "--json", code=1).stdout)["found"][0]["prompt"] == "describe"
    assert "there are: describe" in invoke("prompts", "verify", "descrbe", code=2).stderr


def test_the_log_says_who_when_why_and_on_what_evidence(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    told = invoke("run", "--no-improve").stderr
    assert told.count("watch: pattern pat-") == 2 and "fixed (e-value" in told
    log = invoke("prompts", "log", "describe").stdout
    assert re.search(r"approve +ana +prop-\w+ revision 1, saw \w{8}, .*evidence: gate \w+, 0/5 -> 5/5 \(5 fixed", log)
    assert re.search(
        r"watch +loopeng +pat-\w+ from version 2 on: failure rate 100 % before, .*: fixed .*, run-\w+ at", log
    )
    document = json.loads(invoke("prompts", "log", "describe", "--json").stdout)
    assert document.keys() == {"head", "versions", "decisions", "watches"}
    assert document["watches"][0]["check"]["outcome"] == "fixed"
    assert document["decisions"][0]["evidence"]["gate"]["pairs"]["fixed"] == 5


def test_a_rollback_cut_off_before_the_file_is_made_good(filed: Shop, invoke: Invoke) -> None:
    approve_it(invoke)
    with_rules = text_of(filed)
    invoke("prompts", "rollback", "describe", "--reason", "wrong tone")
    moved_at = (filed.folder / FILE).stat().st_mtime
    filed.write(FILE, with_rules)
    os.utime(filed.folder / FILE, (moved_at - 3600, moved_at - 3600))
    with LoopStore.open(filed.db) as store:
        recover(store)
        assert text_of(filed) == prompt_file_text(store.head("describe")) != with_rules
