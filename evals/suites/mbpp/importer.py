"""MBPP: a Python function asked for in a sentence, with asserts that it must pass and code that does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def mbpp_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The target is the authors' code; tests decide, not the target."""
    for row in rows:
        yield {
            "id": f"mbpp-{row['task_id']}",
            "prompt": row["prompt"],
            "test_list": list(row["test_list"]),
            "test_imports": list(row["test_imports"]),
            "target": row["code"],
        }
