"""The versions of a prompt, and its head."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, func, select, update

from loopeng.errors import ConflictError, NotFoundError, UsageError
from loopeng.prompts import PromptTemplate, text_hash
from loopeng.schema import PromptVersion, Rule
from loopeng.store.database import after_commit
from loopeng.store.lifecycle import settle
from loopeng.store.room import Room
from loopeng.store.rows import find, insert_once, new_id, noun_of, values_of
from loopeng.store.tables import PromptRow, PromptVersionRow

__all__ = ["PromptRoom", "add_version", "head_moves", "head_version", "move_head", "version_with_text"]

_counting = threading.Lock()
_num_moves = 0


class PromptRoom(Room):
    """The part of the store that keeps prompts."""

    def adopt_template(
        self, prompt_name: str, template: str, *, by: str, rules: tuple[Rule, ...] | None = None
    ) -> tuple[PromptVersion, bool, tuple[str, ...]]:
        """Make the file's template the head's: the first version, or a "file edit" that carries the rules.

        ``rules`` are those of a file that has its own: then template and rules are the new version together. Nothing
        happens where they are any version of this prompt already: an earlier text in a file is no edit. Nor is an
        earlier list of rules: whoever edits the template of a file written before the last commit wants that template
        and loses no rule.

        Returns the head, whether it is a new version, and the ids of the proposals that went stale by it. Raises
        TaskError for a template that cannot be read, UsageError for one without a place for the rules.
        """
        with self._database.write() as session:
            return _adopt(session, prompt_name, template, by=by, rules=rules, now=self._clock())

    def head(self, prompt_name: str) -> PromptVersion:
        """The version in use. Raises NotFoundError listing the prompts there are."""
        with self._database.read() as session:
            return head_version(session, prompt_name)

    def prompt_version(self, version_id: str) -> PromptVersion:
        """A version by its id or the beginning of it. Raises NotFoundError."""
        with self._database.read() as session:
            return noun_of(PromptVersion, find(session, PromptVersionRow, version_id))

    def prompt_versions(self, prompt_name: str) -> list[PromptVersion]:
        """All versions by number. Raises NotFoundError where there is no such prompt."""
        versions = select(PromptVersionRow).where(PromptVersionRow.prompt_name == prompt_name)
        with self._database.read() as session:
            head_version(session, prompt_name)
            rows = session.exec(versions.order_by(col(PromptVersionRow.number)))
            return [noun_of(PromptVersion, row) for row in rows]

    def stored_versions(self, prompt_name: str) -> list[PromptVersion]:
        """All versions by number, also of a prompt whose head is missing: what an audit looks at."""
        query = select(PromptVersionRow).where(PromptVersionRow.prompt_name == prompt_name)
        with self._database.read() as session:
            return [noun_of(PromptVersion, row) for row in session.exec(query.order_by(col(PromptVersionRow.number)))]

    def stored_prompt_names(self) -> list[str]:
        """Those with a head and those without."""
        with self._database.read() as session:
            found = session.exec(select(PromptVersionRow.prompt_name).distinct()).all()
            return sorted({*found, *_names(session)})

    def prompt_names(self) -> list[str]:
        with self._database.read() as session:
            return _names(session)


def version_with_text(session: Session, version: PromptVersion, now: datetime) -> PromptVersion:
    """The version of the prompt that says what ``version`` says; its template is adopted where none does.

    That one was made while nobody could ask the database, by an application that brings its own template. Raises
    ConflictError where the prompt has learned rules meanwhile that it did not know of.
    """
    same = PromptVersionRow.prompt_name == version.prompt_name, PromptVersionRow.text_hash == version.text_hash
    for adopts in (True, False):
        row = session.exec(select(PromptVersionRow).where(*same).order_by(col(PromptVersionRow.number).desc())).first()
        if row is not None:
            return noun_of(PromptVersion, row)
        if adopts:
            rules = version.rules or None
            _adopt(session, version.prompt_name, version.template, by=version.created_by, rules=rules, now=now)
    raise ConflictError(f"no version of prompt {version.prompt_name!r} says what was used")


def _adopt(
    session: Session, prompt_name: str, template: str, *, by: str, rules: tuple[Rule, ...] | None, now: datetime
) -> tuple[PromptVersion, bool, tuple[str, ...]]:
    head = _head_or_none(session, prompt_name)
    if head is not None and rules is not None and _was_written_earlier(session, head, rules):
        rules = None
    if head is not None and _is_known(session, head, template, rules):
        return head, False, ()
    rules = _rules_of_file(head, rules)
    _refuse_rules_without_a_place(prompt_name, template, rules)
    new = add_version(
        session,
        parent=head,
        prompt_name=prompt_name,
        template=template,
        rules=rules,
        text_hash=text_hash(template, rules),
        source="file edit" if head is not None else "task file",
        created_by=by,
        created_at=now,
    )
    if head is None:
        insert_once(session, PromptRow, {"name": prompt_name, "head_id": new.id})
    else:
        move_head(session, prompt_name, frm=head.id, to=new.id)
    return new, True, settle(session, now)


def _is_known(session: Session, head: PromptVersion, template: str, rules: tuple[Rule, ...] | None) -> bool:
    if rules is None:
        return head.template == template
    same = PromptVersionRow.prompt_name == head.prompt_name, PromptVersionRow.text_hash == text_hash(template, rules)
    return session.exec(select(PromptVersionRow.id).where(*same)).first() is not None


def _refuse_rules_without_a_place(prompt_name: str, template: str, rules: tuple[Rule, ...]) -> None:
    if not PromptTemplate(template).has_rules_slot and rules:
        raise UsageError(
            f"the prompt {prompt_name!r} has {len(rules)} learned rules, for which the template has no place: "
            "put {{ rules }} back, or roll the prompt back to a version without rules"
        )


def _was_written_earlier(session: Session, head: PromptVersion, rules: tuple[Rule, ...]) -> bool:
    """Whether a list of rules is that of a version before the head: nobody has edited it."""
    query = select(PromptVersionRow).where(PromptVersionRow.prompt_name == head.prompt_name)
    texts = [rule.text for rule in rules]
    earlier = (noun_of(PromptVersion, row) for row in session.exec(query.where(PromptVersionRow.id != head.id)))
    return texts != [rule.text for rule in head.rules] and any(
        texts == [rule.text for rule in version.rules] for version in earlier
    )


def _rules_of_file(head: PromptVersion | None, rules: tuple[Rule, ...] | None) -> tuple[Rule, ...]:
    """Those of the file, with what the head knows of them; the head's where the file says nothing of rules."""
    known = {rule.id: rule.pattern_ids for rule in head.rules} if head is not None else {}
    if rules is None:
        return head.rules if head is not None else ()
    return tuple(rule.model_copy(update={"pattern_ids": rule.pattern_ids or known.get(rule.id, ())}) for rule in rules)


