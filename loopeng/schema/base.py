"""The base of every noun: frozen, unknown keys refused."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

__all__ = ["SPLITS", "FaultSide", "Noun", "Split", "content_hash", "utc_now"]

Split = Literal["gate", "reflect", "holdout"]
SPLITS: tuple[Split, ...] = get_args(Split)
FaultSide = Literal["model", "harness", "environment", "grader"]


class Noun(BaseModel):
    """A frozen value. Equality is by content. No number is infinite: JSON and the database could not keep it."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of a JSON-able value with sorted keys.

    >>> content_hash({"b": 1, "a": [2]}) == content_hash({"a": [2], "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)
