"""What tables are made of: their base, and columns for nested values, aware times and integers of any size.

What cannot be read back is handed on as ``Broken`` and refused where the noun is made: only there the key is known.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, MetaData, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import registry
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

__all__ = ["Broken", "JsonText", "Table", "UtcDateTime", "WideInteger", "json_column", "time_column"]


_NAMES = {  # every constraint has a name, so that a later migration can drop it
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(SQLModel, registry=registry(metadata=MetaData(naming_convention=_NAMES))):
    """Base of our tables. Their metadata is our own: an application's SQLModel tables may have the same names."""


class Broken(str):
    """A stored value that cannot be read."""


class JsonText(TypeDecorator[Any]):
    """A JSON-able value as text; None is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        try:
            return json.loads(value)
        except ValueError:
            return Broken(value)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time as ISO text in UTC with microseconds, so that the text sorts as the time does."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone: {value!r}")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return Broken(value)


class WideInteger(TypeDecorator[int]):
    """An integer of any size as decimal text: an unsigned 64-bit seed does not fit SQLite's INTEGER."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            return Broken(value)


def json_column(*, nullable: bool = False) -> Any:
    """A field of nested values."""
    return Field(sa_column=Column(JsonText, nullable=nullable))


def time_column(*, nullable: bool = False) -> Any:
    """A field that holds a moment."""
    return Field(sa_column=Column(UtcDateTime, nullable=nullable))