def head_version(session: Session, prompt_name: str) -> PromptVersion:
    """The version in use. Raises NotFoundError listing the prompts there are."""
    head = _head_or_none(session, prompt_name)
    if head is None:
        names = _names(session)
        raise NotFoundError(f"no prompt {prompt_name!r}; there are: {', '.join(names) or 'none'}")
    return head


def add_version(session: Session, *, parent: PromptVersion | None, prompt_name: str, **fields: Any) -> PromptVersion:
    """Insert the version after the last one; the head stays where it is."""
    last = session.exec(
        select(func.max(PromptVersionRow.number)).where(PromptVersionRow.prompt_name == prompt_name)
    ).one()
    version = PromptVersion(
        id=new_id(session, PromptVersionRow),
        prompt_name=prompt_name,
        number=(last or 0) + 1,
        parent_id=parent.id if parent is not None else None,
        **fields,
    )
    insert_once(session, PromptVersionRow, values_of(version))
    return version


def move_head(session: Session, prompt_name: str, *, frm: str, to: str) -> None:
    """Compare and swap. Raises ConflictError if the head is not ``frm``."""
    here = col(PromptRow.name) == prompt_name, col(PromptRow.head_id) == frm
    if session.exec(update(PromptRow).where(*here).values(head_id=to)).rowcount != 1:
        raise ConflictError(f"the head of {prompt_name!r} is no longer {frm}")
    after_commit(session, _count_move)


def head_moves() -> int:
    """How often this process has moved a head, of whatever prompt: a head that was read before may be another now."""
    return _num_moves


def _count_move() -> None:
    global _num_moves  # noqa: PLW0603  one count for all databases that this process has open
    with _counting:
        _num_moves += 1


def _head_or_none(session: Session, prompt_name: str) -> PromptVersion | None:
    query = select(PromptVersionRow).join(PromptRow, col(PromptRow.head_id) == PromptVersionRow.id)
    row = session.exec(query.where(PromptRow.name == prompt_name)).first()
    return noun_of(PromptVersion, row) if row is not None else None


def _names(session: Session) -> list[str]:
    return list(session.exec(select(PromptRow.name).order_by(col(PromptRow.name))))
