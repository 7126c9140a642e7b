"""What becomes of an application's texts when they are no longer to be kept.

Gone are the inputs, and of every call the conversation, the answer, its tokens, what the agent did, and what evaluators
said about it; also the copies that proposals have made of these samples, and what their reflector said to them, once
they are decided or have ended. Replies that judges gave long ago go whatever they were about, which nobody knows any
more: they are kept only so that the same question need not be asked again. What is counted stays: calls, verdicts,
scores, categories, usage and times, failure patterns with their occurrences, gate reports and decisions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, func, type_coerce
from sqlmodel import Session, and_, col, delete, or_, select, update

from loopeng.schema import OPEN_STATES
from loopeng.schema.live import live_name
from loopeng.store.improve_tables import ProposalRow, SuggestionRow
from loopeng.store.judge_tables import JudgeReplyRow
from loopeng.store.live_tables import LiveCallRow, LiveSampleRow
from loopeng.store.tables import AttemptRow, EvalResultRow, PromptRow, RunRow, TaskVersionRow

__all__ = ["Purge", "purge"]

_GONE = "purged"  # in place of an error's text: that there was one is counted


@dataclass(frozen=True)
class Purge:
    """How much of an application's texts went. ``more``: there is more to go, so ask again."""

    num_calls: int = 0
    num_samples: int = 0
    more: bool = False


def purge(
    session: Session, *, before: datetime | None, keep_samples: int | None, limit: int, all_copies: bool = False
) -> Purge:
    """Do it inside a write session. What is deleted is overwritten in the file, too.

    Copies of samples are looked for where samples go; with ``all_copies`` also those of samples that are long gone, for
    a proposal may have ended since.
    """
    session.connection().exec_driver_sql("PRAGMA secure_delete = ON").close()
    num_calls, num_samples, more = 0, 0, False
    if before is not None:
        old = _calls(session, and_(col(LiveCallRow.purged).is_(False), col(LiveCallRow.created_at) < before), limit)
        num_calls, more = _blank(session, old), len(old) == limit
        more = _delete_replies(session, before, limit) == limit or more
    for prompt_name in session.exec(select(PromptRow.name)).all():
        gone = 0
        for sample_id in _old_samples(session, prompt_name, before, keep_samples, limit):
            calls = _calls_of(session, prompt_name, sample_id, limit - num_calls)
            num_calls += _blank(session, calls)
            if num_calls >= limit:
                more = True  # of an input that was sent often, the rest the next time
                break
            here = col(LiveSampleRow.prompt_name) == prompt_name, col(LiveSampleRow.sample_id) == sample_id
            session.exec(delete(LiveSampleRow).where(*here))
            gone += 1
        num_samples, more = num_samples + gone, more or gone == limit
        if gone or all_copies:
            _purge_copies(session, prompt_name)
    return Purge(num_calls, num_samples, more)


_Key = tuple[str, str, int]  # run, sample, repeat


def _calls(session: Session, which: ColumnElement[bool], limit: int) -> list[_Key]:
    query: Any = select(LiveCallRow.run_id, LiveCallRow.sample_id, LiveCallRow.repeat).where(which)
    return [tuple(key) for key in session.exec(query.order_by(col(LiveCallRow.created_at)).limit(limit))]


def _calls_of(session: Session, prompt_name: str, sample_id: str, limit: int) -> list[_Key]:
    query: Any = select(LiveCallRow.run_id, LiveCallRow.sample_id, LiveCallRow.repeat)
    query = query.join(RunRow, col(RunRow.id) == LiveCallRow.run_id)
    mine = LiveCallRow.sample_id == sample_id, col(LiveCallRow.purged).is_(False), RunRow.prompt_name == prompt_name
    return [tuple(key) for key in session.exec(query.where(*mine).limit(max(limit, 0)))]


def _old_samples(
    session: Session, prompt_name: str, before: datetime | None, keep_samples: int | None, limit: int
) -> list[str]:
    mine = select(LiveSampleRow.sample_id).where(LiveSampleRow.prompt_name == prompt_name)
    found: dict[str, None] = {}
    if before is not None:
        found |= dict.fromkeys(session.exec(mine.where(col(LiveSampleRow.seen_at) < before).limit(limit)))
    if keep_samples is not None:
        latest_first = mine.order_by(col(LiveSampleRow.seen_at).desc(), col(LiveSampleRow.sample_id))
        found |= dict.fromkeys(session.exec(latest_first.offset(keep_samples).limit(limit)))
    return list(found)[:limit]


