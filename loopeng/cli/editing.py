"""Rules from an editor or a file: one rule per line, lines that start with # are remarks."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from loopeng.errors import LoopError, UsageError
from loopeng.settings import read_settings

if TYPE_CHECKING:
    from loopeng.approvals import Outcome
    from loopeng.attempt.harness import Harness
    from loopeng.cards import Card
    from loopeng.schema import Proposal
    from loopeng.store import LoopStore

__all__ = ["Edit", "parse_rules", "rules_from_editor", "rules_from_file", "save_edit", "save_rebase"]

_HEADER = """\
# Rules of proposal {proposal}, revision {revision}, text {text_hash}: one per line.
# Lines that start with # are ignored. Save to make the next revision; leave the lines as they are to change nothing.
"""


def parse_rules(text: str) -> tuple[str, ...]:
    """The rules of a text with one rule per line.

    >>> parse_rules("# a remark\\nBe short.\\n\\n  - No lists.\\n")
    ('Be short.', 'No lists.')
    """
    lines = (line.strip() for line in text.splitlines())
    return tuple(line.removeprefix("- ").strip() for line in lines if line and not line.startswith("#"))


def rules_from_file(path: Path) -> tuple[str, ...]:
    """The rules of a file. Raises UsageError when it cannot be read or holds none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the rules: {error}") from error
    return parse_rules(text)


def rules_from_editor(card: Card) -> tuple[str, ...]:
    """Let the person edit the revision's rules. Raises UsageError without a terminal, or when nothing was changed."""
    from loopeng.cli.output import can_ask

    if not can_ask():
        raise UsageError("no terminal to edit on; pass the new list with --rule TEXT (repeated) or --rules-file FILE")
    before = tuple(rule.text for rule in card.revision.rules)
    header = _HEADER.format(proposal=card.id, revision=card.revision.revision, text_hash=card.text_hash[:8])
    with tempfile.TemporaryDirectory(prefix="loopeng-") as folder:
        path = Path(folder) / f"{card.id}.rules.txt"
        path.write_text(header + "".join(f"{' '.join(text.split())}\n" for text in before), encoding="utf-8")
        _open_editor(path)
        after = rules_from_file(path)
    if after == before:
        raise UsageError("the rules are as they were; nothing changed")
    return after


@dataclass(frozen=True)
class Edit:
    """What a person wants a proposal's rules to be."""

    rules: Sequence[str]
    by: str
    seen: str
    reason: str = ""


def save_edit(store: LoopStore, card: Card, db: Path, change: Edit, *, now: bool) -> Outcome:
    """The edit as a decision; with ``now`` its revision is tested at once, with progress."""
    from loopeng.approvals import edit

    save = partial(edit, store, card.id, by=change.by, seen=change.seen, rules=change.rules, reason=change.reason)
    if not now:
        return save()
    with _testing(store, card.proposal, db, "edit") as harness:
        return save(now=True, harness=harness)


def save_rebase(store: LoopStore, proposal_id: str, db: Path, *, by: str, reason: str, now: bool) -> Outcome:
    """The rebase as a decision; with ``now`` its revision is tested at once, with progress."""
    from loopeng.approvals import rebase

    proposal = store.proposal(proposal_id)
    if not now:
        return rebase(store, proposal.id, by=by, reason=reason)
    with _testing(store, proposal, db, "rebase") as harness:
        return rebase(store, proposal.id, by=by, reason=reason, now=True, harness=harness)


@contextmanager
def _testing(store: LoopStore, before: Proposal, db: Path, what: str) -> Iterator[Harness]:
    """What tests a proposal's next revision here. What breaks then is told from what was refused before."""
    from loopeng.attempt.harness import Harness
    from loopeng.cli.output import note
    from loopeng.cli.places import command, placed_task
    from loopeng.cli.progress import LiveProgress

    try:
        with LiveProgress(quiet=read_settings().quiet) as display:
            yield Harness.build(store, placed_task(store.task(before.task_hash), db), on_event=display)
    except (KeyboardInterrupt, LoopError):
        proposal = store.proposal(before.id)
        if proposal.state == "testing" and proposal.revision > before.revision:
            note(f"the {what} is recorded, but not tested yet. Go on with:\n  {command('work', db=db)}")
        raise


def _open_editor(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"the editor {editor!r} failed: {error}; set EDITOR, or pass --rule or --rules-file"
        ) from error
