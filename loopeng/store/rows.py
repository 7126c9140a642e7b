"""Between rows and nouns: values in, validated nouns out, ids, and looking up by the beginning of an id."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import inspect
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlmodel import Session, col, select

from loopeng.errors import NotFoundError, StoreError
from loopeng.schema import Noun
from loopeng.store.columns import Broken, Table
from loopeng.store.improve_tables import DecisionRow, ProposalRow
from loopeng.store.tables import FailurePatternRow, PromptVersionRow, RunRow

__all__ = ["find", "insert_once", "new_id", "noun_of", "values_of"]

_SHOWN = 10

NounType = TypeVar("NounType", bound=Noun)
Identified = TypeVar("Identified", RunRow, PromptVersionRow, FailurePatternRow, ProposalRow, DecisionRow)
_KINDS: dict[type[Table], tuple[str, str]] = {
    RunRow: ("run", "run"),
    PromptVersionRow: ("prompt version", "ver"),
    FailurePatternRow: ("failure pattern", "pat"),
    ProposalRow: ("proposal", "prop"),
    DecisionRow: ("decision", "dec"),
}


def values_of(noun: Noun, *, exclude: set[str] | None = None) -> dict[str, Any]:
    """A noun's fields by column name: times as they are, nested values as JSON ones (an odd object as its repr)."""
    values = noun.model_dump(mode="json", exclude=exclude, fallback=repr)
    for name, value in values.items():
        if isinstance(moment := getattr(noun, name), datetime):
            values[name] = moment
        elif isinstance(value, str):
            values[name] = value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be stored
    return values


def noun_of(noun_type: type[NounType], row: Table, **nested: Any) -> NounType:
    """The noun a row holds, validated. Raises StoreError that names table and key where the row is broken."""
    columns = _columns_of(row)
    fields = noun_type.model_fields
    values = {name: value for name, value in columns.items() if name in fields and name not in nested}
    broken = [name for name, value in values.items() if isinstance(value, Broken)]
    try:
        if broken:
            raise ValueError(f"{', '.join(broken)} cannot be read")
        return noun_type.model_validate(values | nested)
    except ValueError as error:
        table = inspect(type(row)).local_table
        key = ", ".join(f"{column.name}={columns[column.name]!r}" for column in table.primary_key)
        key = f"id={columns['id']!r}" if "id" in columns else key
        raise StoreError(f"broken row in table {table.name!r}, {key}: {error}") from error


def insert_once(session: Session, row_type: type[Table], values: Mapping[str, Any]) -> bool:
    """Insert, unless a row with one of the natural keys is there already; whether it was inserted."""
    return session.connection().execute(_insertion(row_type), dict(values)).rowcount == 1


@cache
def _insertion(row_type: type[Table]) -> Insert:
    """Made once: with the values in it, SQLAlchemy would look at each of them anew."""
    return insert(inspect(row_type).local_table).on_conflict_do_nothing()


def new_id(session: Session, row_type: type[Identified]) -> str:
    """An id nobody has yet, such as ``run-1f0c93ab``."""
    while True:
        candidate = f"{_KINDS[row_type][1]}-{secrets.token_hex(4)}"
        if session.exec(select(row_type.id).where(row_type.id == candidate)).first() is None:
            return candidate


def find(session: Session, row_type: type[Identified], id_or_prefix: str) -> Identified:
    """The row with this id, or the only one whose id begins so. Raises NotFoundError listing what there is."""
    what = _KINDS[row_type][0]
    if exact := session.exec(select(row_type).where(row_type.id == id_or_prefix)).first():
        return exact
    newest_first = col(row_type.created_at).desc()
    begins_so = col(row_type.id).startswith(id_or_prefix, autoescape=True)
    rows = session.exec(select(row_type).where(begins_so).order_by(newest_first).limit(_SHOWN)).all()
    if len(rows) == 1 and id_or_prefix:
        return rows[0]
    if rows and id_or_prefix:
        raise NotFoundError(f"{what} {id_or_prefix!r} is ambiguous: {', '.join(row.id for row in rows)}")
    ids = session.exec(select(row_type.id).order_by(newest_first).limit(_SHOWN)).all()
    raise NotFoundError(f"no {what} {id_or_prefix!r}; " + (f"there are: {', '.join(ids)}" if ids else "there is none"))


def _columns_of(row: Table) -> dict[str, Any]:
    return {attribute.columns[0].name: getattr(row, attribute.key) for attribute in inspect(type(row)).column_attrs}