def _blank(session: Session, calls: Iterable[_Key]) -> int:
    """Take the texts of calls away. Returns how many there were."""
    num_calls = 0
    for run_id, sample_id, repeat in calls:
        num_calls += 1
        _blank_attempts(session, run_id, sample_id, repeat)
        session.exec(update(LiveCallRow).where(*_at(LiveCallRow, run_id, sample_id, repeat)).values(purged=True))
    return num_calls


def _at(table: Any, run_id: str, sample_id: str, repeat: int) -> tuple[ColumnElement[bool], ...]:
    return col(table.run_id) == run_id, col(table.sample_id) == sample_id, col(table.repeat) == repeat


def _blank_attempts(session: Session, run_id: str, sample_id: str, repeat: int) -> None:
    for table, values in ((AttemptRow, _no_answer()), (EvalResultRow, _no_words())):
        session.exec(update(table).where(*_at(table, run_id, sample_id, repeat)).values(values))


def _no_answer() -> dict[Any, Any]:
    return {
        "messages": [],
        "text": "",
        "token_ids": None,
        "trajectory": None,
        "error": _purged(AttemptRow.error),
    }


def _no_words() -> dict[Any, Any]:
    """What asking a judge cost is counted, and stays."""
    cost = func.json_extract(EvalResultRow.metadata_, "$.judge_usage")
    kept = func.iif(cost.is_(None), "{}", func.json_object("judge_usage", func.json(cost)))
    return {"reason": "", "feedback": "", "error": _purged(EvalResultRow.error), EvalResultRow.metadata_: kept}


def _purged(error: Any) -> Any:
    return func.iif(col(error).is_(None), None, _GONE)


def _delete_replies(session: Session, before: datetime, limit: int) -> int:
    old = select(JudgeReplyRow.key).where(col(JudgeReplyRow.created_at) < before).limit(limit)
    keys = session.exec(old).all()
    session.exec(delete(JudgeReplyRow).where(col(JudgeReplyRow.key).in_(keys)))
    return len(keys)


def _purge_copies(session: Session, prompt_name: str) -> None:
    """Proposals copy the samples they are made from: into their task, and into the runs that test them."""
    kept = set(session.exec(select(LiveSampleRow.sample_id).where(LiveSampleRow.prompt_name == prompt_name)))
    mine = ProposalRow.prompt_name == prompt_name, ProposalRow.task_name == live_name(prompt_name)
    proposals = session.exec(select(ProposalRow).where(*mine)).all()
    needed = {row.task_hash for row in proposals if row.state in OPEN_STATES}
    for row in proposals:
        if row.state not in OPEN_STATES:
            if row.task_hash not in needed:
                _forget_samples(session, row.task_hash, kept)
            if not kept.issuperset(_sample_ids(session, row.task_hash)):
                session.exec(update(SuggestionRow).where(col(SuggestionRow.proposal_id) == row.id).values(reply=None))
            for run_id in session.exec(select(RunRow.id).where(RunRow.proposal_id == row.id)).all():
                _blank_run(session, run_id, kept)


def _sample_ids(session: Session, task_hash: str) -> set[str]:
    return {each["id"] for each in session.get_one(TaskVersionRow, task_hash).content["samples"]}


def _forget_samples(session: Session, task_hash: str, kept: Collection[str]) -> None:
    row = session.get_one(TaskVersionRow, task_hash)
    samples = [each if each["id"] in kept else each | {"inputs": {}} for each in row.content["samples"]]
    if samples != row.content["samples"]:
        row.content = json.loads(json.dumps(row.content)) | {"samples": samples}
        session.add(row)
        session.flush()


def _blank_run(session: Session, run_id: str, kept: Collection[str]) -> None:
    says_something = or_(
        AttemptRow.text != "", type_coerce(AttemptRow.messages, Text) != "[]", AttemptRow.error != _GONE
    )
    query: Any = select(AttemptRow.sample_id, AttemptRow.repeat).where(AttemptRow.run_id == run_id, says_something)
    for sample_id, repeat in set(session.exec(query).all()):
        if sample_id not in kept:
            _blank_attempts(session, run_id, sample_id, repeat)
