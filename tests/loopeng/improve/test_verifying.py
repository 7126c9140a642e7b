"""An audit that finds nothing in a good database, and every change that somebody made from outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from loopeng.approvals import approve, edit, rollback
from loopeng.errors import NotFoundError
from loopeng.improve.verifying import verify_prompt
from loopeng.schema import Proposal
from loopeng.store import LoopStore

Corrupt = Callable[[str], list[str]]


@pytest.fixture
def history(store: LoopStore, pending: Proposal) -> Proposal:
    """An edit, an approval, a rollback and a file edit."""
    seen = store.revision(pending.id).text_hash
    edit(store, pending.id, by="ben", seen=seen, rules=["Use at most 20 words, one sentence."], now=True)
    approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
    rollback(store, "describe", to=None, by="ana", reason="customers complain")
    store.adopt_template("describe", "Please describe this: {{ product }}{{ rules }}", by="file")
    rollback(store, "describe", to=2, by="ana", reason="they do not")
    assert verify_prompt(store, "describe") == []
    return store.proposal(pending.id)


@pytest.fixture
def corrupt(store: LoopStore, history: Proposal) -> Corrupt:
    """Run a statement behind the store's back; what the audit says then."""

    def call(statement: str) -> list[str]:
        with closing(sqlite3.connect(store.path)) as connection:
            for trigger in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {trigger[0]}")
            assert connection.execute(statement).rowcount > 0
            connection.commit()
        return [f"{found.where}: {found.what}" for found in verify_prompt(store, "describe")]

    return call


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE prompt_version SET template = 'Sell {{ product }}{{ rules }}' WHERE number = 3",
            "(version 3): has the",
        ),
        ("UPDATE prompt_version SET text_hash = 'abc' WHERE number = 2", "has the text hash abc"),
        ("UPDATE prompt_version SET rules = replace(rules, '20', '90') WHERE number = 2", "is not the text of prop-"),
        ("UPDATE prompt_version SET rules = 'no json' WHERE number = 2", "broken row in table 'prompt_version'"),
        ("UPDATE prompt_version SET number = 7 WHERE number = 3", "version 3 is missing before it"),
        ("DELETE FROM prompt_version WHERE number = 1", "version 1 is missing before it"),
        ("UPDATE prompt_version SET parent_id = 'ver-none' WHERE number = 2", "ver-none is no earlier version"),
        ("UPDATE prompt_version SET parent_id = NULL WHERE number = 3", "has no parent, but is not the first"),
        ("UPDATE prompt_version SET proposal_id = NULL WHERE number = 2", "there is no proposal None"),
        ("UPDATE prompt SET head_id = 'ver-none'", "describe: its head is missing"),
        ("DELETE FROM prompt", "describe: its head is missing"),
        (
            "UPDATE prompt SET head_id = (SELECT id FROM prompt_version WHERE number = 3)",
            "describe: nothing says why the head is ver-",
        ),
        ("DELETE FROM decision WHERE action = 'approve'", "nobody approved the text"),
        ("UPDATE decision SET seen_hash = 'ffffffff' WHERE action = 'approve'", "nobody approved the text"),
        ("UPDATE decision SET seen_hash = 'ffffffff' WHERE action = 'edit'", "names the text ffffffff, the revision"),
        ("UPDATE decision SET seen_hash = '' WHERE action = 'edit'", "names the text , the revision"),
        ("UPDATE decision SET seen_hash = 'ffffffff' WHERE action = 'rollback'", "names the text ffffffff, ver-"),
        ("UPDATE decision SET evidence = '{}' WHERE action = 'rollback'", "leads from or to a version that is not"),
        ("UPDATE revision SET operations = '[]' WHERE revision = 1", "revision 1: its operations do not lead"),
        (
            "UPDATE revision SET rules = replace(rules, '20', '90') WHERE revision = 1",
            "revision 1: its operations do not lead",
        ),
        ("UPDATE revision SET text_hash = 'abc' WHERE revision = 2", "revision 2: its operations do not lead"),
        ("DELETE FROM revision WHERE revision = 1", "revision 1 is missing before it"),
        ("DELETE FROM revision WHERE revision = 2", "there is no proposal prop-"),
        ("UPDATE proposal SET state = 'rejected'", "is rejected, made for"),
        (
            "UPDATE proposal SET base_version_id = (SELECT id FROM prompt_version WHERE number = 3)",
            "made for ver-",
        ),
        ("UPDATE prompt_version SET source = 'file edit', proposal_id = NULL WHERE number = 2", "is committed, but no"),
    ],
)
def test_every_change_from_outside_is_found(corrupt: Corrupt, statement: str, says: str) -> None:
    found = corrupt(statement)
    assert any(says in line for line in found), found


def test_an_unknown_prompt_names_those_there_are(store: LoopStore, history: Proposal) -> None:
    with pytest.raises(NotFoundError, match="there are: describe"):
        verify_prompt(store, "descrbe")
